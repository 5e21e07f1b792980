"""Requests on their way: turns of sessions, placements of proxies, and what became of them on pods.

Rows are those of the result's tables, as mappings from column to value.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, TypeAlias

import numpy as np

from sim.results import arrow
from sim.results.result import RunResult
from sim.timeline.chrome_trace import Ends, Flow, Lanes, Trace, Track
from sim.timeline.excerpt import Excerpt
from sim.timeline.tracks import RequestWork

Row: TypeAlias = dict[str, Any]
Interval: TypeAlias = tuple[float, float]


class Requests:
    """The requests and attempts of a run that meet an excerpt; knows which of them have flows.

    An arrow leads from turn to placement to pod when all three begin in the
    excerpt; a request without a session begins with its placement.
    """

    def __init__(self, result: RunResult, excerpt: Excerpt) -> None:
        self._end_s = result.facts.end_s
        self._excerpt = excerpt
        table = result.tables.requests
        here = excerpt.rows(table, "arrival_s", "end_s")
        self.rows = arrow.rows(table, here)
        placements = result.tables.placements
        self.attempts = arrow.rows(placements, excerpt.rows(placements, "dispatch_s", "end_s"))
        here[[row["request_id"] for row in self.attempts]] = True
        self.by_id = {row["request_id"]: row for row in arrow.rows(table, here)}

    def interval_s(self, row: Row, begin: str) -> Interval:
        """From a time that has come to the end of the request or attempt, or of the run."""
        end_s = row["end_s"]
        return row[begin], self._end_s if end_s is None else end_s

    def flow(self, request: Row, ends: Ends) -> Flow | None:
        """The arrow of a request at one of its slices."""
        dispatch_s = request["dispatch_s"]
        begins = request["arrival_s"] >= self._excerpt.start_s
        if not begins or dispatch_s is None or dispatch_s >= self._excerpt.end_s:
            return None
        if ends == "through" and request["session_id"] is None:
            ends = "out"
        return Flow(request["request_id"], ends)


def draw_turns(trace: Trace, requests: Requests, result: RunResult, excerpt: Excerpt) -> None:
    """A track for each session: its turns, and the time between them (tools, people)."""
    slices: list[tuple[Interval, str, str, Row | None]] = [
        (interval_s, session, "between turns", None)
        for session, interval_s in _pauses(result, excerpt)
    ]
    for row in requests.rows:
        if row["session_id"] is not None:
            interval_s = requests.interval_s(row, "arrival_s")
            slices.append((interval_s, row["session_id"], f"turn {row['turn']}", row))
    if not slices:
        return
    process = trace.process("sessions", last=True)
    tracks: dict[str, Lanes] = {}
    for (start_s, end_s), session, name, turn in sorted(slices, key=lambda found: found[0][0]):
        if session not in tracks:
            tracks[session] = Lanes(trace, process, session)
        interval_us = excerpt.clipped_us(start_s, end_s)
        track = tracks[session].track(interval_us)
        if turn is None:
            trace.slice(track, name, interval_us, {"start_s": start_s, "end_s": end_s})
        else:
            trace.slice(track, name, interval_us, _turn_args(turn), requests.flow(turn, "out"))


def draw_placements(trace: Trace, requests: Requests, process: int, excerpt: Excerpt) -> None:
    """Each decision of a proxy, as long as the request was held; and the requests it refused."""
    lanes: dict[str, Lanes] = {}
    decisions = [(_held_s(requests, row), row["proxy"], row) for row in requests.attempts]
    decisions += [
        (requests.interval_s(row, "arrival_s"), "not placed", row)
        for row in requests.rows
        if not row["attempts"]
    ]
    for interval_s, name, row in sorted(decisions, key=lambda found: found[0][0]):
        if not excerpt.meets(*interval_s):
            continue
        if name not in lanes:
            lanes[name] = Lanes(trace, process, name)
        interval_us = excerpt.clipped_us(*interval_s)
        request = requests.by_id[row["request_id"]]
        flow = requests.flow(request, "through")
        args = _placement_args(request, row)
        trace.slice(lanes[name].track(interval_us), _decision(row), interval_us, args, flow)


def draw_attempts(
    trace: Trace,
    requests: Requests,
    processes: Mapping[str, int],
    work: RequestWork,
    excerpt: Excerpt,
) -> None:
    """A slice for each attempt on its pod, with its queueing, prefill and decode inside."""
    lanes = {pod: Lanes(trace, process, "requests") for pod, process in processes.items()}
    for row in requests.attempts:
        interval_s = requests.interval_s(row, "dispatch_s")
        interval_us = excerpt.clipped_us(*interval_s)
        track = lanes[row["pod"]].track(interval_us)
        request = requests.by_id[row["request_id"]]
        name = f"request {row['request_id']}"
        flow = requests.flow(request, "in")
        trace.slice(track, name, interval_us, _attempt_args(request, row), flow)
        inside = _Inside(trace, track, interval_s, excerpt)
        for phase, phase_s in _phases(row, interval_s):
            inside.slice(phase, phase_s)
        at = row["pod"], row["request_id"]
        for chunk in work.chunks.get(at, ()):
            inside.slice(f"{chunk.tokens} tokens", (chunk.start_s, chunk.end_s))
        for preempted_s in work.preempted_s.get(at, ()):
            inside.instant("preempted", preempted_s)


class _Inside:
    """Draws what lies inside a slice; a step sticks out of it when the client leaves meanwhile."""

    def __init__(self, trace: Trace, track: Track, outer_s: Interval, excerpt: Excerpt) -> None:
        self._trace = trace
        self._track = track
        self._outer_s = outer_s
        self._excerpt = excerpt

    def slice(self, name: str, interval_s: Interval) -> None:
        start_s = max(interval_s[0], self._outer_s[0])
        end_s = min(interval_s[1], self._outer_s[1])
        if start_s < end_s and self._excerpt.meets(start_s, end_s):
            self._trace.slice(self._track, name, self._excerpt.clipped_us(start_s, end_s))

    def instant(self, name: str, at_s: float) -> None:
        if self._outer_s[0] <= at_s < self._outer_s[1] and self._excerpt.meets(at_s, at_s):
            self._trace.instant(self._track, name, self._excerpt.clipped_us(at_s, at_s)[0])


def _pauses(result: RunResult, excerpt: Excerpt) -> Iterable[tuple[str, Interval]]:
    """The times between the turns of each session that meet the excerpt."""
    sessions = arrow.strings(result.tables.requests, "session_id")
    arrivals_s = arrow.numbers(result.tables.requests, "arrival_s").tolist()
    ends_s = np.nan_to_num(arrow.numbers(result.tables.requests, "end_s"), nan=inf).tolist()
    over_s: dict[int, float] = {}
    for session, arrival_s, end_s in zip(sessions.codes.tolist(), arrivals_s, ends_s):
        before_s = over_s.get(session, inf)
        if session < 0:
            continue
        if before_s < arrival_s and excerpt.meets(before_s, arrival_s):
            yield sessions.words[session], (before_s, arrival_s)
        over_s[session] = max(end_s, over_s.get(session, end_s))


def _held_s(requests: Requests, attempt: Row) -> Interval:
    """From the arrival, or the decision of a later attempt, to the dispatch."""
    request = requests.by_id[attempt["request_id"]]
    first = attempt["attempt"] == 1
    return request["arrival_s"] if first else attempt["decided_s"], attempt["dispatch_s"]


def _decision(row: Row) -> str:
    """As "spill (bound) to qwen-3", or how a request ended that no pod got."""
    found = row["outcome"] or row["status"]
    name = f"{found} ({row['reason']})" if row["reason"] else found
    return f"{name} to {row['pod']}" if row["pod"] else name


def _phases(attempt: Row, interval_s: Interval) -> Iterable[tuple[str, Interval]]:
    """Queueing until admitted, prefill until the first token, then decode."""
    dispatch_s, end_s = interval_s
    scheduled_s, first_token_s = attempt["scheduled_s"], attempt["first_token_s"]
    yield "queue", (dispatch_s, end_s if scheduled_s is None else scheduled_s)
    if scheduled_s is not None:
        yield "prefill", (scheduled_s, end_s if first_token_s is None else first_token_s)
    if first_token_s is not None:
        yield "decode", (first_token_s, end_s)


def _turn_args(request: Row) -> Row:
    return _known(
        request=request["request_id"],
        pod=request["pod"],
        outcome=request["outcome"],
        reason=request["reason"],
        status=request["status"],
        arrival_s=request["arrival_s"],
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
    return _known(
        session=request["session_id"],
        turn=request["turn"],
        attempt=attempt["attempt"],
        outcome=attempt["outcome"],
        reason=attempt["reason"],
        status=attempt["status"],
        arrival_s=request["arrival_s"],
        hold_s=request["hold_s"],
        queue_s=_since(attempt["scheduled_s"], attempt["dispatch_s"]),
        prefill_s=_since(attempt["first_token_s"], attempt["scheduled_s"]),
        ttft_s=_since(attempt["first_token_s"], request["arrival_s"]),
        decode_s=_since(attempt["end_s"], attempt["first_token_s"]),
        prompt_tokens=attempt["prompt_tokens"],
        cached_tokens=attempt["cached_tokens"],
        predicted_cached_tokens=attempt["predicted_cached_tokens"],
        computed_tokens=request["computed_tokens"] if last else None,
        output_tokens=request["output_tokens"] if last else None,
        preemptions=request["preemptions"] if last else None,
    )


def _since(time_s: float | None, before_s: float | None) -> float | None:
    """Seconds between two times; an arrival a nanosecond after a step boundary counts as at it."""
    if time_s is None or before_s is None:
        return None
    return max(0.0, round(time_s - before_s, 6))


def _known(**args: Any) -> Row:
    return {name: value for name, value in args.items() if value is not None}
