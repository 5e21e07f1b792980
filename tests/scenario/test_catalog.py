"""GPUs and models: their numbers have sources, and the KV capacity follows from them."""

from collections.abc import Callable

import pytest
from pydantic import ValidationError

from sim.core.errors import ScenarioError
from sim.engine.spec import Vllm, kv_blocks
from sim.hardware.catalog import gpus, models
from sim.hardware.engine import StepTime
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]

GIB = 2**30


def engine(**settings: object) -> Vllm:
    return Vllm(step_time=StepTime(a=1.0), **settings)  # type: ignore[arg-type]


def test_the_published_deployment_has_4_44_million_tokens() -> None:
    """The KV pool of every run on B200 would be of the wrong size."""
    pod = engine(gpu="b200", model="qwen3.8-27b", tensor_parallel=2, weights=54e9)
    tokens = (0.92 * 2 * 179 * GIB - 54e9 - 2 * 4 * GIB) / 65_536
    assert round(tokens / 1e6, 2) == 4.44
    assert kv_blocks(pod) == int(tokens // 16) == 277_574


def test_a_recorded_engine_is_met() -> None:
    """The formula would be off: vLLM found 41,408 tokens on this GPU at 0.9 of its memory."""
    pod = engine(gpu="rtx-4090", model="llama-3.1-8b", gpu_memory_utilization=0.9, workspace=1.2e9)
    assert kv_blocks(pod) * 16 == pytest.approx(41_408, rel=0.005)


def test_given_blocks_and_weights_win_over_the_catalogue() -> None:
    """A capacity that the user states would be replaced by a computed one."""
    assert kv_blocks(engine(kv_blocks=7, gpu="b200", model="qwen3.8-27b")) == 7
    assert kv_blocks(engine(kv_blocks=7, model="my-own")) == 7
    given = engine(gpu="h100", model="qwen3.8-27b", weights=27e9)
    assert kv_blocks(given) == int((0.92 * 79.2 * GIB - 27e9 - 4 * GIB) / 65_536 / 16)


def test_the_27b_generations_are_one_size() -> None:
    """A comparison of generations would in truth compare sizes."""
    assert models()["qwen3.5-27b"] == models()["qwen3.6-27b"] == models()["qwen3.8-27b"]


@pytest.mark.parametrize(
    ("name", "published_bytes"),
    [
        ("qwen3-8b", 16_381_470_720),
        ("qwen3-14b", 29_536_614_400),
        ("qwen3-32b", 65_524_246_528),
        ("qwen3-coder-30b-a3b", 61_064_245_248),
        ("qwen2.5-coder-32b", 65_527_752_704),
        ("llama-3.1-8b", 16_060_522_496),
        ("llama-3.1-70b", 141_107_412_992),
        ("llama-2-70b", 137_953_296_384),
        ("qwen3-4b", 8_044_936_192),
        ("qwen2.5-7b", 15_231_233_024),
        ("qwen2.5-0.5b", 2 * 494_032_768),
        ("llama-3.2-1b", 2_471_645_608),
        ("llama-3.2-3b", 6_425_499_648),
        ("llama-2-7b", 13_476_839_424),
        ("llama-2-13b", 2 * 13_015_864_320),
        ("tinyllama-1.1b", 2 * 1_100_048_384),
        ("phi-3-mini", 7_642_159_104),
        ("phi-4-mini", 2 * 3_836_021_760),
        ("mistral-7b", 14_496_047_104),
        ("qwen3-0.6b", 2 * 596_049_920),
        ("qwen3-embedding-0.6b", 2 * 595_776_512),
        ("qwen3-1.7b", 2 * 1_720_574_976),
        ("qwen2.5-1.5b", 2 * 1_543_714_304),
        ("qwen2.5-3b", 2 * 3_085_938_688),
        ("qwen2.5-14b", 2 * 14_770_033_664),
        ("qwen3.5-2b", 2 * 1_881_825_088),
        ("gpt-oss-20b", 12.8 * GIB),
        ("gpt-oss-120b", 60.8 * GIB),
    ],
)
def test_weights_follow_from_the_dimensions(name: str, published_bytes: float) -> None:
    """A dimension would be wrong, or a kind of matrix not counted.

    Bytes and parameters as published: where, says the ``source`` of each entry.
    """
    assert models()[name].weights_bytes() == pytest.approx(published_bytes, rel=2e-3)


def test_parameters_follow_from_the_dimensions() -> None:
    """A dimension would be wrong; names of models are rounded, 27B and 35B by up to 1 %."""
    for name, model in models().items():
        assert model.parameters is not None and model.context and model.source, name
        assert model.total_parameters / 1e9 == pytest.approx(model.parameters, rel=0.01), name


@pytest.mark.parametrize(
    ("name", "per_token"),
    [
        ("qwen3-8b", 147_456),
        ("qwen3-32b", 262_144),
        ("qwen3.8-27b", 65_536),
        ("qwen3.5-35b-a3b", 20_480),
        ("qwen3-coder-30b-a3b", 98_304),
        ("llama-3.1-8b", 131_072),
        ("llama-3.1-70b", 327_680),
        ("mistral-small-24b", 163_840),
        ("qwen3.6-35b-a3b", 20_480),
        ("qwen3-4b", 147_456),
        ("llama-3.2-3b", 114_688),
        ("llama-2-13b", 819_200),
        ("tinyllama-1.1b", 22_528),
        ("gemma-4-e4b", 16_384),
        ("gpt-oss-20b", 24_576),
        ("gpt-oss-120b", 36_864),
    ],
)
def test_kv_bytes_follow_from_the_dimensions(name: str, per_token: int) -> None:
    """Every KV pool would be of the wrong size."""
    assert models()[name].kv_bytes_per_token() == per_token
    assert models()[name].kv_bytes_per_token("fp8") == per_token / 2


def test_states_and_windows_follow_from_the_dimensions() -> None:
    """Hybrid models would keep a state of another size than vLLM's 3,207,168 bytes per layer."""
    assert models()["qwen3.8-27b"].state_bytes == 48 * 3_207_168
    assert models()["gpt-oss-120b"].window_bytes() == 18 * 128 * 2048
    assert models()["llama-3.1-8b"].state_bytes == models()["llama-3.1-8b"].window_bytes() == 0


def test_kv_heads_are_replicated_when_gpus_outnumber_them() -> None:
    """The KV cache of 8 GPUs would be twice as large as it is: each holds a head of its own."""
    model = models()["qwen3.8-27b"]
    assert model.kv_bytes_per_token(tensor_parallel=4) == 65_536
    assert model.kv_bytes_per_token(tensor_parallel=8) == 2 * 65_536


def test_heads_must_split_over_the_gpus(faults: Lines) -> None:
    """podsim would simulate what vLLM refuses to start."""
    (line,) = faults(
        GOOD.replace("kvBlocks: 100", "gpu: b200, model: qwen3-32b, tensorParallel: 3")
    )
    assert line == (
        "f.yaml:4:56: engines.small.tensorParallel: must share out the 64 query heads and 8 KV "
        "heads of qwen3-32b evenly, so be one of 1, 2, 4, 8, 16, 32, 64; got 3"
    )
    (line,) = faults(
        GOOD.replace("kvBlocks: 100", "kvBlocks: 100, model: qwen3-32b, tensorParallel: 3")
    )
    assert "must share out the 64 query heads" in line


@pytest.mark.parametrize(
    ("gpu", "tokens", "sequences"),
    [
        (None, 8192, 256),
        ("b200", 16_384, 1024),
        ("h200", 8192, 1024),
        ("rtx-pro-6000", 8192, 1024),
        ("a100-80gb", 2048, 256),
        ("gb10", 2048, 256),
        ("l40s", 2048, 256),
    ],
)
def test_the_defaults_of_a_step_are_vllms(gpu: str | None, tokens: int, sequences: int) -> None:
    """A fleet that runs with vLLM's defaults would be simulated with others."""
    pod = engine(kv_blocks=1, gpu=gpu)
    assert (pod.max_num_batched_tokens, pod.max_num_seqs) == (tokens, sequences)
    small = engine(kv_blocks=1, gpu=gpu, max_num_batched_tokens=100)
    assert small.max_num_seqs == 100


def test_the_memory_is_what_the_driver_reports() -> None:
    """The label's decimal gigabytes would be counted as memory that no engine gets."""
    assert gpus()["b200"].memory == 179 * GIB
    assert gpus()["rtx-4090"].memory == 23.5 * GIB


def test_every_number_has_a_source() -> None:
    """Nobody could check a number, or tell a measured one from a guess."""
    assert list(gpus()) == sorted(gpus())
    assert list(models()) == sorted(models())
    assert all(len(entry.source) > 20 for entry in [*gpus().values(), *models().values()])
    assert min(len(gpus()), len(models())) >= 12


def test_a_model_that_does_not_fit_is_refused_with_the_arithmetic() -> None:
    """A pod without a KV block would reject every request, and nobody would know why."""
    with pytest.raises(ScenarioError) as caught:
        kv_blocks(engine(gpu="rtx-4090", model="llama-3.1-70b", tensor_parallel=2))
    assert str(caught.value) == (
        "engine: the model does not fit: 0.92 x 2 x 23.5 GiB of rtx-4090 - 131.4 GiB of weights "
        "- 2 x 4.0 GiB of workspace leaves no room for one KV block; raise tensorParallel or "
        "take a larger gpu"
    )


def test_a_size_that_leaves_less_than_a_block_is_refused() -> None:
    """A negative or empty pool would slip through as 0 blocks."""
    with pytest.raises(ScenarioError, match="no room for one KV block"):
        kv_blocks(engine(gpu="h100", model="qwen3.8-27b", block_size=10**6))


@pytest.mark.parametrize(
    ("settings", "block_size", "state_blocks"),
    [
        ({"prefix_retention": "prompt-tail"}, 784, 3),
        ({"prefix_retention": "prompt-tail", "kv_cache_dtype": "fp8"}, 1568, 3),
        ({"prefix_retention": "prompt-tail", "block_size": 1600}, 1600, 2),
        ({}, 16, 0),
    ],
)
def test_blocks_of_a_hybrid_model_are_as_large_as_its_states(
    settings: dict[str, object], block_size: int, state_blocks: int
) -> None:
    """vLLM's _align_hybrid_block_size: hits would end at boundaries that vLLM does not have, and
    154 MB of state take another number of blocks."""
    hybrid = engine(gpu="b200", model="qwen3.8-27b", **settings)
    assert (hybrid.block_size, hybrid.state_blocks) == (block_size, state_blocks)


def test_ranks_of_a_model_with_experts_step_together() -> None:
    """They would be simulated as independent whenever somebody forgot to say so."""
    ranks = {"gpu": "b200", "data_parallel": 2}
    assert engine(model="qwen3-coder-30b-a3b", **ranks).steps_together
    assert not engine(model="qwen3-8b", **ranks).steps_together
    assert not engine(model="qwen3-coder-30b-a3b", gpu="b200").steps_together
    with pytest.raises(ValidationError, match="qwen3-8b is a dense model"):
        engine(model="qwen3-8b", enable_expert_parallel=True, **ranks)


def test_states_of_a_model_that_has_none_are_refused_where_they_are_asked_for() -> None:
    """The user would be told of stateBlocks, a key that nobody wrote."""
    with pytest.raises(ValidationError, match=r"prefixRetention: .* knows none of qwen3-8b"):
        engine(gpu="h100", model="qwen3-8b", prefix_retention="prompt-tail")
