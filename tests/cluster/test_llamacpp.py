"""Whole runs on llama.cpp pods: what they answer reaches clients, tables and invariants."""

from typing import Any

import sim
from tests.cluster.scenarios import T0, agents, fleet


def on_servers(workload: dict[str, Any], replicas: int = 1, **settings: Any) -> dict[str, Any]:
    """The workload on llama-servers with unified slots and without a host cache."""
    scenario = fleet(workload, {"kind": "least-loaded"}, replicas)
    engine = {"kind": "llamacpp", "stepTime": T0, "cacheRam": 0, **settings}
    return scenario | {"engines": {"e": engine}}


def test_a_full_unified_pool_is_told_as_server_errors() -> None:
    """A failed request would look refused or completed, or be a violation of INV-1 or INV-22."""
    rows = [{"arrival": 0.0, "promptTokens": 450, "outputTokens": 200}] * 2
    rows += [{"arrival": 9.0, "promptTokens": 100, "outputTokens": 5}]
    scenario = on_servers({"kind": "script", "rows": rows}, ctxSize=1000)
    run = sim.run(scenario, check=True).runs[0]
    answers = [("failed", 500), ("failed", 500), ("completed", 200)]
    assert list(zip(run.requests["status"], run.requests["http_status"])) == answers
    assert run.summary["requests_failed"] == 2
    assert run.warnings == (
        "2 of the 3 requests of the window refused or broken off: context_exceeded 2; times and "
        "speeds say nothing of these 66.7 %",
    )


def test_agents_on_slots_break_no_invariant_and_repeat() -> None:
    """Slots would lose a request, count a token twice, or depend on more than the seed."""
    window = {"warmup": "1m", "measure": "4m"}
    workload = agents(12, maxContext=30_000, sharedPrefix={"tokens": 2000})
    for settings in ({"parallel": 4, "ctxSize": 130_000}, {"ctxSize": 60_000}):
        settings |= {"cacheRam": "8GiB", "kvPerToken": "64KiB"}
        scenario = on_servers(workload, 2, **settings) | {"window": window}
        first, second = (sim.run(scenario, check=True).runs[0] for _ in range(2))
        assert first.digest == second.digest
        assert first.summary["requests_completed"] > 50
        assert 0.2 < first.summary["prompt_cache_hit_ratio"] < 1
