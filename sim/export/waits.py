"""Who waited for whom: which ends of a run brought about which of its arrivals."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import inf, nextafter
from pathlib import Path
from typing import Final

from sim.core.request import Request
from sim.scenario.inputs import Inputs
from sim.scenario.schema import Scenario
from sim.workload.script import ScriptSpec
from sim.workload.script_rows import in_order
from sim.workload.trace import TraceSpec, read_trace

SEARCHED: Final = 8
"""Floats on either side of a difference of times; its rounding is one of them off at most."""


@dataclass(frozen=True)
class Wait:
    """What a request waited for, and the time from the last end of it to its arrival.

    ``after`` are requests that had to be completed (or left by their clients,
    with ``or_cancelled``), ``behind`` those that had to be over, that which
    ended the session before at first.
    """

    after: tuple[Request, ...]
    behind: tuple[Request, ...]
    think_s: float
    or_cancelled: bool = False


def waits(
    scenario: Scenario, requests: Sequence[Request], directory: Path, models: tuple[str, ...]
) -> dict[Request, Wait]:
    """The waits of those requests of a run that were sent because others had ended."""
    found: dict[Request, Wait] = {}
    for name, spec in scenario.workloads.items():
        sent = [request for request in requests if request.workload == name]
        if isinstance(spec, ScriptSpec):
            found.update(_of_script(sent, _thinking(spec, name, directory, models)))
        elif isinstance(spec, TraceSpec):
            found.update(_of_trace(sent, spec, directory))
        else:
            for agent in _grouped(sent).values():
                found.update(_of_agent(agent))
    return found


def _grouped(requests: Iterable[Request]) -> dict[str, list[Request]]:
    """The requests of each agent, in order of arrival."""
    agents: dict[str, list[Request]] = {}
    for request in requests:
        if request.agent_id:
            agents.setdefault(request.agent_id, []).append(request)
    return agents


def _of_agent(requests: Sequence[Request]) -> dict[Request, Wait]:
    """Turn after turn, a session after the other; sub-agents when the turn before has ended.

    The sessions of sub-agents are called by their parent's name, a slash and a
    number. Their parent goes on when they are over.
    """
    found: dict[Request, Wait | None] = {}
    last: dict[str, Request] = {}  # of each session
    launched: dict[str, dict[str, Request]] = {}  # last requests of sub-agents, by parent
    session = ""  # the present one of the agent itself
    for request in requests:
        name = request.session_id
        parent = name.rpartition("/")[0]
        if parent in last:
            after = last[name] if name in last else last[parent]
            found[request] = _wait((after,), (), request)
            launched[parent][name] = request
        else:
            returned = tuple(launched.get(session, {}).values())
            if name in last:
                found[request] = _wait((last[name],), returned, request)
            elif session:
                found[request] = _wait((), (last[session], *returned), request)
            session = name
            launched[name] = {}
        last[name] = request
    return {request: wait for request, wait in found.items() if wait is not None}


def _thinking(
    spec: ScriptSpec, name: str, directory: Path, models: tuple[str, ...]
) -> set[tuple[str, int]]:
    """Session and turn of the rows of a script that wait for the row before them."""
    rows = spec.read(Inputs(directory, models), name)
    sessions = in_order(rows).sessions
    return {
        (f"{name}/{session}", turn)
        for session, indices in sessions.items()
        for turn, index in enumerate(indices, start=1)
        if rows[index].think is not None
    }


def _of_script(requests: Sequence[Request], thinking: set[tuple[str, int]]) -> dict[Request, Wait]:
    found: dict[Request, Wait] = {}
    latest: dict[str, Request] = {}
    for request in requests:
        if (request.session_id, request.turn) in thinking:
            wait = _wait((latest[request.session_id],), (), request, or_cancelled=True)
            if wait is not None:
                found[request] = wait
        latest[request.session_id] = request
    return found


def _of_trace(requests: Sequence[Request], spec: TraceSpec, directory: Path) -> dict[Request, Wait]:
    """As the trace that was replayed says."""
    lines = spec.chosen(read_trace(directory / spec.file), directory)
    numbers = {(line.session, line.turn): line.request for line in lines}
    sent = {numbers[request.session_id, request.turn]: request for request in requests}
    found = {}
    for line in lines:
        if line.request in sent and (line.after or line.behind):
            after = tuple(sent[number] for number in line.after)
            behind = tuple(sent[number] for number in line.behind if number in sent)
            wait = _wait(after, behind, sent[line.request], line.or_cancelled)
            if wait is not None:
                found[sent[line.request]] = wait
    return found


def _wait(
    after: tuple[Request, ...],
    behind: tuple[Request, ...],
    request: Request,
    or_cancelled: bool = False,
) -> Wait | None:
    """None for a request that came before these were over: it did not wait for them."""
    ends = [inf if each.end_s is None else each.end_s for each in (*after, *behind)]
    think_s = thought(max(ends), sent_s(request))
    return None if think_s is None else Wait(after, behind, think_s, or_cancelled)


def sent_s(request: Request) -> float:
    """When its client sent a request: it may have waited for a step that ended within 1 ns."""
    return request.arrival_s if request.due_s is None else request.due_s


def thought(end_s: float, arrival_s: float) -> float | None:
    """The think time that leads from an end to an arrival, to the bit; None without one.

    Think times are drawn in whole microseconds, so that one is tried first; else
    it is a float next to the difference.
    """
    if arrival_s < end_s:
        return None
    drawn_s = round((arrival_s - end_s) * 1e6) / 1e6
    if end_s + drawn_s == arrival_s:
        return drawn_s
    below = above = arrival_s - end_s
    for _ in range(SEARCHED):
        for candidate in (below, above):
            if candidate >= 0.0 and end_s + candidate == arrival_s:
                return candidate
        below, above = nextafter(below, -inf), nextafter(above, inf)
    return None
