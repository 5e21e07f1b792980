"""The pod, which advances in spans, does exactly what the step-by-step engine does."""

from dataclasses import replace

import pytest
from hypothesis import assume, given

from tests.engine.harness import Observation, observe, run_pod, trace_steps
from tests.engine.strategies import Scenario, crowded, many, scenarios
from tests.oracle import Trace

TIMES = ("scheduled_s", "first_token_s", "end_s")
FACTS = (
    "status",
    "end_reason",
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


@many(600)
@given(scenarios())
def test_decimal_times_agree_to_a_nanosecond(scenario: Scenario) -> None:
    """If not, closed forms of spans are wrong, or a span runs past what should have cut it."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    assume(not crowded(scenario, trace))
    polls_s = tuple(sorted({*scenario.polls_s, *middles_s(trace)}))
    slow = observe(trace, polls_s)
    fast = run_pod(scenario.settings, scenario.traffic, polls_s)
    agree(slow, fast)
    for slow_s, fast_s in zip(times(slow), times(fast), strict=True):
        assert (fast_s is None) == (slow_s is None)
        assert fast_s is None or fast_s == pytest.approx(slow_s, rel=0, abs=1e-9)


@many(600)
@given(scenarios(binary=True))
def test_binary_times_agree_bit_for_bit(scenario: Scenario) -> None:
    """If not, events of one instant are taken in another order than the documented one."""
    trace = trace_steps(scenario.settings, scenario.traffic)
    ends_s = {step.end_s for step in trace.steps}
    polls_s = tuple(sorted({*scenario.polls_s, *middles_s(trace), *ends_s}))
    slow = observe(trace, polls_s)
    fast = run_pod(scenario.settings, scenario.traffic, polls_s)
    agree(slow, fast)
    assert times(fast) == times(slow)
