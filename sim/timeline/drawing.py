"""What a timeline shows: sessions, placements, pools, and the steps and requests of each pod.

Rows are those of the result's tables, as mappings from column to value.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, Final, TypeAlias

import numpy as np

from sim.core.ports import StepReport
from sim.results import arrow
from sim.results.arrow import Table
from sim.results.pools import COLD, stays
from sim.results.result import RunResult
from sim.timeline.chrome_trace import Ends, Flow, Lanes, Trace, Track
from sim.timeline.excerpt import Excerpt

Row: TypeAlias = dict[str, Any]
Seconds: TypeAlias = tuple[float, float]
"""From and to."""

PHASES: Final = ("drain", "unload", "load")
IDLE: Final = (0, 0, 0.0)
"""Running, waiting, per cent of the KV cache."""


class Drawing:
    """The trace of an excerpt of a run, and the rows of the run that meet it.

    An arrow leads from turn to placement to pod when all three begin in the
    excerpt; a request without a session begins with its placement.
    """

    def __init__(self, result: RunResult, excerpt: Excerpt) -> None:
        self.trace = Trace()
        self.result = result
        self.excerpt = excerpt
        table = result.tables.requests
        here = excerpt.rows(table, "arrival_s", "end_s")
        self.requests = arrow.rows(table, here)
        self.attempts = self.rows(result.tables.placements, "dispatch_s")
        here[[row["request_id"] for row in self.attempts]] = True
        self.by_id = {row["request_id"]: row for row in arrow.rows(table, here)}

    def rows(self, table: Table, start: str, end: str = "end_s") -> list[Row]:
        """Return the rows of a table that meet the excerpt."""
        return arrow.rows(table, self.excerpt.rows(table, start, end))

    def interval_s(self, row: Row, begin: str) -> Seconds:
        """Return from a time that has come to the end of the row, or of the run."""
        return row[begin], self.result.facts.end_s if row["end_s"] is None else row["end_s"]

    def slice(
        self,
        where: Track | Lanes,
        name: str,
        interval_s: Seconds,
        args: Row | None = None,
        flow: Flow | None = None,
    ) -> Track:
        """Draw what of an interval lies in the excerpt; return its track."""
        interval = self.excerpt.clipped_us(*interval_s)
        track = where.track(interval) if isinstance(where, Lanes) else where
        self.trace.slice(track, name, interval, args, flow)
        return track

    def inside(self, track: Track, name: str, interval_s: Seconds, outer_s: Seconds) -> None:
        """Draw what lies inside a slice; a step sticks out of it when the client leaves."""
        start_s, end_s = max(interval_s[0], outer_s[0]), min(interval_s[1], outer_s[1])
        if start_s < end_s and self.excerpt.meets(start_s, end_s):
            self.slice(track, name, (start_s, end_s))

    def flow(self, request: Row, ends: Ends) -> Flow | None:
        """Return the arrow of a request at one of its slices."""
        dispatch_s = request["dispatch_s"]
        begins = request["arrival_s"] >= self.excerpt.start_s
        if not begins or dispatch_s is None or dispatch_s >= self.excerpt.end_s:
            return None
        if ends == "through" and request["session_id"] is None:
            ends = "out"
        return Flow(request["request_id"], ends)


# -- sessions and placements ----------------------------------------------------------------


def draw_turns(drawing: Drawing) -> None:
    """A track for each session: its turns, and the time between them (tools, people)."""
    slices: list[tuple[Seconds, str, str, Row, Flow | None]] = [
        (interval_s, session, "between turns", dict(zip(("start_s", "end_s"), interval_s)), None)
        for session, interval_s in _pauses(drawing)
    ]
    for row in drawing.requests:
        if row["session_id"] is not None:
            interval_s = drawing.interval_s(row, "arrival_s")
            flow = drawing.flow(row, "out")
            name = f"turn {row['turn']}"
            slices.append((interval_s, row["session_id"], name, _turn_args(row), flow))
    if not slices:
        return
    process = drawing.trace.process("sessions", last=True)
    tracks: dict[str, Lanes] = {}
    for interval_s, session, name, args, flow in sorted(slices, key=lambda found: found[0][0]):
        lanes = tracks.setdefault(session, Lanes(drawing.trace, process, session))
        drawing.slice(lanes, name, interval_s, args, flow)


def _pauses(drawing: Drawing) -> Iterable[tuple[str, Seconds]]:
    """The times between the turns of each session that meet the excerpt."""
    table = drawing.result.tables.requests
    sessions = arrow.strings(table, "session_id")
    arrivals_s = arrow.numbers(table, "arrival_s").tolist()
    ends_s = np.nan_to_num(arrow.numbers(table, "end_s"), nan=inf).tolist()
    over_s: dict[int, float] = {}
    for session, arrival_s, end_s in zip(sessions.codes.tolist(), arrivals_s, ends_s):
        if session < 0:
            continue
        before_s = over_s.get(session, inf)
        if before_s < arrival_s and drawing.excerpt.meets(before_s, arrival_s):
            yield sessions.words[session], (before_s, arrival_s)
        over_s[session] = max(end_s, over_s.get(session, end_s))


def draw_placements(drawing: Drawing) -> None:
    """Each decision of a proxy, as long as the request was held; and the requests it refused."""
    process = drawing.trace.process("router")
    decisions = [(_held_s(drawing, row), row["proxy"], row) for row in drawing.attempts]
    decisions += [
        (drawing.interval_s(row, "arrival_s"), "not placed", row)
        for row in drawing.requests
        if not row["attempts"]
    ]
    tracks: dict[str, Lanes] = {}
    for interval_s, proxy, row in sorted(decisions, key=lambda found: found[0][0]):
        if drawing.excerpt.meets(*interval_s):
            lanes = tracks.setdefault(proxy, Lanes(drawing.trace, process, proxy))
            request = drawing.by_id[row["request_id"]]
            flow = drawing.flow(request, "through")
            drawing.slice(lanes, _decision(row), interval_s, _placement_args(request, row), flow)


def _held_s(drawing: Drawing, attempt: Row) -> Seconds:
    """From the arrival, or the decision of a later attempt, to the dispatch."""
    if attempt["attempt"] > 1:
        return attempt["decided_s"], attempt["dispatch_s"]
    return drawing.by_id[attempt["request_id"]]["arrival_s"], attempt["dispatch_s"]


def _decision(row: Row) -> str:
    """As "spill (bound) to qwen-3", or how a request ended that no pod got."""
    found = row["outcome"] or row["status"]
    name = f"{found} ({row['reason']})" if row["reason"] else found
    return f"{name} to {row['pod']}" if row["pod"] else name


# -- pods -----------------------------------------------------------------------------------


def draw_pods(drawing: Drawing, reports: Sequence[StepReport]) -> None:
    """The steps and counters of each pod, the requests on it, and what the router read of it."""
    processes = {pod: drawing.trace.process(pod) for pod in drawing.result.facts.pods}
    for pod, process in processes.items():
        mine = [report for report in reports if report.pod == pod]
        track = drawing.trace.track(process, "steps")
        for report in mine:
            name, interval_s = step_name(report), (report.start_s, report.end_s)
            drawing.slice(track, name, interval_s, _step_args(report))
        _draw_counters(drawing, process, mine)
    _draw_attempts(drawing, processes, reports)
    _draw_polls(drawing, processes)


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


def _draw_counters(drawing: Drawing, process: int, reports: Sequence[StepReport]) -> None:
    """Requests and KV usage during each step; zero while the pod is idle."""
    excerpt = drawing.excerpt
    start_us, stop_us = excerpt.clipped_us(excerpt.start_s, excerpt.end_s)
    samples: list[tuple[int, tuple[int, int, float]]] = [(start_us, IDLE)]
    for report in reports:
        start_us, end_us = excerpt.clipped_us(report.start_s, report.end_s)
        if samples[-1][0] == start_us:
            samples.pop()  # idle for no time
        load = report.running, report.waiting, round(100.0 * report.kv_usage, 2)
        samples += ((start_us, load), (end_us, IDLE))
    before: tuple[int, int, float] = (-1, -1, -1.0)
    for at_us, (running, waiting, percent) in samples:
        if at_us == stop_us:
            break
        if (running, waiting) != before[:2]:
            values = {"running": running, "waiting": waiting}
            drawing.trace.counter(process, "requests", at_us, values)
        if percent != before[2]:
            drawing.trace.counter(process, "KV cache", at_us, {"percent": percent})
        before = running, waiting, percent


def _draw_attempts(
    drawing: Drawing, processes: Mapping[str, int], reports: Sequence[StepReport]
) -> None:
    """A slice for each attempt on its pod, with its queueing, prefill and decode inside."""
    chunks: defaultdict[tuple[str, int], list[tuple[str, Seconds]]] = defaultdict(list)
    preempted_s: defaultdict[tuple[str, int], list[float]] = defaultdict(list)
    for report in reports:
        for number, tokens in report.chunks:
            chunk = f"{tokens} tokens", (report.start_s, report.end_s)
            chunks[report.pod, number].append(chunk)
        for number in report.preempted:
            preempted_s[report.pod, number].append(report.start_s)
    lanes = {pod: Lanes(drawing.trace, process, "requests") for pod, process in processes.items()}
    for row in drawing.attempts:
        at = row["pod"], row["request_id"]
        request = drawing.by_id[row["request_id"]]
        outer_s = drawing.interval_s(row, "dispatch_s")
        args, flow = _attempt_args(request, row), drawing.flow(request, "in")
        track = drawing.slice(lanes[row["pod"]], f"request {at[1]}", outer_s, args, flow)
        for name, interval_s in (*_phases(row, outer_s), *chunks.get(at, ())):
            drawing.inside(track, name, interval_s, outer_s)
        for at_s in preempted_s.get(at, ()):
            if outer_s[0] <= at_s < outer_s[1] and drawing.excerpt.meets(at_s, at_s):
                at_us, _ = drawing.excerpt.clipped_us(at_s, at_s)
                drawing.trace.instant(track, "preempted", at_us)


def _phases(attempt: Row, interval_s: Seconds) -> Iterable[tuple[str, Seconds]]:
    """Queueing until admitted, prefill until the first token, then decode."""
    dispatch_s, end_s = interval_s
    scheduled_s, first_token_s = attempt["scheduled_s"], attempt["first_token_s"]
    yield "queue", (dispatch_s, end_s if scheduled_s is None else scheduled_s)
    if scheduled_s is not None:
        yield "prefill", (scheduled_s, end_s if first_token_s is None else first_token_s)
    if first_token_s is not None:
        yield "decode", (first_token_s, end_s)


def _draw_polls(drawing: Drawing, processes: Mapping[str, int]) -> None:
    """What the router has read of each pod, which may be old by now, and has sent there."""
    before: dict[str, Row] = {}
    for poll in drawing.rows(drawing.result.tables.pods, "time_s", "time_s"):
        values = {name: poll[name] for name in ("in_flight", "waiting", "running")}
        if before.get(poll["pod"]) != values:
            before[poll["pod"]] = values
            at_us, _ = drawing.excerpt.clipped_us(poll["time_s"], poll["time_s"])
            drawing.trace.counter(processes[poll["pod"]], "as polled", at_us, values)


# -- model pools ----------------------------------------------------------------------------


def draw_pools(drawing: Drawing) -> None:
    """A group of tracks for each pool: members in memory, swaps, skips, and who is held."""
    facts = drawing.result.facts
    rows = drawing.rows(drawing.result.tables.pools, "start_s") if facts.pools else []
    for pool in facts.pools:
        process = drawing.trace.process(f"pool {pool}")
        resident = Lanes(drawing.trace, process, "resident")
        for stay in stays(facts, pool):
            if drawing.excerpt.meets(stay.start_s, stay.end_s):
                drawing.slice(resident, stay.member, (stay.start_s, stay.end_s))
        _draw_pool(drawing, process, [row for row in rows if row["pool"] == pool])


def _draw_pool(drawing: Drawing, process: int, rows: Sequence[Row]) -> None:
    swaps, skips, holds = (
        Lanes(drawing.trace, process, name) for name in ("swaps", "skips", "held")
    )
    for row in rows:
        if row["kind"] == "skip":
            at_us = drawing.excerpt.clipped_us(row["start_s"], row["start_s"])
            name = f"request {row['request_id']} skips {row['member']}"
            drawing.trace.instant(skips.track(at_us), name, at_us[0])
        elif row["kind"] in ("swap", "unload"):
            _draw_swap(drawing, swaps, row)
    for row in rows:
        start_s, end_s = drawing.interval_s(row, "start_s")
        if row["kind"] == "hold" and start_s < end_s:
            name = f"request {row['request_id']} for {row['member']}"
            args = {"result": row["result"] or "still held", "start_s": start_s}
            drawing.slice(holds, name, (start_s, end_s), args)


def _draw_swap(drawing: Drawing, lanes: Lanes, row: Row) -> None:
    """A change of hands with its phases inside."""
    start_s, end_s = drawing.interval_s(row, "start_s")
    name = f"{row['from_member'] or COLD} > {row['member']}"
    if row["kind"] == "unload":
        name = f"{row['member']} > {COLD}"
    if row["result"] not in (None, "completed"):
        name += f" ({row['result']})"
    args = {"cause": row["cause"], "start_s": start_s, "swap_s": round(end_s - start_s, 6)}
    track = drawing.slice(lanes, name, (start_s, end_s), args)
    for phase in PHASES:
        phase_s = row[f"{phase}_s"]
        over_s = min(start_s + (phase_s or 0.0), end_s)
        if phase_s and drawing.excerpt.meets(start_s, over_s):
            drawing.slice(track, phase, (start_s, over_s))
        start_s = over_s


# -- what viewers show of a slice -----------------------------------------------------------


def _step_args(report: StepReport) -> Row:
    args: Row = {
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


def _turn_args(request: Row) -> Row:
    return _known(
        request=request["request_id"],
        **{name: request[name] for name in ("pod", "outcome", "reason", "status", "arrival_s")},
        ttft_s=_since(request["first_token_s"], request["arrival_s"]),
        e2e_s=_since(request["end_s"], request["arrival_s"]),
    )


def _placement_args(request: Row, row: Row) -> Row:
    return _known(
        request=request["request_id"],
        session=request["session_id"],
        turn=request["turn"],
        attempt=row.get("attempt"),
        prompt_tokens=request["prompt_tokens"],
        predicted_cached_tokens=row.get("predicted_cached_tokens"),
        hold_s=request["hold_s"],
    )


def _attempt_args(request: Row, attempt: Row) -> Row:
    """What is known of the attempt; computed and produced tokens only of the last one."""
    last = attempt["attempt"] == request["attempts"]
    of_last = ("computed_tokens", "output_tokens", "preemptions") if last else ()
    tokens = ("prompt_tokens", "cached_tokens", "predicted_cached_tokens")
    return _known(
        session=request["session_id"],
        turn=request["turn"],
        **{name: attempt[name] for name in ("attempt", "outcome", "reason", "status")},
        arrival_s=request["arrival_s"],
        hold_s=request["hold_s"],
        queue_s=_since(attempt["scheduled_s"], attempt["dispatch_s"]),
        prefill_s=_since(attempt["first_token_s"], attempt["scheduled_s"]),
        ttft_s=_since(attempt["first_token_s"], request["arrival_s"]),
        decode_s=_since(attempt["end_s"], attempt["first_token_s"]),
        **{name: attempt[name] for name in tokens},
        **{name: request[name] for name in of_last},
    )


def _since(time_s: float | None, before_s: float | None) -> float | None:
    """Seconds between two times; an arrival a nanosecond after a step boundary counts as at it."""
    if time_s is None or before_s is None:
        return None
    return max(0.0, round(time_s - before_s, 6))


def _known(**args: Any) -> Row:
    return {name: value for name, value in args.items() if value is not None}
