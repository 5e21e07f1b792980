"""llama-server's rules, each on one small pod and worked out by hand, for both engines."""

from dataclasses import replace

import pytest

from tests.engine.harness import T0, Call, EngineUnderTest, Text, Traffic, unrelated
from tests.slot_oracle import SlotSettings

ONE = SlotSettings(T0, ctx_size=4096, parallel=1)
TWO = SlotSettings(T0, ctx_size=8192, parallel=2)
POOL = SlotSettings(T0, ctx_size=1000, parallel=2, kv_unified=True)


def ms(milliseconds: float) -> object:
    return pytest.approx(milliseconds / 1e3, rel=1e-9)


def one_by_one(*prompts: tuple[int, int]) -> tuple[Call, ...]:
    """Calls for (text, prompt tokens) with one token of answer, each long after the one before."""
    return tuple(
        Call(float(second), text, prompt_tokens, 1)
        for second, (text, prompt_tokens) in enumerate(prompts)
    )


@pytest.mark.parametrize("prompt_tokens", [15, 16, 17, 128, 1600])
def test_c21_a_repeat_computes_one_token(engine: EngineUnderTest, prompt_tokens: int) -> None:
    """C21, token-granular: reuse in blocks, or a first token for nothing."""
    repeat = one_by_one((0, prompt_tokens), (0, prompt_tokens))
    first, second = engine(ONE, unrelated(*repeat)).jobs
    assert (first.cached_tokens, first.computed_tokens) == (0, prompt_tokens)
    assert (second.cached_tokens, second.computed_tokens) == (prompt_tokens - 1, 1)
    assert second.first_token_s == ms(1000 + 10.05)


def test_c78_clients_that_leave_free_their_slots(engine: EngineUnderTest) -> None:
    """C78 (ggml-org/llama.cpp#26572): the server would finish dead work and queue behind it."""
    settings = replace(TWO, ubatch_size=2048)
    gone = tuple(Call(0.0, text, 1000, 1000, cancel_s=5.0) for text in range(10))
    seen = engine(settings, unrelated(*gone, Call(6.0, 10, 1000, 1)), (5.0059, 5.0061))
    assert [job.status for job in seen.jobs] == ["cancelled"] * 10 + ["completed"]
    assert [job.emitted_tokens for job in seen.jobs] == [480, 480] + [0] * 8 + [1]
    assert [job.scheduled_s for job in seen.jobs[2:10]] == [None] * 8
    assert [(poll.waiting, poll.running) for poll in seen.polls] == [(8, 2), (0, 0)]
    assert [poll.kv_usage > 0 for poll in seen.polls] == [True, False]
    assert seen.jobs[10].first_token_s == ms(6000 + 60)


def test_what_a_client_that_left_had_computed_is_reused(engine: EngineUnderTest) -> None:
    """The KV of its slot says its prompt and what it was told, and the next turn says that too."""
    calls = (Call(0.0, 0, 100, 50, cancel_s=0.101), Call(1.0, 0, 200, 1))
    first, second = engine(ONE, unrelated(*calls)).jobs
    assert first.emitted_tokens == 9  # at 15 ms and every 10.1 ms, the one of the last step lost
    assert second.cached_tokens == 100 + 9


def test_a_slot_is_chosen_by_its_context_then_by_its_age(engine: EngineUnderTest) -> None:
    """A goes back to its slot; C, like nothing, takes B's, which was idle for longer."""
    turns = one_by_one((0, 100), (1, 100), (0, 150), (2, 100), (0, 150), (1, 100))
    seen = engine(TWO, unrelated(*turns))
    assert [job.cached_tokens for job in seen.jobs] == [0, 0, 100, 0, 149, 0]


@pytest.mark.parametrize(("shared", "cached"), [(10, 0), (11, 11)])
def test_a_context_must_say_more_than_a_tenth(
    engine: EngineUnderTest, shared: int, cached: int
) -> None:
    """At a tenth the request would go to the other slot, which was idle for longer."""
    turns = one_by_one((1, 100), (0, 100), (2, 100))
    texts = (Text(), Text(), Text(0, shared))
    assert engine(TWO, Traffic(texts, turns)).jobs[2].cached_tokens == cached


def test_without_similarity_the_oldest_slot_is_taken(engine: EngineUnderTest) -> None:
    """slotPromptSimilarity 0 turns the choice by context off: A meets B's slot."""
    settings = replace(TWO, slot_prompt_similarity=0.0)
    turns = one_by_one((1, 100), (0, 100), (0, 100))
    assert [job.cached_tokens for job in engine(settings, unrelated(*turns)).jobs] == [0, 0, 0]


def test_who_finds_no_slot_waits_in_order(engine: EngineUnderTest) -> None:
    """A request takes a slot for its whole life; the queue is served first come, first served."""
    calls = (Call(0.0, 0, 100, 3), Call(0.001, 1, 900, 2), Call(0.002, 2, 100, 1))
    seen = engine(ONE, unrelated(*calls), polls_s=(0.016, 0.0353, 0.101))
    starts_ms = (0.0, 15 + 2 * 10.1, 35.2 + 20 + 45 + 10.1)
    assert [job.scheduled_s for job in seen.jobs] == [ms(start) for start in starts_ms]
    assert [job.end_s for job in seen.jobs] == [ms(35.2), ms(110.3), ms(110.3 + 15)]
    assert [(poll.waiting, poll.running) for poll in seen.polls] == [(0, 1), (2, 0), (1, 1)]
    assert [poll.kv_usage for poll in seen.polls] == [100 / 4096, 0.0, 900 / 4096]


def test_prompts_fill_the_batch_in_slot_order(engine: EngineUnderTest) -> None:
    """Of unused slots the last is taken first, so the second request's prompt comes first."""
    settings = replace(TWO, batch_size=100, ubatch_size=100)
    seen = engine(settings, unrelated(Call(0.0, 0, 80, 1), Call(0.0, 1, 80, 1)))
    assert [job.first_token_s for job in seen.jobs] == [ms(15 + 13), ms(15)]


def test_a_step_is_split_into_forward_passes(engine: EngineUnderTest) -> None:
    """5,000 tokens: 2048 + 2048 + 904 in 4 + 4 + 2 passes, each of which reads the weights."""
    settings = replace(ONE, ctx_size=8192)
    seen = engine(settings, unrelated(Call(0.0, 0, 5000, 1)), polls_s=(1.0,))
    assert seen.jobs[0].first_token_s == ms(10 * 10 + 5000 * 0.05)
    assert seen.totals[0].steps == 3


def test_generating_slots_come_first_in_the_batch(engine: EngineUnderTest) -> None:
    """A token of A leaves 2047 for B's prompt of 4095: 4 + 4 + 1 passes, a token of A in each."""
    calls = (Call(0.0, 0, 100, 4), Call(0.014, 1, 4000 + 95, 1))
    first, second = engine(TWO, unrelated(*calls)).jobs
    full_ms = 40 + 2047 * 0.05 + 0.1
    assert second.first_token_s == ms(15 + 2 * full_ms + 10 + 0.05 + 0.1)
    assert (first.end_s, first.emitted_tokens) == (second.end_s, 4)


@pytest.mark.parametrize(("unified", "context"), [(False, 100), (True, 400)])
def test_a_prompt_must_be_shorter_than_the_context(
    engine: EngineUnderTest, unified: bool, context: int
) -> None:
    """The context of a slot is its share of the pool, of a unified pool the whole."""
    settings = SlotSettings(T0, ctx_size=400, parallel=4, kv_unified=unified)
    calls = (Call(0.0, 0, context, 1), Call(1.0, 1, context - 1, 1), Call(2.0, 2, context - 9, 20))
    refused, longest, cut = engine(settings, unrelated(*calls)).jobs
    assert (refused.status, refused.http_status) == ("rejected", 400)
    assert (refused.end_reason, refused.end_s) == ("prompt_too_long", 0.0)
    assert (longest.status, longest.end_reason) == ("completed", None)
    assert (cut.emitted_tokens, cut.end_reason) == (9, "length")


@pytest.mark.parametrize(("limit", "context"), [(100, 100), (700, 400)])
def test_a_slot_of_a_unified_pool_may_have_a_limit(
    engine: EngineUnderTest, limit: int, context: int
) -> None:
    """ggml-org/llama.cpp#24124: one request could fill the pool of all the others.

    Prompts and answers end at the limit of the slot, not of the pool, unless that is smaller.
    """
    settings = SlotSettings(
        T0, ctx_size=400, parallel=4, kv_unified=True, kv_unified_per_slot=limit
    )
    calls = (Call(0.0, 0, context, 1), Call(1.0, 1, context - 1, 1), Call(2.0, 2, context - 9, 20))
    refused, longest, cut = engine(settings, unrelated(*calls)).jobs
    assert (refused.http_status, refused.end_reason) == (400, "prompt_too_long")
    assert (longest.status, longest.end_reason) == ("completed", None)
    assert (cut.emitted_tokens, cut.end_reason) == (9, "length")


def test_limits_of_slots_do_not_make_the_pool_larger(engine: EngineUnderTest) -> None:
    """ggml-org/llama.cpp#24124: slots that may have more together than there is fail together."""
    settings = replace(POOL, kv_unified_per_slot=600)
    seen = engine(settings, unrelated(Call(0.0, 0, 450, 200), Call(0.0, 1, 450, 200)))
    assert [job.end_reason for job in seen.jobs] == ["context_exceeded"] * 2
    capped = replace(POOL, kv_unified_per_slot=500)
    seen = engine(capped, unrelated(Call(0.0, 0, 450, 200), Call(0.0, 1, 450, 200)))
    assert [(job.end_reason, job.emitted_tokens) for job in seen.jobs] == [("length", 50)] * 2


@pytest.mark.parametrize(("room", "cached"), [(0, 0), (1, 0), (1000, 0), (2000, 999)])
def test_lost_contexts_come_back_from_host_memory(
    engine: EngineUnderTest, room: int, cached: int
) -> None:
    """A, B, C, then A again: host memory must have held both A and B when C came."""
    turns = one_by_one((0, 1000), (1, 1000), (2, 1000), (0, 1000))
    seen = engine(replace(ONE, cache_ram=room), unrelated(*turns))
    assert [job.cached_tokens for job in seen.jobs] == [0, 0, 0, cached]


def test_host_memory_keeps_one_context_however_large(engine: EngineUnderTest) -> None:
    """A and B take turns through a cache that is too small for either."""
    turns = one_by_one((0, 1000), (1, 1000), (0, 1000), (1, 1000))
    seen = engine(replace(ONE, cache_ram=1), unrelated(*turns))
    assert [job.cached_tokens for job in seen.jobs] == [0, 0, 999, 999]


@pytest.mark.parametrize(("shared", "cached"), [(249, 0), (250, 250)])
def test_a_saved_context_is_not_spent_on_a_quarter(
    engine: EngineUnderTest, shared: int, cached: int
) -> None:
    """Loading takes a context out of the cache: not for less than a quarter of it."""
    texts = (Text(), Text(), Text(0, shared))
    turns = one_by_one((0, 1000), (1, 1000), (2, 2000))
    seen = engine(replace(ONE, cache_ram=10_000), Traffic(texts, turns))
    assert seen.jobs[2].cached_tokens == cached


@pytest.mark.parametrize(("kept", "comes_back"), [(501, 0), (500, 0), (499, 999)])
def test_a_context_is_saved_when_less_than_half_is_kept(
    engine: EngineUnderTest, kept: int, comes_back: int
) -> None:
    """B takes A's slot for their common prefix; the rest of A is gone, or was saved before."""
    texts = (Text(), Text(0, kept))
    turns = one_by_one((0, 1000), (1, 1000), (0, 1000))
    seen = engine(replace(ONE, cache_ram=10_000), Traffic(texts, turns))
    assert seen.jobs[1].cached_tokens == kept
    assert seen.jobs[2].cached_tokens == max(kept, comes_back)


@pytest.mark.parametrize(("ctx_size", "cached"), [(1099, 0), (1100, 599)])
def test_a_unified_pool_purges_idle_slots(
    engine: EngineUnderTest, ctx_size: int, cached: int
) -> None:
    """A's 600 tokens stay beside B's 500 where there is room for both, and go where not."""
    turns = one_by_one((0, 600), (1, 500), (0, 600))
    settings = replace(POOL, ctx_size=ctx_size)
    assert engine(settings, unrelated(*turns)).jobs[2].cached_tokens == cached


def test_idle_slots_are_saved_before_they_are_purged(engine: EngineUnderTest) -> None:
    """cacheIdleSlots: A leaves the pool when B starts, and comes back from host memory."""
    turns = one_by_one((0, 600), (1, 500), (0, 600))
    settings = replace(POOL, cache_ram=10_000)
    assert engine(settings, unrelated(*turns)).jobs[2].cached_tokens == 599


def test_a_full_unified_pool_fails_everybody(engine: EngineUnderTest) -> None:
    """Two of 450 tokens fill 1000 after 50 decodes; the one that waited runs in their place."""
    both = (Call(0.0, 0, 450, 200), Call(0.0, 1, 450, 200))
    seen = engine(POOL, unrelated(*both, Call(0.001, 2, 450, 1)), polls_s=(0.6,))
    failed_ms = 20 + 900 * 0.05 + 50 * 10.2
    for job in seen.jobs[:2]:
        assert (job.status, job.http_status) == ("failed", 500)
        assert (job.end_reason, job.emitted_tokens) == ("context_exceeded", 51)
        assert job.end_s == ms(failed_ms)
    assert seen.jobs[2].scheduled_s == ms(failed_ms)
    assert seen.jobs[2].end_s == ms(failed_ms + 10 + 450 * 0.05)
    assert [(poll.waiting, poll.running) for poll in seen.polls] == [(0, 1)]


def test_a_pod_whose_requests_failed_is_seen_idle(engine: EngineUnderTest) -> None:
    """Nothing is published while idle: the gauges would show two dead requests for ever."""
    both = (Call(0.0, 0, 450, 200), Call(0.0, 1, 450, 200))
    seen = engine(POOL, unrelated(*both), polls_s=(0.5, 1.0))
    assert [(poll.running, poll.kv_usage > 0) for poll in seen.polls] == [(2, True), (0, False)]
