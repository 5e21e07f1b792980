"""What may be written of pools of each kind, and what a user is told otherwise."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.desk.llama_swap_spec import LlamaSwapPool
from sim.desk.ollama_spec import OllamaPool
from sim.scenario.load import ScenarioSet
from sim.scenario.schema import Scenario

Loaded = Callable[..., ScenarioSet]

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


def test_never_may_be_said_of_one_member(loaded: Loaded) -> None:
    """null of a member would be taken for the time of the pool."""
    text = two("ollama", "memory: 99GiB").replace("a: {load: 8s}", "a: {load: 8s, keepAlive: null}")
    scenario = the_one(loaded(text))
    pool: Any = scenario.pools["desk"]
    assert (pool.keep_alive_s("a"), pool.keep_alive_s("b")) == (float("inf"), 300)
