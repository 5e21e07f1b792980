"""Parts add up for every request, whatever happens to it, and its repetition is the run."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.execution.runner import run_one
from sim.explain.kinds import NAMES
from sim.results import arrow
from sim.scenario.load import load_dict
from tests.cluster.scenarios import agents, fleet
from tests.engine.strategies import many
from tests.explain.runs import BINARY, explain, mean_s, variant

SHORT = ("window.warmup=60s", "window.measure=240s")

SHIPPED = {
    "least-loaded": ("quickstart.yaml", "least-loaded", {"queue_tokens_s", "other_prefills_s"}),
    "bounded-ring": ("quickstart.yaml", "bounded-ring", {"queue_tokens_s", "step_in_flight_s"}),
    "session-table": ("quickstart.yaml", "session-table", {"prefill_s", "decodes_s"}),
    "pool that coalesces": ("pools/three-models.yaml", "coalesce", {"hold_s", "queue_places_s"}),
    "fair pool": ("pools/three-models.yaml", "fair", {"hold_s", "no_share_s"}),
    "shared card": ("pools/assistant-and-coder.yaml", "wait", {"prefill_s", "other_prefills_s"}),
    "llama-server": ("llamacpp-desk.yaml", "slots", {"queue_places_s", "no_share_s"}),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_of_shipped_scenarios(name: str) -> None:
    """A reader would be shown parts of something else than the TTFT beside them."""
    path, of, expected = SHIPPED[name]
    explanation = explain(variant(path, of, *SHORT))
    assert explanation.result.tables.requests.num_rows > 20
    assert {part for part in NAMES if mean_s(explanation, part) > 0.0} >= expected


ENGINES: dict[str, tuple[dict[str, Any], set[str]]] = {
    "async": ({"asyncScheduling": True}, {"planned_ahead_s"}),
    "front end": ({"frontEnd": {"perRequest": 0.02, "perPromptToken": 1e-6}}, {"front_end_s"}),
    "ranks": (
        {"dataParallel": 2, "model": "experts", "enableExpertParallel": True},
        {"other_ranks_s"},
    ),
    "independent ranks": ({"dataParallel": 2}, {"prefill_s"}),
    "priority and preemption": (
        {"kvBlocks": 9000, "schedulingPolicy": "priority", "reserveFullPrompt": False},
        {"queue_kv_s", "preempted_s"},
    ),
    "async preemption": (
        {"kvBlocks": 9000, "asyncScheduling": True, "reserveFullPrompt": False},
        {"queue_kv_s", "preempted_s"},
    ),
    "prompt tail": (
        {"prefixRetention": "prompt-tail", "blockSize": 64, "stateBlocks": 8},
        {"queue_tokens_s"},
    ),
    "threshold": ({"longPrefillTokenThreshold": 512}, {"other_prefills_s"}),
}


@pytest.mark.parametrize("name", ENGINES)
def test_of_engines(name: str) -> None:
    """An option of the scheduler would leave time that belongs to nobody."""
    settings, expected = ENGINES[name]
    workload = agents(12, priority=1)
    window = {"warmup": 0, "measure": "90s"}
    settings = {"maxNumBatchedTokens": 4096, **settings}
    scenario = fleet(workload, {"kind": "least-loaded"}, 1, window, **settings)
    scenario["workloads"]["urgent"] = {**agents(4), "priority": 0}
    explanation = explain(scenario)
    assert {part for part in NAMES if mean_s(explanation, part) > 0.0} >= expected


def test_nothing_changes_by_being_watched() -> None:
    """The repetition would explain a run that never was."""
    loaded = variant("quickstart.yaml", "bounded-ring", *SHORT)
    explanation = explain(loaded)
    assert explanation.repetition is not None
    assert explanation.repetition.result.digest == run_one(loaded, 1).digest


CLIENTS: dict[str, dict[str, Any]] = {
    "that leave": {"clientTimeout": "400ms"},
    "that try again": {
        "clientTimeout": "2s",
        "retry": {
            "on": [502, 503],
            "onConnectionError": True,
            "max": 4,
            "backoff": {"initial": 0.5, "factor": 2, "max": 4, "jitter": 0.5},
        },
    },
    "without patience": {"patience": "9s", "retry": {"on": [502, 503], "max": 9}},
}


@pytest.mark.parametrize("name", CLIENTS)
def test_of_clients(name: str) -> None:
    """A user who tried three times has waited since the first try."""
    workload = {
        "kind": "requests",
        "arrivals": {"kind": "poisson", "rate": 12},
        "promptTokens": 900,
        "outputTokens": 8,
        **CLIENTS[name],
    }
    window = {"warmup": 0, "measure": "60s"}
    full = {"maxNumSeqs": 4, "maxNumQueuedReqs": 8}
    scenario = fleet(workload, {"kind": "round-robin"}, 1, window, **full)
    scenario["events"] = [{"kind": "pod-lost", "at": "20s", "backend": "b", "for": "5s"}]
    explanation = explain(scenario)
    requests = explanation.result.tables.requests
    served = arrow.numbers(requests, "first_token_s")
    tries = arrow.numbers(requests, "tries")
    assert np.isnan(served).any()
    if "retry" in CLIENTS[name]:
        assert (tries[~np.isnan(served)] > 1).any()
        assert mean_s(explanation, "backoff_s") > 0.0


@st.composite
def engines(draw: st.DrawFn) -> dict[str, Any]:
    """A small vLLM with some of its options."""
    kinds = draw(st.sets(st.sampled_from(["async", "priority", "first chunk", "no cache", "tail"])))
    engine: dict[str, Any] = {
        "blockSize": 4,
        "kvBlocks": draw(st.integers(24, 80)),
        "maxNumSeqs": draw(st.integers(1, 5)),
        "maxNumBatchedTokens": draw(st.integers(8, 64)),
        "stepTime": draw(st.sampled_from([BINARY, {"a": 7.3, "b": 911.7, "c": 1.3e4, "d": 9e5}])),
        "watermark": draw(st.sampled_from([0.0, 0.1])),
        "longPrefillTokenThreshold": draw(st.sampled_from([0, 8])),
        "asyncScheduling": "async" in kinds,
        "reserveFullPrompt": "first chunk" not in kinds,
        "schedulingPolicy": "priority" if "priority" in kinds else "fcfs",
        "enablePrefixCaching": "no cache" not in kinds,
    }
    if "tail" in kinds:
        engine |= {"prefixRetention": "prompt-tail", "stateBlocks": 2}
    if draw(st.booleans()):
        engine["frontEnd"] = {"perRequest": 0.25, "perPromptToken": 0.001}
    if draw(st.booleans()):
        engine |= {"dataParallel": 2, "enableExpertParallel": True}
    return engine


@st.composite
def servers(draw: st.DrawFn) -> dict[str, Any]:
    """A small llama-server."""
    return {
        "kind": "llamacpp",
        "parallel": draw(st.integers(1, 3)),
        "ctxSize": 512,
        "kvUnified": draw(st.booleans()),
        "batchSize": draw(st.integers(8, 64)),
        "ubatchSize": 8,
        "cacheRam": draw(st.sampled_from([0, 100_000])),
        "kvPerToken": 100,
        "stepTime": BINARY,
    }


@st.composite
def traffic(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of a script: bursts, shared prompts, sessions, clients that leave, urgency."""
    rows = []
    for _ in range(draw(st.integers(1, 14))):
        row: dict[str, Any] = {
            "arrival": draw(st.integers(0, 40)) / 8,
            "promptTokens": draw(st.integers(1, 90)),
            "outputTokens": draw(st.integers(1, 20)),
            "priority": draw(st.integers(0, 2)),
        }
        if draw(st.booleans()):
            row |= {"sharedPrefix": "all", "sharedTokens": min(40, row["promptTokens"])}
        if draw(st.integers(0, 3)) == 0:
            row["cancel"] = draw(st.integers(1, 30)) / 8
        rows.append(row)
    return sorted(rows, key=lambda row: row["arrival"])


@many(60)
@given(st.one_of(engines(), servers()), traffic(), st.integers(1, 2), st.booleans())
def test_of_whatever_comes(
    engine: dict[str, Any], rows: list[dict[str, Any]], replicas: int, ends_early: bool
) -> None:
    """Some coincidence would leave time over, or count it twice."""
    script = {"kind": "script", "rows": rows}
    window = {"measure": "4s"} if ends_early else {}
    scenario = fleet(script, {"kind": "round-robin"}, replicas, window)
    scenario["engines"]["e"] = engine
    explanation = explain(load_dict(scenario).variants[0])
    traces = explanation.repetition.instrumentation.traces  # type: ignore[union-attr]
    for trace in traces.values():
        # What is in the cache at the dispatch is found by whoever is admitted at that instant.
        attempt = trace.attempt
        at_once = attempt.scheduled_s == attempt.dispatch_s
        if engine.get("kind") != "llamacpp" and at_once and not trace.ahead:
            assert attempt.cached_tokens >= trace.held_here
