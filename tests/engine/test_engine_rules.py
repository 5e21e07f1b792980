"""Fine points of the order of work, each on one small pod and worked out by hand."""

from dataclasses import replace

import pytest

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
from tests.oracle import BlockPool, Settings, StepTime

AMPLE = Settings(T0, AMPLE_BLOCKS)
TICK_S = 1 / 4096
ONE_TICK = Settings(StepTime(a=1e3 * TICK_S), AMPLE_BLOCKS)


def ms(milliseconds: float) -> object:
    return pytest.approx(milliseconds / 1e3, rel=1e-9)


@pytest.mark.parametrize(("policy", "cached_tokens"), [("fcfs", 4), ("priority", 0)])
def test_a_step_that_preempts_admits_nobody(
    engine: EngineUnderTest, policy: str, cached_tokens: int
) -> None:
    """A: two blocks of four, then a third, for which B goes; C would fit but stands behind B. By
    priority it stands before B, only the rule keeps it out, and it takes what B had cached."""
    settings = Settings(T0, kv_blocks=4, block_size=4, scheduling_policy=policy)
    traffic = unrelated(
        Call(0.0, 0, 7, 3), Call(0.0, 1, 7, 3, priority=1), Call(0.005, 2, 4, 1, priority=-1)
    )
    seen = engine(settings, traffic, polls_s=(0.030, 0.0311))
    a, b, c = seen.jobs
    assert a.end_s == ms(10.7 + 10.2 + 10.1)
    recomputed_tokens = 9 - cached_tokens
    assert (b.preemptions, b.cached_tokens, b.recomputed_tokens) == (1, 0, recomputed_tokens)
    assert b.end_s == c.first_token_s == ms(31.0 + 10.0 + 0.05 * (4 + recomputed_tokens))
    assert c.scheduled_s == ms(31.0)
    assert [(poll.waiting, poll.running, poll.kv_usage) for poll in seen.polls] == [
        (1, 2, 1.0),
        (2, 0, 0.0),
    ]


def test_an_answer_in_the_making_lets_its_own_next_turn_in(engine: EngineUnderTest) -> None:
    """B repeats A's prompt and what A is about to say: 6 blocks, all that there are. It fits in
    the step in which A fills its second one, neither before nor after, and not only at A's end."""
    settings = Settings(T0, kv_blocks=6, block_size=4)
    calls = (Call(0.0, 0, 5, 12), Call(0.005, 0, 24, 1))
    a, b = engine(settings, Traffic((Text(),), calls)).jobs
    assert (b.scheduled_s, b.cached_tokens) == (ms(10.25 + 2 * 10.1), 8)
    assert b.first_token_s == ms(30.45 + 10.9)
    assert (a.end_s, a.preemptions) == (ms(41.35 + 8 * 10.1), 0)


@pytest.mark.parametrize("ahead", [False, True])
def test_a_prompt_goes_before_decodes_of_later_admissions(
    engine: EngineUnderTest, ahead: bool
) -> None:
    """B's first chunk ends where it leaves what A has cached, so C has room beside it. Its next
    two chunks take the whole budget, and C, admitted after it, sits them out without a token."""
    settings = replace(
        AMPLE,
        max_num_batched_tokens=32,
        prompt_tail=True,
        state_blocks=1,
        async_scheduling=ahead,
    )
    texts = (Text(), Text(0, 16), Text())
    calls = (Call(0.0, 0, 48, 1), Call(1.0, 1, 100, 1), Call(1.0, 2, 16, 3))
    seen = engine(settings, Traffic(texts, calls), polls_s=(1.0117, 1.0233, 1.0349, 1.0458, 1.0561))
    _, b, c = seen.jobs
    assert (b.cached_tokens, c.first_token_s) == (0, ms(1011.6))
    assert b.end_s == c.end_s == ms(1011.6 + 2 * 11.6 + 10.9 + 10.3)
    assert [total.emitted_tokens for total in seen.totals] == [2, 2, 2, 3, 5]


@pytest.mark.parametrize(("text", "cached"), [(0, 16), (1, 32)])
def test_requests_that_end_together_release_in_running_order(
    engine: EngineUnderTest, text: int, cached: int
) -> None:
    """Then the block reused first is the tail of the request admitted first."""
    settings = Settings(T0, kv_blocks=4)
    both = (Call(0.0, 0, 32, 1), Call(0.0, 1, 32, 1))
    traffic = unrelated(*both, Call(1.0, 2, 16, 1), Call(2.0, text, 33, 1))
    assert engine(settings, traffic).jobs[3].cached_tokens == cached


def test_a_client_that_left_releases_in_running_order_too(engine: EngineUnderTest) -> None:
    """R1 leaves in the step in which R2 ends: R1's tail is reused first, R2 keeps its blocks."""
    settings = Settings(T0, kv_blocks=4)
    both = (Call(0.0, 0, 32, 1, cancel_s=0.005), Call(0.0, 1, 32, 1))
    traffic = unrelated(*both, Call(1.0, 2, 16, 1), Call(2.0, 1, 33, 1))
    assert engine(settings, traffic).jobs[3].cached_tokens == 32


def test_exact_repeats_fill_the_cache_with_copies() -> None:
    """The recomputed last block stays beside its equal: 8 distinct blocks and 12 copies."""
    settings = Settings(T0, kv_blocks=20)
    texts = (Text(), *(Text(0, 128) for _ in range(30)))
    calls = tuple(Call(float(turn), 0, 128, 1, answer=turn + 1) for turn in range(30))
    trace = trace_steps(settings, Traffic(texts, calls))
    assert [job.cached_tokens for job in trace.jobs] == [0] + [112] * 29
    assert trace.steps[-1].cached_blocks == 20


def test_of_two_equal_answers_the_one_ahead_is_found(engine: EngineUnderTest) -> None:
    """B says what A says, a step later: its blocks are copies. C shares two blocks with A, which
    still runs, so that it adds one; with B's, free since 70 ms, it would take two back."""
    settings = Settings(StepTime(a=10.0), kv_blocks=100, block_size=4)
    calls = (Call(0.0, 0, 4, 40), Call(0.005, 0, 4, 6), Call(0.075, 0, 9, 2))
    seen = engine(settings, Traffic((Text(),), calls), polls_s=(0.0705, 0.0905))
    assert (seen.jobs[1].end_s, seen.jobs[2].cached_tokens) == (ms(70.0), 8)
    assert [poll.kv_usage for poll in seen.polls] == [0.03, 0.04]


def test_within_a_step_the_earlier_admission_has_the_original(engine: EngineUnderTest) -> None:
    """B answers with what A prompts with, and for one token both compute the same in one step.
    A was admitted first, so B's is the copy: when B is preempted and comes back it shares A's.
    Were it the other way round, B would hold a block more, and be preempted once less."""
    settings = Settings(
        StepTime(a=10.0), kv_blocks=140, block_size=1, long_prefill_token_threshold=6
    )
    calls = (Call(0.0, 0, 102, 204, answer=1), Call(0.0, 0, 33, 260))
    seen = engine(settings, Traffic((Text(), Text(0, 102)), calls), polls_s=(0.185,))
    assert seen.polls[0].kv_usage == 131 / 140
    assert [job.preemptions for job in seen.jobs] == [0, 4]


def test_copies_serve_hits_after_the_original() -> None:
    """The oldest block with the content is found; when it is reused, the next oldest is."""
    pool = BlockPool(3)
    blocks = [pool.allocate(), pool.allocate()]
    for block in blocks:
        pool.seal(block, chain=7)
    assert pool.lookup([7]) == blocks[:1]
    pool.release(blocks[:1])
    assert pool.allocate() == 2
    assert pool.allocate() == blocks[0]
    assert pool.lookup([7]) == blocks[1:]


def test_a_gap_ends_a_match() -> None:
    """C23: after the loss of its first block a text has no hit, whatever else of it is there."""
    pool = BlockPool(3)
    for chain in (1, 2):
        pool.seal(pool.allocate(), chain)
    assert pool.lookup([0, 1, 2]) == []


@pytest.mark.parametrize(
    ("prompt_tokens", "emitted", "reason"), [(9, 3, None), (10, 2, "length"), (12, 1, "length")]
)
def test_the_model_limit_cuts_the_answer_off(
    engine: EngineUnderTest, prompt_tokens: int, emitted: int, reason: str | None
) -> None:
    """Prompt and answer stay within the limit, except that everybody gets a first token."""
    settings = Settings(T0, AMPLE_BLOCKS, max_model_len=12)
    (job,) = engine(settings, unrelated(Call(0.0, 0, prompt_tokens, 3))).jobs
    assert (job.status, job.emitted_tokens, job.end_reason) == ("completed", emitted, reason)


def test_what_outgrows_the_pod_leaves_it_empty(engine: EngineUnderTest) -> None:
    """It ends with its last token that fits; an idle pod must not go on publishing it."""
    settings = Settings(T0, kv_blocks=2, block_size=4)
    seen = engine(settings, unrelated(Call(0.0, 0, 6, 9)), polls_s=(0.030, 0.031, 1.0))
    assert (seen.jobs[0].emitted_tokens, seen.jobs[0].end_reason) == (3, "length")
    assert seen.jobs[0].end_s == ms(10.3 + 2 * 10.1)
    assert [(poll.running, poll.kv_usage) for poll in seen.polls] == [(1, 1.0), (0, 0), (0, 0)]


@pytest.mark.parametrize("prompt_tokens", [1, 3 * 8192])
@pytest.mark.parametrize(("late_s", "boundary"), [(0.0, 3), (0.5e-9, 3), (20e-9, 4)])
def test_an_arrival_within_a_nanosecond_is_at_the_boundary(
    engine: EngineUnderTest, prompt_tokens: int, late_s: float, boundary: int
) -> None:
    """In a span (decodes) and between single steps (chunks of a prompt) alike."""
    arrival_s = 3 * TICK_S + late_s
    traffic = unrelated(Call(0.0, 0, prompt_tokens, 9), Call(arrival_s, 1, 1, 1))
    assert engine(ONE_TICK, traffic).jobs[1].scheduled_s == pytest.approx(
        boundary * TICK_S, abs=1e-9
    )


def test_a_client_that_leaves_at_a_boundary_loses_the_step_that_starts_there(
    engine: EngineUnderTest,
) -> None:
    """Ends, arrivals and planning of an instant come before departures: three tokens stay."""
    traffic = unrelated(
        Call(0.0, 0, 1, 9, cancel_s=3 * TICK_S), Call(3 * TICK_S, 1, 1, 1, cancel_s=4 * TICK_S)
    )
    seen = engine(ONE_TICK, traffic, polls_s=(3 * TICK_S, 4 * TICK_S))
    assert [job.emitted_tokens for job in seen.jobs] == [3, 1]
    assert [job.status for job in seen.jobs] == ["cancelled", "completed"]
    assert [job.end_s for job in seen.jobs] == [3 * TICK_S, 4 * TICK_S]
    assert [poll.running for poll in seen.polls] == [1, 0]


def test_a_client_that_leaves_during_a_step_loses_its_token(engine: EngineUnderTest) -> None:
    """Its blocks are free for the next step, not for the one in flight, and stay cached."""
    settings = Settings(T0, kv_blocks=2)
    calls = (Call(0.0, 0, 31, 9, cancel_s=0.020), Call(0.012, 0, 31, 1, answer=1))
    seen = engine(settings, Traffic((Text(), Text(0, 31)), calls), polls_s=(0.0216, 0.0217))
    first, second = seen.jobs
    assert (first.emitted_tokens, first.end_s) == (1, 0.020)
    assert second.scheduled_s == ms(11.55 + 10.1)
    assert second.cached_tokens == 16
    assert [poll.kv_usage for poll in seen.polls] == [1.0, 0.0]


def test_a_client_that_leaves_before_it_was_looked_at_never_runs(engine: EngineUnderTest) -> None:
    """It came and went during one step: no gauge and no later request notices it."""
    traffic = unrelated(
        Call(0.0, 0, 8000, 1), Call(0.1, 1, 1000, 1, cancel_s=0.2), Call(0.3, 2, 100, 1)
    )
    seen = engine(AMPLE, traffic, polls_s=(0.4101, 1.0))
    assert (seen.jobs[1].status, seen.jobs[1].scheduled_s) == ("cancelled", None)
    assert seen.jobs[2].first_token_s == ms(410.0 + 15.0)
    assert [poll.waiting for poll in seen.polls] == [0, 0]
