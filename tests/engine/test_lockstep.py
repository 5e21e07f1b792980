"""Data-parallel ranks whose steps are one, against the step-by-step reference and by hand."""

from dataclasses import dataclass, replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.engine.harness import (
    AMPLE_BLOCKS,
    T0,
    Call,
    observe,
    run_ranks,
    trace_ranks,
    unrelated,
)
from tests.engine.strategies import TICK_S, Scenario, crowded, many, scenarios
from tests.engine.test_span_equals_step import agree_bit_for_bit, agree_to_a_nanosecond, middles_s
from tests.oracle import Published, Settings, StepTime

AMPLE = Settings(T0, AMPLE_BLOCKS)


@dataclass(frozen=True)
class Group:
    """A run in which each call is for one of the ranks."""

    ranks: int
    scenario: Scenario


@st.composite
def groups(draw: st.DrawFn, binary: bool = False) -> Group:
    scenario = draw(scenarios(binary))
    ranks = draw(st.integers(2, 3))
    calls = tuple(
        replace(call, rank=draw(st.integers(0, ranks - 1))) for call in scenario.traffic.calls
    )
    return Group(ranks, replace(scenario, traffic=replace(scenario.traffic, calls=calls)))


def ms(milliseconds: float) -> object:
    return pytest.approx(milliseconds / 1e3, rel=1e-9)


@many(200)
@given(groups())
def test_decimal_times_agree_to_a_nanosecond(group: Group) -> None:
    """If not, a joint span is not its steps: it runs past the step at which another rank becomes
    the slowest, or past a change of the batch of one of them.
    """
    settings, traffic = group.scenario.settings, group.scenario.traffic
    traces = trace_ranks(settings, group.ranks, traffic)
    assume(not crowded(group.scenario, traces[0]))
    polls_s = tuple(sorted({*group.scenario.polls_s, *middles_s(traces[0])}))
    fast = run_ranks(settings, group.ranks, traffic, polls_s)
    for trace, seen in zip(traces, fast, strict=True):
        slow = observe(trace, polls_s)
        agree_to_a_nanosecond(slow, seen)


@many(200)
@given(groups(binary=True))
def test_binary_times_agree_bit_for_bit(group: Group) -> None:
    """If not, ranks take events of one instant in another order than a lone pod does."""
    settings, traffic = group.scenario.settings, group.scenario.traffic
    traces = trace_ranks(settings, group.ranks, traffic)
    ends_s = {step.end_s for step in traces[0].steps}
    polls_s = tuple(sorted({*group.scenario.polls_s, *middles_s(traces[0]), *ends_s}))
    fast = run_ranks(settings, group.ranks, traffic, polls_s)
    for trace, seen in zip(traces, fast, strict=True):
        slow = observe(trace, polls_s)
        agree_bit_for_bit(slow, seen)


@many(200)
@given(groups(binary=True), st.data())
def test_a_client_that_comes_back_to_another_rank_agrees(group: Group, data: st.DataObject) -> None:
    """A client leaves one rank at a step boundary and asks another at once: too late for the
    step that starts there, which all ranks had planned before it left.
    """
    settings, traffic = group.scenario.settings, group.scenario.traffic
    calls = list(traffic.calls)
    client = data.draw(st.integers(0, len(calls) - 1))
    ends_s = [step.end_s for step in trace_ranks(settings, group.ranks, traffic)[0].steps]
    leaves_s = [end_s for end_s in ends_s if end_s >= calls[client].arrival_s]
    assume(leaves_s)
    calls[client] = replace(calls[client], cancel_s=data.draw(st.sampled_from(leaves_s)))
    traffic = replace(traffic, calls=tuple(calls))
    ticks = data.draw(st.sampled_from([0, 0, 1]))
    rank = data.draw(st.integers(0, group.ranks - 1))

    def come_back(number: int, end_s: float) -> Call | None:
        if number != client:
            return None
        arrival_s = end_s + ticks * TICK_S
        return replace(calls[client], arrival_s=arrival_s, cancel_s=None, rank=rank)

    traces = trace_ranks(settings, group.ranks, traffic, come_back)
    fast = run_ranks(settings, group.ranks, traffic, group.scenario.polls_s, come_back)
    for trace, seen in zip(traces, fast, strict=True):
        slow = observe(trace, group.scenario.polls_s)
        agree_bit_for_bit(slow, seen)


def test_a_step_lasts_as_long_as_the_slower_rank_s() -> None:
    """A rank that decodes would not wait for the prefill of another one, and TPOT would come
    out too good: 10.1 ms alone, 15.0 ms beside a prompt of 100 tokens.
    """
    first, second = run_ranks(
        AMPLE, 2, unrelated(Call(0.0, 0, 100, 3), Call(0.001, 1, 100, 3, rank=1))
    )
    (a,), (b,) = first.jobs, second.jobs
    assert a.first_token_s == b.scheduled_s == ms(15.0)
    assert b.first_token_s == ms(30.0)
    assert a.end_s == ms(40.1)
    assert b.end_s == ms(50.2)


def test_a_request_at_an_idle_rank_waits_for_the_step_of_a_busy_one() -> None:
    """An idle rank of a busy group would start at once, without the others that its experts need;
    or it would wait although everybody is idle.
    """
    calls = (Call(0.0, 0, 100, 40), Call(0.1, 1, 100, 1, rank=1), Call(9.0, 1, 100, 1, rank=1))
    _, second = run_ranks(AMPLE, 2, unrelated(*calls))
    in_time, idle = second.jobs
    assert in_time.scheduled_s == ms(15.0 + 9 * 10.1)
    assert idle.scheduled_s == ms(9000.0)


def test_a_rank_that_runs_empty_steps_is_busy_and_publishes() -> None:
    """A GPU whose experts serve the other rank would be reported as idle, or keep saying what it
    said before its last request ended.
    """
    traffic = unrelated(Call(0.0, 0, 100, 11), Call(0.0, 1, 100, 1, rank=1))
    seen = run_ranks(AMPLE, 2, traffic, polls_s=(0.01, 0.05, 1.0))
    busy, empty = (observation.totals[-1] for observation in seen)
    assert (busy.steps, empty.steps) == (11, 11)
    assert busy.busy_s == empty.busy_s == ms(15.0 + 10 * 10.1)
    assert (busy.emitted_tokens, empty.emitted_tokens) == (11, 1)
    assert seen[1].polls == [Published()] * 3


def test_the_slowest_rank_may_change_within_a_run_of_decodes() -> None:
    """A joint span would keep the pace of the rank that was the slowest when it began: here the
    one with the longer context, until three short ones have grown past it.
    """
    settings = Settings(StepTime(a=1.0, c=1000.0), AMPLE_BLOCKS)
    traffic = unrelated(
        Call(0.0, 0, 400, 300),
        *(Call(0.0, text, 100, 300, rank=1) for text in (1, 2, 3)),
    )
    seen = run_ranks(settings, 2, traffic)
    # At step n, counted from 1, rank 0 reads 400 + n tokens and rank 1 300 + 3n: equal at 50.
    context = sum(400 + n for n in range(1, 50)) + sum(300 + 3 * n for n in range(50, 300))
    assert seen[0].jobs[0].end_s == ms(1.0 + 299 * 1.0 + context * 0.01)
