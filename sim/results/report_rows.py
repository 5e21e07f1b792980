"""What readers see of runs side by side: the rows of their figures, window, seeds and warnings."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import isinf
from typing import Any, Final

from sim.core.recorder import RunFacts
from sim.core.text import UNKNOWN, mean_and_interval, seed_list
from sim.results.metrics import metric
from sim.results.result import RunResult

PARTLY_UNKNOWN: Final = "–*"
PARTLY_UNKNOWN_MEANS: Final = (
    "null under some seeds, of which a mean of the others would say nothing"
)
REASONS: Final = "placements.by_reason."
BY_REQUEST: Final = "answers.by_request."
BY_TRY: Final = "answers.by_try."
SERVED: Final = ("200.", "499.")
"""Answers that other rows are about."""

Comparison = dict[str, dict[str, dict[str, Any]]]
"""Figures over the seeds by metric and variant, see ``sim.results.comparison``."""


@dataclass(frozen=True)
class ReportRow:
    """A line of the table: its label with the unit, and a key of the comparison.

    A row ``unless_zero`` is left out where no variant has any, and every row
    where no run knows the value, unless that is ``news_if_unknown``. One
    without a key is a heading.
    """

    label: str
    key: str = ""
    unless_zero: bool = False
    news_if_unknown: bool = False

    def speaks(self, comparison: Comparison) -> bool:
        """Whether these runs have something to say about it."""
        figures = comparison.get(self.key, {}).values()
        if self.unless_zero:
            return any(figure["mean"] for figure in figures)
        return any(figure["n"] or self.news_if_unknown for figure in figures)

    def written(self, figure: dict[str, Any], seeds: int) -> str:
        """A mean with the half-width of its interval; a dash where not every run has the value.

        ``figure`` is one of the comparison, over ``seeds`` runs.
        """
        if figure["n"] < seeds:
            return PARTLY_UNKNOWN if figure["n"] else UNKNOWN
        return mean_and_interval(figure["mean"], figure["low"], figure["high"], self.number)

    def number(self, value: float) -> str:
        """A value of the figure as its metric formats it."""
        return metric(self.key).written(value)


def row(key: str, label: str = "", **flags: bool) -> ReportRow:
    """The row of a figure, under the label of its metric if not another one."""
    return ReportRow(label or metric(key).heading(key), key, **flags)


def if_any(key: str, label: str = "") -> ReportRow:
    """A row that is left out where it is 0 for every variant."""
    return row(key, label, unless_zero=True)


def wait(key: str) -> ReportRow:
    """A row for a percentile that is unknown when too many still waited as the run ended."""
    return row(key, news_if_unknown=True)


_BEFORE_REASONS: Final = (
    *map(wait, ("ttft_s.p50", "ttft_s.p95", "ttft_s.p99")),
    row("stream_tokens_per_s.p50"),
    row("stream_tokens_per_s.p5"),
    row("output_tokens_per_s"),
    row("offered_requests_per_s"),
    row("completed_requests_per_s"),
    row("prompt_cache_hit_ratio"),
    if_any("placements.by_outcome.unkeyed", "placements without a session key"),
    row("spill_ratio"),
)
_AFTER_REASONS: Final = (
    row("migration_ratio"),
    row("error_ratio"),
    row("preemptions"),
    row("kv_usage.mean"),
    row("kv_usage.p95"),
    row("prompt_tokens.p50"),
    row("slo_attainment"),
    row("goodput_requests_per_s"),
    row("requests_completed"),
    if_any("requests_cancelled"),
    if_any("abandoned_tokens.prompt"),
    if_any("abandoned_tokens.output"),
    row("requests_censored"),
    row("requests_outside_window"),
)


def report_rows(comparison: Comparison) -> list[ReportRow]:
    """The rows that these runs have something to say about."""
    reasons = [row(key) for key in sorted(comparison) if key.startswith(REASONS)]
    rows = [
        each
        for each in (*_BEFORE_REASONS, *map(_indented, reasons), *_AFTER_REASONS)
        if each.speaks(comparison)
    ]
    for heading, below in _blocks(comparison):
        speaking = [_indented(each) for each in below if each.speaks(comparison)]
        if speaking:
            rows += [ReportRow(heading), *speaking]
    return rows


def _blocks(comparison: Comparison) -> Iterable[tuple[str, Sequence[ReportRow]]]:
    """The rows by workload, rule and pool, and of errors, each list below its heading."""
    for name in _names(comparison, "by_workload."):
        yield f"workload {name}", _workload(f"by_workload.{name}", comparison)
    for name in _names(comparison, "rules."):
        yield f"rule {name}", _rule(f"rules.{name}.backends.", comparison)
    for name in _names(comparison, "pool."):
        yield f"pool {name}", _pool(f"pool.{name}", comparison)
    retried = _retried(comparison)
    if retried or _names(comparison, "pool."):
        yield "errors by final answer", _refusals(comparison, BY_REQUEST)
    if retried:
        tries = (row("tries"), row("try_error_ratio"), *_refusals(comparison, BY_TRY))
        yield "errors by try", tries


def _indented(below: ReportRow) -> ReportRow:
    return replace(below, label=f"  {below.label}")


def _names(comparison: Comparison, prefix: str) -> list[str]:
    """The names that follow a prefix, in alphabetical order."""
    found = {
        key.removeprefix(prefix).partition(".")[0] for key in comparison if key.startswith(prefix)
    }
    return sorted(found)


def _workload(at: str, comparison: Comparison) -> Sequence[ReportRow]:
    tries = f"{at}.tries_per_request"
    retried = any(each["mean"] not in (None, 1.0) for each in comparison.get(tries, {}).values())
    return (
        wait(f"{at}.ttft_s.p50"),
        wait(f"{at}.ttft_s.p95"),
        row(f"{at}.error_ratio"),
        *((row(tries), row(f"{at}.served_after_retry")) if retried else ()),
        if_any(f"{at}.fell_through_ratio"),
        if_any(f"{at}.requests_cancelled"),
        row(f"{at}.requests_completed"),
    )


def _rule(at: str, comparison: Comparison) -> Sequence[ReportRow]:
    """Which backends served, where there was a choice."""
    backends = _names(comparison, at)
    return [row(f"{at}{each}.served_ratio") for each in backends] if len(backends) > 1 else ()


def _pool(at: str, comparison: Comparison) -> Sequence[ReportRow]:
    members = [f"{at}.members.{member}" for member in _names(comparison, f"{at}.members.")]
    failures = _names(comparison, f"{at}.swap_failures.")
    waited = f"{at}.holds.waited"
    return (
        row(f"{at}.swaps.total"),
        row(f"{at}.swapping_ratio"),
        *(row(f"{member}.swap_s.p50") for member in members),
        *(row(f"{at}.swap_failures.{reason}") for reason in failures),
        if_any(f"{at}.swaps_cancelled"),
        if_any(f"{at}.reclaims"),
        row(waited),
        *((wait(f"{at}.hold_s.p95"),) if if_any(waited).speaks(comparison) else ()),
        if_any(f"{at}.skips.total"),
        if_any(f"{at}.direct_errors"),
        *(row(f"{member}.{part}") for member in members for part in ("loads", "ready_ratio")),
    )


def _retried(comparison: Comparison) -> bool:
    """Whether any client has tried again."""
    return any(
        tries["mean"] != comparison["requests"][variant]["mean"]
        for variant, tries in comparison.get("tries", {}).items()
    )


def _refusals(comparison: Comparison, prefix: str) -> list[ReportRow]:
    """Why requests, or their tries, were not served."""
    answers = sorted(key.removeprefix(prefix) for key in comparison if key.startswith(prefix))
    return [
        row(f"{prefix}{answer}", _answer(answer))
        for answer in answers
        if not answer.startswith(SERVED)
    ]


def _answer(key: str) -> str:
    """An HTTP status, which is 0 where there was none, and the router's word for the answer."""
    status, _, reason = key.partition(".")
    return f"{'no status' if status == '0' else status} {reason}"


def window_in_words(facts: RunFacts) -> str:
    """The window of arrivals, to follow "requests that arrived"."""
    if isinf(facts.window_end_s):
        return f"from {facts.window_start_s:,g} s to the end of the workload"
    return f"from {facts.window_start_s:,g} s to {facts.window_end_s:,g} s of simulated time"


def seeds_in_words(seeds: Sequence[int]) -> str:
    """What a figure over these seeds is."""
    if len(seeds) == 1:
        return f"One run per variant, {seed_list(seeds)}"
    return f"Mean over {seed_list(seeds)} ± half-width of the 95 % t interval"


def alike_warnings(runs: Iterable[RunResult]) -> list[tuple[str, str]]:
    """Warnings of runs, each with the run that has it; those of one variant that differ in numbers
    only are one, which names its other seeds.
    """
    found: dict[tuple[str, str], tuple[str, str, list[int]]] = {}
    variants: dict[str, list[RunResult]] = {}
    for run in runs:
        variants.setdefault(run.variant, []).append(run)
    in_order = [run for each in variants.values() for run in sorted(each, key=lambda run: run.seed)]
    for run in in_order:
        for warning in run.warnings:
            alike = re.sub(r"[\d.,]+", "#", warning)
            run_name = f"{run.variant or run.facts.scenario}, seed {run.seed}"
            found.setdefault((run.variant, alike), (run_name, warning, []))[2].append(run.seed)
    return [
        (run_name, f"{warning} (also under {seed_list(seeds[1:])})" if seeds[1:] else warning)
        for run_name, warning, seeds in found.values()
    ]


def input_facts(runs: Iterable[RunResult]) -> list[tuple[str, str]]:
    """What each workload counts about its input, where it is not zero."""
    counts: dict[str, dict[str, list[int]]] = {}
    for run in runs:
        for workload, facts in run.facts.workload_counts.items():
            for name, count in facts.items():
                counts.setdefault(workload, {}).setdefault(name, []).append(count)
    in_words = {
        workload: ", ".join(
            f"{name.replace('_', ' ')} {_range(values)}"
            for name, values in named.items()
            if any(values)
        )
        for workload, named in counts.items()
    }
    return [(workload, words) for workload, words in in_words.items() if words]


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,} per run"
