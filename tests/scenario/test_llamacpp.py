"""What a scenario may say of a llama.cpp engine, and what is answered when it says it wrongly."""

from collections.abc import Callable

import pytest

from sim.engine.llamacpp.spec import LlamaCpp
from sim.hardware.catalog import models
from sim.hardware.engine import StepTime
from sim.scenario.load import ScenarioSet
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]
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


@pytest.mark.parametrize(
    ("keys", "fault"),
    [
        ("parallel: 2", "engines.small: the KV capacity is unknown: give ctxSize, or both gpu and"),
        (
            "kvUnifiedPerSlot: 1, cacheRam: 0",
            "engines.small.kvUnifiedPerSlot: must be at least 2; got 1",
        ),
        (
            "kvUnifiedPerSlot: 4k",
            "engines.small.cacheRam: the tokens that cacheRam holds are unknown: give",
        ),
        ("ctxSize: 8", "engines.small.cacheRam: the tokens that cacheRam holds are unknown: give"),
        ("ctxSize: 7, parallel: 4, cacheRam: 0", "engines.small.ctxSize: must be at least 8 for 4"),
        ("ctxSize: 1, cacheRam: 0", "engines.small.ctxSize: must be at least 2 for 4 slots; got 1"),
        (
            "ctxSize: 4k, cacheRam: 0, batchSize: 100, ubatchSize: 200",
            "engines.small.ubatchSize: must be at most batchSize (100); got 200",
        ),
        (
            "ctxSize: 4k, cacheRam: 0, parallel: 9, ubatchSize: 8",
            "engines.small.parallel: must be at most ubatchSize (8), since each generating slot",
        ),
        (
            "gpu: rtx-4090, model: llama-3.1-8b, kvPerToken: 65536",
            "engines.small.kvPerToken: goes with ctxSize: a derived one counts the catalogue's",
        ),
        (
            "gpu: rtx-4090, model: qwen3-32b",
            "engines.small: the model does not fit: 0.92 x 1 x 23.5 GiB of rtx-4090 - 61.0 GiB of",
        ),
        (
            "gpu: rtx-4090, model: qwen3-32b, ctxSize: 4k",
            "engines.small: the model does not fit: 61.0 GiB of weights are more than 23.5 GiB of",
        ),
        (
            "gpu: rtx-4090, weights: 60GiB, tensorParallel: 2, ctxSize: 4k, cacheRam: 0",
            "engines.small: the model does not fit: 60.0 GiB of weights are more than 2 x 23.5 GiB",
        ),
        ("gpu: rtx-4091, model: llama-3.1-8b", "engines.small.gpu: unknown gpu 'rtx-4091'"),
        ("ctxSize: 4k, cacheRam: 0, parallel: 0", "engines.small.parallel: must be a whole number"),
        ("ctxSize: 4k, cacheRam: 0, kvBlocks: 7", "engines.small.kvBlocks: unknown key"),
    ],
)
def test_a_mistake_is_answered_at_its_key(faults: Lines, keys: str, fault: str) -> None:
    """A user would have to guess what is wrong, or would simulate what cannot be."""
    (line,) = faults(written(keys))
    assert fault in line


CODER = "gpu: rtx-4090, model: qwen2.5-coder-32b, weightDtype: q4_0"


def test_a_context_beyond_the_card_is_doubted_with_the_sum(loaded: Loaded) -> None:
    """A server that leaves layers on the host would be simulated as if all were on the GPU."""
    assert loaded(written(f"{CODER}, ctxSize: 16384")).warnings == (
        "f.yaml:4:96: engines.small.ctxSize: needs 17.2 GiB of weights + 4.0 GiB of KV + 1.0 GiB "
        "of workspace; 0.92 x 23.5 GiB of rtx-4090 are there: podsim assumes that all of it is on "
        "the GPU",
    )


@pytest.mark.parametrize(
    "keys",
    [
        f"{CODER}, ctxSize: 16384, workspace: 256MiB",
        f"{CODER}, ctxSize: 16384, tensorParallel: 2",
        "ctxSize: 16384, cacheRam: 0, gpu: rtx-4090",
        "ctxSize: 16384, cacheRam: 0, gpu: rtx-4090, weights: 20GiB",
        "ctxSize: 1M, model: qwen3-32b",
        "gpu: rtx-4090, model: llama-3.1-8b",
    ],
)
def test_a_context_that_fits_or_of_unknown_size_is_not_doubted(loaded: Loaded, keys: str) -> None:
    """A right file, or one that says less, would be blamed for nothing."""
    assert loaded(written(keys)).warnings == ()


def test_a_context_whose_bytes_are_given_is_doubted_too(loaded: Loaded) -> None:
    """A model that the catalogue does not know would be of any size at all."""
    keys = "gpu: rtx-4090, weights: 17GiB, kvPerToken: 1MiB, ctxSize: 4096, cacheRam: 0"
    (warning,) = loaded(written(keys)).warnings
    assert "17.0 GiB of weights + 4.0 GiB of KV + 1.0 GiB of workspace" in warning
    assert loaded(written(f"{keys}, workspace: 256MiB")).warnings == ()
