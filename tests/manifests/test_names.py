"""What models, GPUs and formats are called in clusters, and what the catalogue calls them."""

import pytest

from sim.manifests.names import gpu_named, model_named, scenario_name
from sim.scenario.dtypes import Format, weight_format


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
