"""Pods at work: a track of steps, counters, and a slice for each request that is on the pod."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from sim.core.ports import StepReport
from sim.results import arrow
from sim.results.result import RunResult
from sim.timeline.excerpt import Excerpt
from sim.timeline.trace import Trace


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
