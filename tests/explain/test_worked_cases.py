"""Times to first token whose parts can be worked out by hand."""

from typing import Any

import pytest

from sim.explain.explanation import Explanation
from sim.explain.request_report import request_report
from tests.cluster.scenarios import T0, Row, ask, fleet, pooled
from tests.explain.runs import BINARY, PER_TOKEN_S, STEP_S, explain, parts
from tests.router.scenarios import site

ROUND_ROBIN = {"kind": "round-robin"}


def row(
    arrival_s: float, prompt_tokens: int, output_tokens: int = 1, **more: Any
) -> dict[str, Any]:
    return {
        "arrival": arrival_s,
        "promptTokens": prompt_tokens,
        "outputTokens": output_tokens,
        **more,
    }


def one_pod(*rows: Row, **engine: Any) -> Explanation:
    """Requests on one pod with binary step times."""
    settings = {"stepTime": BINARY, **engine}
    script = {"kind": "script", "rows": list(rows)}
    return explain(fleet(script, ROUND_ROBIN, replicas=1, **settings))


def test_a_lone_request_is_all_prefill_of_its_own() -> None:
    """The constant of a step would be blamed on somebody who is not there."""
    assert parts(one_pod(row(1.0, 512)), 0) == {"prefill_s": STEP_S + 0.5}


def test_c35_the_queue_is_told_from_the_prefill() -> None:
    """C35: eight requests for one place: 161 ms of queue for each one ahead, 60 ms of prefill."""
    explanation = one_pod(*[row(0.0, 1000, 11)] * 8, stepTime=T0, maxNumSeqs=1)
    assert parts(explanation, 0) == {"prefill_s": pytest.approx(0.060)}
    for request in range(1, 8):
        assert parts(explanation, request) == {
            "queue_places_s": pytest.approx(0.161 * request),
            "prefill_s": pytest.approx(0.060),
        }


def test_c36_every_chunk_is_prefill() -> None:
    """C36: two steps, 419.6 and 100.4 ms; the second would be lost, or counted as waiting."""
    explanation = one_pod(row(0.0, 10_000, 3), stepTime=T0, maxNumBatchedTokens=8192)
    assert parts(explanation, 0) == {"prefill_s": pytest.approx(0.520)}


def test_c37_tokens_of_others_in_a_step_are_others() -> None:
    """C37: 4 + 4 and 4 + 4 tokens of prompts of 4, 8 and 4: each step is 10 ms and 4 ms for one,
    4 ms for the other. The last one waits a step for tokens, not for a place."""
    explanation = one_pod(
        *(row(0.0, tokens) for tokens in (4, 8, 4)),
        stepTime={"a": 10, "b": 1000},
        maxNumBatchedTokens=8,
        maxNumSeqs=8,
    )
    ms = pytest.approx
    assert parts(explanation, 0) == {"prefill_s": ms(0.014), "other_prefills_s": ms(0.004)}
    assert parts(explanation, 1) == {"prefill_s": ms(0.028), "other_prefills_s": ms(0.008)}
    assert parts(explanation, 2) == {
        "queue_tokens_s": ms(0.018),
        "prefill_s": ms(0.014),
        "other_prefills_s": ms(0.004),
    }


def test_c38_a_hit_longer_than_a_chunk_leaves_one_block_to_compute() -> None:
    """C38: the second of two equal prompts has 16 tokens of its own; the story would not say so."""
    rows = [row(0.0, 16_384), row(60.0, 16_384)]
    shared = {"sharedPrefix": "all", "sharedTokens": 16_384}
    explanation = one_pod(*({**each, **shared} for each in rows), stepTime=BINARY)
    assert parts(explanation, 1) == {"prefill_s": STEP_S + 16 * PER_TOKEN_S}
    told = request_report(explanation, 1)
    assert told["cache"]["held_here_tokens"] == told["cached_tokens"] == 16_368


def test_two_prompts_in_one_step_share_it() -> None:
    """Without a constant each of two equal prompts costs half of the step."""
    explanation = one_pod(row(0.0, 512), row(0.0, 512), stepTime={"a": 0, "b": BINARY["b"], "f": 1})
    for request in (0, 1):
        assert parts(explanation, request) == {"prefill_s": 0.5, "other_prefills_s": 0.5}


def test_decodes_come_before_other_prompts() -> None:
    """The documented order: own tokens, then what decodes add, then other prompts. Request 0
    decodes (1/8 s each) while 1 and 2 are computed; they came in the middle of its first step."""
    times = {**BINARY, "f": 1e5 * STEP_S}
    explanation = one_pod(
        row(0.0, 128, 9), row(0.125, 256), row(0.125, 512), stepTime=times, maxNumSeqs=8
    )
    assert parts(explanation, 1) == {
        "step_in_flight_s": 0.125,
        "prefill_s": STEP_S + 0.25,
        "decodes_s": STEP_S,
        "other_prefills_s": 0.5,
    }
    assert parts(explanation, 2)["other_prefills_s"] == 0.25


def test_no_share_is_told_from_interference() -> None:
    """Two slots of llama-server, a batch of 64: the prompt in the first slot, which the second
    request got, takes all of it. The other one has a slot as well, and nothing computes for it."""
    engine = {
        "kind": "llamacpp",
        "parallel": 2,
        "ctxSize": 4096,
        "batchSize": 64,
        "cacheRam": 0,
        "stepTime": BINARY,
    }
    scenario = fleet({"kind": "script", "rows": [row(0.0, 128), row(0.0, 64)]}, ROUND_ROBIN, 1)
    scenario["engines"]["e"] = engine
    explanation = explain(scenario)
    step_s = STEP_S + 64 * PER_TOKEN_S
    assert parts(explanation, 1) == {"prefill_s": step_s}
    assert parts(explanation, 0) == {"no_share_s": step_s, "prefill_s": 2 * step_s}


def test_the_queue_for_kv_is_told_from_the_queue_for_places() -> None:
    """Whoever reads that places are short would raise maxNumSeqs, which would not help."""
    explanation = one_pod(row(0.0, 100, 4), row(0.0, 100), kvBlocks=8)
    assert parts(explanation, 1) == {
        "queue_kv_s": STEP_S + 100 * PER_TOKEN_S + 3 * STEP_S,
        "prefill_s": STEP_S + 100 * PER_TOKEN_S,
    }


def test_async_scheduling_costs_a_step_that_was_planned_before() -> None:
    """An arrival waits for the step in flight and for the one behind it, as vLLM's does."""
    explanation = one_pod(row(0.0, 128, 9), row(0.3125, 256), asyncScheduling=True)
    assert parts(explanation, 0) == {"prefill_s": 0.25}
    assert parts(explanation, 1) == {
        "step_in_flight_s": 0.0625,
        "planned_ahead_s": STEP_S,
        "prefill_s": STEP_S + 0.25,
    }


def test_the_front_end_is_not_the_queue() -> None:
    """A busy API server would look like a busy GPU."""
    front_end = {"perRequest": 0.5, "perPromptToken": 0.0009765625}
    explanation = one_pod(row(0.0, 256), frontEnd=front_end)
    assert parts(explanation, 0) == {"front_end_s": 0.75, "prefill_s": STEP_S + 0.25}


def test_preempted_work_is_not_prefill() -> None:
    """The urgent request takes the blocks of the other one in its second chunk, which starts
    over: the second request's time before that would count as its prefill."""
    explanation = one_pod(
        row(0.0, 96, 40, priority=0),
        row(0.0, 128, priority=1),
        kvBlocks=14,
        maxNumBatchedTokens=100,
        reserveFullPrompt=False,
        schedulingPolicy="priority",
        enablePrefixCaching=False,
    )
    (told,) = [request_report(explanation, 1)]
    assert told["preemptions"] > 0
    assert parts(explanation, 1)["preempted_s"] > 0.0
    assert parts(explanation, 1)["prefill_s"] == pytest.approx(2 * STEP_S + 128 * PER_TOKEN_S)


def test_a_swap_is_held_time_and_its_phases_are_told() -> None:
    """A request that waited for a swap of 2 s would seem to have waited for its pod."""
    explanation = explain(pooled({"a": 2}, ask("a", 1.0), engine={"stepTime": BINARY}))
    assert parts(explanation, 0) == {"hold_s": 2.0, "prefill_s": STEP_S + PER_TOKEN_S}
    ((hold,), (decision,)) = (request_report(explanation, 0)[key] for key in ("holds", "decisions"))
    assert [(swap["member"], swap["load_s"]) for swap in hold["swaps"]] == [("a", 2.0)]
    assert decision["dispatch_s"] == 3.0


def test_tries_and_waits_between_them_are_not_the_pool() -> None:
    """The user waited 4 s for an answer of 503 and 6 s until the second try; the pool that held
    that one for a swap of 2 s would be blamed for all of it."""
    retry = {"max": 5, "backoff": {"initial": 6, "factor": 1, "max": 6}}
    scenario = pooled(
        {"a": 2, "b": 2},
        ask("b", 0.0, 8),
        ask("a", 0.0),
        workloads={},
        swapBudget=4,
        initial="b",
    )
    scenario["workloads"]["w"]["retry"] = {**retry, "honourRetryAfter": False}
    explanation = explain(scenario)
    assert parts(explanation, 1) == {
        "earlier_tries_s": 4.0,
        "backoff_s": 6.0,
        "hold_s": 2.0,
        "prefill_s": 1.0,
    }
    (retry,) = request_report(explanation, 1)["retries"]
    assert (retry["http_status"], retry["end_s"]) == (503, 4.0)


def test_a_backend_that_failed_is_told_from_the_one_that_served() -> None:
    """The time at a backend that gave no first token in time would count for the next one."""
    scenario = site(
        "slow", "good", rows=[{"arrival": 1.0}], settings={"slow": {"timeout": "100ms"}}
    )
    explanation = explain(scenario)
    assert parts(explanation, 0) == {"failed_backends_s": pytest.approx(0.1), "prefill_s": STEP_S}
    told = request_report(explanation, 0)
    assert [each["error"] for each in told["failed_attempts"]] == ["timeout"]
    assert [each["backend"] for each in told["decisions"]] == ["slow", "good"]


def test_a_spill_shows_where_the_cache_was() -> None:
    """The ring sends the second turn elsewhere, because its home is busy: the reader would not
    see that the home had the conversation, nor how busy it was."""
    sessions = [f"session {at}" for at in range(8)]
    policy = {"kind": "bounded-ring", "maxLoadPercent": 100}
    alone = [row(10.0 * at, 16, session=name) for at, name in enumerate(sessions)]
    homes = explain(fleet({"kind": "script", "rows": alone}, policy, stepTime=BINARY))
    at_b_0 = [each for at, each in enumerate(sessions) if request_report(homes, at)["pod"] == "b-0"]
    own, neighbour, *_ = at_b_0
    rows = [
        row(0.0, 1024, 17, session=own),
        row(19.0, 16, 400, session=neighbour),
        row(20.0, 1100, session=own),
    ]
    scenario = fleet({"kind": "script", "rows": rows}, policy, stepTime=BINARY)
    explanation = explain(scenario)
    home, told = request_report(explanation, 0)["pod"], request_report(explanation, 2)
    (decision,) = told["decisions"]
    assert (decision["outcome"], decision["home"], decision["bound"]) == ("spill", home, 1)
    seen = {pod["pod"]: (pod["in_flight"], pod["held_tokens"]) for pod in decision["pods"]}
    assert seen == {home: (1, 1040), told["pod"]: (0, 0)}
    assert told["cache"]["best_pod"] == home
    assert told["cache"]["missed_tokens"] == 1040
    prefill_s = STEP_S + 1100 * PER_TOKEN_S
    assert parts(explanation, 2) == {"prefill_s": prefill_s}
    assert told["cache"]["missed_s"] == pytest.approx(prefill_s * 1040 / 1100)
    said = f"to {told['pod']} by bounded-ring: spill (bound): its home {home} had 1 in flight, "
    assert decision["in_words"] == f"{said}the bound was 1"


def test_a_session_table_says_what_it_saw() -> None:
    """A session leaves a pod with requests waiting: how many, and how old that knowledge was.
    Both pods have six of the others, two running and four waiting; a session of b-0 came back."""
    rows = [row(at, 64, 2, session=name) for at, name in ((0.0, "s"), (5.0, "back"))]
    rows += [row(10.0 + at / 64, 64, 200, session=f"other {at}") for at in range(12)]
    rows += [row(15.25, 128, session="back"), row(15.5, 128, session="s")]
    scenario = fleet(
        {"kind": "script", "rows": rows},
        {"kind": "session-table", "waitingGap": 1, "ties": "first-index"},
        stepTime=BINARY,
        maxNumSeqs=2,
    )
    told = request_report(explain(scenario), 15)
    (decision,) = told["decisions"]
    assert told["turn_before"]["pod"] == "b-0"
    assert decision["in_words"] == (
        "to b-1 by session-table: spill (waiting): b-0 had 7 in flight and 4 waiting "
        "(polled 0.5 s before); b-1 had 6 in flight"
    )


def test_what_has_no_first_token_is_explained_as_far_as_it_came() -> None:
    """A request in the queue when the run ends, one that is computed, one that is held: silence
    about them would leave out exactly the worst."""
    window = {"measure": "10s"}
    rows = [row(0.0, 64, 999), row(1.0, 64)]
    workload = {"kind": "script", "rows": rows}
    queued = explain(fleet(workload, ROUND_ROBIN, 1, window=window, stepTime=BINARY, maxNumSeqs=1))
    assert queued.breakdown.states == ("served", "in the queue of its pod")
    assert parts(queued, 1)["queue_unsplit_s"] > 8.5
    held = explain(pooled({"a": 30}, ask("a", 1.0), window=window))
    assert held.breakdown.states == ("in the proxy",)
    assert parts(held, 0) == {"hold_s": 9.0}
    computed = explain(
        fleet(
            {"kind": "script", "rows": [row(1.0, 64)]}, ROUND_ROBIN, 1, window, stepTime={"a": 1e5}
        )
    )
    assert computed.breakdown.states == ("in prefill",)
    assert parts(computed, 0) == {"service_unsplit_s": 9.0}
