"""GPUs and models that the catalogue lacks: a data sheet, a config.json."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sim.core.errors import ScenarioError
from sim.core.registry import Registry
from sim.engine.spec import Vllm, kv_blocks
from sim.hardware.architecture import Architecture
from sim.hardware.catalog import models
from sim.hardware.model_config import NotExpressed, architecture
from sim.hardware.step_times import step_time
from sim.scenario.load import ScenarioSet, load_dict, load_text
from tests.scenario.conftest import GOOD

Loaded = Callable[..., ScenarioSet]

LLAMA = {
    "model_type": "llama",
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0},
    "tie_word_embeddings": False,
}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "vocab_size": 32000,
    "max_position_embeddings": 32768,
    "rope_scaling": None,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
QWEN_MOE = {
    "model_type": "qwen3_moe",
    "hidden_size": 2048,
    "num_hidden_layers": 48,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "head_dim": 128,
    "intermediate_size": 6144,
    "moe_intermediate_size": 768,
    "num_experts": 128,
    "num_experts_per_tok": 8,
    "decoder_sparse_step": 1,
    "mlp_only_layers": [],
    "vocab_size": 151936,
    "max_position_embeddings": 262144,
}
GPT_OSS = {
    "model_type": "gpt_oss",
    "hidden_size": 2880,
    "num_hidden_layers": 24,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "head_dim": 64,
    "intermediate_size": 2880,
    "num_local_experts": 32,
    "num_experts_per_tok": 4,
    "layer_types": ["sliding_attention", "full_attention"] * 12,
    "sliding_window": 128,
    "vocab_size": 201088,
    "max_position_embeddings": 131072,
    "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096},
    "quantization_config": {"quant_method": "mxfp4"},
}
QWEN_HYBRID = {
    "model_type": "qwen3_5",
    "text_config": {
        "model_type": "qwen3_5_text",
        "hidden_size": 5120,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "intermediate_size": 17408,
        "vocab_size": 248320,
        "attn_output_gate": True,
        "full_attention_interval": 4,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "max_position_embeddings": 262144,
    },
}
ABOUT = {"name", "source", "parameters"}


@pytest.mark.parametrize(
    ("config", "known"),
    [
        (LLAMA, "llama-3.1-8b"),
        (MIXTRAL, "mixtral-8x7b"),
        (QWEN_MOE, "qwen3-coder-30b-a3b"),
        (GPT_OSS, "gpt-oss-20b"),
        (QWEN_HYBRID, "qwen3.5-27b"),
    ],
)
def test_a_config_says_what_the_catalogue_says(config: dict[str, Any], known: str) -> None:
    """A model of one's own would weigh or compute otherwise than the same one of the catalogue."""
    found = Architecture.model_validate(architecture(config), by_alias=True)
    assert found.model_dump(exclude=ABOUT) == models()[known].model_dump(exclude=ABOUT)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"kv_lora_rank": 512}, "kv_lora_rank says that it has multi-head latent attention"),
        ({"mamba_d_state": 128}, "mamba_d_state says that it has Mamba layers"),
        ({"num_hidden_layers": None}, "has no num_hidden_layers"),
        ({"sliding_window": 4096}, "attends to a window in every layer"),
        ({"layer_types": ["chunked_attention"] * 32}, "has layers of type chunked_attention"),
        ({"quantization_config": {"quant_method": "aqlm"}}, "has weights of quant_method aqlm"),
        ({"num_experts": 4, "decoder_sparse_step": 2}, "has experts in some layers only"),
    ],
)
def test_what_cannot_be_counted_is_refused_by_name(change: dict[str, Any], said: str) -> None:
    """DeepSeek's latent cache would be taken for one of 128 full heads, forty times as large."""
    with pytest.raises(NotExpressed, match=said):
        architecture(LLAMA | change)


@pytest.mark.parametrize(
    ("quantization", "dtype"),
    [
        ({"quant_method": "fp8", "activation_scheme": "dynamic"}, "fp8"),
        ({"quant_method": "awq", "bits": 4}, "int4"),
        ({"quant_method": "gptq", "bits": 8}, "fp8"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8}}},
            },
            "fp8",
        ),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "nvfp4"),
    ],
)
def test_weights_are_of_the_format_that_the_config_says(
    quantization: dict[str, Any], dtype: str
) -> None:
    """Weights of 4 bits would take four times the memory that they do."""
    assert architecture(LLAMA | {"quantization_config": quantization})["weightDtype"] == dtype


OWN = GOOD.replace(
    "kvBlocks: 100, stepTime: {a: 10}",
    "model: my-llm/config.json, gpu: {name: my-card, memory: 48GiB, bandwidth: 0.8TB/s, "
    "teraflops: {bf16: 180}}",
)


@pytest.fixture
def own(tmp_path: Path, registry: Registry) -> Callable[[str], ScenarioSet]:
    """Loads a scenario beside the config.json of a model of one's own."""
    (tmp_path / "my-llm").mkdir()
    (tmp_path / "my-llm" / "config.json").write_text(json.dumps(LLAMA), "utf-8")

    def load(text: str) -> ScenarioSet:
        return load_text(text, "f.yaml", directory=tmp_path, registry=registry)

    return load


def test_a_gpu_and_a_model_of_ones_own_are_simulated(own: Callable[[str], ScenarioSet]) -> None:
    """MI325X or a model of last week needed coefficients and blocks by hand."""
    assert "my-llm" in OWN
    found = own(OWN)
    engine = found.variants[0].engines["small"]
    assert isinstance(engine, Vllm)
    assert (engine.model_name, engine.gpu_name) == ("my-llm", "my-card")
    dimensions = models()["llama-3.1-8b"]
    free = 0.92 * 48 * 2**30 - dimensions.weights_bytes() - 4 * 2**30
    assert kv_blocks(engine) == int(free / dimensions.kv_bytes_per_token() / 16)
    assert step_time(engine).a == pytest.approx(32 * 0.055)
    assert list(found.file_hashes) == ["my-llm/config.json"]


def test_what_is_stored_of_a_model_of_ones_own_needs_no_file(
    own: Callable[[str], ScenarioSet], registry: Registry
) -> None:
    """A stored run could not be explained where the config.json has gone."""
    scenario = own(OWN).variants[0]
    stored = scenario.model_dump(mode="json", by_alias=True, exclude={"variant"})
    again = load_dict(stored, registry=registry).variants[0]
    assert again.engines == scenario.engines


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("my-llm/config.json", "no/config.json"), "'no/config.json' cannot be read: no such file"),
        (("memory: 48GiB, ", ""), "engines.small.gpu: missing key 'memory'"),
        (("bf16: 180", "fp8: 180"), "engines.small.gpu.teraflops: must have bf16"),
        (("0.8TB/s", "800"), "engines.small.gpu.bandwidth: must be a bandwidth such as 6GB/s"),
        (
            ("my-llm/config.json", "{num_hidden_layers: 61, kv_lora_rank: 512}"),
            "kv_lora_rank says that it has multi-head latent attention (MLA), which podsim cannot",
        ),
    ],
)
def test_slips_in_hardware_of_ones_own_are_told(
    own: Callable[[str], ScenarioSet], change: tuple[str, str], line: str
) -> None:
    """They would end in a traceback, or in a GPU without memory."""
    with pytest.raises(ScenarioError) as caught:
        own(OWN.replace(*change))
    assert line in str(caught.value)


def test_the_models_own_context_is_the_limit(loaded: Loaded) -> None:
    """Prompts of 300k tokens were served by llama-3.1-8b, whose context has 131,072."""
    text = GOOD.replace("kvBlocks: 100", "kvBlocks: 50k, gpu: h100, model: llama-3.1-8b")
    engine = loaded(text).variants[0].engines["small"]
    assert isinstance(engine, Vllm)
    assert engine.model_tokens == 131_072
    assert engine.model_copy(update={"max_model_len": 1000}).model_tokens == 1000


def test_a_config_that_cannot_be_counted_is_found_where_it_is_written(
    own: Callable[[str], ScenarioSet],
) -> None:
    """A config.json written into the scenario was refused with neither line nor key: with several
    engines nobody knew of which."""
    with pytest.raises(ScenarioError) as caught:
        own(OWN.replace("my-llm/config.json", "{num_hidden_layers: 32}"))
    (found,) = caught.value.faults
    line, *_ = [at for at, text in enumerate(OWN.splitlines(), 1) if "my-llm/config.json" in text]
    assert (found.line, found.path) == (line, "engines.small.model")
    assert found.message.startswith("has no num_attention_heads")
