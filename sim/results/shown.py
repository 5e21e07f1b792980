"""Which figures a reader is shown of runs side by side, and how each is written."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

UNKNOWN: Final = "–"
PARTLY_UNKNOWN: Final = "–*"
PARTLY_UNKNOWN_MEANS: Final = (
    "null under some seeds, of which a mean of the others would say nothing"
)
REASONS: Final = "placements.by_reason."
BY_REQUEST: Final = "answers.by_request."
BY_TRY: Final = "answers.by_try."
SERVED: Final = ("200.", "499.")
"""Answers that other rows are about."""


@dataclass(frozen=True)
class Row:
    """A line of the table: its name with the unit, a key of the comparison, how to write it.

    A row ``unless_zero`` is left out where no variant has any, and every row
    where no run knows the value, unless that is ``news_if_unknown``. One
    without a key is a heading.
    """

    label: str
    key: str = ""
    decimals: int = 0
    scale: float = 1.0
    unless_zero: bool = False
    news_if_unknown: bool = False

    def speaks(self, comparison: dict[str, Any]) -> bool:
        """Whether these runs have something to say about it."""
        figures = comparison.get(self.key, {}).values()
        if self.unless_zero:
            return any(figure["mean"] for figure in figures)
        return any(figure["n"] or self.news_if_unknown for figure in figures)

    def written(self, figure: dict[str, Any], seeds: int) -> str:
        """A mean with the half-width of its interval; a dash where not every run knows the value.

        ``figure`` is one of the comparison, over ``seeds`` runs.
        """
        if figure["n"] < seeds:
            return PARTLY_UNKNOWN if figure["n"] else UNKNOWN
        text = self.number(figure["mean"])
        if figure["low"] is None:
            return text
        return f"{text} ± {self.number((figure['high'] - figure['low']) / 2.0)}"

    def number(self, value: float) -> str:
        """A value of the figure as the row has it."""
        return f"{value * self.scale:,.{self.decimals}f}"


def percent(label: str, key: str) -> Row:
    """A row for a ratio."""
    return Row(f"{label}, %", key, 1, 100.0)


def wait(label: str, key: str, decimals: int) -> Row:
    """A row for a percentile that is unknown when too many still waited as the run ended."""
    return Row(f"{label}, s", key, decimals, news_if_unknown=True)


BEFORE_REASONS: Final = (
    wait("TTFT p50", "ttft_s.p50", 2),
    wait("TTFT p95", "ttft_s.p95", 2),
    wait("TTFT p99", "ttft_s.p99", 2),
    Row("stream speed p50, tok/s", "stream_tokens_per_s.p50", 1),
    Row("stream speed p5, tok/s", "stream_tokens_per_s.p5", 1),
    Row("output, tok/s", "output_tokens_per_s"),
    Row("offered, requests/s", "offered_requests_per_s", 2),
    Row("completed, requests/s", "completed_requests_per_s", 2),
    percent("prompt cache hit", "prompt_cache_hit_ratio"),
    Row("placements without a session key", "placements.by_outcome.unkeyed", unless_zero=True),
    percent("spilled placements", "spill_ratio"),
)
AFTER_REASONS: Final = (
    percent("migrated placements", "migration_ratio"),
    percent("errors", "error_ratio"),
    Row("preemptions", "preemptions"),
    percent("KV usage mean", "kv_usage.mean"),
    percent("KV usage p95", "kv_usage.p95"),
    Row("prompt p50, tokens", "prompt_tokens.p50"),
    percent("within the SLO", "slo_attainment"),
    Row("goodput, requests/s", "goodput_requests_per_s", 2),
    Row("requests completed", "requests_completed"),
    Row("requests cancelled", "requests_cancelled", unless_zero=True),
    Row("prompt tokens for nobody", "abandoned_tokens.prompt", unless_zero=True),
    Row("output tokens for nobody", "abandoned_tokens.output", unless_zero=True),
    Row("requests censored", "requests_censored"),
    Row("requests outside window", "requests_outside_window"),
)


def shown(comparison: dict[str, Any]) -> list[Row]:
    """The rows that these runs have something to say about."""
    reasons = [
        Row(f"  reason {key.removeprefix(REASONS)}, count", key)
        for key in sorted(comparison)
        if key.startswith(REASONS)
    ]
    rows = _speaking((*BEFORE_REASONS, *reasons, *AFTER_REASONS), comparison)
    for heading, below in (
        *(
            (f"workload {name}", _workload(name, comparison))
            for name in _names(comparison, "by_workload.")
        ),
        *((f"rule {name}", _rule(name, comparison)) for name in _names(comparison, "rules.")),
        *((f"pool {name}", _pool(name, comparison)) for name in _names(comparison, "pool.")),
        ("errors by final answer", _final_answers(comparison)),
        ("errors by try", _answers_by_try(comparison)),
    ):
        speaking = _speaking(below, comparison)
        if speaking:
            rows += [Row(heading), *speaking]
    return rows


def _speaking(rows: Iterable[Row], comparison: dict[str, Any]) -> list[Row]:
    return [row for row in rows if row.speaks(comparison)]


def _names(comparison: dict[str, Any], prefix: str) -> list[str]:
    """The names that follow a prefix, in alphabetical order."""
    return sorted({_word(key, prefix) for key in comparison if key.startswith(prefix)})


def _word(key: str, prefix: str) -> str:
    return key.removeprefix(prefix).partition(".")[0]


def _workload(name: str, comparison: dict[str, Any]) -> Sequence[Row]:
    at = f"by_workload.{name}"
    tries = Row("  tries per request", f"{at}.tries_per_request", 2)
    retried = any(
        figure["mean"] not in (None, 1.0) for figure in comparison.get(tries.key, {}).values()
    )
    return (
        wait("  TTFT p50", f"{at}.ttft_s.p50", 2),
        wait("  TTFT p95", f"{at}.ttft_s.p95", 2),
        percent("  errors", f"{at}.error_ratio"),
        *((tries, Row("  served after a retry", f"{at}.served_after_retry")) if retried else ()),
        Row("  fell through, %", f"{at}.fell_through_ratio", 1, 100.0, unless_zero=True),
        Row("  cancelled", f"{at}.requests_cancelled", unless_zero=True),
        Row("  completed", f"{at}.requests_completed"),
    )


def _rule(name: str, comparison: dict[str, Any]) -> Sequence[Row]:
    """Who served, where there was a choice."""
    at = f"rules.{name}.backends."
    backends = _names(comparison, at)
    if len(backends) < 2:
        return ()
    return [percent(f"  served by {each}", f"{at}{each}.served_ratio") for each in backends]


def _pool(name: str, comparison: dict[str, Any]) -> Sequence[Row]:
    at = f"pool.{name}"
    failures = f"{at}.swap_failures."
    members = _names(comparison, f"{at}.members.")
    waited = Row("  attempts held", f"{at}.holds.waited")
    some_waited = replace(waited, unless_zero=True).speaks(comparison)
    return (
        Row("  swaps completed", f"{at}.swaps.total"),
        percent("  time swapping", f"{at}.swapping_ratio"),
        *(
            Row(f"  swap to {member} p50, s", f"{at}.members.{member}.swap_s.p50", 1)
            for member in members
        ),
        *(
            Row(f"  swaps failed ({reason})", f"{failures}{reason}")
            for reason in _names(comparison, failures)
        ),
        Row("  swaps cancelled", f"{at}.swaps_cancelled", unless_zero=True),
        Row("  reclaims", f"{at}.reclaims", unless_zero=True),
        waited,
        *((wait("  hold p95", f"{at}.hold_s.p95", 1),) if some_waited else ()),
        Row("  busy skips", f"{at}.skips.total", unless_zero=True),
        Row("  errors beside the router", f"{at}.direct_errors", unless_zero=True),
        *(
            row
            for member in members
            for row in (
                Row(f"  loads of {member} begun", f"{at}.members.{member}.loads"),
                percent(f"  {member} resident", f"{at}.members.{member}.ready_ratio"),
            )
        ),
    )


def _final_answers(comparison: dict[str, Any]) -> Sequence[Row]:
    """Why users of pools, or of clients that try again, got no answer in the end."""
    concerns = _retried(comparison) or _names(comparison, "pool.")
    return _refusals(comparison, BY_REQUEST) if concerns else ()


def _answers_by_try(comparison: dict[str, Any]) -> Sequence[Row]:
    """What clients that try again got each time."""
    if not _retried(comparison):
        return ()
    return (
        Row("  tries", "tries"),
        percent("  errors", "try_error_ratio"),
        *_refusals(comparison, BY_TRY),
    )


def _retried(comparison: dict[str, Any]) -> bool:
    """Whether any client has tried again."""
    return any(
        tries["mean"] != comparison["requests"][variant]["mean"]
        for variant, tries in comparison.get("tries", {}).items()
    )


def _refusals(comparison: dict[str, Any], prefix: str) -> list[Row]:
    answers = sorted(key.removeprefix(prefix) for key in comparison if key.startswith(prefix))
    return [
        Row(f"  {_answer(answer)}", f"{prefix}{answer}")
        for answer in answers
        if not answer.startswith(SERVED)
    ]


def _answer(key: str) -> str:
    """An HTTP status, which is 0 where there was none, and the router's word for the answer."""
    status, _, reason = key.partition(".")
    return f"{'no status' if status == '0' else status} {reason}"
