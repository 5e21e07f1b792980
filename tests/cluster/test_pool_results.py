"""What the summary of a whole run says of its pool, its clients and their tries."""

from typing import Any

import pytest

from sim.results.pools import stays
from tests.cluster.scenarios import Ran, ask, loop, pooled, script


def test_c47_the_summary_says_what_the_swaps_cost() -> None:
    """C47: the third of the hour that the batch loses would stand in no figure."""
    jobs = [ask("b", 5.5 + 300.0 * index, 2) for index in range(12)]
    ran = Ran(
        pooled(
            {"a": 60, "b": 30},
            workloads={"batch": script(*loop("a", 0.0, 10, 1.0, 3600.0)), "jobs": script(*jobs)},
            engine={"stepTime": {"a": 1000}},
            initial="a",
            swapBudget=600,
            window={"measure": "1h", "drain": False},
        )
    )
    summary = ran.result.summary
    pool = summary["pool"]["desk"]
    assert pool["swaps"] == {"total": 24, "by_pair": {"a>b": 12, "b>a": 12}}
    assert pool["swap_s"]["mean"] == pytest.approx(45.0)
    assert pool["swapping_ratio"] == pytest.approx(0.30)
    shares = [
        sum(pool["members"][member][f"{kind}_ratio"] for kind in ("busy", "idle", "loading"))
        for member in ("a", "b")
    ]
    assert sum(shares) == pytest.approx(1.0)
    assert pool["members"]["b"]["loads"] == 12
    assert summary["by_workload"]["jobs"]["requests_completed"] == 12
    assert summary["by_workload"]["jobs"]["error_ratio"] == 0.0
    intervals = stays(ran.result.facts, "desk")
    assert len(intervals) == 25
    resident_s = sum(stay.end_s - stay.start_s for stay in intervals)
    assert resident_s == pytest.approx(0.70 * 3600.0)


def test_c50_the_summary_shows_a_model_that_serves_nobody() -> None:
    """C50: requests for B that A serves would count as if B had served them."""
    ran = Ran(
        pooled(
            {"a": 30, "b": 30},
            *loop("a", 0.0, 10, 0.0, 600.0),
            *loop("a", 5.0, 10, 0.0, 600.0),
            *(ask("b", 2.0 + 120.0 * index, 1) for index in range(4)),
            rules={"a": ["a"], "b": {"backends": ["b", "a"], "poolActivation": "IfIdle"}},
            initial="a",
            window={"measure": 500, "drain": False},
        )
    )
    rule = ran.result.summary["rules"]["b"]
    assert rule["requests_completed"] == 4
    assert rule["backends"]["b"]["served_ratio"] == 0.0
    assert rule["fell_through_ratio"] == 1.0
    assert ran.result.summary["pool"]["desk"]["members"]["b"]["busy_skips"] == 4
    assert any("b, its first backend, served none" in text for text in ran.result.warnings)


def test_a_request_that_is_tried_again_counts_once_for_its_user() -> None:
    """A client that is served at its second try would be an error, or two requests."""
    ran = Ran(
        pooled(
            {"a": 30, "b": 30},
            workloads={
                "busy": script(ask("a", 0.0, 20)),
                "patient": script(
                    ask("b", 1.0, 2),
                    retry={"on": [503], "max": 9, "honourRetryAfter": True},
                ),
            },
            rules={"a": ["a"], "b": {"backends": ["b"], "poolActivation": "IfIdle"}},
            initial="a",
        )
    )
    summary = ran.result.summary
    # Busy at 1, 6, 11 and 16 s; the fourth wait is the client's own, of 8 s, and then b is loaded.
    assert summary["answers"]["by_try"] == {
        "200": {"completed": 2},
        "503": {"pool_incumbent_busy": 4},
    }
    assert summary["answers"]["by_request"] == {"200": {"completed": 2}}
    assert (summary["requests"], summary["tries"]) == (2, 6)
    assert (summary["error_ratio"], summary["try_error_ratio"]) == (0.0, 4 / 6)
    assert summary["by_workload"]["patient"]["ttft_s"]["p50"] == pytest.approx(54.0)
    assert summary["failed_attempts"]["by_error"] == {"incumbent_busy": 4}


def rough(seed: int) -> dict[str, Any]:
    """A pool under everything that can happen to it."""
    clients = {
        "kind": "requests",
        "arrivals": {"kind": "poisson", "rate": 0.05},
        "promptTokens": 20,
        "outputTokens": {"lognormal": {"median": 4, "sigma": 1.0, "max": 60}},
        "count": 60,
    }
    return pooled(
        {"a": {"load": 20, "unload": 2}, "b": {"load": 30, "unload": 1}, "c": 5},
        others=("x",),
        rules={
            "a": {"backends": ["a", "x"], "poolActivation": "IfIdle"},
            "b": {"backends": ["b", "c"], "timeout": "10s"},
            "c": ["c", "a"],
        },
        workloads={
            "for-a": {**clients, "model": "a", "clientTimeout": "40s", "retry": {"on": [503]}},
            "for-b": {**clients, "model": "b", "patience": "90s", "retry": {"on": [502, 503]}},
            "for-c": {**clients, "model": "c", "fallbackModels": ["a"], "clientTimeout": "15s"},
            "beside": {**clients, "direct": "b", "count": 20},
        },
        events=(
            {"at": 100 + seed, "kind": "pod-lost", "backend": "a", "replica": 0},
            {"at": 200, "kind": "proxy-restart"},
            {"at": 210, "kind": "load-failure", "backend": "b", "after": 3, "loads": 2},
            {"at": 400, "kind": "proxy-restart"},
            {"at": 500, "for": 100, "kind": "backend-errors", "backend": "x"},
            {"at": 700, "kind": "pod-lost", "backend": "b"},
        ),
        default="a",
        swapPolicy="reclaim",
        reclaimAfter=60,
        swapBudget=25 + seed % 2 * 30,
    )


KINDS: dict[str, dict[str, Any]] = {
    "model-pool": {},
    "fair": {"kind": "fair"},
    "llama-swap": {"kind": "llama-swap", "globalTTL": 20},
    "groups": {
        "kind": "llama-swap",
        "groups": {"together": {"members": ["a", "c"], "swap": False}},
    },
    "ollama": {"kind": "ollama", "memory": "24GB", "keepAlive": 10},
    "ollama-one": {"kind": "ollama", "memory": "24GB", "maxLoadedModels": 1},
}


def of_kind(kind: str, scenario: dict[str, Any]) -> dict[str, Any]:
    """The same with a pool of another kind, which does not know all settings and modes."""
    if kind == "model-pool":
        return scenario
    members = scenario["pools"]["desk"]["members"]
    if "ollama" in kind:
        members = {name: {**times, "memory": "10GB"} for name, times in members.items()}
    if kind != "fair":
        for rule in scenario["router"]["rules"]:
            rule.pop("poolActivation", None)
    return {**scenario, "pools": {"desk": {"members": members, **KINDS[kind]}}}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(1, 5))
def test_a_rough_day_breaks_no_rule(kind: str, seed: int) -> None:
    """An invariant would take a restart, a lost pod or a client's retry for a bug of podsim."""
    ran = Ran(of_kind(kind, rough(seed)), seed)
    summary = ran.result.summary
    assert summary["requests"] == 200
    assert summary["requests_censored"] == 0
    assert (summary["tries"] > 200) == bool(ran.result.tables.retries.num_rows)
    pool = summary["pool"]["desk"]
    assert pool["swaps"]["total"] > 10
    assert sum(pool["holds"]["by_result"].values()) == pool["holds"]["total"]
    assert (ran.result.facts.exclusive_pools == ("desk",)) == (kind not in ("groups", "ollama"))


def test_who_is_refused_at_once_has_not_been_held() -> None:
    """mostlygeek/llama-swap#889: a refusal that comes with the request would be a hold."""
    rows = [ask("a", 0.0, 9), ask("b", 1.0, 9), ask("b", 2.0, 9)]
    members = {"a": {"load": 5}, "b": {"load": 20, "concurrencyLimit": 1}}
    ran = Ran(of_kind("llama-swap", pooled(members, *rows)))
    assert [row["http_status"] for row in ran.requests] == [200, 200, 429]
    held_s = [row["end_s"] - row["start_s"] for row in ran.rows("hold")]
    assert [row["hold_s"] for row in ran.requests] == [*held_s, 0.0]
    assert [row["end_s"] for row in ran.requests][2] == 2.0
