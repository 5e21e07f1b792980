"""What is seen in each drawing, in one sentence with its numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd

from sim.plots.frames import Span, numbers, within
from sim.report.answers import listed
from sim.report.selection import Study
from sim.results.result import RunResult
from sim.results.shown import REASONS, Row, percent, wait

FEW: Final = 3
"""Variants that a sentence names one by one; of more it says from where to where they reach."""
P50, P95 = wait("TTFT p50", "ttft_s.p50", 2), wait("TTFT p95", "ttft_s.p95", 2)
HITS: Final = percent("prompt cache hit", "prompt_cache_hit_ratio")
SPILLED: Final = percent("spilled placements", "spill_ratio")


def of_ttft(study: Study, comparison: Mapping[str, Any]) -> str:
    """How long half of the requests, and nearly all, wait for their first token."""
    half = _by_variant(study, comparison, P50, " s")
    nearly_all = _by_variant(study, comparison, P95, " s")
    return f"Half of the requests have their first token within {half}; 95 % within {nearly_all}."


def of_hits(study: Study, comparison: Mapping[str, Any]) -> str:
    """How much of the prompts was in a cache."""
    found = _by_variant(study, comparison, HITS, " %")
    return f"Over the window, the share of prompt tokens found in a cache is {found}."


def of_spills(study: Study, comparison: Mapping[str, Any]) -> str:
    """How much was sent away, why most often, and where nothing can be."""
    with_home = {run.variant: run.facts.has_home for run in study.results}
    homes = [name for name in study.variants if with_home[name]]
    homeless = [study.called(name) for name in study.variants if not with_home[name]]
    times = {
        key.removeprefix(REASONS): sum(figure["mean"] or 0.0 for figure in figures.values())
        for key, figures in comparison.items()
        if key.startswith(REASONS)
    }
    said = (
        "The share of placements that spilled away from their home is "
        f"{_by_variant(study, comparison, SPILLED, ' %', homes)}"
    )
    if any(times.values()):
        said += f"; the reason is {max(times, key=lambda reason: times[reason])} most often"
    if homeless:
        said += f" (the policy of {listed(homeless)} knows no home)"
    return f"{said}."


@dataclass(frozen=True)
class Polls:
    """Requests in flight over the polls of the window: mean of each pod, and the highest poll."""

    pods: Mapping[str, float]
    highest: int

    @staticmethod
    def of(pods: pd.DataFrame, window_s: Span) -> "Polls":
        """Those of the pods table of a run; no pods where none was polled in the window."""
        frame = within(pods, "time_s", window_s)
        means = frame.groupby("pod", sort=True)["in_flight"].mean()
        return Polls(
            {str(pod): float(mean) for pod, mean in means.items()},
            int(frame["in_flight"].max()) if len(frame) else 0,
        )


def of_load(polls: Polls) -> str:
    """Which pods have most and least to do."""
    most = max(polls.pods, key=lambda pod: polls.pods[pod])
    least = min(polls.pods, key=lambda pod: polls.pods[pod])
    high, low = _requests(polls.pods[most]), _requests(polls.pods[least])
    if len(polls.pods) == 1:
        said = f"{high} requests are in flight on {most}"
    elif high == low:
        said = f"{high} requests are in flight on each pod"
    else:
        said = (
            f"{high} requests are in flight on {most}, the busiest pod, and {low} on {least}, the "
            "least busy one"
        )
    return f"On average over the window's polls, {said}; the highest poll is {polls.highest:,}."


def of_kv_usage(run: RunResult) -> str:
    """How full the caches are of what cannot be evicted."""
    usage = run.summary["kv_usage"]
    return (
        f"Requests hold {_share(usage['mean'])} of the KV blocks on average over all polls of the "
        f"window, and at most {_share(usage['p95'])} in 95 % of them."
    )


def of_pool(run: RunResult, pool: str) -> str:
    """How many swaps there were, what they cost, and who was resident."""
    figures = run.summary["pool"][pool]
    swaps = figures["swaps"]["total"]
    resident = listed(
        f"{member} {_share(its['ready_ratio'])}" for member, its in figures["members"].items()
    )
    return (
        f"{swaps} swap{' was' if swaps == 1 else 's were'} completed in the window and swaps took "
        f"{_share(figures['swapping_ratio'])} of it; resident were {resident} of the time."
    )


@dataclass(frozen=True)
class Stays:
    """Sessions with two turns or more that began in the window: how many, and which moved."""

    sessions: int
    moved: int
    moves: int

    @staticmethod
    def of(requests: pd.DataFrame, window_s: Span) -> "Stays":
        """Those of the requests table of a run."""
        placed = requests[requests["session_id"].notna() & requests["pod"].notna()]
        placed = placed.sort_values(["session_id", "arrival_s"], kind="stable")
        _, first, turns = np.unique(
            placed["session_id"].to_numpy(str), return_index=True, return_counts=True
        )
        elsewhere = (placed["pod"] != placed["pod"].shift()).to_numpy(copy=True)
        elsewhere[first] = False  # which pod the session before it ended on is no matter
        moves = np.add.reduceat(elsewhere.astype(int), first) if len(first) else np.zeros(0, int)
        began_s = numbers(placed, "arrival_s")[first]
        counted = (turns > 1) & (began_s >= window_s[0]) & (began_s < window_s[1])
        return Stays(
            int(np.count_nonzero(counted)),
            int(np.count_nonzero(moves[counted])),
            int(moves[counted].sum()),
        )


def of_sessions(stays: Stays) -> str:
    """How many sessions stay on their pod."""
    stayed = stays.sessions - stays.moved
    there = "with two turns or more that begin in the window"
    if not stays.moved:
        return f"All {stays.sessions:,} sessions {there} stay on one pod."
    moves = f"{stays.moves:,} move{'' if stays.moves == 1 else 's'}"
    return (
        f"{stayed:,} of {stays.sessions:,} sessions {there} stay on one pod; the others make "
        f"{moves} in all."
    )


def _by_variant(
    study: Study,
    comparison: Mapping[str, Any],
    row: Row,
    unit: str,
    variants: Sequence[str] | None = None,
) -> str:
    """The figure of each variant in words; of many variants the two ends."""
    names = study.variants if variants is None else variants
    figures, seeds = comparison[row.key], study.seeds
    known = [name for name in names if figures[name]["n"] == len(seeds[name])]
    values = {name: f"{row.number(figures[name]['mean'])}{unit}" for name in known}
    if len(study.variants) == 1 or not known:
        return values[known[0]] if known else "unknown"
    if len(names) <= FEW:
        return listed(f"{values.get(name, 'unknown')} ({study.called(name)})" for name in names)
    if len(set(values.values())) == 1 and len(known) == len(names):
        return f"{values[known[0]]} with every variant"
    low, high = (pick(known, key=lambda name: figures[name]["mean"]) for pick in (min, max))
    ends = f"{values[low]} ({study.called(low)}) to {values[high]} ({study.called(high)})"
    unknown = len(names) - len(known)
    return f"{ends}, unknown of {unknown} variants" if unknown else ends


def _requests(mean: float) -> str:
    """A mean of counts, with two digits where it is small."""
    return f"{mean:.1f}" if mean >= 0.95 or mean == 0.0 else f"{mean:.2g}"


def _share(value: float | None) -> str:
    return "an unknown share" if value is None else f"{value * 100.0:.1f} %"
