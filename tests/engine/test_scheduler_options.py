"""vLLM's scheduler options, each on one small pod and worked out by hand."""

from dataclasses import replace

import pytest

import sim
from tests.engine.harness import AMPLE_BLOCKS, T0, Call, EngineUnderTest, unrelated
from tests.oracle import Settings, StepTime

AMPLE = Settings(T0, AMPLE_BLOCKS)
TEN_MS = Settings(StepTime(a=10.0), AMPLE_BLOCKS)


def ms(milliseconds: float) -> object:
    return pytest.approx(milliseconds / 1e3, rel=1e-9)


# longPrefillTokenThreshold


def test_a_long_prompt_leaves_budget_to_the_next(engine: EngineUnderTest) -> None:
    """Chunks of 100 of the first; without the limit the second waits until the first is done."""
    limited = replace(AMPLE, max_num_batched_tokens=200, long_prefill_token_threshold=100)
    traffic = unrelated(Call(0.0, 0, 300, 1), Call(0.0, 1, 100, 1))
    first, second = engine(limited, traffic).jobs
    assert (second.scheduled_s, second.first_token_s) == (0.0, ms(20.0))
    # Alone from there on, so the limit is off: what is left of it goes into one step.
    assert first.first_token_s == ms(20.0 + 20.0)
    free = replace(limited, long_prefill_token_threshold=0)
    assert engine(free, traffic).jobs[1].scheduled_s == ms(20.0)


def test_a_single_request_computes_as_much_as_the_budget_allows(engine: EngineUnderTest) -> None:
    """The limit is for the sake of others: alone it would only add steps."""
    limited = replace(AMPLE, long_prefill_token_threshold=100)
    (job,) = engine(limited, unrelated(Call(0.0, 0, 1000, 1))).jobs
    assert job.first_token_s == ms(60.0)


def test_a_short_prompt_behind_long_ones_decodes_beside_them(engine: EngineUnderTest) -> None:
    """Two prompts go in chunks of 50; the third, admitted behind them, takes one token of each
    further step. Were their chunks as long as the budget, it would be admitted when they are done.
    """
    settings = replace(AMPLE, max_num_batched_tokens=102, long_prefill_token_threshold=50)
    traffic = unrelated(Call(0.0, 0, 152, 1), Call(0.0, 1, 152, 1), Call(0.0, 2, 2, 4))
    jobs = engine(settings, traffic).jobs
    assert jobs[2].first_token_s == ms(15.1)
    assert [job.end_s for job in jobs] == [ms(3 * 15.1 + 10.3)] * 3


# watermark


@pytest.mark.parametrize(("watermark", "together"), [(0.2, True), (0.29, True), (0.3, False)])
def test_the_watermark_stays_free_beside_what_runs(
    engine: EngineUnderTest, watermark: float, together: bool
) -> None:
    """10 blocks, 5 taken by the first; 3 for the second leave 2, which a watermark of 3 forbids
    (of 2.9, rounded down to whole blocks, it does not).
    An idle pod admits whatever fits, else nobody could ever have all its blocks."""
    settings = Settings(T0, kv_blocks=10, watermark=watermark)
    traffic = unrelated(Call(0.0, 0, 80, 2), Call(0.0, 1, 48, 1), Call(1.0, 2, 160, 1))
    first, second, third = engine(settings, traffic).jobs
    assert second.scheduled_s == (0.0 if together else ms(14.0 + 10.1))
    assert first.end_s == ms(16.4 + 10.1 if together else 14.0 + 10.1)
    assert third.scheduled_s == 1.0


# maxNumQueuedReqs, maxNumQueuedTokens


def test_refused_are_those_beyond_the_limit_at_their_arrival(engine: EngineUnderTest) -> None:
    """A place is free as soon as a client is served or away, though its blocks are not."""
    settings = replace(TEN_MS, max_num_seqs=1, max_num_queued_reqs=2)
    traffic = unrelated(
        Call(0.0, 0, 1, 2),
        Call(0.001, 1, 1, 1, cancel_s=0.004),
        Call(0.002, 2, 1, 1),
        Call(0.005, 3, 1, 1),
        Call(0.019, 4, 1, 1),
        Call(0.020, 5, 1, 1),
    )
    jobs = engine(settings, traffic).jobs
    refused = [(job.status, job.http_status, job.end_reason, job.end_s) for job in jobs]
    assert [refused[index] for index in (2, 4)] == [
        ("rejected", 503, "queue_full", 0.002),
        ("rejected", 503, "queue_full", 0.019),
    ]
    assert [job.status for job in jobs] == [
        "completed", "cancelled", "rejected", "completed", "rejected", "completed"
    ]  # fmt: skip


def test_prompts_in_prefill_are_counted_whole(engine: EngineUnderTest) -> None:
    """The limit is on what was there before: one more may come while it is not reached. Prompts
    count in full until their first token, however much is computed already."""
    settings = replace(TEN_MS, max_num_batched_tokens=60, max_num_queued_tokens=100)
    traffic = unrelated(
        Call(0.0, 0, 99, 5),
        Call(0.0, 1, 500, 1),
        Call(0.001, 2, 1, 1),
        Call(0.015, 3, 1, 1),
        Call(0.105, 4, 1, 1),
        Call(0.115, 5, 1, 1),
    )
    jobs = engine(settings, traffic).jobs
    assert [job.http_status for job in jobs] == [200, 200, 503, 503, 503, 200]
    assert jobs[1].first_token_s == ms(110.0)


def test_a_prompt_that_is_too_long_is_told_so_first(engine: EngineUnderTest) -> None:
    """Its client may not hope for better luck later, which 503 would promise."""
    settings = replace(TEN_MS, max_model_len=10, max_num_queued_reqs=1)
    jobs = engine(settings, unrelated(Call(0.0, 0, 1, 1), Call(0.0, 1, 11, 1))).jobs
    assert [job.http_status for job in jobs] == [200, 400]


# schedulingPolicy


def test_the_urgent_go_first_and_equals_in_turn(engine: EngineUnderTest) -> None:
    """Lower numbers are more urgent; nobody who runs is thrown out for a place in the batch."""
    settings = replace(TEN_MS, max_num_seqs=1, scheduling_policy="priority")
    priorities = (5, 1, 0, 1, -1)
    traffic = unrelated(
        *(
            Call(index / 1e6, index, 1, 1, priority=priority)
            for index, priority in enumerate(priorities)
        )
    )
    starts_s = [job.scheduled_s for job in engine(settings, traffic).jobs]
    assert starts_s == [0.0, ms(30), ms(20), ms(40), ms(10)]
    in_turn = replace(settings, scheduling_policy="fcfs")
    starts_s = [job.scheduled_s for job in engine(in_turn, traffic).jobs]
    assert starts_s == [0.0, ms(10), ms(20), ms(30), ms(40)]


@pytest.mark.parametrize(("policy", "preempted"), [("fcfs", [0, 0, 1]), ("priority", [1, 0, 0])])
def test_the_least_urgent_is_preempted(
    engine: EngineUnderTest, policy: str, preempted: list[int]
) -> None:
    """A, B and C of two blocks each; the first to need a third is B, whose prompt is longer.
    By priority A goes, though it came first."""
    settings = Settings(T0, 6, block_size=4, scheduling_policy=policy)
    traffic = unrelated(
        Call(0.0, 0, 5, 3, priority=2), Call(0.0, 1, 8, 2, priority=0), Call(0.0, 2, 5, 3)
    )
    seen = engine(settings, traffic, polls_s=(0.0211,))
    assert [job.preemptions for job in seen.jobs] == preempted
    # 18 prompt tokens, then a step of two decodes.
    assert seen.jobs[1].end_s == ms(10.9 + 10.2)
    assert (seen.polls[0].waiting, seen.polls[0].running) == (1, 1)
    # Who was preempted computes prompt and one token again beside the other's last decode.
    thrown_out = preempted.index(1)
    assert seen.jobs[thrown_out].recomputed_tokens in (2, 6)
    assert seen.jobs[thrown_out].emitted_tokens == 3


def test_who_was_served_and_is_preempted_leaves_its_block_to_others(
    engine: EngineUnderTest,
) -> None:
    """A, B and C need their second blocks at once, and one is free. A has it first; B throws A
    out, which leaves one for C as well: were A's still promised, C would go too."""
    settings = Settings(T0, 4, block_size=4, scheduling_policy="priority")
    traffic = unrelated(
        Call(0.0, 0, 3, 3, priority=2),
        Call(0.005, 1, 4, 2, priority=0),
        Call(0.005, 2, 4, 2, priority=1),
    )
    a, b, c = engine(settings, traffic).jobs
    assert (a.preemptions, b.preemptions, c.preemptions) == (1, 0, 0)
    assert b.end_s == c.end_s == ms(10.15 + 10.5 + 10.2)
    assert (a.end_s, a.recomputed_tokens) == (ms(30.85 + 10.25), 5)


def test_who_was_served_and_is_preempted_leaves_its_token_to_others(
    engine: EngineUnderTest,
) -> None:
    """B throws A out of a step of 8 tokens in which A had one: C's chunk is of 7, not of 6."""
    settings = Settings(
        *(T0, 6),
        block_size=4,
        max_num_batched_tokens=8,
        reserve_full_prompt=False,
        scheduling_policy="priority",
    )
    traffic = unrelated(
        Call(0.0, 0, 11, 9, priority=2),
        Call(0.015, 1, 4, 2, priority=0),
        Call(0.015, 2, 20, 1, priority=1),
    )
    a, b, c = engine(settings, traffic).jobs
    assert (a.preemptions, b.preemptions, c.preemptions) == (1, 0, 0)
    assert b.first_token_s == ms(10.4 + 10.15 + 10.45)
    assert b.end_s == ms(31.0 + 10.45)
    assert c.first_token_s == ms(41.45 + 10.4 + 10.1)


def test_who_preempts_itself_ends_the_pass(engine: EngineUnderTest) -> None:
    """A needs a block and is the least urgent itself: B behind it gets nothing in that step,
    which is empty and takes no time; the next one serves B, and A when there is room again."""
    settings = Settings(StepTime(a=10.0), 4, block_size=4, scheduling_policy="priority")
    traffic = unrelated(Call(0.0, 0, 8, 2, priority=1), Call(0.0, 1, 6, 3, priority=0))
    seen = engine(settings, traffic)
    a, b = seen.jobs
    assert (a.preemptions, b.preemptions) == (1, 0)
    assert b.end_s == ms(30.0)
    assert a.end_s == ms(40.0)


def test_who_is_refused_and_back_at_once_is_refused_again(engine: EngineUnderTest) -> None:
    """Clients leave after all arrivals of an instant: place that one makes by leaving at 12 ms
    is none for who arrives then, for the first time or, being refused, for the second."""
    settings = replace(TEN_MS, max_num_queued_reqs=1)
    held = Call(0.0, 0, 10, 5, cancel_s=0.012)
    again = Call(0.012, 1, 10, 1)
    seen = engine(
        settings, unrelated(held, again), (), lambda number, _: again if number == 1 else None
    )
    assert [job.status for job in seen.jobs] == ["cancelled", "rejected", "rejected"]


@pytest.mark.parametrize(
    ("limit", "ends_s"),
    [
        ({"maxNumQueuedReqs": 1}, [6.0, 1.5, 2.0, 12.0]),
        ({"maxNumQueuedTokens": 1}, [6.0, 1.5, 2.0, 12.0]),
        ({}, [6.0, 11.0, 16.0, 21.0]),
    ],
)
def test_a_full_server_does_not_tokenise_first(limit: dict[str, int], ends_s: list[float]) -> None:
    """vllm-project/vllm#58192: who comes to a full server would hear of it after its prompt has
    been read; who comes while another one is being read does, since nobody counts until then."""
    engine = {"stepTime": {"a": 5000}, "kvBlocks": 100, "maxNumSeqs": 1, "maxNumBatchedTokens": 10}
    rows = [{"arrival": at_s, "promptTokens": 10, "outputTokens": 1} for at_s in (0, 0.5, 2, 6)]
    scenario = {
        "name": "full",
        "engines": {"e": {**engine, **limit, "frontEnd": {"perRequest": "1s"}}},
        "backends": {"m": {"engine": "e"}},
        "router": {"rules": [{"name": "m", "backends": ["m"]}]},
        "workloads": {"w": {"kind": "script", "rows": rows}},
    }
    result = sim.run(scenario, check=True).runs[0]
    assert list(result.requests["end_s"]) == ends_s
    assert list(result.failed_attempts["error"]) == ["queue_full"] * (2 if limit else 0)
