"""Clients that try again against real routers, pools and pods."""

from typing import Any

import pytest

from tests.router.scenarios import column, ends, failures, run, site


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
