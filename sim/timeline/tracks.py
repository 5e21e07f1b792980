"""The tracks of pods and of model pools: steps, load, swaps."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from sim.core.ports import StepReport
from sim.results import arrow
from sim.results.pools import COLD, stays
from sim.results.result import RunResult
from sim.timeline.chrome_trace import Lanes, Trace
from sim.timeline.excerpt import Excerpt


class Chunk(NamedTuple):
    """Tokens of one request that one step computed."""

    start_s: float
    end_s: float
    tokens: int


class _Load(NamedTuple):
    running: int
    waiting: int
    kv_percent: float


_IDLE: Final = _Load(0, 0, 0.0)


class RequestWork:
    """What steps did to single requests, by pod and request id: chunks and preemptions."""

    def __init__(self, reports: Sequence[StepReport]) -> None:
        self.chunks: defaultdict[tuple[str, int], list[Chunk]] = defaultdict(list)
        self.preempted_s: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
        for report in reports:
            for request, tokens in report.chunks:
                chunk = Chunk(report.start_s, report.end_s, tokens)
                self.chunks[report.pod, request].append(chunk)
            for request in report.preempted:
                self.preempted_s[report.pod, request].append(report.start_s)


def draw_steps(trace: Trace, process: int, reports: Sequence[StepReport], excerpt: Excerpt) -> None:
    """The steps of one pod, in order of time, and its counters."""
    track = trace.track(process, "steps")
    for report in reports:
        interval_us = excerpt.clipped_us(report.start_s, report.end_s)
        trace.slice(track, step_name(report), interval_us, _step_args(report))
    _draw_counters(trace, process, reports, excerpt)


def step_name(report: StepReport) -> str:
    """As "prefill 8191 + 12 decodes" or "12 decodes, 34 steps".

    Plain digits: viewers colour slices by their names without the digits.
    """
    prefill = [f"prefill {report.prefill_tokens}"] if report.prefill_tokens else []
    plural = "s" if report.decoders > 1 else ""
    decodes = [f"{report.decoders} decode{plural}"] if report.decoders else []
    name = " + ".join(prefill + decodes)
    if report.steps > 1:
        name += f", {report.steps} steps"
    if report.preempted:
        name += f", {len(report.preempted)} preempted"
    return name


def _step_args(report: StepReport) -> dict[str, Any]:
    args: dict[str, Any] = {
        "start_s": report.start_s,
        "steps": report.steps,
        "prefill_tokens": report.prefill_tokens,
        "decoders": report.decoders,
        "context_tokens": report.context_tokens,
        "running": report.running,
        "waiting": report.waiting,
        "kv_usage": round(report.kv_usage, 4),
    }
    if report.chunks:
        args["tokens_by_request"] = {str(request): tokens for request, tokens in report.chunks}
    if report.preempted:
        args["preempted_requests"] = " ".join(str(request) for request in report.preempted)
    return args


def _draw_counters(
    trace: Trace, process: int, reports: Sequence[StepReport], excerpt: Excerpt
) -> None:
    """Requests and KV usage during each step; zero while the pod is idle."""
    start_us, stop_us = excerpt.clipped_us(excerpt.start_s, excerpt.end_s)
    samples = [(start_us, _IDLE)]
    for report in reports:
        start_us, end_us = excerpt.clipped_us(report.start_s, report.end_s)
        if samples[-1][0] == start_us:
            samples.pop()  # idle for no time
        percent = round(100.0 * report.kv_usage, 2)
        samples += ((start_us, _Load(report.running, report.waiting, percent)), (end_us, _IDLE))
    before = _Load(-1, -1, -1.0)
    for at_us, load in samples:
        if at_us == stop_us:
            break
        if load[:2] != before[:2]:
            values = {"running": load.running, "waiting": load.waiting}
            trace.counter(process, "requests", at_us, values)
        if load.kv_percent != before.kv_percent:
            trace.counter(process, "KV cache", at_us, {"percent": load.kv_percent})
        before = load


def draw_polls(
    trace: Trace, processes: Mapping[str, int], result: RunResult, excerpt: Excerpt
) -> None:
    """What the router has read of each pod, which may be old by now, and has sent there."""
    here = excerpt.rows(result.tables.pods, "time_s", "time_s")
    before: dict[str, dict[str, int]] = {}
    for poll in arrow.rows(result.tables.pods, here):
        values = {name: poll[name] for name in ("in_flight", "waiting", "running")}
        if before.get(poll["pod"]) != values:
            before[poll["pod"]] = values
            at_us, _ = excerpt.clipped_us(poll["time_s"], poll["time_s"])
            trace.counter(processes[poll["pod"]], "as polled", at_us, values)


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
