"""What may be written of pools of each kind, and what a user is told otherwise."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.desk.llama_swap_spec import LlamaSwapPool
from sim.desk.ollama_spec import OllamaPool
from sim.scenario.load import ScenarioSet
from sim.scenario.schema import Scenario

Loaded = Callable[..., ScenarioSet]
Faults = Callable[..., list[str]]

TWO = """\
name: two
engines:
  small: {ctxSize: 32768, kind: llamacpp, model: qwen3-8b, gpu: rtx-4090}
backends:
  a: {engine: small}
  b: {engine: small}
pools:
  desk:
    members: {a: {load: 8s}, b: {load: 8s}}
    kind: KIND
router:
  rules:
    - {name: all, backends: [a, b]}
workloads:
  w: {kind: script, rows: [{arrival: 0, promptTokens: 10, outputTokens: 10}]}
"""


def the_one(found: ScenarioSet) -> Scenario:
    (scenario,) = found.variants
    return scenario


def two(kind: str, *lines: str) -> str:
    settings = "".join(f"\n    {line}" for line in lines)
    return TWO.replace("kind: KIND", f"kind: {kind}{settings}")


def test_the_defaults_are_llama_swaps(loaded: Loaded) -> None:
    """A pool that says nothing would be another than llama-swap without a configuration."""
    scenario = the_one(loaded(two("llama-swap")))
    pool = scenario.pools["desk"]
    assert isinstance(pool, LlamaSwapPool)
    assert (pool.health_check_timeout, pool.unload_timeout) == (120, 10)
    assert (pool.ttl_s("a"), pool.members["a"].concurrency_limit) == (None, 10)
    assert pool.evicts()("a", ("a", "b")) == ("b",)
    assert pool.health_checked()["a"].load_limit == 120


def test_the_defaults_are_ollamas(loaded: Loaded) -> None:
    """A pool that says nothing would be another than Ollama without variables."""
    scenario = the_one(loaded(two("ollama", "memory: 24GiB")))
    pool = scenario.pools["desk"]
    assert isinstance(pool, OllamaPool)
    assert (pool.max_queue, pool.max_loaded_models, pool.num_parallel) == (512, 3, 1)
    assert (pool.keep_alive_s("a"), pool.load_timeout, pool.vram_recovery) == (300, 300, 0.5)


def test_the_memory_of_a_member_follows_from_its_engine(loaded: Loaded) -> None:
    """Weights, KV cache or workspace would be left out of what members take."""
    scenario = the_one(loaded(two("ollama", "memory: 24GiB")))
    pool, engine = scenario.pools["desk"], scenario.engines["small"]
    taken = pool.resident_bytes({"a": engine, "b": engine})
    kv_bytes = 32768 * 36 * 2 * 8 * 128 * 2  # layers, K and V, KV heads, their size, bf16
    assert taken["a"] == pytest.approx(8_190_735_360 * 2 + kv_bytes + engine.workspace, rel=1e-3)


@pytest.mark.parametrize(
    ("kind", "lines", "said"),
    [
        (
            "llama-swap",
            ["groups: {g: {members: [a, x]}}"],
            "f.yaml:11:13: pools.desk.groups: g: 'x' is none of the members (a, b)",
        ),
        (
            "llama-swap",
            ["groups: {g: {members: [a]}, h: {members: [a]}}"],
            "f.yaml:11:13: pools.desk.groups: h: 'a' is in group 'g' already",
        ),
        (
            "llama-swap",
            ["initial: [a, b]"],
            "f.yaml:11:14: pools.desk.initial: 'a' and 'b' are never loaded together: groups",
        ),
        (
            "llama-swap",
            ["initial: [x]"],
            "f.yaml:11:14: pools.desk.initial: must be members (a, b); got 'x'",
        ),
        (
            "llama-swap",
            ["initial: [a, b]", "matrix: {sets: {s: a | b}}"],
            "f.yaml:11:14: pools.desk.initial: 'a' and 'b' are never loaded together: matrix",
        ),
        (
            "llama-swap",
            ["groups: {g: {members: [a]}}", "matrix: {sets: {s: a | b}}"],
            "f.yaml:11:13: pools.desk.groups: not beside matrix, which says itself who may be "
            "loaded together",
        ),
        (
            "llama-swap",
            ["initial: [a]", "matrix: {sets: {s: a & c}}"],
            "f.yaml:12:24: pools.desk.matrix.sets.s: 'c' is unknown; known: a, b",
        ),
        (
            "llama-swap",
            ["healthCheckTimeout: 10s"],
            "f.yaml:11:25: pools.desk.healthCheckTimeout: must be a duration such as 120s, from "
            "15s to 366d; got '10s'",
        ),
        (
            "llama-swap",
            ["globalTtl: 10s"],
            "f.yaml:11:5: pools.desk.globalTtl: unknown key 'globalTtl'; did you mean 'globalTTL'?",
        ),
        ("ollama", ["numParallel: 2"], "f.yaml:9:5: pools.desk: missing key 'memory'"),
        (
            "ollama",
            ["memory: 16GiB"],
            "f.yaml:9:18: pools.desk.members.a: takes 20.8 GiB, more than the memory of the pool, "
            "16.0 GiB; nothing is offloaded to the host",
        ),
        (
            "ollama",
            ["memory: 24GiB", "initial: [a, b]"],
            "f.yaml:12:14: pools.desk.initial: take 41.5 GiB together, more than the memory "
            "of the pool",
        ),
        (
            "ollama",
            ["memory: 99GiB", "initial: [a, b]", "maxLoadedModels: 1"],
            "f.yaml:12:14: pools.desk.initial: more members than maxLoadedModels, 1",
        ),
        (
            "fair",
            ["order: fifo"],
            "f.yaml:11:12: pools.desk.order: fifo leaves no choice to priorities; use kind "
            "model-pool",
        ),
        (
            "olama",
            ["memory: 99GiB"],
            "f.yaml:10:11: pools.desk.kind: unknown kind 'olama'; did you mean 'ollama'?",
        ),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(
    faults: Faults, kind: str, lines: list[str], said: str
) -> None:
    """A mistake would end in a traceback, or in a pool that does something else."""
    assert said in faults(two(kind, *lines))[0]


def test_memory_that_nobody_knows_is_asked_for(faults: Faults) -> None:
    """It would be a traceback when the run starts."""
    text = two("ollama", "memory: 24GiB").replace(
        "model: qwen3-8b, gpu: rtx-4090", "stepTime: {a: 10}, kvPerToken: 100KB"
    )
    found = faults(text)
    assert "give memory, such as 20GB" in found[0] and "pools.desk.members.a" in found[0]


@pytest.mark.parametrize("kind", ["llama-swap", "ollama"])
def test_if_idle_is_refused_where_nothing_is_skipped(faults: Faults, kind: str) -> None:
    """A rule would hold requests that it says are not to be held."""
    text = two(kind, *(["memory: 50GiB"] if kind == "ollama" else []))
    (said,) = faults(text.replace("[a, b]}\nwork", "[a, b], poolActivation: IfIdle}\nwork"))
    assert "router.rules" in said and "poolActivation" in said
    assert f"must be Wait: a is a member of pool 'desk' of kind {kind}, which holds" in said


@pytest.mark.parametrize("kind", ["model-pool", "fair"])
def test_if_idle_is_taken_where_something_is(loaded: Loaded, kind: str) -> None:
    """A published rule would be refused."""
    text = two(kind).replace("[a, b]}\nwork", "[a, b], poolActivation: IfIdle}\nwork")
    assert loaded(text)


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("llama-swap", "globalTTL", "1ms"),
        ("llama-swap", "unloadTimeout", "-1s"),
        ("ollama", "numParallel", "0"),
        ("ollama", "maxLoadedModels", "0"),
        ("ollama", "loadTimeout", "0"),
        ("ollama", "keepAlive", "-1 hour"),
        ("fair", "minServed", "-1"),
        ("fair", "minResidency", "-1s"),
    ],
)
def test_values_out_of_range_are_refused(faults: Faults, kind: str, key: str, value: str) -> None:
    """A run would not move on, or do something that nobody has asked for."""
    lines = ["memory: 99GiB"] if kind == "ollama" else []
    said, *_ = faults(two(kind, *lines, f"{key}: {value}"))
    assert key in said


def test_never_may_be_said_of_one_member(loaded: Loaded) -> None:
    """null of a member would be taken for the time of the pool."""
    text = two("ollama", "memory: 99GiB").replace("a: {load: 8s}", "a: {load: 8s, keepAlive: null}")
    scenario = the_one(loaded(text))
    pool: Any = scenario.pools["desk"]
    assert (pool.keep_alive_s("a"), pool.keep_alive_s("b")) == (float("inf"), 300)
