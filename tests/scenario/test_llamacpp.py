"""What a scenario may say of a llama.cpp engine, and what is answered when it says it wrongly."""

from collections.abc import Callable

from sim.engine.llamacpp.spec import LlamaCpp
from sim.hardware.catalog import models
from sim.hardware.engine import StepTime
from sim.scenario.load import ScenarioSet
from tests.scenario.conftest import GOOD

Loaded = Callable[..., ScenarioSet]

GIB = 2**30


def server(**settings: object) -> LlamaCpp:
    return LlamaCpp(step_time=StepTime(a=1.0), **settings)  # type: ignore[arg-type]


def written(keys: str) -> str:
    """The good scenario with an engine of this kind."""
    return GOOD.replace("{kvBlocks: 100,", f"{{kind: llamacpp, {keys},")


def test_the_defaults_are_those_of_llama_server(loaded: Loaded) -> None:
    """Somebody who copies a command line would simulate another one."""
    (scenario,) = loaded(written("ctxSize: 32768, cacheRam: 0")).variants
    spec = scenario.engines["small"]
    assert (spec.slots, spec.kv_unified, spec.context_tokens()) == (4, True, 32_768)
    assert (spec.batch_size, spec.ubatch_size) == (2048, 512)
    assert (spec.slot_prompt_similarity, spec.cache_prompt, spec.cache_idle_slots) == (
        0.1,
        True,
        True,
    )
    assert server(ctx_size=2).cache_ram == 8 * GIB


def test_slots_share_the_context_unless_it_is_unified(loaded: Loaded) -> None:
    """Prompts would be accepted that no slot can hold, or refused that one can."""
    (scenario,) = loaded(written("ctxSize: 32768, parallel: 3, cacheRam: 0")).variants
    spec = scenario.engines["small"]
    assert (spec.kv_unified, spec.kv_tokens(), spec.context_tokens()) == (False, 32_768, 10_922)
    assert server(ctx_size=32_768, parallel=3, kv_unified=True).slots == 3


def test_a_slot_may_have_less_than_the_pool() -> None:
    """ggml-org/llama.cpp#24124: the limit would be taken for the size of the pool, or without
    ctxSize the pool not be as large as its slots may be together."""
    slots = {"parallel": 4, "kv_unified": True, "cache_ram": 0.0}
    half = server(ctx_size=200_000, kv_unified_per_slot=50_000, **slots)
    assert (half.kv_tokens(), half.context_tokens()) == (200_000, 50_000)
    alone = server(kv_unified_per_slot=8192, cache_ram=0.0)
    assert (alone.slots, alone.kv_tokens(), alone.context_tokens()) == (4, 32_768, 8192)
    assert not alone.kv_derived
    loose = server(ctx_size=1000, kv_unified_per_slot=8192, cache_ram=0.0)
    assert loose.context_tokens() == 1000


def test_host_memory_is_counted_in_tokens_of_kv() -> None:
    """cacheRam would hold more or fewer contexts than its bytes do."""
    assert server(ctx_size=8, model="gpt-oss-20b").host_tokens() == 8 * GIB / 24_576
    assert server(ctx_size=8, kv_per_token=57_344.0, cache_ram=57_344.0e3).host_tokens() == 1000
    assert server(ctx_size=8, model="gpt-oss-20b", kv_per_token=GIB).host_tokens() == 8
    assert server(ctx_size=8, cache_ram=0.0).host_tokens() == 0


def test_the_context_follows_from_the_hardware() -> None:
    """With gpu and model alone the pool would be of another size than for vLLM."""
    spec = server(gpu="rtx-4090", model="llama-3.1-8b")
    assert spec.kv_derived
    weights = models()["llama-3.1-8b"].weights_bytes()
    assert spec.kv_tokens() == int((0.92 * 23.5 * GIB - weights - GIB) / 131_072)
    assert not server(ctx_size=8).kv_derived
