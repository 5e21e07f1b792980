"""Exposition text: read back by the official parser, with the values of the tables."""

from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

from sim.cluster.cluster import Cluster
from sim.export.prometheus import Scraped, exposition, scraped, together
from sim.results.freeze import freeze
from sim.results.result import RunResult
from sim.scenario.load import load_dict
from tests.export.runs import scrape, small, stored
from tests.results.builders import facts, mixed_run, pooled_facts, pooled_run

Samples = dict[str, dict[tuple[tuple[str, str], ...], float]]


def parsed(*runs: Scraped) -> Samples:
    """The samples of the text by name and labels, as Prometheus' own parser reads them."""
    samples: Samples = {}
    for family in text_string_to_metric_families(exposition(together(runs)).decode()):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            assert labels not in samples.setdefault(sample.name, {})
            samples[sample.name][labels] = sample.value
    return samples


def value(samples: Samples, name: str, **labels: str) -> float:
    """The one sample with all these labels, whatever others it has."""
    (found,) = [
        number for its, number in samples[name].items() if labels.items() <= dict(its).items()
    ]
    return found


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunResult, dict[str, Any]]:
    """A minute of six agents on two pods with a session table."""
    settings = ["window.warmup=10s", "window.measure=50s", "workloads.coding.agents=6"]
    place = tmp_path_factory.mktemp("table")
    (one,) = stored("quickstart.yaml", place, settings, variants=["session-table"])
    return one.read(), dict(one.manifest["scenario"])


def test_counters_and_histograms_are_those_of_the_tables(run):
    """A figure on a dashboard would not be that of the run."""
    result, scenario = run
    samples = parsed(scraped(result, scenario))
    requests, placements = result.requests, result.placements
    by_outcome = Counter(placements["outcome"])
    assert by_outcome["new"] and by_outcome["sticky"]
    for outcome, times in by_outcome.items():
        name = "llmkube_router_placements_total"
        assert value(samples, name, backend="qwen", outcome=outcome, reason="") == times
    completed = (requests["status"] == "completed").sum()
    name = "llmkube_router_requests_total"
    assert value(samples, name, rule="all", outcome="ok_stream") >= completed
    name = "llmkube_router_request_duration_seconds"
    assert value(samples, f"{name}_count", rule="all") >= completed
    ttft_s = (requests["first_token_s"] - requests["arrival_s"]).dropna()
    name = "llmkube_router_first_token_seconds"
    assert value(samples, f"{name}_count") == len(ttft_s)
    assert value(samples, f"{name}_sum") == pytest.approx(ttft_s.sum())
    assert value(samples, f"{name}_bucket", le="1.28") == (ttft_s <= 1.28).sum() > 0


def test_pods_have_the_values_of_their_rows(run):
    """A pod would be shown with another one's load, cache or first tokens."""
    result, scenario = run
    samples = parsed(scraped(result, scenario))
    for number, pod in enumerate(result.facts.pods):
        mine = result.placements[result.placements["pod"] == pod]
        admitted = mine[mine["scheduled_s"].notna()]
        ttft_s = (mine["first_token_s"] - mine["dispatch_s"]).dropna()
        labels = {"pod": pod, "engine": "0", "model_name": "qwen3.8-27b"}
        expected = {
            "vllm:prefix_cache_queries_total": admitted["prompt_tokens"].sum(),
            "vllm:prefix_cache_hits_total": admitted["cached_tokens"].sum(),
            "vllm:time_to_first_token_seconds_count": len(ttft_s),
            "vllm:num_preemptions_total": result.facts.closed[number].preemptions,
        }
        for name, number_of in expected.items():
            assert value(samples, name, **labels) == number_of, name
        for bound in ("0.25", "0.5", "2.5"):
            at_most = (ttft_s <= float(bound)).sum()
            name = "vllm:time_to_first_token_seconds_bucket"
            assert value(samples, name, le=bound, **labels) == at_most
        poll = result.pods[result.pods["pod"] == pod].iloc[-1]
        assert value(samples, "vllm:num_requests_running", **labels) == poll["running"]
        assert value(samples, "vllm:num_requests_waiting", **labels) == poll["waiting"]
        assert value(samples, "vllm:kv_cache_usage_perc", **labels) == poll["kv_usage"]


def test_every_name_that_users_know_is_there():
    """A dashboard would have an empty panel."""
    router = {"rules": [_rule("chat", failClosed=True)]}
    run = pooled_run()
    gauges = {"a": {"session_bindings": 3.0}}
    one = scrape(replace(run, facts=replace(run.facts, gauges=gauges)), router=router)
    names = set(parsed(one))
    assert names >= {
        *(f"llmkube_router_{name}_total" for name in ("placements", "requests", "fail_closed")),
        *("llmkube_router_session_bindings", "llmkube_router_first_token_seconds_bucket"),
        *("llmkube_modelpool_resident", "llmkube_modelpool_held_requests"),
        *("llmkube_modelpool_swap_duration_seconds_bucket", "llmkube_modelpool_swaps_total"),
        *("llmkube_modelpool_hold_duration_seconds_bucket", "llmkube_modelpool_coalesced_total"),
        *("llmkube_modelpool_busy_skips_total", "llmkube_modelpool_swap_failures_total"),
        "llmkube_modelpool_reclaims_total",
        *("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total"),
        *("vllm:time_to_first_token_seconds_bucket", "vllm:num_preemptions_total"),
    }
    types = {
        family.name: family.type
        for family in text_string_to_metric_families(exposition(together([one])).decode())
    }
    counters = [family for family in one.families if family.kind == "counter"]
    assert all(family.name.endswith("_total") for family in counters)
    assert all(types[family.name.removesuffix("_total")] == "counter" for family in counters)


PANELS = {
    "requests_total": {"router", "rule", "backend", "classification", "outcome"},
    "request_duration_seconds_bucket": {"router", "rule", "backend", "le"},
    "fail_closed_total": {"router", "rule", "classification"},
    "budget_utilization": {"router", "scope"},
    "backend_health": {"router", "backend"},
    "active_backends": {"router", "tier"},
}
"""What the seven panels of LLMKube's model-router-dashboard.json read, with its labels."""


def test_every_panel_of_llmkubes_own_dashboard_has_something_to_show():
    """Four of its seven panels stayed empty: nobody exported what they read."""
    rules = [_rule("chat", failClosed=True, timeout=10.0), _rule("batch", timeout=None)]
    proxy = {"responseHeaderTimeout": 120.0, "quarantineDuration": 15.0}
    samples = parsed(scrape(pooled_run(), router={"rules": rules, "proxy": proxy}))
    for name, labels in PANELS.items():
        found = samples[f"llmkube_router_{name}"]
        assert {frozenset(dict(its)) for its in found} == {frozenset(labels)}, name
    # The last responses: of rule chat, 50 s to 51 s after 6 s in the pool; of no rule that sets a
    # limit, begun at 101 s, a second after it came, within the proxy's 120 s.
    name = "llmkube_router_budget_utilization"
    assert value(samples, name, scope="rule") == pytest.approx(7.0 / 10.0)
    assert value(samples, name, scope="proxy") == pytest.approx(1.0 / 120.0)
    assert value(samples, "llmkube_router_active_backends", tier="local") == 3.0


def test_a_request_counts_as_llmkube_counts_it():
    """`outcome="completed"` is no label of LLMKube's, so its panels and alerts found nothing."""
    samples = parsed(scrape(pooled_run()))
    outcomes = {dict(its)["outcome"] for its in samples["llmkube_router_requests_total"]}
    assert outcomes == {"ok_stream", "pool_activation_timeout", "client_closed"}
    name = "llmkube_router_request_duration_seconds"
    # To the first token, from the first try on: 8, 2, 7, 26 and 1 s.
    assert value(samples, f"{name}_sum", rule="batch", backend="b") == 8.0 + 26.0
    assert value(samples, f"{name}_sum", rule="chat", backend="b") == 2.0
    assert value(samples, f"{name}_bucket", rule="chat", backend="b", le="2.5") == 1


def test_a_backend_is_healthy_until_its_pods_fail(tmp_path: Path):
    """The panel would show a backend green whose pods answer 500."""
    scenario = small(
        window={"measure": "60s"},
        router={
            "rules": [{"name": "all", "backends": ["pods", "spare"]}],
            "proxy": {"quarantineDuration": "30s"},
        },
        workloads={"w": _requests(arrivals={"kind": "poisson", "rate": 2}, count=100)},
        events=[{"kind": "backend-errors", "backend": "pods", "at": 30}],
    )
    scenario["backends"]["spare"] = {"engine": "e", "policy": {"kind": "least-loaded"}}
    (one,) = stored(scenario, tmp_path)
    samples = parsed(scraped(one.read(), one.manifest["scenario"]))
    health = "llmkube_router_backend_health"
    assert value(samples, health, backend="pods") == 0.0
    assert value(samples, health, backend="spare") == 1.0
    assert value(samples, "llmkube_router_active_backends", tier="local") == 1.0


def _rule(name: str, **keys: Any) -> dict[str, Any]:
    return {"name": name, "match": {"dataClassification": ["pii"]}, "failClosed": False, **keys}


def test_a_pool_by_hand():
    """Swaps, holds and skips would be counted wrongly (worked out in ``builders.pooled_run``)."""
    samples = parsed(scrape(pooled_run()))
    pool = "llmkube_modelpool"
    swaps = {
        (dict(labels)["from"], dict(labels)["to"]): number
        for labels, number in samples[f"{pool}_swaps_total"].items()
    }
    assert swaps == {("", "b"): 2, ("b", "a"): 1}
    assert value(samples, f"{pool}_swap_duration_seconds_sum") == 7.0 + 6.0 + 10.0
    assert value(samples, f"{pool}_swap_duration_seconds_bucket", le="8.0") == 2
    assert value(samples, f"{pool}_swap_failures_total", member="b", reason="deadline") == 1
    assert value(samples, f"{pool}_swap_failures_total", member="a", reason="error") == 1
    assert value(samples, f"{pool}_reclaims_total", **{"from": "b"}, to="a") == 1
    # Whoever caused a swap that was completed waited 7 s and 10 s for b, 6 s for a; the swap to b
    # that was given up, the one to a that failed and who left while waiting are not observed.
    assert value(samples, f"{pool}_hold_duration_seconds_count", member="b") == 2
    assert value(samples, f"{pool}_hold_duration_seconds_sum", member="b") == 17.0
    assert value(samples, f"{pool}_hold_duration_seconds_sum", member="a") == 6.0
    assert value(samples, f"{pool}_coalesced_total", member="b") == 3
    assert value(samples, f"{pool}_coalesced_total", member="a") == 1
    assert value(samples, f"{pool}_busy_skips_total", member="a") == 1
    assert value(samples, f"{pool}_held_requests", member="a") == 1
    assert value(samples, f"{pool}_held_requests", member="b") == 0
    assert set(samples[f"{pool}_resident"].values()) == {0.0}


def test_traffic_beside_the_router_is_not_the_routers():
    """DirectService requests would be placements without a policy, and requests without a rule."""
    samples = parsed(scrape(pooled_run()))
    tries = samples["llmkube_router_requests_total"]
    assert sum(tries.values()) == 7  # six that are over, and a try before one of them
    assert value(samples, "llmkube_router_requests_total", outcome="pool_activation_timeout") == 1
    assert sum(samples["llmkube_router_placements_total"].values()) == 5
    # Both direct ones reached a pod, one was refused the connection.
    assert value(samples, "vllm:time_to_first_token_seconds_count", pod="b-0") == 4


def test_what_happens_after_the_window_is_not_there_yet():
    """A drained run would count what a scrape at the end of the window cannot know."""
    early = RunResult(
        facts(**{**vars(pooled_facts()), "window_end_s": 51.0}),
        pooled_run().tables,
        summary={},
        warnings=(),
        digest="",
    )
    samples = parsed(scrape(early))
    assert sum(samples["llmkube_modelpool_swaps_total"].values()) == 2
    assert value(samples, "llmkube_modelpool_resident", member="a") == 1.0
    assert value(samples, "llmkube_router_first_token_seconds_count", backend="b") == 2
    assert "llmkube_modelpool_swap_failures_total" not in samples
    with pytest.raises(KeyError):
        samples["llmkube_modelpool_reclaims_total"]


def test_a_mixed_run_by_hand():
    """Rejections, failures and censored requests would be taken for first tokens."""
    samples = parsed(scrape(mixed_run()))
    assert value(samples, "llmkube_router_first_token_seconds_count") == 5
    assert value(samples, "llmkube_router_first_token_seconds_sum") == 1 + 1 + 3 + 1 + 1
    assert value(samples, "llmkube_router_requests_total", outcome="no_ready_pod") == 1
    assert value(samples, "llmkube_router_placements_total", outcome="spill", reason="waiting") == 1
    assert value(samples, "vllm:num_preemptions_total", pod="qwen-0") == 3
    assert value(samples, "vllm:kv_cache_usage_perc", pod="qwen-1") == 0.7


def test_llama_server_goes_by_its_own_names(tmp_path: Path):
    """Metrics would be called vLLM's that llama-server has under other names, or not at all."""
    settings = ["window.warmup=10s", "window.measure=50s"]
    (one,) = stored("llamacpp-desk.yaml", tmp_path, settings, variants=["slots"])
    result = one.read()
    samples = parsed(scraped(result, one.manifest["scenario"]))
    assert not any(name.startswith("vllm:") for name in samples)
    totals = result.facts.closed[0]
    assert value(samples, "llamacpp:tokens_predicted_total") == totals.emitted_tokens > 0
    assert value(samples, "llamacpp:prompt_tokens_total") == totals.computed_tokens > 0
    last = result.pods.iloc[-1]
    assert value(samples, "llamacpp:requests_processing", pod="desk-0") == last["running"]
    assert value(samples, "llamacpp:requests_deferred", pod="desk-0") == last["waiting"]


def test_several_runs_are_told_apart_by_labels(tmp_path: Path):
    """Two runs would be one series with two values, which Prometheus refuses."""
    scenario = small(
        workloads={"w": _requests()},
        variants={"one": {}, "other": {"backends.pods.policy": {"kind": "round-robin"}}},
    )
    runs = stored(scenario, tmp_path, seeds=(1, 2))
    found = [scraped(run.read(), run.manifest["scenario"]) for run in runs]
    samples = parsed(*found)
    counts = samples["llmkube_router_first_token_seconds_count"]
    labels = {(dict(its)["variant"], dict(its)["seed"]) for its in counts}
    assert labels == {("one", "1"), ("one", "2"), ("other", "1"), ("other", "2")}
    plain = parsed(found[0])["llmkube_router_first_token_seconds_count"]
    assert [set(dict(its)) for its in plain] == [{"router", "backend"}]
    assert exposition(together(found)) == exposition(together(found))


def _requests(**keys: Any) -> dict[str, Any]:
    return {
        "kind": "requests",
        "arrivals": {"kind": "poisson", "rate": 20},
        "count": 60,
        "promptTokens": 300,
        "outputTokens": 5,
        **keys,
    }


@pytest.mark.parametrize("events", [[], [{"kind": "proxy-restart", "at": 70}]])
@pytest.mark.parametrize("headers", [[], ["x-chat"]])
def test_bindings_are_those_of_the_table_itself(events, headers):
    """The gauge would not be what the router has in memory: expiry, a full table, a restart."""
    policy = {
        **{"kind": "session-table", "idleTimeout": "1m", "maxSessions": 30},
        **{"sweepInterval": "7s", "headers": headers},
    }
    scenario = small(
        window={"measure": "150s"},
        backends={"pods": {"engine": "e", "replicas": 2, "policy": policy}},
        workloads={
            "keyed": _requests(
                sessionKeys="per-request", arrivals={"kind": "poisson", "rate": 0.6}, count=200
            ),
            "unkeyed": _requests(),
            "named": _requests(headers={"X-Chat": "7"}),
        },
        events=events,
    )
    loaded = load_dict(scenario)
    cluster = Cluster(loaded.variants[0], 3, Path())
    result = freeze(cluster.recorder, cluster.run())
    written = loaded.variants[0].model_dump(mode="json", by_alias=True)
    (policy_itself,) = [way.policy for way in cluster.proxy._upstreams]
    found = value(parsed(scraped(result, written)), "llmkube_router_session_bindings")
    assert found == policy_itself.bindings > 10
    assert "home" in set(result.placements["outcome"])


def test_ranks_are_engines_of_their_pod(tmp_path: Path):
    """Data-parallel ranks would be engines of no backend, or the export would fail."""
    scenario = small(
        engines={"e": {"kvBlocks": 2000, "stepTime": {"a": 10, "b": 20}, "dataParallel": 2}},
        workloads={"w": _requests()},
    )
    (one,) = stored(scenario, tmp_path)
    result = one.read()
    samples = parsed(scraped(result, one.manifest["scenario"]))
    counts = samples["vllm:time_to_first_token_seconds_count"]
    engines = {(dict(its)["pod"], dict(its)["engine"]) for its in counts}
    assert engines == {(f"pods-{pod}-rank-{rank}", str(rank)) for pod in (0, 1) for rank in (0, 1)}
    assert np.isclose(sum(counts.values()), 60)


@pytest.mark.parametrize("name", ["low-rank-0", "a-rank-1-rank", "x-0"])
def test_backends_may_be_called_as_ranks_are(name: str, tmp_path: Path):
    """A backend with -rank- in its name ended the export in a traceback."""
    scenario = small(
        backends={name: {"engine": "e", "replicas": 2, "policy": {"kind": "least-loaded"}}},
        router={"rules": [{"name": "all", "backends": [name]}]},
        workloads={"w": _requests()},
    )
    (one,) = stored(scenario, tmp_path)
    samples = parsed(scraped(one.read(), one.manifest["scenario"]))
    counts = samples["vllm:time_to_first_token_seconds_count"]
    engines = {(dict(its)["pod"], dict(its)["engine"]) for its in counts}
    assert engines == {(f"{name}-0", "0"), (f"{name}-1", "0")}
