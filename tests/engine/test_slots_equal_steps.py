"""The llama.cpp pod, which advances in spans, does exactly what the slow llama-server does."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.harness import Call, run_pod, run_steps
from tests.engine.strategies import TICK_S, Scenario, many, slot_scenarios
from tests.engine.test_span_equals_step import (
    agree_bit_for_bit,
    binary_run_agrees,
    decimal_run_agrees,
)
from tests.slot_oracle import SlotSettings


@many(300)
@given(slot_scenarios())
def test_decimal_times_agree_to_a_nanosecond(scenario: Scenario) -> None:
    """If not, a span misses a change, or slots, reuse or the host cache follow other rules."""
    decimal_run_agrees(scenario)


@many(300)
@given(slot_scenarios(binary=True))
def test_binary_times_agree_bit_for_bit(scenario: Scenario) -> None:
    """If not, events of one instant are taken in another order than the documented one."""
    binary_run_agrees(scenario)


@many(150)
@given(slot_scenarios(binary=True), st.data())
def test_clients_that_come_back_agree(scenario: Scenario, data: st.DataObject) -> None:
    """Whoever answers the end of a request with the next turn, at once, would find a stale slot,
    or those that end together would be told so in another order than that of their slots.
    """
    calls = tuple(replace(call, cancel_s=None) for call in scenario.traffic.calls)
    traffic = replace(scenario.traffic, calls=calls)
    settings = scenario.settings
    assert isinstance(settings, SlotSettings)
    ticks = data.draw(st.sampled_from([0, 0, 1]))
    output_tokens = data.draw(st.integers(1, 20))

    def come_back(number: int, end_s: float) -> Call | None:
        if number >= len(calls) or calls[number].prompt_tokens >= settings.slot_tokens:
            return None
        call = calls[number]
        more = call.output_tokens if call.answer is not None else 0
        return replace(
            call,
            arrival_s=end_s + ticks * TICK_S,
            text=call.text if call.answer is None else call.answer,
            prompt_tokens=call.prompt_tokens + more,
            output_tokens=output_tokens,
            cancel_s=None,
        )

    slow = run_steps(settings, traffic, scenario.polls_s, come_back)
    fast = run_pod(settings, traffic, scenario.polls_s, come_back)
    agree_bit_for_bit(slow, fast)
