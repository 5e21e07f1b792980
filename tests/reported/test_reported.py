"""Public reports by people who operate or simulate such fleets, retold as scenarios.

Each scenario beside this file begins with where it was reported and how the right values follow
from a source, from a measurement or by hand. None of them comes from podsim.
"""

from pathlib import Path
from typing import Any

import pytest

import sim
from sim.execution.runner import Runs
from tests.command import podsim

HERE = Path(__file__).parent


def ran(name: str, **options: Any) -> Runs:
    """The runs of a scenario of this folder, with every invariant checked."""
    return sim.run(HERE / f"{name}.yaml", check=True, **options)


def row(runs: Runs, who: str | int, variant: str = "") -> Any:
    """The request ``who`` of a script, or the one at that index, as a row of the table."""
    table = runs.requests[runs.requests.variant == variant]
    mine = (
        table.iloc[[who]]
        if isinstance(who, int)
        else table[table.session_id.str.endswith(f"/{who}")]
    )
    assert len(mine) == 1
    return mine.iloc[0]


def values(runs: Runs, who: str | int, *names: str, variant: str = "") -> tuple[Any, ...]:
    """Some columns of such a row; times to the nanosecond."""
    found = row(runs, who, variant)
    return tuple(round(found[name], 9) if name.endswith("_s") else found[name] for name in names)


def summary(runs: Runs, variant: str = "") -> dict[str, Any]:
    """The summary of the first run of a variant."""
    return next(run.summary for run in runs.runs if run.variant == variant)


def said(name: str, *arguments: str, verb: str = "run", code: int = 0) -> str:
    """What podsim prints of a scenario, on one line."""
    storing = ["--no-store"] if verb == "run" else []
    result = podsim(verb, HERE / f"{name}.yaml", *arguments, *storing)
    assert result.exit_code == code
    return " ".join(result.output.split())


def test_an_urgent_request_waits_for_a_place() -> None:
    """vllm-project/vllm#40004: with all places taken the urgent request is only first in the
    queue; it displaces nobody. low-1 leaves at 2.0 s, the urgent one is next and ends at 3.0 s."""
    runs = ran("priority-waits-for-a-slot")
    assert values(runs, "high", "first_token_s", "end_s", "preemptions") == (2.1, 3.0, 0)
    assert values(runs, "low-3", "first_token_s", "end_s") == (3.1, 4.0)
    assert values(runs, "low-2", "end_s", "preemptions") == (3.0, 0)


def test_a_threshold_lets_short_prompts_past_a_long_one() -> None:
    """noonghunna/club-3090#712: 18 s behind a prompt of 60,000 tokens without
    long_prefill_token_threshold, 1.4 s with it (vllm#57951 leaves the first step uncapped)."""
    runs = ran("long-prefill-threshold")
    assert values(runs, "short", "first_token_s", variant="none") == (18.045,)
    assert values(runs, "short", "first_token_s", variant="threshold-2048") == (1.8752,)


def test_weights_and_cache_of_a_70b_on_one_card() -> None:
    """vllm-project/vllm#12569: vLLM logged 67.72 GiB of weights and 22,096 tokens of KV cache."""
    shown = said("kv-of-llama-70b-w8a8", verb="validate")
    assert "67.7 GiB of weights" in shown
    tokens = int(shown.split(" KV tokens per pod")[0].split()[-1].replace(",", ""))
    assert tokens == pytest.approx(22_096, rel=0.15)


def test_weights_beyond_the_card_are_refused() -> None:
    """inference-sim/inference-sim#1160: a simulator went on with a million blocks of KV cache."""
    assert "does not fit" in said("weights-do-not-fit", code=2)


def test_a_context_beyond_the_cache_is_warned_of() -> None:
    """vllm-project/vllm#2418 and many more: 29,000 tokens of max_model_len on 23,648 of KV cache,
    with which vLLM does not start."""
    for verb in ("validate", "run"):
        warned = said("context-longer-than-the-cache", verb=verb)
        assert "warning" in warned
        assert "29,000" in warned
        assert "23,648" in warned


def test_given_blocks_win_over_derived_ones() -> None:
    """inference-sim/inference-sim#286: TTFT falls with the length of a shared prefix, and a given
    number of blocks is not replaced by the one that model and GPU give."""
    runs = ran("given-blocks-win-over-derived")
    assert values(runs, "p64", "cached_tokens", "first_token_s", variant="given-200") == (
        64,
        2.01908,
    )
    assert values(runs, "p512", "cached_tokens", "first_token_s", variant="given-200") == (
        512,
        4.01012,
    )
    assert values(runs, "p512-late", "cached_tokens", variant="given-200") == (192,)
    assert values(runs, "p512-late", "cached_tokens", variant="derived") == (512,)


def test_hits_of_a_chunked_prompt_count_once() -> None:
    """casys-kaist/LLMServingSim#49: each chunk of a prefill counted the prefix hit again."""
    runs = ran("hits-counted-once")
    assert values(runs, "second", "cached_tokens", "first_token_s") == (1024, 10.09072)
    assert summary(runs)["prompt_cache_hit_ratio"] == 0.125


@pytest.mark.parametrize("retention", ["every-block", "prompt-tail"])
def test_only_whole_blocks_of_528_tokens_are_found(retention: str) -> None:
    """vllm-project/vllm#40696: of equal prompts of 480, 552 and 979 tokens 0, 95 and 54 % are
    found."""
    runs = ran("hybrid-block-528", variants=retention)
    found = [
        values(runs, f"{name}-again", "cached_tokens", variant=retention)[0]
        for name in ("a480", "b552", "c979")
    ]
    assert found == [0, 528, 528]


def test_a_small_max_num_seqs_saturates() -> None:
    """vllm-project/vllm#17598: at one request rate streams get slower from 16 to 32 places; the
    smaller limits keep requests waiting, and the run says that it is saturated."""
    runs = ran("tpot-grows-with-max-num-seqs", variants=("seqs-16", "seqs-24", "seqs-32"))
    speeds = [summary(runs, f"seqs-{n}")["stream_tokens_per_s"]["p50"] for n in (16, 24, 32)]
    assert speeds == sorted(speeds, reverse=True)
    assert len(set(speeds)) == 3
    assert any("the run ends saturated" in warning for warning in runs.runs[0].warnings)


def test_a_load_factor_is_two_coefficients() -> None:
    """llm-d/llm-d-inference-sim#157: time between tokens grows in a straight line from 100 ms
    alone to three times that with all 25 places taken."""
    runs = ran("load-factor")
    for variant, end_s in {
        "one": 1.091666667,
        "thirteen": 1.991666667,
        "full": 2.891666667,
    }.items():
        assert values(runs, 0, "end_s", variant=variant) == (end_s,)


def test_the_first_sleep_of_level_1_is_the_long_one() -> None:
    """vllm-project/vllm#48337: level 1 slept in 10.6 s, since it allocates pinned host memory, and
    woke in 2.2 s; level 2 in 0.3 and 6.5 s, so that level 2 was quicker in all."""
    runs = ran("sleep-levels", variants=("sleep-1", "sleep-2"))
    first, second = (values(runs, "two", "hold_s", variant=f"sleep-{n}")[0] for n in (1, 2))
    assert first == pytest.approx(12.76, rel=0.4)
    assert second == pytest.approx(6.84, rel=0.4)
    assert second < first


def test_littles_law_says_how_many_are_in_flight() -> None:
    """vllm-project/guidellm#272: half a request a second of 28 s each are 14 in flight, not 30."""
    found = summary(ran("littles-law"))
    assert found["requests_censored"] == 14
    assert found["completed_requests_per_s"] == pytest.approx(0.5, rel=0.01)


def test_ten_prefixes_on_four_pods() -> None:
    """vllm-project/aibrix#842: what policies without an eye for prefixes find, by counting who is
    cold; and a ring that gets no session key has to say so, or its column passes for one."""
    runs = ran("ten-prefixes-four-pods")
    found = {run.variant: run.summary["prompt_cache_hit_ratio"] for run in runs.runs}
    assert found["random"] == pytest.approx(560 * 8000 / (600 * 8500))
    assert found["round-robin"] == pytest.approx(580 * 8000 / (600 * 8500))
    warned = {
        run.variant: [each for each in run.warnings if "session key" in each] for run in runs.runs
    }
    assert [bool(warned[variant]) for variant in found] == [
        variant == "consistent-hash" for variant in found
    ]


def test_a_ttl_counts_from_the_end_of_an_answer() -> None:
    """mostlygeek/llama-swap#25: counted from its beginning, a long answer's model was unloaded
    under the next question."""
    runs = ran("ttl-counts-from-the-end")
    assert values(runs, "story", "end_s") == (35.0,)
    assert values(runs, "follow-up", "hold_s", "end_s") == (0.0, 45.0)
    assert values(runs, "late", "hold_s") == (20.0,)


def test_a_limit_counts_those_who_wait_for_a_load() -> None:
    """mostlygeek/llama-swap#889: the eleventh is answered 429 when it comes, not a minute later
    when the model is ready."""
    runs = ran("limit-counts-those-who-wait")
    assert [row(runs, at).status for at in range(10)] == ["completed"] * 10
    for at in range(10, 15):
        assert values(runs, at, "http_status", "end_s", "hold_s") == (429, float(at), 0.0)


def test_the_eleventh_in_flight_is_refused() -> None:
    """mostlygeek/llama-swap#263: without a setting a loaded model serves ten at a time."""
    runs = ran("limit-of-ten")
    assert [row(runs, at).http_status for at in range(12)] == [200] * 10 + [429] * 2
    assert values(runs, 11, "end_s") == (0.011,)


def test_keep_alive_for_ever_is_still_evicted() -> None:
    """ollama/ollama#4681: keep_alive -1 does not protect a model when another needs its room."""
    runs = ran("keep-alive-forever-is-still-evicted")
    holds = {who: values(runs, who, "hold_s")[0] for who in ("c1", "a2", "b1", "c2", "a3")}
    assert holds == {"c1": 10.0, "a2": 0.0, "b1": 10.0, "c2": 0.0, "a3": 10.0}


def test_what_never_fits_is_refused_before_the_run() -> None:
    """ollama/ollama#18282: a model larger than the memory is evicted and loaded for ever."""
    assert "more than the memory of the pool" in said("never-fits", code=2)


def test_beside_others_a_model_takes_four_fifths_of_the_room() -> None:
    """ollama/ollama#18282: 9 GiB in 10 GiB of free memory unload the other model; 7.9 do not."""
    runs = ran("fits-beside-only-below-80-percent")
    assert values(runs, "a2", "hold_s", variant="nine") == (10.0,)
    assert values(runs, "b1", "hold_s", variant="nine") == (10.0,)
    assert values(runs, "a2", "hold_s", variant="eight") == (0.0,)


def test_one_at_a_time() -> None:
    """ollama/ollama#9054: three chats sent together to OLLAMA_NUM_PARALLEL=1 end one after the
    other."""
    runs = ran("one-at-a-time")
    alone = [values(runs, f"q{n}", "end_s", variant="num-parallel-1")[0] for n in (1, 2, 3)]
    assert alone == [6.67, 13.27, 17.59]
    assert values(runs, "q2", "end_s", variant="num-parallel-4") == (6.6,)


def test_another_num_ctx_loads_the_model_again() -> None:
    """ollama/ollama#18129: two context lengths in turn have a loaded model loaded each time."""
    assert values(ran("another-context-reloads"), "q2", "hold_s") == (6.0,)


def test_a_member_that_is_never_idle_is_waited_for_as_long_as_the_budget() -> None:
    """defilantech/LLMKube#1485: the request is held for the whole swapBudget and gets 503."""
    assert values(ran("idle-never-comes"), "b1", "hold_s", "http_status") == (300.0, 503)


def test_a_unified_context_fails_for_all_slots_at_once() -> None:
    """ggml-org/llama.cpp#23652: -c 1024 without -np is shared by four slots, and all answers are
    aborted when it is full; with -np 4 each has 256 and is cut off by length."""
    runs = ran("unified-exhausts-all")
    columns = ("http_status", "end_s", "output_tokens")
    assert values(runs, "q1", *columns, variant="np-omitted") == (500, 1.57, 157)
    assert values(runs, "q4", "http_status", variant="np-omitted") == (500,)
    assert values(runs, "q1", "http_status", "output_tokens", variant="np-4") == (200, 156)


def test_one_slot_keeps_the_last_prompt_only() -> None:
    """ggml-org/llama.cpp#10993: after another prompt the long one is computed anew, unless a
    second slot or the host cache has it."""
    runs = ran("only-the-last-prompt-is-kept")
    assert values(runs, "long-q2", "cached_tokens", variant="one-slot") == (3000,)
    found = [
        values(runs, "long-q3", "cached_tokens", variant=variant)[0]
        for variant in ("one-slot", "host-cache", "two-slots")
    ]
    assert found == [0, 3000, 3000]


def test_a_slot_of_a_unified_pool_has_a_limit_of_its_own() -> None:
    """ggml-org/llama.cpp#24124: 60,000 tokens are refused where a slot may have 50,000."""
    assert values(ran("kv-unified-per-slot"), "q1", "http_status") == (400,)


def test_clients_that_leave_make_a_server_look_quick() -> None:
    """vllm-project/vllm#28493: who times out leaves the conversation, the load falls, and the
    overloaded server has the better TTFT; the run has to say why."""
    runs = ran("clients-that-leave", variants=("leave", "wait-for-ever"))
    medians = [summary(runs, variant)["ttft_s"]["p50"] for variant in ("wait-for-ever", "leave")]
    assert medians[1] < medians[0] / 2
    warned = " ".join(next(run.warnings for run in runs.runs if run.variant == "leave"))
    assert "clients gave up on" in warned
    assert "sessions broken off" in said("clients-that-leave", "--variant", "leave")


def test_a_timeout_is_tried_again() -> None:
    """vectorize-io/hindsight#1567: tries at 1, 11 and 21 s; the third is served from 25 s on."""
    found = values(ran("timeouts-are-retried"), "q", "tries", "first_token_s", "end_s")
    assert found == (3, 25.1, 30.0)


def test_where_nothing_is_served_the_results_are_there_all_the_same() -> None:
    """inference-sim/inference-sim#926: with every request refused there were no results, or
    NaN in the JSON."""
    found = summary(ran("nothing-is-served"))
    assert found["requests_rejected"] == 100
    assert found["ttft_s"]["p95"] is None
    assert found["error_ratio"] == 1.0
    assert "prompt_too_long 100" in said("nothing-is-served")
    assert "NaN" not in said("nothing-is-served", "--json")


def test_what_a_pod_breaks_is_served_by_another_one() -> None:
    """vllm-project/production-stack#382: a router that tries another replica when one breaks
    before the first token; it has to be asked to, here as there."""
    runs = ran("retry-on-another-replica")
    assert values(runs, "q0", "http_status", "pod", variant="plain") == (502, "m-0")
    for variant in ("reroute", "named-twice"):
        assert values(runs, "q0", "http_status", "pod", variant=variant) == (200, "m-1")
    assert row(runs, "q0", "client-retries").tries == 2
