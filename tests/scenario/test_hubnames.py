"""Names as drivers and model hubs write them are understood, or answered with what to write."""

from collections.abc import Callable

import pytest

from sim.hardware import catalog
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]


@pytest.mark.parametrize(
    ("written", "known", "dtype"),
    [
        ("meta-llama/Llama-3.1-70B-Instruct", "llama-3.1-70b", "bf16"),
        ("meta-llama/Meta-Llama-3.1-8B", "llama-3.1-8b", "bf16"),
        ("QWEN3_8B", "qwen3-8b", "bf16"),
        ("Qwen/Qwen3-32B-FP8", "qwen3-32b", "fp8"),
        ("Qwen/Qwen2.5-Coder-32B-Instruct-AWQ", "qwen2.5-coder-32b", "int4"),
        ("Qwen/Qwen3-8B-GPTQ-Int4", "qwen3-8b", "int4"),
        ("RedHatAI/Meta-Llama-3.1-70B-Instruct-quantized.w8a8", "llama-3.1-70b", "fp8"),
        ("nvidia/Qwen3.6-27B-NVFP4", "qwen3.6-27b", "nvfp4"),
        ("mistralai/Mixtral-8x7B-Instruct-v0.1", "mixtral-8x7b", "bf16"),
        ("mistralai/Mistral-Small-24B-Instruct-2501", "mistral-small-24b", "bf16"),
        ("google/gemma-3-4b-it", "gemma-3-4b", "bf16"),
        ("openai/gpt-oss-20b", "gpt-oss-20b", "mxfp4"),
    ],
)
def test_a_model_is_known_by_its_name_on_a_hub(written: str, known: str, dtype: str) -> None:
    """meta-llama/Llama-3.1-70B-Instruct got a lecture on letters, although podsim has the model."""
    found = catalog.model(written)
    assert found is not None
    assert found.total_parameters == catalog.models()[known].total_parameters
    assert found.weight_dtype == dtype


@pytest.mark.parametrize(
    ("written", "answer"),
    [
        ("Qwen/Qwen3-8B-Q4_K_M", "; did you mean 'qwen3-8b' with weightDtype: q4_0?"),
        ("Qwen/Qwen3-8B-GPTQ-Int8", "; did you mean 'qwen3-8b'?"),
        ("nvidia/Llama-3.1-70B-Nemotron", "; did you mean 'llama-3.1-70b'?"),
        ("deepseek-ai/DeepSeek-V3", ": podsim has no formula for latent attention (MLA);"),
        ("moonshotai/Kimi-K2-Instruct", ": podsim has no formula for latent attention (MLA);"),
        ("acme/zeta", "; `podsim list models` shows those known, or give the path of its config"),
    ],
)
def test_a_model_that_may_be_another_is_asked_for(written: str, answer: str) -> None:
    """Weights of another size, or a cache of another kind, would be simulated without a word."""
    assert catalog.model(written) is None
    assert catalog.unknown_model(written).startswith(f"unknown model {written!r}{answer}")


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("H100_SXM", "h100"),
        ("NVIDIA A100-SXM4-80GB", "a100-80gb"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("rtx4090", "rtx-4090"),
        ("A6000", "rtx-a6000"),
        ("NVIDIA H200 141GB", "h200"),
        ("AMD Instinct MI300X", "mi300x"),
        ("AMD Radeon AI PRO R9700", "r9700"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000"),
    ],
)
def test_a_gpu_is_known_by_what_its_driver_calls_it(written: str, known: str) -> None:
    """The output of nvidia-smi would have to be translated by hand."""
    assert catalog.gpu(written) is catalog.gpus()[known]


@pytest.mark.parametrize(
    ("written", "near"),
    [
        ("A100", "'a100-40gb' or 'a100-80gb'"),
        ("H100 PCIe", "'h100'"),
        ("NVIDIA H100 NVL", "'h100'"),
        ("H100 96GB", "'h100'"),
        ("RTX 4090 Laptop GPU", "'rtx-4090'"),
    ],
)
def test_a_card_that_may_be_another_is_asked_for(faults: Lines, written: str, near: str) -> None:
    """A card of other memory or bandwidth would be taken for the one of like name."""
    block = f'gpu: "{written}", model: qwen3-8b'
    (line,) = faults(GOOD.replace("kvBlocks: 100", block))
    assert line.endswith(f"engines.small.gpu: unknown gpu {written!r}; did you mean {near}?")
