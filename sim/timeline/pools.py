"""Model pools: who is resident, how the pool changes hands, who is held and who is turned away."""

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from sim.results import arrow
from sim.results.pools import COLD, stays
from sim.results.result import RunResult
from sim.timeline.excerpt import Excerpt
from sim.timeline.trace import Lanes, Trace

Row: TypeAlias = dict[str, Any]
PHASES: Final = ("drain", "unload", "load")


def draw_pools(trace: Trace, result: RunResult, excerpt: Excerpt) -> None:
    """A group of tracks for each pool."""
    if not result.facts.pools:
        return
    table = result.tables.pools
    rows = arrow.rows(table, excerpt.rows(table, "start_s", "end_s"))
    for pool in result.facts.pools:
        process = trace.process(f"pool {pool}")
        resident = Lanes(trace, process, "resident")
        for stay in stays(result.facts, pool):
            if excerpt.meets(stay.start_s, stay.end_s):
                interval_us = excerpt.clipped_us(stay.start_s, stay.end_s)
                trace.slice(resident.track(interval_us), stay.member, interval_us)
        mine = [row for row in rows if row["pool"] == pool]
        _draw_swaps(trace, process, mine, result.facts.end_s, excerpt)
        _draw_holds(trace, process, mine, result.facts.end_s, excerpt)


def swap_elsewhere_s(result: RunResult, excerpt: Excerpt) -> float | None:
    """When a swap begins, if there are some and the excerpt shows none: the next, or the first."""
    swaps = arrow.strings(result.tables.pools, "kind").equal("swap")
    if (swaps & excerpt.rows(result.tables.pools, "start_s", "end_s")).any():
        return None
    starts_s = arrow.numbers(result.tables.pools, "start_s")[swaps].tolist()
    later_s = [start_s for start_s in starts_s if start_s >= excerpt.end_s]
    return min(later_s or starts_s, default=None)


def _draw_swaps(
    trace: Trace, process: int, rows: Iterable[Row], run_end_s: float, excerpt: Excerpt
) -> None:
    """Changes of hands with their phases inside; skips where they happened."""
    lanes, skips = Lanes(trace, process, "swaps"), Lanes(trace, process, "skips")
    for row in rows:
        start_s = row["start_s"]
        if row["kind"] == "skip":
            at_us = excerpt.clipped_us(start_s, start_s)
            name = f"request {row['request_id']} skips {row['member']}"
            trace.instant(skips.track(at_us), name, at_us[0])
        if row["kind"] not in ("swap", "unload"):
            continue
        end_s = run_end_s if row["end_s"] is None else row["end_s"]
        interval_us = excerpt.clipped_us(start_s, end_s)
        track = lanes.track(interval_us)
        name = f"{row['from_member'] or COLD} > {row['member']}"
        if row["kind"] == "unload":
            name = f"{row['member']} > {COLD}"
        if row["result"] not in (None, "completed"):
            name += f" ({row['result']})"
        args = {"cause": row["cause"], "start_s": start_s, "swap_s": round(end_s - start_s, 6)}
        trace.slice(track, name, interval_us, args)
        for phase in PHASES:
            phase_s = row[f"{phase}_s"]
            over_s = min(start_s + (phase_s or 0.0), end_s)
            if phase_s and excerpt.meets(start_s, over_s):
                trace.slice(track, phase, excerpt.clipped_us(start_s, over_s))
            start_s = over_s


def _draw_holds(
    trace: Trace, process: int, rows: Iterable[Row], run_end_s: float, excerpt: Excerpt
) -> None:
    """Attempts that had to wait for a member."""
    lanes = Lanes(trace, process, "held")
    for row in rows:
        end_s = run_end_s if row["end_s"] is None else row["end_s"]
        if row["kind"] == "hold" and row["start_s"] < end_s:
            interval_us = excerpt.clipped_us(row["start_s"], end_s)
            name = f"request {row['request_id']} for {row['member']}"
            args = {"result": row["result"] or "still held", "start_s": row["start_s"]}
            trace.slice(lanes.track(interval_us), name, interval_us, args)
