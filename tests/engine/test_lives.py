"""A pod that is stopped at any time and started again, against the slow engine cut at that time."""

from collections.abc import Iterator
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from math import nextafter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sim.core.kernel import Kernel, Order
from sim.core.request import Attempt, Reason, Status
from sim.engine.lifecycle import ReplicaLifecycle
from tests.engine.harness import (
    AnySettings,
    Call,
    Client,
    Observation,
    Totals,
    Traffic,
    observe,
    pods,
)
from tests.engine.harness import trace_ranks as trace
from tests.engine.strategies import (
    TICK_S,
    Scenario,
    crowded,
    many,
    near_a_boundary,
    scenarios,
    slot_scenarios,
)
from tests.engine.test_lockstep import Group, groups
from tests.engine.test_span_equals_step import FACTS, TIMES, middles_s
from tests.oracle import JobTrace, Trace


@dataclass(frozen=True)
class Lives:
    """The same calls to a replica that is stopped, and to the next one under its name."""

    settings: AnySettings
    ranks: int
    traffic: Traffic
    stop_s: float
    start_s: float

    @cached_property
    def first(self) -> list[Trace]:
        """What the slow engine makes of what the first one has seen."""
        calls = tuple(call for call in self.traffic.calls if call.arrival_s < self.stop_s)
        return trace(self.settings, self.ranks, replace(self.traffic, calls=calls))

    @cached_property
    def second(self) -> list[Trace]:
        """A slow engine that is new, and is called from the start of the second one on."""
        return trace(self.settings, self.ranks, replace(self.traffic, calls=self.later_calls()))

    def later_calls(self) -> tuple[Call, ...]:
        return tuple(_later(call, self.start_s) for call in self.traffic.calls)


def _later(call: Call, by_s: float) -> Call:
    cancel_s = None if call.cancel_s is None else call.cancel_s + by_s
    return replace(call, arrival_s=call.arrival_s + by_s, cancel_s=cancel_s)


class Run:
    """The pods of both lives, and what was seen of them."""

    def __init__(self, lives: Lives, polls_s: tuple[float, ...]) -> None:
        kernel = Kernel()
        build = lambda: pods(lives.settings, lives.ranks, kernel)  # noqa: E731
        replica = ReplicaLifecycle(build, kernel)
        calls = lives.traffic.calls + lives.later_calls()
        client = Client(kernel, replica.processes, replace(lives.traffic, calls=calls))
        client.begin(polls_s)
        replica.start()
        kernel.at(lives.stop_s, Order.FAULT, replica.stop)
        kernel.at(lives.start_s, Order.READINESS, replica.start)
        kernel.run_until(float("inf"))
        self.seen = client.observations()
        self.told = client.told


def agree(lives: Lives, polls_s: tuple[float, ...]) -> None:
    first, second = lives.first, lives.second
    run = Run(lives, polls_s)
    for rank in range(lives.ranks):
        seen = run.seen[rank]
        calls = [call for call in lives.traffic.calls if call.rank == rank]
        attempts = iter(seen.jobs)
        before = iter(first[rank].jobs)
        for call in calls:
            attempt = next(attempts)
            if call.arrival_s >= lives.stop_s:
                is_refused(attempt, call)
            elif _is_over(job := next(before), lives.stop_s):
                is_like(attempt, job)
            else:
                is_lost(attempt, job, lives.stop_s)
        for attempt, job in zip(attempts, second[rank].jobs, strict=True):
            is_like(attempt, job)
        polls_agree(lives, first[rank], second[rank], polls_s, seen)
    lost = [each for each in run.told if each.end_reason == Reason.CONNECTION_LOST]
    in_order = sorted(lost, key=lambda attempt: (attempt.pod_index, attempt.number))
    assert [each.number for each in lost] == [each.number for each in in_order]


def polls_agree(
    lives: Lives, first: Trace, second: Trace, polls_s: tuple[float, ...], seen: Observation
) -> None:
    early = tuple(poll_s for poll_s in polls_s if poll_s < lives.stop_s)
    late = tuple(poll_s for poll_s in polls_s if poll_s > lives.stop_s)
    before, after = observe(first, early), observe(second, late)
    answers = [None if poll_s < lives.start_s else said for poll_s, said in zip(late, after.polls)]
    kept = observe(first, (nextafter(lives.stop_s, 1e9),)).totals[0]
    assert seen.polls == [*before.polls, *answers]
    due = before.totals + [_sum(kept, totals) for totals in after.totals]
    for mine, theirs in zip(seen.totals, due, strict=True):
        assert mine.busy_s == pytest.approx(theirs.busy_s, abs=1e-9)
        assert replace(mine, busy_s=0.0) == replace(theirs, busy_s=0.0)


def _sum(one: Totals, other: Totals) -> Totals:
    return Totals(*(mine + its for mine, its in zip(astuple(one), astuple(other))))


def _is_over(job: JobTrace, at_s: float) -> bool:
    """Steps end before the fault of their instant, clients leave after it."""
    assert job.end_s is not None
    return job.end_s < at_s or (job.end_s == at_s and job.status == Status.COMPLETED)


def is_like(attempt: Attempt, job: JobTrace) -> None:
    assert {name: getattr(attempt, name) for name in FACTS} == {
        name: getattr(job, name) for name in FACTS
    }
    for name in TIMES:
        assert getattr(attempt, name) == _close(getattr(job, name))


def is_lost(attempt: Attempt, job: JobTrace, at_s: float) -> None:
    assert (attempt.status, attempt.end_reason) == (Status.FAILED, Reason.CONNECTION_LOST)
    assert attempt.http_status is None
    assert attempt.end_s == at_s
    assert attempt.emitted_tokens == sum(token_s <= at_s for token_s in job.token_s)
    first_token_s = job.first_token_s
    told = first_token_s is not None and first_token_s <= at_s
    assert attempt.first_token_s == (_close(first_token_s) if told else None)
    scheduled = job.scheduled_s is not None and job.scheduled_s < at_s
    assert attempt.scheduled_s == (_close(job.scheduled_s) if scheduled else None)


def is_refused(attempt: Attempt, call: Call) -> None:
    assert (attempt.status, attempt.end_reason) == (Status.FAILED, Reason.CONNECTION_REFUSED)
    assert (attempt.http_status, attempt.end_s) == (None, call.arrival_s)


def _close(time_s: float | None) -> object:
    return None if time_s is None else pytest.approx(time_s, rel=0, abs=2e-9)


def decimal_lives_agree(data: st.DataObject, group: Group) -> None:
    lives = data.draw(of(group, st.integers(0, 10**6).map(lambda micros: micros / 1e6)))
    for traces, calls in (
        (lives.first, lives.traffic.calls),
        (lives.second, lives.later_calls()),
    ):
        scenario = replace(group.scenario, traffic=replace(lives.traffic, calls=calls), polls_s=())
        assume(not crowded(scenario, traces[0]))
        assume(not near_a_boundary(lives.stop_s, traces[0]))
    agree(lives, tuple(sorted({*middles_of(lives)})))


def binary_lives_agree(data: st.DataObject, group: Group) -> None:
    lives = data.draw(of(group, st.integers(0, 40).map(lambda ticks: ticks * TICK_S)))
    ends_s = {step.end_s for trace in (lives.first, lives.second) for step in trace[0].steps}
    polls_s = {*group.scenario.polls_s, *middles_of(lives), *ends_s} - {lives.stop_s}
    agree(lives, tuple(sorted(polls_s)))


def middles_of(lives: Lives) -> Iterator[float]:
    before = (time_s for time_s in middles_s(lives.first[0]) if time_s < lives.stop_s)
    yield from before
    yield from middles_s(lives.second[0])


@st.composite
def of(draw: st.DrawFn, group: Group, gaps: st.SearchStrategy[float]) -> Lives:
    """A stop in the middle of a step, at the end of one or some time after an arrival."""
    settings, traffic = group.scenario.settings, group.scenario.traffic
    steps = trace(settings, group.ranks, traffic)[0].steps
    times_s = [call.arrival_s + draw(gaps) / 64 for call in traffic.calls]
    times_s += [(step.start_s + step.end_s) / 2 for step in steps]
    times_s += [step.end_s for step in steps]
    stop_s = draw(st.sampled_from(times_s))
    nobody_comes_s = max(call.arrival_s for call in traffic.calls) + TICK_S
    start_s = max(stop_s, nobody_comes_s) + draw(gaps)
    return Lives(settings, group.ranks, traffic, stop_s, start_s)


@many(80)
@given(scenarios(), st.data())
def test_decimal_times_agree_to_a_nanosecond(scenario: Scenario, data: st.DataObject) -> None:
    """If not, a lost pod has given tokens of a step that never ended, or forgets those of a span
    that have ended; or a new one finds what the old one had in its cache, its queue or its clock.
    """
    decimal_lives_agree(data, Group(1, scenario))


@many(80)
@given(scenarios(binary=True), st.data())
def test_binary_times_agree(scenario: Scenario, data: st.DataObject) -> None:
    """If not, a fault comes before the step ends of its instant or after what is planned then, or
    a wake-up of the old engine does something to the new one.
    """
    binary_lives_agree(data, Group(1, scenario))


@many(60)
@given(groups(binary=True), st.data())
def test_ranks_end_and_start_together(group: Group, data: st.DataObject) -> None:
    """If not, a rank of a lost replica works on alone, or a new one keeps step with an old one."""
    binary_lives_agree(data, group)


@many(60)
@given(slot_scenarios(binary=True), st.data())
def test_a_llama_server_agrees(scenario: Scenario, data: st.DataObject) -> None:
    """If not, another kind of engine ends in another way."""
    binary_lives_agree(data, Group(1, scenario))
