"""Async scheduling: each batch is fixed when the step before it starts; worked out by hand."""

from dataclasses import replace

import pytest

import sim
from tests.cluster.scenarios import fleet
from tests.engine.harness import (
    AMPLE_BLOCKS,
    T0,
    Call,
    EngineUnderTest,
    Text,
    Traffic,
    trace_steps,
    unrelated,
)
from tests.oracle import Settings, StepTime

TEN_MS = Settings(StepTime(a=10.0), AMPLE_BLOCKS, async_scheduling=True)
TIMED = Settings(T0, AMPLE_BLOCKS, async_scheduling=True)


def ms(milliseconds: float) -> object:
    return pytest.approx(milliseconds / 1e3, rel=1e-9)


@pytest.mark.parametrize(("ahead", "second_ms"), [(False, 30.0), (True, 40.0)])
def test_an_arrival_waits_for_the_step_behind_the_one_in_flight(
    engine: EngineUnderTest, ahead: bool, second_ms: float
) -> None:
    """B comes during the second step: the third is fixed already, and B is in the fourth. It is
    admitted at the same instant either way. On an idle engine A starts at once."""
    settings = replace(TEN_MS, async_scheduling=ahead)
    a, b = engine(settings, unrelated(Call(0.0, 0, 1, 9), Call(0.012, 1, 1, 1))).jobs
    assert (a.scheduled_s, a.first_token_s) == (0.0, ms(10.0))
    assert (b.scheduled_s, b.first_token_s) == (ms(20.0), ms(second_ms))
    assert a.end_s == ms(90.0)


def test_a_prompt_is_followed_by_its_decodes_without_a_gap(engine: EngineUnderTest) -> None:
    """The decode after the last chunk is scheduled before the first token is known."""
    (job,) = engine(TIMED, unrelated(Call(0.0, 0, 10_000, 3))).jobs
    assert job.first_token_s == ms(520.0)
    assert job.end_s == ms(540.2)


def test_an_end_is_noticed_one_step_late(engine: EngineUnderTest) -> None:
    """A's last token comes at 20.15 ms; it still takes a decode of the third step, so that B,
    which waits for its place, starts after that. A's client, its blocks and its place are free
    at 20.15 ms."""
    settings = replace(TIMED, max_num_seqs=1)
    traffic = unrelated(Call(0.0, 0, 1, 2), Call(0.0, 1, 1, 1))
    seen = engine(settings, traffic, polls_s=(0.0201, 0.0202, 0.0303))
    a, b = seen.jobs
    assert (a.emitted_tokens, a.end_s) == (2, ms(20.15))
    assert (b.scheduled_s, b.first_token_s) == (ms(20.15), ms(20.15 + 10.1 + 10.05))
    assert [(poll.waiting, poll.running) for poll in seen.polls] == [(1, 1), (1, 0), (0, 1)]
    assert [total.emitted_tokens for total in seen.totals] == [1, 2, 2]
    assert [total.steps for total in seen.totals] == [1, 2, 3]


def test_an_end_at_the_model_limit_is_foreseen(engine: EngineUnderTest) -> None:
    """Nothing is scheduled for A beyond its last token. Its place is taken until that is there,
    so B starts right then, not a step later."""
    settings = replace(TIMED, max_num_seqs=1, max_model_len=3)
    traffic = unrelated(Call(0.0, 0, 1, 2), Call(0.0, 1, 1, 1))
    a, b = engine(settings, traffic).jobs
    assert (a.emitted_tokens, a.end_s) == (2, ms(20.15))
    assert (b.scheduled_s, b.first_token_s) == (ms(20.15), ms(30.2))


def test_a_client_that_leaves_costs_one_more_decode(engine: EngineUnderTest) -> None:
    """A leaves during the third step, whose token is lost; the fourth decodes it for nothing
    before B, which comes right after, can start."""
    traffic = unrelated(Call(0.0, 0, 1, 9, cancel_s=0.025), Call(0.026, 1, 1, 1))
    seen = engine(TIMED, traffic, polls_s=(0.0302, 0.0303, 0.0404))
    a, b = seen.jobs
    assert (a.status, a.emitted_tokens, a.end_s) == ("cancelled", 2, 0.025)
    assert b.scheduled_s == ms(30.25)
    assert b.first_token_s == ms(30.25 + 10.1 + 10.05)
    assert [poll.running for poll in seen.polls] == [1, 0, 1]
    assert seen.totals[-1].emitted_tokens == 2


def test_a_gauge_is_one_scheduling_newer(engine: EngineUnderTest) -> None:
    """C80 with async scheduling: the small request, in the queue since 50 ms, is seen from the
    end of the second chunk on, and has left it when the step before its own has ended."""
    settings = replace(TIMED, max_num_batched_tokens=2048)
    traffic = unrelated(Call(0.0, 0, 20_480, 1), Call(0.050, 1, 100, 1))
    polls_s = (0.1125, 0.2247, 0.2249, 1.0115, 1.1239, 1.1241)
    seen = engine(settings, traffic, polls_s)
    assert [poll.waiting for poll in seen.polls] == [0, 0, 1, 1, 1, 0]
    # The large one's unforeseen end: its decode goes with the small one's prefill.
    assert [job.first_token_s for job in seen.jobs] == [ms(1124.0), ms(1124.0 + 15.1)]


def test_who_is_preempted_gets_the_token_in_flight(engine: EngineUnderTest) -> None:
    """B is thrown out for want of a block for a step that it does not need: its last token is
    on its way, and it ends with it out of the queue."""
    settings = replace(TEN_MS, kv_blocks=5, block_size=4)
    traffic = unrelated(Call(0.0, 0, 7, 9), Call(0.0, 1, 7, 2))
    seen = engine(settings, traffic, polls_s=(0.015, 0.025))
    a, b = seen.jobs
    assert (b.status, b.preemptions, b.emitted_tokens) == ("completed", 1, 2)
    assert b.end_s == ms(20.0)
    assert a.end_s == ms(90.0)
    assert [(poll.waiting, poll.running) for poll in seen.polls] == [(0, 2), (0, 1)]
    waits = replace(settings, async_scheduling=False)
    assert [job.preemptions for job in engine(waits, traffic).jobs] == [0, 0]


@pytest.mark.parametrize(("output", "cached"), [(12, 96), (13, 112), (50, 144)])
def test_c33_holds(engine: EngineUnderTest, output: int, cached: int) -> None:
    """C33 with async scheduling: the decode after an unforeseen end must not add to the cache."""
    calls = (Call(0.0, 0, 100, output), Call(100.0, 0, 140 + output, 1))
    assert engine(TIMED, Traffic((Text(),), calls)).jobs[1].cached_tokens == cached


def test_decodes_still_advance_in_spans() -> None:
    """A steady batch must not cost an event per step: the clock would crawl."""
    workload = {"kind": "script", "rows": [{"arrival": 0, "promptTokens": 9, "outputTokens": 9999}]}
    scenario = fleet(workload, {"kind": "round-robin"}, replicas=1, asyncScheduling=True)
    scenario["router"]["metrics"] = {"pollInterval": "1h"}
    run = sim.run(scenario, check=True).runs[0]
    assert list(run.requests["output_tokens"]) == [9999]
    assert run.facts.events < 20


def test_steps_are_those_of_the_plain_engine_and_one_more() -> None:
    """A single request: the same steps, then a decode for nothing."""
    plain = trace_steps(replace(TIMED, async_scheduling=False), unrelated(Call(0.0, 0, 9000, 5)))
    ahead = trace_steps(TIMED, unrelated(Call(0.0, 0, 9000, 5)))
    work = [(step.prefill_tokens, step.decoding, step.context) for step in ahead.steps]
    assert work[:-1] == [(s.prefill_tokens, s.decoding, s.context) for s in plain.steps]
    assert work[-1] == (0, 1, 9005)
