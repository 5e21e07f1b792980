"""Kinds of pools in whole runs: what clients are told, and what is counted."""

from pathlib import Path
from typing import Any

import pytest

import sim

STEP = {"a": 10.0, "b": 50.0, "f": 10.0}


def scenario(pool: dict[str, Any], rows: list[tuple[float, str]], **client: Any) -> dict[str, Any]:
    """Members a, b and c, one engine; each request computes for 0.1 s."""
    members = pool.pop("members", {})
    written = [
        {"arrival": at_s, "promptTokens": 100, "outputTokens": 8, "model": member}
        for at_s, member in rows
    ]
    return {
        "name": "kinds",
        "engines": {"e": {"stepTime": STEP, "kvBlocks": 1000, "weights": "9GB", "model": "some"}},
        "backends": {member: {"engine": "e"} for member in "abc"},
        "pools": {
            "desk": {
                "members": {member: {"load": 10, **members.get(member, {})} for member in "abc"},
                **pool,
            }
        },
        "router": {
            "rules": [
                {"name": member, "match": {"models": (member,)}, "backends": (member,)}
                for member in "abc"
            ]
        },
        "workloads": {"w": {"kind": "script", "rows": written, **client}},
    }


def run(pool: dict[str, Any], rows: list[tuple[float, str]], **client: Any) -> sim.RunResult:
    return sim.run(scenario(pool, rows, **client), check=True).runs[0]


def test_beyond_the_limit_of_a_member_is_429_at_once() -> None:
    """The answer would be 502 or 503, or the next backend of the rule be tried."""
    members = {"a": {"concurrencyLimit": 2}}
    described = scenario(
        {"kind": "llama-swap", "members": members, "initial": ("a",)}, [(0.0, "a")] * 3
    )
    described["router"]["rules"][0]["backends"] = ("a", "b")
    result = sim.run(described, check=True).runs[0]
    assert list(result.requests["http_status"]) == [200, 200, 429]
    assert result.requests["reason"][2] == "concurrency_limit"
    assert not len(result.failed_attempts)
    assert list(result.pools["kind"]) == ["hold"] * 2


def test_a_full_queue_is_503() -> None:
    """A client that is told to come again would take it for an outage."""
    pool = {
        "kind": "ollama",
        "maxQueue": 1,
        "memory": "24GB",
        "members": {member: {"memory": "20GB"} for member in "abc"},
    }
    result = run(pool, [(0.0, "a")] * 4)
    assert list(result.requests["http_status"]) == [200, 200, 503, 503]
    assert list(result.requests["reason"][2:]) == ["pool_queue_full"] * 2
    assert list(result.requests["hold_s"][2:]) == [0.0] * 2


def waits_s(workload: dict[str, Any]) -> list[float]:
    """Holds of requests for a model that Ollama has loaded with the context of its engine."""
    described = scenario(
        {"kind": "ollama", "memory": "24GB", "initial": ("a",)}, [], model="a", **workload
    )
    if "file" in workload:
        del described["workloads"]["w"]["rows"]
    described["engines"]["e"]["kvBlocks"] = 512  # of 16 tokens
    described["pools"]["desk"]["members"] = {"a": {"load": 6, "memory": "20GB"}}
    for name in "bc":
        del described["backends"][name]
    described["router"]["rules"] = described["router"]["rules"][:1]
    return list(sim.run(described, check=True).runs[0].requests["hold_s"])


def test_requests_say_the_context_that_they_want(tmp_path: Path) -> None:
    """ollama/ollama#18129: the key would be unknown to files, or a row's own not go before the
    workload's; the context of a model that is loaded at the start is its engine's, 8,192."""
    file = tmp_path / "log.csv"
    file.write_text(
        "arrival_s,promptTokens,outputTokens,numCtx\n0,100,8,8192\n20,100,8,4096\n40,100,8,\n"
    )
    assert waits_s({"file": str(file)}) == [0, 6, 6]
    assert waits_s({"file": str(file), "numCtx": 4096}) == [0, 6, 0]
    assert waits_s({"file": str(file), "numCtx": 8192}) == [0, 6, 6]


@pytest.mark.parametrize(
    ("pool", "loads"),
    [
        ({"kind": "llama-swap"}, 3),
        ({"kind": "ollama", "memory": "24GB"}, 5),
        ({"kind": "model-pool", "order": "fifo"}, 6),
        ({"kind": "fair"}, 3),
    ],
)
def test_inc48_loads_of_alternating_requests(pool: dict[str, Any], loads: int) -> None:
    """INC-48: the kinds would not differ as their schedulers do.

    Of Ollama's queue only the second one for a passes, since a is being loaded.
    """
    if pool["kind"] == "ollama":
        pool = {**pool, "members": {member: {"memory": "20GB"} for member in "abc"}}
    result = run(pool, [(0.0, member) for member in "abcabc"])
    assert set(result.requests["status"]) == {"completed"}
    swaps = result.pools[result.pools["kind"] == "swap"]
    assert len(swaps) == loads


def test_clients_bound_the_hold() -> None:
    """Who is held for ever would not get away, or be counted as served."""
    result = run({"kind": "llama-swap"}, [(0.0, "a"), (1.0, "b")], clientTimeout="15s")
    assert list(result.requests["http_status"]) == [200, 499]
    holds = result.pools[result.pools["kind"] == "hold"]
    assert list(holds["result"]) == ["granted", "cancelled"]
    assert list(holds["end_s"]) == [10.0, 16.0]


def test_memory_is_that_of_weights_cache_and_workspace() -> None:
    """Members would be loaded beside each other without room, or never be."""
    described = scenario({"kind": "ollama", "memory": "60GiB"}, [(0.0, "a"), (0.0, "b")])
    described["engines"]["e"] = {
        "stepTime": STEP,
        "kvBlocks": 1000,
        "model": "qwen3-8b",
        "workspace": "4GiB",
    }
    result = sim.run(described, check=True).runs[0]
    swaps = result.pools[result.pools["kind"] == "swap"]
    assert set(swaps["from_member"].isna()) == {True}
