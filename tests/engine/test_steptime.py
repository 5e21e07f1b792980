"""Closed forms of the step time: they are the sum of steps, and their inverse is exact."""

from dataclasses import asdict
from math import inf, nextafter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from sim.engine.steptime import StepCost
from sim.hardware.engine import Curve, StepTime
from tests import oracle
from tests.engine.strategies import decimal_step_times, many

starts_s = st.floats(0.0, 5000.0)
batches = st.tuples(st.integers(1, 64), st.integers(1, 200_000))


def closed_form(step_time: oracle.StepTime) -> StepCost:
    return StepCost(StepTime(**asdict(step_time)))


@many(100)
@given(decimal_step_times(), batches, st.integers(1, 300))
def test_a_span_lasts_as_long_as_its_steps(
    step_time: oracle.StepTime, batch: tuple[int, int], steps: int
) -> None:
    """Every step of a span reads one token more of each sequence than the one before it."""
    decoders, context = batch
    single_s = [
        step_time.seconds(0, decoders, context + index * decoders, 0.0) for index in range(steps)
    ]
    span = closed_form(step_time).span(0.0, decoders, context)
    assert span.end_s(steps) == pytest.approx(sum(single_s), rel=1e-12)


@many(100)
@given(decimal_step_times(), st.integers(0, 5000), st.floats(0.0, 1e9), st.integers(0, 9), starts_s)
def test_a_step_with_prefill_costs_what_the_formula_says(
    step_time: oracle.StepTime, prefill: int, pairs: float, decoders: int, start_s: float
) -> None:
    """Each coefficient has a unit of its own; a wrong power of ten is easily overlooked."""
    seconds = closed_form(step_time).step_s(prefill, pairs, decoders, 1000 * decoders)
    assert seconds == pytest.approx(
        step_time.seconds(prefill, decoders, 1000 * decoders, pairs), rel=1e-12
    )


@pytest.mark.parametrize(
    ("tokens", "passes_ms"),
    [(8, 8 + 16), (9, 8 + 18), (10, 8 + 20), (11, (8 + 20) + (8 + 16)), (20, 2 * (8 + 20))],
)
def test_each_forward_pass_costs_its_base_and_its_tokens(tokens: int, passes_ms: float) -> None:
    """A server with micro batches would read its weights once a step, or once more than it does.

    16 ms up to 8 tokens, then 2 ms for each; 1 ms for a prefill token, in whatever pass it is.
    """
    coefficients = StepTime(a=8.0, b=1000.0, computed=Curve(tokens=(8, 10), ms=(16.0, 20.0)))
    step_s = StepCost(coefficients, pass_tokens=10).step_s(tokens - 2, 0.0, 2, 500)
    assert step_s == pytest.approx((passes_ms + tokens - 2) / 1e3)


@many(600)
@given(decimal_step_times(), batches, st.integers(1, 5000), starts_s)
def test_the_step_number_at_a_boundary_is_exact(
    step_time: oracle.StepTime, batch: tuple[int, int], steps: int, start_s: float
) -> None:
    """A square root alone is off by one at every second boundary: a step would come twice."""
    span = closed_form(step_time).span(start_s, *batch)
    assume(span.end_s(1) > start_s)
    boundary_s = span.end_s(steps)
    assert span.steps_until(boundary_s) == steps
    assert span.steps_until(nextafter(boundary_s, inf)) == steps
    assert span.steps_until(nextafter(boundary_s, 0.0)) == steps - 1
