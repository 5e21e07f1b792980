"""Requests that are refused, that leave, or that others go before, in whole runs."""

from typing import Any

import pytest

import sim
from tests.cluster.scenarios import agents, fleet

ROUND_ROBIN = {"kind": "round-robin"}


def row(arrival: float, prompt_tokens: int, output_tokens: int, **more: Any) -> dict[str, Any]:
    return {
        "arrival": arrival,
        "promptTokens": prompt_tokens,
        "outputTokens": output_tokens,
        **more,
    }


def one_pod(workload: dict[str, Any], **engine: Any) -> sim.RunResult:
    scenario = fleet(workload, ROUND_ROBIN, replicas=1, **engine)
    scenario["router"]["metrics"] = {"pollInterval": 0.01}
    return sim.run(scenario, check=True).runs[0]


def test_c55_the_queue_limit_counts_running_requests_too() -> None:
    """C55: with one place and one in the queue four of six are refused at once, with 503; vLLM
    counts running requests as well, so its limit is 2 where Ollama's would be 1. To the router
    that is a backend that failed, and to its client 502."""
    rows = [row(0.0, 100, 11) for _ in range(6)]
    run = one_pod({"kind": "script", "rows": rows}, maxNumSeqs=1, maxNumQueuedReqs=2)
    requests = run.requests
    assert list(requests["status"]) == ["completed"] * 2 + ["rejected"] * 4
    assert list(requests["http_status"]) == [200] * 2 + [502] * 4
    assert list(requests["reason"][2:]) == ["all_backends_failed"] * 4
    assert list(run.placements["http_status"]) == [200] * 2 + [503] * 4
    assert list(run.failed_attempts["error"]) == ["queue_full"] * 4
    assert list(requests["end_s"][2:]) == [0.0] * 4
    assert requests["first_token_s"][2:].isna().all()
    assert run.warnings[0] == (
        "4 of the 6 requests of the window refused or broken off: all_backends_failed 4 "
        "(backends: queue_full 4); times and speeds say nothing of these 66.7 %"
    )


def test_c78_clients_time_out_and_free_what_they_hold() -> None:
    """C78: else the engine finishes dead work, a counter leaks, or one that left still runs."""
    workload = {
        "kind": "script",
        "clientTimeout": 5.0,
        "rows": [row(0.0, 1000, 1000) for _ in range(10)] + [row(6.0, 1000, 1)],
    }
    run = one_pod(workload, maxNumSeqs=2)
    requests, pods = run.requests, run.pods
    assert list(requests["status"]) == ["cancelled"] * 10 + ["completed"]
    assert list(requests["http_status"]) == [499] * 10 + [200]
    assert list(requests["end_s"][:10]) == [5.0] * 10
    assert list(requests["output_tokens"]) == [480, 480] + [0] * 8 + [1]
    assert requests["scheduled_s"][2:10].isna().all()
    assert requests["first_token_s"][10] == pytest.approx(6.060)
    by_time = pods.set_index(pods["time_s"].round(3))
    assert list(by_time.loc[[4.99, 5.0, 5.01], "in_flight"]) == [10, 10, 0]
    assert list(by_time.loc[[5.0, 5.01], "running"]) == [2, 0]
    after = by_time.loc[5.01:5.99]
    assert (after[["in_flight", "waiting", "running", "kv_usage"]] == 0).all(axis=None)


@pytest.mark.parametrize(
    "workload",
    [
        {"kind": "requests", "arrivals": {"kind": "constant", "rate": 10.0}, "count": 20,
         "promptTokens": 100, "outputTokens": 1000},
        agents(4, sessionsPerAgent=2, growth=2000),
    ],
    ids=["requests", "agents"],
)  # fmt: skip
def test_every_workload_may_have_a_timeout(workload: dict[str, Any]) -> None:
    """Nobody waits for longer; agents go on with their next session, so that the run ends."""
    run = one_pod({**workload, "clientTimeout": "2s"})
    left = run.requests[run.requests["status"] == "cancelled"]
    assert len(left) > 0
    assert list(left["end_s"] - left["arrival_s"]) == pytest.approx([2.0] * len(left))
    lasted_s = run.requests["end_s"] - run.requests["arrival_s"]
    assert lasted_s.max() <= 2.0 + 1e-9


def test_a_row_leaves_before_the_timeout_of_its_workload() -> None:
    """Of the two the earlier counts, whichever it is."""
    rows = [row(0.0, 100, 1000, cancel=cancel) for cancel in (1.0, 3.0)]
    run = one_pod({"kind": "script", "clientTimeout": "2s", "rows": rows})
    assert list(run.requests["end_s"]) == [1.0, 2.0]


def test_urgent_requests_go_first() -> None:
    """A row's own priority goes before the workload's; without the policy neither counts."""
    rows = [row(0.0, 100, 1), row(0.001, 100, 1), row(0.001, 100, 1, priority=-1)]
    workload = {"kind": "script", "priority": 3, "rows": rows}
    first_s, second_s = pytest.approx(0.030), pytest.approx(0.045)
    urgent = one_pod(workload, maxNumSeqs=1, schedulingPolicy="priority").requests
    assert list(urgent["first_token_s"][1:]) == [second_s, first_s]
    in_turn = one_pod(workload, maxNumSeqs=1).requests
    assert list(in_turn["first_token_s"][1:]) == [first_s, second_s]


def test_the_priority_of_a_workload_reaches_the_pod() -> None:
    """Two workloads of different priorities share a pod that can serve one request at a time."""
    open_loop = {
        "kind": "requests", "arrivals": {"kind": "constant", "rate": 100.0}, "count": 20,
        "promptTokens": 100, "outputTokens": 1,
    }  # fmt: skip
    scenario = fleet(open_loop, ROUND_ROBIN, 1, maxNumSeqs=1, schedulingPolicy="priority")
    scenario["workloads"]["z"] = {**open_loop, "priority": -1}
    requests = sim.run(scenario, check=True).runs[0].requests
    urgent = requests["session_id"].str.startswith("z/")
    assert requests["end_s"][urgent].max() < requests["end_s"][~urgent].nsmallest(3).max()


def test_a_token_for_a_client_that_has_left_is_not_given_when_the_run_ends_with_its_step() -> None:
    """The run ends with the answer of one pod at the very instant at which another ends the step
    of a client that has left: that step's token would count for the pod and for nobody else."""
    rows = [row(0.0, 100, 3), row(0.125, 100, 2, cancel=0.125)]
    scenario = fleet({"kind": "script", "rows": rows}, ROUND_ROBIN, replicas=2)
    scenario["engines"]["e"]["stepTime"] = {"a": 125.0}
    run = sim.run(scenario, check=True).runs[0]
    assert (run.facts.end_s, list(run.requests["end_s"])) == (0.375, [0.375, 0.25])
    assert list(run.requests["output_tokens"]) == [3, 1]
    assert [pod.emitted_tokens for pod in run.facts.closed] == [3, 1]
