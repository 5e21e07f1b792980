"""The pod, which advances in spans, does exactly what the step-by-step engine does."""

from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.engine.harness import Call, Observation, observe, run_pod, run_steps, trace_steps
from tests.engine.strategies import TICK_S, Scenario, crowded, many, scenarios
from tests.oracle import Trace

TIMES = ("scheduled_s", "first_token_s", "end_s")
FACTS = (
    "status",
    "end_reason",
    "http_status",
    "emitted_tokens",
    "cached_tokens",
    "computed_tokens",
    "recomputed_tokens",
    "preemptions",
)


def facts(seen: Observation) -> list[dict[str, object]]:
    return [{name: getattr(job, name) for name in FACTS} for job in seen.jobs]


def times(seen: Observation) -> list[float | None]:
    return [getattr(job, name) for job in seen.jobs for name in TIMES]


def middles_s(trace: Trace) -> list[float]:
    """Poll times that show what every single step has left."""
    return [(step.start_s + step.end_s) / 2 for step in trace.steps if step.end_s > step.start_s]


def agree(slow: Observation, fast: Observation) -> None:
    assert facts(fast) == facts(slow)
    assert fast.polls == slow.polls
    for slow_totals, fast_totals in zip(slow.totals, fast.totals, strict=True):
        assert fast_totals.busy_s == pytest.approx(slow_totals.busy_s, abs=1e-9)
        assert replace(fast_totals, busy_s=slow_totals.busy_s) == slow_totals


def agree_to_a_nanosecond(slow: Observation, fast: Observation) -> None:
    agree(slow, fast)
    for slow_s, fast_s in zip(times(slow), times(fast), strict=True):
        assert (fast_s is None) == (slow_s is None)
        assert fast_s is None or fast_s == pytest.approx(slow_s, rel=0, abs=1e-9)


def agree_bit_for_bit(slow: Observation, fast: Observation) -> None:
    agree(slow, fast)
    assert times(fast) == times(slow)


def decimal_run_agrees(scenario: Scenario) -> None:
    """Slow engine and pod, polled in the middle of every step."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    assume(not crowded(scenario, trace))
    polls_s = tuple(sorted({*scenario.polls_s, *middles_s(trace)}))
    fast = run_pod(scenario.settings, scenario.traffic, polls_s)
    agree_to_a_nanosecond(observe(trace, polls_s), fast)


def binary_run_agrees(scenario: Scenario) -> None:
    """Slow engine and pod, polled in the middle and at the end of every step."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    ends_s = {step.end_s for step in trace.steps}
    polls_s = tuple(sorted({*scenario.polls_s, *middles_s(trace), *ends_s}))
    fast = run_pod(scenario.settings, scenario.traffic, polls_s)
    agree_bit_for_bit(observe(trace, polls_s), fast)


@many(300)
@given(scenarios())
def test_decimal_times_agree_to_a_nanosecond(scenario: Scenario) -> None:
    """If not, closed forms of spans are wrong, or a span runs past what should have cut it."""
    decimal_run_agrees(scenario)


@many(300)
@given(scenarios(binary=True))
def test_binary_times_agree_bit_for_bit(scenario: Scenario) -> None:
    """If not, events of one instant are taken in another order than the documented one."""
    binary_run_agrees(scenario)


@many(300)
@given(scenarios(binary=True), st.data())
def test_a_client_that_comes_back_agrees(scenario: Scenario, data: st.DataObject) -> None:
    """A client may leave at a step boundary and be back at once: too late for the step that
    starts there, which was planned before it left. A pod that took it in would un-start that step.
    """
    calls = list(scenario.traffic.calls)
    client = data.draw(st.integers(0, len(calls) - 1))
    ends_s = [step.end_s for step in trace_steps(scenario.settings, scenario.traffic).steps]
    leaves_s = [end_s for end_s in ends_s if end_s >= calls[client].arrival_s]
    assume(leaves_s)
    calls[client] = replace(calls[client], cancel_s=data.draw(st.sampled_from(leaves_s)))
    traffic = replace(scenario.traffic, calls=tuple(calls))
    ticks = data.draw(st.sampled_from([0, 0, 1]))
    output_tokens = data.draw(st.integers(1, 20))

    def come_back(number: int, end_s: float) -> Call | None:
        if number != client:
            return None
        arrival_s = end_s + ticks * TICK_S
        return replace(
            calls[client], arrival_s=arrival_s, output_tokens=output_tokens, cancel_s=None
        )

    slow = run_steps(scenario.settings, traffic, scenario.polls_s, come_back)
    fast = run_pod(scenario.settings, traffic, scenario.polls_s, come_back)
    agree_bit_for_bit(slow, fast)
