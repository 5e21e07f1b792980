"""Worked cases of public reports that a single pod decides, on each engine.

The numbers are hand-computed or come from a block-level reference; the case
numbers are those of the collection from which they were taken.
"""

from itertools import pairwise
from statistics import mean, median

import pytest

from tests.engine.harness import (
    AMPLE_BLOCKS,
    T0,
    Call,
    EngineUnderTest,
    Observation,
    Text,
    Traffic,
    unrelated,
)
from tests.oracle import Settings, StepTime

AMPLE = Settings(T0, AMPLE_BLOCKS)
MS = 1e-3


def ms(milliseconds: float) -> object:
    return pytest.approx(milliseconds * MS, rel=1e-9, abs=1e-12)


def repeated(prompt_tokens: int, gap_s: float = 1000.0) -> Traffic:
    """The same prompt twice, one after the other; the answers differ from what follows it."""
    texts = (Text(), Text(0, prompt_tokens), Text(0, prompt_tokens))
    calls = (
        Call(0.0, 0, prompt_tokens, 1, answer=1),
        Call(gap_s, 0, prompt_tokens, 1, answer=2),
    )
    return Traffic(texts, calls)


# KV cache


@pytest.mark.parametrize(
    ("prompt_tokens", "cached", "computed"),
    [
        (15, 0, 15),
        (16, 0, 16),
        (17, 16, 1),
        (31, 16, 15),
        (32, 16, 16),
        (33, 32, 1),
        (112, 96, 16),
        (127, 112, 15),
        (128, 112, 16),
        (129, 128, 1),
        (130, 128, 2),
        (1600, 1584, 16),
    ],
)
def test_c21_a_full_hit_still_computes_the_last_block(
    engine: EngineUnderTest, prompt_tokens: int, cached: int, computed: int
) -> None:
    """C21: otherwise a repeated prompt would cost nothing, or never enter a batch."""
    first, second = engine(AMPLE, repeated(prompt_tokens)).jobs
    assert (first.cached_tokens, first.computed_tokens) == (0, prompt_tokens)
    assert (second.cached_tokens, second.computed_tokens) == (cached, computed)
    assert second.first_token_s - 1000.0 == pytest.approx((10 + 0.05 * computed) * MS)


@pytest.mark.parametrize("prompt_tokens", [15, 16, 17, 128])
def test_c21_blocks_of_a_token_find_all_but_the_last(
    engine: EngineUnderTest, prompt_tokens: int
) -> None:
    """C21 of engines that keep single tokens: P − 1 are cached, and one is still computed."""
    settings = Settings(T0, AMPLE_BLOCKS, block_size=1)
    _, second = engine(settings, repeated(prompt_tokens)).jobs
    assert (second.cached_tokens, second.computed_tokens) == (prompt_tokens - 1, 1)
    assert second.first_token_s - 1000.0 == pytest.approx(10.05 * MS)


@pytest.mark.parametrize(
    ("block_size", "prompt_tokens", "cached"),
    [(3584, 2015, 0), (3584, 8015, 7168), (3584, 32_015, 28_672), (3584, 47_074, 46_592)],
)
def test_c22_only_full_blocks_are_hits(
    engine: EngineUnderTest, block_size: int, prompt_tokens: int, cached: int
) -> None:
    """C22: otherwise the hit rate would not depend on the block size."""
    settings = Settings(T0, AMPLE_BLOCKS, block_size=block_size)
    _, second = engine(settings, repeated(prompt_tokens)).jobs
    assert second.cached_tokens == cached


@pytest.mark.parametrize(
    ("block_size", "shared", "first", "second", "cached"),
    [(784, 240, 5000, 5000, 0), (32, 35, 35, 36, 32)],
)
def test_c22_a_shared_prefix_counts_in_whole_blocks(
    engine: EngineUnderTest, block_size: int, shared: int, first: int, second: int, cached: int
) -> None:
    """C22: a shared prefix shorter than a block is no hit at all; a longer one is rounded down."""
    settings = Settings(T0, AMPLE_BLOCKS, block_size=block_size)
    traffic = Traffic(
        (Text(), Text(0, shared), Text(0, shared)),
        (Call(0.0, 1, first, 1), Call(100.0, 2, second, 1)),
    )
    assert engine(settings, traffic).jobs[1].cached_tokens == cached


def test_c23_the_tail_of_a_chain_is_evicted_first(engine: EngineUnderTest) -> None:
    """C23: R2 must take the third block of R1, in every one of 200 runs."""
    settings = Settings(T0, kv_blocks=3)
    traffic = unrelated(Call(0.0, 0, 48, 1), Call(1.0, 1, 16, 1), Call(2.0, 0, 48, 1))
    assert [engine(settings, traffic).jobs[2].cached_tokens for _ in range(200)] == [32] * 200


def test_c24_running_blocks_are_safe_and_block_the_queue(engine: EngineUnderTest) -> None:
    """C24: R2 must wait for R1's blocks, R3 must wait behind R2, and nobody loses a block."""
    settings = Settings(T0, kv_blocks=10)
    traffic = unrelated(Call(0.0, 0, 96, 16), Call(0.020, 1, 80, 1), Call(0.040, 2, 48, 1))
    seen = engine(settings, traffic, polls_s=(0.0149, 0.0249, 0.1562, 0.1664))
    first, second, third = seen.jobs
    assert first.first_token_s == ms(14.8)
    assert first.end_s == ms(166.3)
    assert second.first_token_s == third.first_token_s == ms(182.7)
    assert [job.preemptions for job in seen.jobs] == [0, 0, 0]
    assert [poll.kv_usage for poll in seen.polls] == [0.6, 0.7, 0.7, 0.0]


def test_c24_idle_cached_blocks_are_not_used(engine: EngineUnderTest) -> None:
    """C24: a pod would look full after its first requests, and stay so."""
    settings = Settings(T0, kv_blocks=10)
    traffic = Traffic((Text(),), (Call(0.0, 0, 96, 16), Call(1.0, 0, 96, 1)))
    seen = engine(settings, traffic, polls_s=(0.5,))
    assert seen.polls[0].kv_usage == 0.0
    assert seen.jobs[1].cached_tokens == 80


def test_c26_three_hit_rates_are_three_numbers(engine: EngineUnderTest) -> None:
    """C26: token-weighted, per-request and any-hit rates come from the same two counts."""
    settings = Settings(T0, AMPLE_BLOCKS, block_size=1000)
    texts = (Text(), Text(0, 9000), Text(0, 9000), Text())
    calls = (Call(0.0, 1, 9001, 1), Call(10.0, 2, 10_000, 1), Call(20.0, 3, 100, 1))
    _, large, small = engine(settings, Traffic(texts, calls)).jobs
    cached = [large.cached_tokens, small.cached_tokens]
    assert cached == [9000, 0]
    assert [large.computed_tokens, small.computed_tokens] == [1000, 100]
    assert sum(cached) / 10_100 == pytest.approx(0.891, abs=5e-4)
    assert mean([cached[0] / 10_000, cached[1] / 100]) == 0.45
    assert mean(tokens > 0 for tokens in cached) == 0.5


def test_c29_preemption_ends(engine: EngineUnderTest) -> None:
    """C29: with more wanted than there is, everybody finishes and nobody is thrown out twice."""
    settings = Settings(T0, kv_blocks=600, max_num_batched_tokens=2048)
    arrivals_s = [0.0] * 24 + [0.5 * k for k in range(1, 61)]
    texts = (Text(), *(Text(0, 1024) for _ in arrivals_s))
    calls = tuple(
        Call(arrival_s, text, 1200, 400) for text, arrival_s in enumerate(arrivals_s, start=1)
    )
    seen = engine(settings, Traffic(texts, calls), polls_s=tuple(range(36)))
    jobs = seen.jobs
    assert [(job.status, job.emitted_tokens) for job in jobs] == [("completed", 400)] * 84
    assert sum(job.preemptions for job in jobs) == 13
    assert max(job.preemptions for job in jobs) == 1
    assert sum(job.recomputed_tokens for job in jobs) == 4712
    assert max(job.end_s for job in jobs) == pytest.approx(34.216, abs=5e-4)
    emitted = [total.emitted_tokens for total in seen.totals]
    assert emitted[-1] == 84 * 400
    most_running = max(poll.running for poll in seen.polls)
    assert most_running <= (600 - 64) // 11  # beside the shared blocks each has 11 or more
    assert max(later - earlier for earlier, later in pairwise(emitted)) <= most_running / (10 * MS)


def saturated(engine: EngineUnderTest, caching: bool, until_s: float) -> Observation:
    """1,024 clients of C30, each sending its next request when the last one is done."""
    clients = 1024
    settings = Settings(T0, kv_blocks=6800, max_num_seqs=1024, enable_prefix_caching=caching)
    calls = tuple(Call(0.0, text, 800, 800, until_s) for text in range(clients))

    def next_call(number: int, end_s: float) -> Call | None:
        return Call(end_s, number + clients, 800, 800, until_s) if end_s < until_s else None

    polls_s = tuple(20.001 + 0.5 * tick for tick in range(79))
    return engine(settings, Traffic((Text(),) * (2 * clients), calls), polls_s, next_call)


def test_c30_kv_bounds_concurrency(engine: EngineUnderTest) -> None:
    """C30: with blocks for 68 to 136 requests no more run, and the output rate follows."""
    until_s = 60.0
    seen = saturated(engine, caching=True, until_s=until_s)
    running = [poll.running for poll in seen.polls]
    assert max(running) <= 136
    assert 68 <= mean(running) <= 136
    assert all(1024 - 136 <= poll.running + poll.waiting <= 1024 for poll in seen.polls)
    tokens = sum(job.emitted_tokens for job in seen.jobs)
    assert tokens / until_s <= 136 / (23.6 * MS)
    queued_s = [job.scheduled_s for job in seen.jobs[:1024] if job.first_token_s is not None]
    assert median(queued_s) > 100 * T0.seconds(800, 0, 0, 0.0)
    uncached = saturated(engine, caching=False, until_s=until_s)
    assert sum(job.emitted_tokens for job in uncached.jobs) == pytest.approx(tokens, rel=0.05)


def test_c31_what_cannot_fit_is_refused_at_once(engine: EngineUnderTest) -> None:
    """C31: a prompt beyond the pod or the model must not wait, nor block those behind it."""
    reserved = 1  # vLLM's null block is none of those that a pod can use
    settings = Settings(T0, kv_blocks=13 - reserved, block_size=8192, max_model_len=106_496)
    sizes = [(98_305, 1), (1000, 1), (98_304, 1), (98_304, 2), (106_497, 1)]
    traffic = unrelated(*(Call(0.0, text, *size) for text, size in enumerate(sizes)))
    jobs = engine(settings, traffic).jobs
    assert [job.preemptions for job in jobs] == [0] * 5
    assert [(job.status, job.end_reason, job.emitted_tokens) for job in jobs] == [
        ("rejected", "prompt_too_long", 0),
        ("completed", None, 1),
        ("completed", None, 1),
        ("completed", "length", 1),
        ("rejected", "prompt_too_long", 0),
    ]
    assert [(jobs[0].end_s, jobs[0].http_status), (jobs[4].end_s, jobs[4].http_status)] == [
        (0.0, 400),
        (0.0, 400),
    ]
    assert jobs[1].first_token_s == ms(60.0)


@pytest.mark.parametrize(
    ("second_s", "scheduled_s", "first_token_s"),
    [(0.0, 0.0, 90.8 * MS), (1 * MS, 90 * MS, 100.8 * MS), (91 * MS, 91 * MS, 101.8 * MS)],
)
def test_c32_equal_prompts_share_from_the_step_that_fills_the_blocks(
    engine: EngineUnderTest, second_s: float, scheduled_s: float, first_token_s: float
) -> None:
    """C32: blocks are hits as soon as they are scheduled, never at arrival and not only later."""
    texts = (Text(), Text(0, 1600), Text(0, 1600))
    calls = (Call(0.0, 0, 1600, 1, answer=1), Call(second_s, 0, 1600, 1, answer=2))
    first, second = engine(AMPLE, Traffic(texts, calls)).jobs
    assert (first.cached_tokens, second.cached_tokens) == (0, 1584)
    assert second.scheduled_s == pytest.approx(scheduled_s)
    assert second.first_token_s == pytest.approx(first_token_s)


@pytest.mark.parametrize(
    ("prompt", "output", "user", "cached"),
    [
        (100, 50, 50, 144),
        (100, 13, 40, 112),
        (100, 12, 40, 96),
        (96, 16, 32, 96),
        (112, 1, 32, 112),
    ],
)
def test_c33_the_next_turn_reuses_the_answer(
    engine: EngineUnderTest, prompt: int, output: int, user: int, cached: int
) -> None:
    """C33: KV exists for prompt and answer but for the answer's last token."""
    calls = (Call(0.0, 0, prompt, output), Call(100.0, 0, prompt + output + user, 1))
    assert engine(AMPLE, Traffic((Text(),), calls)).jobs[1].cached_tokens == cached


@pytest.mark.parametrize(("prompt_tokens", "blocks", "filled"), [(17, 2, 0.53), (400, 25, 1.0)])
def test_c34_a_prompt_holds_whole_blocks(
    engine: EngineUnderTest, prompt_tokens: int, blocks: int, filled: float
) -> None:
    """C34: usage counted in tokens would call a pod a third full that has no block to spare."""
    settings = Settings(T0, kv_blocks=100)
    traffic = unrelated(Call(0.0, 0, prompt_tokens, 2))
    seen = engine(settings, traffic, polls_s=((10 + 0.05 * prompt_tokens + 0.1) * MS,))
    assert seen.polls[0].kv_usage == blocks / 100
    assert prompt_tokens / (blocks * 16) == pytest.approx(filled, abs=5e-3)


def test_c34_usage_of_blocks_is_far_above_that_of_tokens(engine: EngineUnderTest) -> None:
    """C34: ten prompts of 17 tokens fill 20 of 30 blocks with 170 of 480 tokens."""
    settings = Settings(T0, kv_blocks=30)
    traffic = unrelated(*(Call(0.0, text, 17, 2) for text in range(10)))
    (poll,) = engine(settings, traffic, polls_s=(0.0186,)).polls
    assert (poll.running, poll.kv_usage) == (10, 20 / 30)


def test_c34_one_long_request_fits_and_two_do_not(engine: EngineUnderTest) -> None:
    """C34: 262,144 tokens take 168 of 193 blocks of 1,568; by tokens 1.15 would fit, and two
    prompts of half the pod would be admitted as far as they go."""
    settings = Settings(T0, kv_blocks=193, block_size=1568, max_model_len=262_144)
    traffic = unrelated(*(Call(0.0, text, 262_142, 2) for text in range(2)))
    seen = engine(settings, traffic, polls_s=(13.430,))
    first, second = seen.jobs
    prefilled_ms = 32 * 10 + 262_142 * 0.05
    assert first.first_token_s == ms(prefilled_ms)
    assert (seen.polls[0].running, seen.polls[0].kv_usage) == (1, 168 / 193)
    assert first.end_s == second.scheduled_s == ms(prefilled_ms + 10.1)
    assert second.end_s == ms(2 * (prefilled_ms + 10.1))
    assert (first.preemptions, second.preemptions) == (0, 0)


# Timing


def test_c35_time_to_first_token_contains_the_queue(engine: EngineUnderTest) -> None:
    """C35: counted from the start of service all eight would have 60 ms."""
    settings = Settings(T0, AMPLE_BLOCKS, max_num_seqs=1)
    jobs = engine(settings, unrelated(*(Call(0.0, text, 1000, 11) for text in range(8)))).jobs
    assert [job.first_token_s for job in jobs] == [ms(60 + 161 * i) for i in range(8)]
    assert [job.scheduled_s for job in jobs] == [ms(161 * i) for i in range(8)]


def test_c36_the_first_token_comes_at_the_end_of_the_last_chunk(engine: EngineUnderTest) -> None:
    """C36: not at the start of a step and not after the first chunk."""
    (job,) = engine(AMPLE, unrelated(Call(0.0, 0, 10_000, 3))).jobs
    assert job.first_token_s == ms(520.0)
    assert job.end_s == ms(540.2)


def test_c37_leftover_budget_serves_the_next_prompt(engine: EngineUnderTest) -> None:
    """C37: prompts that are admitted whole or not at all would need three steps."""
    settings = Settings(StepTime(a=10.0, b=1000.0), AMPLE_BLOCKS, max_num_batched_tokens=8)
    traffic = unrelated(*(Call(0.0, text, size, 1) for text, size in enumerate((4, 8, 4))))
    seen = engine(settings, traffic, polls_s=(1.0,))
    assert [job.first_token_s for job in seen.jobs] == [ms(18), ms(36), ms(36)]
    assert seen.totals[0].steps == 2


@pytest.mark.parametrize("prompt_tokens", [4096, 8192, 16_384, 32_768, 65_536, 122_880])
def test_c38_hits_do_not_depend_on_the_chunk(engine: EngineUnderTest, prompt_tokens: int) -> None:
    """C38: a lookup per chunk would cap hits at the chunk, or find the prompt's own chunks."""
    first, second = engine(AMPLE, repeated(prompt_tokens)).jobs
    assert (first.cached_tokens, second.cached_tokens) == (0, prompt_tokens - 16)


@pytest.mark.parametrize(
    ("budget", "steps", "gap_ms", "ttft_ms"),
    [
        (8192, 9, 419.65, 3367.7),
        (4096, 17, 214.85, 3448.5),
        (2048, 33, 112.45, 3610.1),
        (1024, 65, 61.25, 3933.3),
    ],
)
def test_c39_decodes_slow_down_beside_a_long_prompt(
    engine: EngineUnderTest, budget: int, steps: int, gap_ms: float, ttft_ms: float
) -> None:
    """C39: a decode takes its token from the budget, and waits for the chunk beside it."""
    settings = Settings(T0, AMPLE_BLOCKS, max_num_batched_tokens=budget)
    boundary_s = (15.0 + 5 * 10.1) * MS  # the decoder has six tokens then

    def ends_s(output_tokens: int) -> tuple[float, float]:
        decoder = Call(0.0, 0, 100, output_tokens)
        prompt = Call(boundary_s - 1e-6, 1, 65_536, 1)
        jobs = engine(settings, unrelated(decoder, prompt)).jobs
        return jobs[0].end_s, jobs[1].first_token_s

    assert ends_s(7)[0] - boundary_s == ms(gap_ms)
    assert ends_s(8)[0] - ends_s(7)[0] == ms(gap_ms)
    decoder_end_s, first_token_s = ends_s(6 + steps)
    assert decoder_end_s == first_token_s == pytest.approx(boundary_s + ttft_ms * MS, abs=1e-4 * MS)


def test_c41_the_batch_cap_holds(engine: EngineUnderTest) -> None:
    """C41: the fifth request starts when the four are done, not one step early."""
    traffic = unrelated(*(Call(0.0, text, 100, 11) for text in range(5)))
    capped = Settings(T0, AMPLE_BLOCKS, max_num_seqs=4, max_num_batched_tokens=2048)
    jobs = engine(capped, traffic).jobs
    assert [job.end_s for job in jobs] == [ms(134.0)] * 4 + [ms(250.0)]
    assert jobs[4].first_token_s == ms(149.0)
    roomy = Settings(T0, AMPLE_BLOCKS, max_num_seqs=5, max_num_batched_tokens=2048)
    jobs = engine(roomy, traffic).jobs
    assert [(job.first_token_s, job.end_s) for job in jobs] == [(ms(35.0), ms(140.0))] * 5


def test_c42_an_output_of_one_token_ends_with_it(engine: EngineUnderTest) -> None:
    """C42: such a request has no gaps between tokens; a step of its own would invent one."""
    jobs = engine(AMPLE, unrelated(*(Call(0.0, text, 100, 1) for text in range(3)))).jobs
    assert [(job.end_s, job.emitted_tokens) for job in jobs] == [(ms(25.0), 1)] * 3
    assert [job.first_token_s for job in jobs] == [job.end_s for job in jobs]


C79_TRAFFIC = unrelated(Call(0.0, 0, 64, 33), Call(0.001, 1, 112, 1))


@pytest.mark.parametrize(
    ("whole", "first_end_ms", "second_ms", "prefilled", "preemptions", "steps"),
    [(True, 336.4, 362.0, 176, 0, 35), (False, 339.55, 352.75, 191, 1, 34)],
)
def test_c79_whole_prompt_or_first_chunk(
    engine: EngineUnderTest,
    whole: bool,
    first_end_ms: float,
    second_ms: float,
    prefilled: int,
    preemptions: int,
    steps: int,
) -> None:
    """C79: the gate decides whether R2 waits outside or enters and throws itself out."""
    settings = Settings(T0, kv_blocks=10, max_num_batched_tokens=64, reserve_full_prompt=whole)
    seen = engine(settings, C79_TRAFFIC, polls_s=(1.0,))
    first, second = seen.jobs
    assert (first.end_s, second.first_token_s) == (ms(first_end_ms), ms(second_ms))
    assert (first.preemptions, second.preemptions) == (0, preemptions)
    tokens = [job.computed_tokens + job.recomputed_tokens for job in (first, second)]
    assert sum(tokens) == seen.totals[0].prefill_tokens == prefilled
    assert second.cached_tokens == 0
    # One step more or less would hide in the times of another rule.
    assert seen.totals[0].steps == steps


def test_c80_a_poll_sees_what_the_last_step_published(engine: EngineUnderTest) -> None:
    """C80: a gauge that knows an arrival before the scheduler does moves sessions for nothing."""
    settings = Settings(T0, AMPLE_BLOCKS, max_num_batched_tokens=2048)
    traffic = unrelated(Call(0.0, 0, 20_480, 1), Call(0.050, 1, 100, 1))
    polls_s = (0.051, 0.2247, 0.2249, 0.700, 1.1241, 1.1389, 1.1391, 5.0)
    seen = engine(settings, traffic, polls_s)
    assert [poll.waiting for poll in seen.polls] == [0, 0, 1, 1, 1, 1, 0, 0]
    assert [job.first_token_s for job in seen.jobs] == [ms(1124.0), ms(1139.0)]


def test_c78_clients_that_leave_free_what_they_hold(engine: EngineUnderTest) -> None:
    """C78: an engine that finishes dead work, or never frees it, delays everybody after it."""
    settings = Settings(T0, AMPLE_BLOCKS, max_num_seqs=2)
    leaving = [Call(0.0, text, 1000, 1000, cancel_s=5.0) for text in range(10)]
    traffic = unrelated(*leaving, Call(6.0, 10, 1000, 1))
    seen = engine(settings, traffic, polls_s=(5.0059, 5.0061, 5.9))
    assert [job.status for job in seen.jobs] == ["cancelled"] * 10 + ["completed"]
    assert [job.end_s for job in seen.jobs[:10]] == [5.0] * 10
    assert [job.emitted_tokens for job in seen.jobs[:10]] == [480, 480] + [0] * 8
    assert [job.scheduled_s for job in seen.jobs[:10]] == [0.0, 0.0] + [None] * 8
    assert seen.polls[0].running == 2
    for poll in seen.polls[1:]:
        assert (poll.running, poll.waiting, poll.kv_usage) == (0, 0, 0.0)
    assert seen.jobs[10].first_token_s == ms(6060.0)
