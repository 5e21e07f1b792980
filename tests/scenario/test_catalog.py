"""GPUs and models: their numbers have sources, and the KV capacity follows from them."""

from collections.abc import Callable

import pytest

from sim.errors import ScenarioError
from sim.pod.spec import Vllm, kv_blocks
from sim.scenario.catalog import gpus, models
from sim.scenario.engine import StepTime
from sim.scenario.load import ScenarioSet
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]
Loaded = Callable[..., ScenarioSet]

GIB = 2**30


def engine(**settings: object) -> Vllm:
    return Vllm(step_time=StepTime(a=1.0), **settings)  # type: ignore[arg-type]


def test_the_published_deployment_has_4_44_million_tokens() -> None:
    """The KV pool of every run on B200 would be of the wrong size."""
    pod = engine(gpu="b200", model="qwen3.8-27b", tensor_parallel=2)
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
    at_fp8 = engine(gpu="h100", model="qwen3.8-27b", weights=27e9)
    assert kv_blocks(at_fp8) == int((0.92 * 79.2 * GIB - 27e9 - 4 * GIB) / 65_536 / 16)


def test_the_27b_generations_are_one_size() -> None:
    """A comparison of generations would in truth compare sizes."""
    assert models()["qwen3.5-27b"] == models()["qwen3.6-27b"] == models()["qwen3.8-27b"]
    assert models()["qwen3.8-27b"].kv_per_token == 65_536
    assert models()["qwen3.8-27b"].weights == 54e9


def test_the_memory_is_what_the_driver_reports() -> None:
    """The label's decimal gigabytes would be counted as memory that no engine gets."""
    assert gpus()["b200"].memory == 179 * GIB
    assert gpus()["rtx-4090"].memory == 23.5 * GIB


def test_every_number_has_a_source() -> None:
    """Nobody could check a number, or tell a measured one from a guess."""
    assert list(gpus()) == sorted(gpus())
    assert list(models()) == sorted(models())
    assert all(len(entry.source) > 20 for entry in [*gpus().values(), *models().values()])
    assert all(entry.memory > 0 for entry in gpus().values())
    assert all(entry.weights > 0 and entry.kv_per_token > 0 for entry in models().values())


def test_a_model_that_does_not_fit_is_refused_with_the_arithmetic() -> None:
    """A pod without a KV block would reject every request, and nobody would know why."""
    with pytest.raises(ScenarioError) as caught:
        kv_blocks(engine(gpu="rtx-4090", model="llama-3.1-70b", tensor_parallel=2))
    assert str(caught.value) == (
        "engine: the model does not fit: 0.92 x 2 x 23.5 GiB of rtx-4090 - 131.4 GiB of weights "
        "- 2 x 4.0 GiB of workspace leaves no room for one KV block; raise tensorParallel or "
        "take a larger gpu"
    )


def test_faults_of_an_engine_are_placed_in_the_file(faults: Lines) -> None:
    """The user would be told of a fault of an engine, but not of which or where."""

    def small(block: str) -> list[str]:
        return faults(GOOD.replace("kvBlocks: 100", block))

    assert small("gpu: b20, model: qwen-3.8-27b") == [
        "f.yaml:4:16: engines.small.gpu: unknown gpu 'b20'; did you mean 'b200'?",
        "f.yaml:4:28: engines.small.model: unknown model 'qwen-3.8-27b'; "
        "did you mean 'qwen3.8-27b'?",
    ]
    assert small("gpu: b200") == [
        "f.yaml:4:10: engines.small: the KV capacity is unknown: give kvBlocks, or both gpu and "
        "model"
    ]
    assert small("kvBlocks: 100, gpu: b20, model: my-own") == [
        "f.yaml:4:31: engines.small.gpu: unknown gpu 'b20'; did you mean 'b200'?"
    ]
    (line,) = small("gpu: rtx-3090, model: llama-3.1-70b")
    assert line.startswith("f.yaml:4:10: engines.small: the model does not fit: 0.92 x 1 x 23.7")


def test_a_size_that_leaves_less_than_a_block_is_refused() -> None:
    """A negative or empty pool would slip through as 0 blocks."""
    with pytest.raises(ScenarioError, match="no room for one KV block"):
        kv_blocks(engine(gpu="h100", model="qwen3.8-27b", block_size=10**6))
