"""What models, GPUs and formats are called in clusters, and what the catalogue calls them."""

import pytest

from sim.hardware.catalog import models
from sim.hardware.gpu import Format, weight_format
from sim.manifests.writing import (
    ANY_MODEL,
    gpu_named,
    model_named,
    nearest_model,
    scenario_name,
)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Qwen/Qwen3-Coder-30B-A3B-Instruct-FP8", "qwen3-coder-30b-a3b"),
        ("https://huggingface.co/x/qwen2.5-coder-7b-instruct-q4_k_m.gguf", "qwen2.5-coder-7b"),
        ("qwen2-5-coder-32b", "qwen2.5-coder-32b"),  # the name of an object has no dots
        ("meta-llama/Meta-Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("/models/Llama-3.1-70B", "llama-3.1-70b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("Qwen3-8B", "qwen3-8b"),
        ("TheBloke/TinyLlama-1.1B-Chat-v1.0-GGUF", "tinyllama-1.1b"),
        ("bartowski/Llama-3.2-3B-Instruct-GGUF", "llama-3.2-3b"),
        ("llama-3.2-1b-instruct-q4_k_m.gguf", "llama-3.2-1b"),
        ("microsoft/Phi-4-mini-instruct", "phi-4-mini"),
        ("Phi-3-mini-4k-instruct-q4.gguf", "phi-3-mini"),
        ("TheBloke/Llama-2-13B-chat-GGUF", "llama-2-13b"),
        ("Qwen/Qwen2.5-0.5B-Instruct", "qwen2.5-0.5b"),
        ("Qwen2.5-32B-Instruct-AWQ", "qwen2.5-32b"),
        ("Qwen/Qwen3-4B-Instruct-2507", "qwen3-4b"),
        ("Qwen3-Embedding-0.6B-Q8_0.gguf", "qwen3-embedding-0.6b"),
        ("gemma-4-E4B-it-UD-Q4_K_XL.gguf", "gemma-4-e4b"),
        ("Qwen/Qwen3.6-35B-A3B-FP8", "qwen3.6-35b-a3b"),
        ("unsloth/Qwen3-30B-A3B-Instruct-2507-GGUF", "qwen3-30b-a3b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("DeepSeek-R1-Distill-Qwen-32B", None),
        ("Llama-3.2-11B-Vision", None),
        ("Qwen3-18B", None),
        ("qwen3-8b2", None),
        ("my-finetune", None),
        ("", None),
    ],
)
def test_a_model_is_known_by_what_people_call_it(text: str, name: str | None):
    """An engine would get another model's weights, or none."""
    assert model_named(text) == name


@pytest.mark.parametrize(
    ("label", "name"),
    [
        ("NVIDIA-B200", "b200"),
        ("NVIDIA-GB200", "gb200"),
        ("NVIDIA-H100-80GB-HBM3", "h100"),
        ("NVIDIA-A100-SXM4-80GB", "a100-80gb"),
        ("NVIDIA-A100-PCIE-40GB", "a100-40gb"),
        ("NVIDIA-GeForce-RTX-4090", "rtx-4090"),
        ("NVIDIA-RTX-PRO-6000-Blackwell-Server-Edition", "rtx-pro-6000"),
        ("nvidia-l4", "l4"),
        ("NVIDIA-L40S", "l40s"),
        ("nvidia-tesla-a100", None),  # 40 or 80 GB
        ("gpu-pool-4", None),
    ],
)
def test_a_gpu_is_known_by_its_node_label(label: str, name: str | None):
    """A pod would be simulated on another GPU than its node has."""
    assert gpu_named(label) == name


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Q8_0", Format("q8_0", True)),
        ("model-q4_0.gguf", Format("q4_0", True)),
        ("Q4_K_M", Format("q4_0", False)),
        ("IQ3_XXS", Format("q4_0", False)),
        ("Q6_K", Format("q8_0", False)),
        ("fp8_e4m3", Format("fp8", True)),
        ("awq_marlin", Format("int4", True)),
        ("nvidia/Qwen3-8B-NVFP4", Format("nvfp4", True)),
        ("BF16", Format("bf16", True)),
        ("Qwen3-8B", None),
    ],
)
def test_a_format_of_weights_is_known_or_taken_for_the_nearest(text: str, found: Format | None):
    """Weights would be counted twice as large, or half."""
    assert weight_format(text) == found


def test_names_of_objects_become_names_of_scenarios():
    """A dot would part a path of the scenario; other letters are no name at all."""
    assert scenario_name("qwen2.5-coder") == "qwen2-5-coder"
    assert scenario_name("a" * 80) == "a" * 63
    assert scenario_name("ключ") == ""


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (["qwen3-coder"], "qwen3-coder-30b-a3b"),  # the name of a service, cut short
        (["org/Mystery-13B-Instruct"], "llama-2-13b"),
        (["Muse-Glimmer-30B-A3B"], "qwen3-30b-a3b"),
        (["judge", "gemma-9-e4b"], "qwen3-4b"),
        (["bge-reranker-v2-m3"], ANY_MODEL),
        (["0b", ""], ANY_MODEL),
    ],
)
def test_the_nearest_of_the_catalogue_stands_in_for_a_model(texts: list[str], name: str):
    """`--assume` would give a model of 13 billion parameters the size of one of 70."""
    assert nearest_model(texts, models()) == name
