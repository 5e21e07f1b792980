"""Worked cases of public reports in whole runs: what a report of podsim says about them."""

from typing import Any

import pytest

import sim
from sim.results.tables import PODS, REQUESTS
from tests.cluster.scenarios import fleet


def one_pod(rows: list[dict[str, Any]], **engine: Any) -> sim.RunResult:
    """Requests at the start of the run, on a pod with the step time of the worked cases."""
    script = {"kind": "script", "rows": [{"arrival": 0.0} | row for row in rows]}
    scenario = fleet(script, {"kind": "round-robin"}, replicas=1, **engine)
    return sim.run(scenario, check=True).runs[0]


@pytest.mark.parametrize("shared_tokens", [240, 0])
def test_c22_a_prefix_shorter_than_a_block_is_told_from_none(shared_tokens: int) -> None:
    """C22: 240 of 5,000 tokens are equal, blocks have 784. Both hit rates are 0; whoever reads
    that nothing is shared would look for the fault in the workload."""
    row = {"promptTokens": 5000, "outputTokens": 1}
    if shared_tokens:
        row |= {"sharedPrefix": "system", "sharedTokens": shared_tokens}
    run = one_pod([{**row, "arrival": float(at)} for at in range(3)], blockSize=784)
    assert run.summary["prompt_cache_hit_ratio"] == 0.0
    expected = (
        "no prompt was found in a cache, though some have their first 240 tokens in common: only "
        "whole KV blocks are found, and only on the pod that has them"
    )
    assert [each for each in run.warnings if "cache" in each] == [expected] * bool(shared_tokens)


def test_c31_what_cannot_fit_is_refused_and_the_run_ends() -> None:
    """C31: 13 blocks of 8,192, one of them reserved. The run would go on for ever, or end with
    requests that still wait; of five requests two are refused and one is cut off."""
    sizes = [(98_305, 1), (1000, 1), (98_304, 1), (98_304, 2), (106_497, 1)]
    rows = [{"promptTokens": prompt, "outputTokens": output} for prompt, output in sizes]
    run = one_pod(rows, kvBlocks=13 - 1, blockSize=8192, maxModelLen=106_496)
    requests, summary = run.requests, run.summary
    assert list(requests["http_status"]) == [400, 200, 200, 200, 400]
    assert list(requests["end_s"][[0, 4]]) == [0.0, 0.0]
    assert list(requests["reason"][[0, 3, 4]]) == ["prompt_too_long", "length", "prompt_too_long"]
    assert list(requests["output_tokens"][1:4]) == [1, 1, 1]
    assert summary["error_ratio"] == 0.4
    assert summary["requests_censored"] == 0
    assert sum(requests["preemptions"]) == 0


def test_c34_figures_of_the_kv_cache_name_their_unit() -> None:
    """C34: blocks would be read as tokens; usage is in blocks, everything else in tokens."""
    (usage,) = [column for column in PODS if column.name.startswith("kv")]
    assert (usage.unit, "KV blocks" in usage.meaning) == ("ratio", True)
    cached = [column for column in REQUESTS if column.name == "cached_tokens"]
    assert [column.unit for column in cached] == ["tokens"]


def test_c35_queue_and_prefill_add_up_to_the_first_token() -> None:
    """C35: with one place for eight requests TTFT would be 60 ms for all if it were counted from
    the start of service."""
    run = one_pod([{"promptTokens": 1000, "outputTokens": 11}] * 8, maxNumSeqs=1)
    requests, summary = run.requests, run.summary
    ttft_ms = 1e3 * requests["first_token_s"]
    assert list(ttft_ms) == pytest.approx([60, 221, 382, 543, 704, 865, 1026, 1187])
    assert ttft_ms.mean() == pytest.approx(623.5)
    assert summary["ttft_s"]["p95"] == pytest.approx(1.13065)
    assert list(1e3 * requests["scheduled_s"]) == pytest.approx([161 * i for i in range(8)])
    assert summary["queue_s"]["p95"] + 0.060 == pytest.approx(summary["ttft_s"]["p95"])
    prefill_ms = 1e3 * (requests["first_token_s"] - requests["scheduled_s"])
    assert list(prefill_ms) == pytest.approx([60.0] * 8)


def test_c42_an_answer_of_one_token_has_no_gaps() -> None:
    """C42: E2E is TTFT, TPOT is null and not 0, and the throughput is finite."""
    summary = one_pod([{"promptTokens": 100, "outputTokens": 1}] * 3).summary
    assert summary["e2e_s"] == summary["ttft_s"]
    assert set(summary["tpot_s"].values()) == {None}
    assert summary["output_tokens_per_s"] == pytest.approx(3 / 0.025)
