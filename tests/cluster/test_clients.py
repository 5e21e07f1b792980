"""Clients that try again against real routers, pools and pods."""

from typing import Any

import pytest

from sim.results.result import RunResult
from tests.router.scenarios import column, ends, failures, pods, run, site


def desk(rows: list[dict[str, Any]], **clients: Any) -> dict[str, Any]:
    """A card that holds an assistant, or a coder that takes 30 s to load."""
    scenario = site("assistant", "coder", rows=rows, clients=clients)
    times = {"assistant": ("1s", "8s"), "coder": ("1s", "30s")}
    scenario["pools"] = {
        "desk": {
            "members": {name: {"unload": un, "load": load} for name, (un, load) in times.items()},
            "initial": "assistant",
            "idleProbeInterval": 0,
            "readyPollInterval": 0,
        }
    }
    scenario["router"]["rules"] = [
        {"name": name, "match": {"models": [name]}, "backends": [name]} for name in times
    ]
    return scenario


def test_an_outage_is_retried_by_those_who_take_502_for_a_passing_one() -> None:
    """Retries would stay within one life of an error, or begin a new request each."""
    outage = [{"kind": "backend-errors", "at": 0, "for": "3.5s", "backend": "a"}]
    rows = [{"arrival": 1.0}]
    clients = {"retry": {"on": [502], "backoff": {"initial": "1s"}}}
    patient = run(site("a", rows=rows, events=outage, clients=clients))
    assert ends(patient) == [("completed", 200, None, 5.0)]
    assert column(patient.tables.retries, "try", "sent_s", "http_status", "reason") == [
        (1, 1.0, 502, "all_backends_failed"),
        (2, 2.0, 502, "all_backends_failed"),
    ]
    assert column(patient.tables.requests, "tries", "attempts", "arrival_s") == [(3, 3, 1.0)]
    assert [number for number, *_ in failures(patient)] == [0, 0]
    assert column(patient.tables.failed_attempts, "try") == [1, 2]
    polite = run(site("a", rows=rows, events=outage, clients={"retry": {}}))
    assert ends(polite) == [("rejected", 502, "all_backends_failed", 1.0)]


def test_direct_clients_retry_what_their_pod_refuses() -> None:
    """A client beside the router would have neither the patience nor the retries it asks for."""
    events = [{"kind": "pod-lost", "at": 0.5, "backend": "a", "for": "5s"}]
    clients = {"direct": "a", "retry": {"on": [], "onConnectionError": True, "max": 5}}
    rows = [{"arrival": 0.0}, {"arrival": 1.0}, {"arrival": 1.0, "cancel": "2.5s"}]
    result = run(site("a", rows=rows, events=events, clients=clients))
    # Back after 1, 2, 4 s: the first, which broke at 0.5 s, at 7.5 s; the second at 8 s.
    assert ends(result) == [
        ("completed", 200, None, 8.5),
        ("completed", 200, None, 9.0),
        ("cancelled", 499, "client_closed", 3.5),
    ]
    assert column(result.tables.requests, "tries") == [4, 4, 2]


def test_a_clients_timeout_abandons_a_swap_that_is_under_way() -> None:
    """A client that only knows that it has waited for 20 s gives up a load that would have been
    done in 11 s, and then waits for its second choice, which has been unloaded for it."""
    rows = [{"arrival": 0.0, "model": "coder"}]
    patient = run(desk(rows))
    assert ends(patient) == [("completed", 200, None, 32.0)]
    hasty = run(desk(rows, clientTimeout="20s", fallbackModels=["assistant"]))
    assert ends(hasty) == [("completed", 200, None, 29.0)]
    assert column(hasty.tables.retries, "model", "end_s", "status", "http_status") == [
        ("coder", 20.0, "cancelled", 499)
    ]
    swaps = [
        row[1:]
        for row in column(hasty.tables.pools, "kind", "member", "result", "start_s", "end_s")
        if row[0] == "swap"
    ]
    assert swaps == [("coder", "cancelled", 0.0, 20.0), ("assistant", "completed", 20.0, 28.0)]


def test_to_a_client_a_busy_pool_and_a_swap_look_alike() -> None:
    """Were the two told apart by a timeout of 20 s, nobody would need IfIdle: it gives up both,
    the swap that is nearly done and the job of another that lasts for minutes."""
    asking = {"arrival": 1.0, "model": "coder"}
    busy = {"arrival": 0.0, "model": "assistant", "outputTokens": 2000}
    clients = {"clientTimeout": "300s", "fallbackModels": ["assistant"]}

    def retries(*rows: dict[str, Any]) -> list[Any]:
        result = run(desk([*rows], **{**clients, "clientTimeout": "20s"}))
        table = result.tables.retries
        told = column(table, "model", "sent_s", "end_s", "http_status", "reason", "retry_after_s")
        return [row for row in told if row[0] == "coder"]

    assert retries(asking) == retries(busy, asking)
    assert retries(asking) == [("coder", 1.0, 21.0, 499, "client_closed", None)]


@pytest.mark.parametrize("policy", ["round-robin", "least-loaded", "session-table"])
def test_retries_change_nobody_elses_draws(policy: str) -> None:
    """Jitter drawn from a stream that others read, or in the order of the retries, would give
    each policy a workload of its own to be compared on."""
    workload = {
        "kind": "requests",
        "arrivals": {"kind": "poisson", "rate": 5},
        "promptTokens": {"uniform": {"min": 100, "max": 900}},
        "outputTokens": 8,
        "count": 60,
        "sessionKeys": "per-request",
        "retry": {"on": [429], "max": 4, "backoff": {"initial": "0.5s", "jitter": 0.5}},
    }

    def drawn(kind: str, most: int, clients: dict[str, Any]) -> tuple[list[Any], int]:
        budget = {"name": "b", "scope": "router", "maxTokens": most, "windowSeconds": 2}
        scenario = site("a", settings={"a": {"replicas": 3, "policy": {"kind": kind}}})
        scenario["router"]["policy"] = {"budgets": [budget]}
        scenario["workloads"]["w"] = {**workload, **clients}
        result = run(scenario)
        names = ("session_id", "arrival_s", "prompt_tokens")
        return column(result.tables.requests, *names), result.tables.retries.num_rows

    plain, none = drawn("round-robin", 10**9, {"retry": None})
    found, many = drawn(policy, 2000, {})
    assert (none, found) == (0, plain)
    assert many > 20


def test_clients_that_leave_flatter_an_overloaded_server() -> None:
    """vLLM pull 28493: those who time out take their conversation away, so the load falls.

    The slow server looked quicker than the same one with patient clients, and nothing said so.
    """
    agents = {
        "kind": "agents",
        "agents": 16,
        "sessionsPerAgent": 1,
        "ramp": 0,
        "turns": 5,
        "freshShare": 1,
        "freshPrompt": 1000,
        "sharedPrefix": {"tokens": 16, "families": 1},
        "growth": 50,
        "output": 25,
        "think": 1,
        "earlyEditShare": 0,
    }
    scenario = site("a")
    scenario["engines"]["e"] = {"stepTime": {"a": 100}, "kvBlocks": 4000, "maxNumSeqs": 4}
    scenario["router"]["proxy"] = {"responseHeaderTimeout": None}
    scenario["workloads"] = {"w": {**agents, "patience": "6s"}}
    leaving = run(scenario)
    scenario["workloads"] = {"w": agents}
    patient = run(scenario)
    assert leaving.summary["ttft_s"]["p50"] < patient.summary["ttft_s"]["p50"]
    assert any(each.startswith("clients gave up on") for each in leaving.warnings)
    assert leaving.facts.workload_counts["w"]["sessions_broken_off"] > 0


# -- work for clients that have left ---------------------------------------------------------


def timing_out(abandoned: str, **proxy: Any) -> RunResult:
    """A pod with one place that is taken for 25 s, and a client who waits for 10 s, three times.

    Its answers have 50 tokens, a tenth of a second each (hindsight issue 1567).
    """
    retry = {"on": [], "onTimeout": True, "max": 2, "backoff": {"initial": 0.001, "factor": 1}}
    asking = {"arrival": 1.0, "promptTokens": 16, "outputTokens": 50}
    scenario = site("a", rows=[asking], clients={"clientTimeout": "10s", "retry": retry})
    scenario["engines"]["e"] = {"stepTime": {"a": 100}, "kvBlocks": 4000, "maxNumSeqs": 1}
    scenario["router"]["proxy"] = {
        "responseHeaderTimeout": None,
        "abandoned": abandoned,
        **proxy,
    }
    busy = {"arrival": 0.0, "promptTokens": 16, "outputTokens": 250}
    scenario["workloads"] = {"busy": {"kind": "script", "rows": [busy]}, **scenario["workloads"]}
    scenario["window"] = {"measure": "60s"}
    return run(scenario)


def engine_spells(result: RunResult, request: int) -> list[tuple[float | None, float | None]]:
    """When the engine began and ended each attempt of a request."""
    rows = column(result.tables.placements, "request_id", "scheduled_s", "end_s")
    return [(began, round(ended, 6)) for which, began, ended in rows if which == request]


def test_what_is_aborted_makes_room_for_the_next_try() -> None:
    """By hand: tries at 1, 11 and 21 s; the third is served from 25 s."""
    result = timing_out("aborted")
    (row,) = [each for each in result.tables.requests.to_pylist() if each["workload"] == "w"]
    assert (row["tries"], row["status"]) == (3, "completed")
    assert (row["first_token_s"], row["end_s"]) == pytest.approx((25.1, 30.0))
    assert "abandoned_tokens" not in result.summary


def test_what_runs_on_is_computed_before_the_next_try() -> None:
    """LiteLLM issue 37140: the backend generates to the end for nobody, and retries stack up.

    By hand: from 25 s on the first try for 5 s, then the second, then the third, whose
    client has left at 31 s. Each prompt has 16 tokens, of 50 none were seen.
    """
    result = timing_out("runs-on")
    (row,) = [each for each in result.tables.requests.to_pylist() if each["workload"] == "w"]
    assert (row["tries"], row["status"], row["first_token_s"]) == (3, "cancelled", None)
    assert engine_spells(result, row["request_id"]) == [(25, 30), (30, 35), (35, 40)]
    assert result.summary["abandoned_tokens"] == {"prompt": 48, "output": 150}
    (said,) = [each for each in result.warnings if "computed for clients" in each]
    assert said.startswith("48 prompt tokens and 150 output tokens")


def test_the_proxy_hangs_up_at_its_own_timeout_all_the_same() -> None:
    """A proxy that does not notice its clients would not notice its clock either.

    By hand: the first try has no token 20 s after its dispatch, so that the second, for
    nobody, is computed from 25 s on, and the third, whose client leaves at 31 s, from 30.
    """
    result = timing_out("runs-on", responseHeaderTimeout="20s")
    assert engine_spells(result, 1) == [(None, 21), (25, 30), (30, 35)]


def leaving(rows: list[dict[str, Any]], quarantine: str = "15s", **blocks: Any) -> RunResult:
    """A request of a second, whose client leaves after a quarter of one, before ``rows``."""
    proxy = {"abandoned": "runs-on", "quarantineDuration": quarantine}
    leaves = {"arrival": 0.0, "cancel": "0.25s"}
    return run(site("a", "b", rows=[leaves, *rows], router={"proxy": proxy}, **blocks))


def test_the_router_counts_what_runs_on() -> None:
    """The next request would be sent to the pod that is busy for nobody."""
    result = leaving(
        rows=[{"arrival": 0.5}],
        settings={"a": {"replicas": 2, "policy": {"kind": "least-loaded"}}},
    )
    assert column(result.tables.placements, "pod", "end_s") == [("a-0", 1.0), ("a-1", 1.5)]
    assert ends(result)[0] == ("cancelled", 499, "client_closed", 0.25)
    # Two of eight tokens had come.
    assert column(result.tables.requests, "output_tokens") == [2, 8]
    assert result.summary["abandoned_tokens"] == {"prompt": 0, "output": 6}


def test_a_pool_waits_for_what_runs_on() -> None:
    """LLMKube would unload the member that computes for nobody, and another be loaded in it."""
    members = {"a": {"load": "4s"}, "b": {"load": "4s"}}
    pool = {"members": members, "initial": "a", "idleProbeInterval": 0, "readyPollInterval": 0}
    scenario = site("a", rows=[{"arrival": 0.0, "cancel": "0.25s"}, {"arrival": 0.5, "model": "b"}])
    scenario["backends"]["b"] = scenario["backends"]["a"]
    scenario["pools"] = {"p": pool}
    scenario["router"] = {
        "rules": [
            {"name": "b", "match": {"models": ["b"]}, "backends": ["b"]},
            {"name": "a", "backends": ["a"]},
        ],
        "proxy": {"abandoned": "runs-on"},
    }
    swaps = [
        row
        for row in column(run(scenario).tables.pools, "kind", "start_s", "end_s")
        if row[0] == "swap"
    ]
    assert swaps == [("swap", 1.0, 5.0)]
    # One who is held has sent nothing on: the swap for it is given up.
    scenario["workloads"]["w"]["rows"][1]["cancel"] = "2s"
    (swap,) = [
        row
        for row in column(run(scenario).tables.pools, "kind", "end_s", "result")
        if row[0] == "swap"
    ]
    assert swap == ("swap", 2.5, "cancelled")


@pytest.mark.parametrize(("quarantine", "pod"), [("15s", "a-1"), ("0s", "a-0")])
def test_an_error_of_what_runs_on_is_blamed_on_its_pod(quarantine: str, pod: str) -> None:
    """The pod that broke would be sent the next request, or who has left be tried elsewhere."""
    events = [{"kind": "pod-lost", "at": 0.5, "backend": "a", "for": "0.25s"}]
    least = {"kind": "least-loaded"}
    result = leaving(
        rows=[{"arrival": 0.375, "outputTokens": 40}, {"arrival": 0.875}],
        events=events,
        settings={"a": {"replicas": 2, "policy": least}},
        quarantine=quarantine,
    )
    assert pods(result) == [(0, "a-0"), (1, "a-1"), (2, pod)]
    assert ends(result)[0] == ("cancelled", 499, "client_closed", 0.25)
    # Four tokens had come when the pod was lost, two of them for nobody.
    assert result.summary["abandoned_tokens"] == {"prompt": 0, "output": 2}


def test_an_answer_for_nobody_is_paid_for() -> None:
    """The router sees a complete answer: its tokens would not count against the budget."""
    budgets = [{"name": "all", "scope": "router", "maxTokens": 100, "windowSeconds": 60}]
    scenario = site("a", rows=[{"arrival": 0.0, "cancel": "0.25s"}, {"arrival": 2.0}])
    scenario["router"] |= {"proxy": {"abandoned": "runs-on"}, "policy": {"budgets": budgets}}
    assert ends(run(scenario))[1][:3] == ("rejected", 429, "budget_exceeded")
