"""The dimensions of a model from its ``config.json`` as Hugging Face's transformers writes it.

What podsim cannot count is refused by name: a cache or a layer of another
kind would be simulated as if it were attention. Keys and defaults are those of
the configuration classes of transformers 4.57.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from sim.core.errors import Fault, ScenarioError
from sim.core.textfile import read_text

Config: TypeAlias = Mapping[str, Any]

NOT_COUNTED: Final = {
    "kv_lora_rank": "multi-head latent attention (MLA)",
    "attn_type_list": "lightning attention",
    "hybrid_override_pattern": "Mamba layers",
    "mamba_d_state": "Mamba layers",
    "state_size": "Mamba layers",
    "ssm_cfg": "Mamba layers",
    "cross_attention_layers": "cross-attention to images",
    "is_encoder_decoder": "an encoder",
    "mlp_only_layers": "layers with experts beside layers without",
    "first_k_dense_replace": "layers with experts beside layers without",
    "num_kv_shared_layers": "layers that share their KV cache",
    "altup_num_inputs": "alternating updates",
}
"""By the key of a configuration that says it: what podsim has no formula for."""

_TWO_MATRICES: Final = frozenset(
    ("falcon", "gpt_neox", "nemotron", "opt", "phi", "starcoder2", "stablelm_epoch")
)
"""Families whose feed-forward part has no gate."""

_LONG_ROPE: Final = frozenset({"su", "longrope", "llama3"})
"""Ways to stretch positions that max_position_embeddings includes (vLLM's ModelConfig)."""

_QUANTIZED: Final = {"fp8": "fp8", "fbgemm_fp8": "fp8", "awq": "int4", "mxfp4": "mxfp4"}


INSTEAD: Final = "give stepTime and the KV capacity instead"


class NotExpressed(ValueError):  # noqa: N818 - it is the model that is not
    """The configuration of a model that podsim cannot count; the message says why."""


def is_config(written: Any) -> bool:
    """Whether ``written`` has the keys of a ``config.json``, not podsim's own."""
    return isinstance(written, Mapping) and bool({"num_hidden_layers", "text_config"} & {*written})


def read_config(path: Path) -> dict[str, Any]:
    """The keys of ``Architecture`` for the ``config.json`` at ``path``.

    It is called as its folder. Raises ``ScenarioError`` for what is no JSON, or
    cannot be counted.
    """
    try:
        written = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        message = f"is no JSON: {error.msg}"
        raise ScenarioError([Fault(str(path), error.lineno, error.colno, "", message)]) from None
    if not isinstance(written, dict):
        raise ScenarioError([Fault(str(path), 0, 0, "", "must hold one object")])
    name = path.absolute().parent.name if path.stem == "config" else path.stem
    try:
        return {"name": name, **architecture(written)}
    except NotExpressed as error:
        raise ScenarioError([Fault(str(path), 0, 0, "", f"{error}; {INSTEAD}")]) from None


def architecture(written: Config) -> dict[str, Any]:
    """The keys of ``Architecture`` for the ``config.json`` ``written``.

    Of a model for images and text its ``text_config`` counts. Raises
    ``NotExpressed`` for what is missing, or what podsim has no formula for.
    """
    config = {**written, **written.get("text_config", {})}
    for key, what in NOT_COUNTED.items():
        if config.get(key):
            raise NotExpressed(f"{key} says that it has {what}, which podsim cannot count")
    layers = _number(config, "num_hidden_layers", "n_layer", "n_layers")
    heads = _number(config, "num_attention_heads", "n_head", "n_heads")
    hidden = _number(config, "hidden_size", "n_embd", "d_model")
    family = str(config.get("model_type", ""))
    found: dict[str, Any] = {
        "layers": layers,
        "hidden": hidden,
        "heads": heads,
        "kvHeads": config.get("num_key_value_heads") or heads,
        "headDim": config.get("head_dim") or hidden // heads,
        "vocabulary": _number(config, "vocab_size"),
        "tiedEmbeddings": bool(config.get("tie_word_embeddings", family.startswith("gemma"))),
        "gatedFeedForward": family not in _TWO_MATRICES,
        "gatedAttention": bool(config.get("attn_output_gate", family == "qwen3_next")),
        "context": _context(config),
        "weightDtype": _weight_dtype(written.get("quantization_config") or {}),
        **dict(_feed_forward(config)),
        **dict(_other_layers(config, layers)),
    }
    return {key: value for key, value in found.items() if value is not None}


def _number(config: Config, *keys: str) -> int:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and value > 0:
            return value
    raise NotExpressed(f"has no {keys[0]}: it is no decoder that podsim can count")


def _feed_forward(config: Config) -> Iterator[tuple[str, Any]]:
    """One wide part, or experts."""
    count = config.get("num_local_experts") or config.get("num_experts") or 0
    if count <= 1:
        yield "feedForward", _number(config, "intermediate_size", "n_inner", "ffn_hidden_size")
        return
    if config.get("decoder_sparse_step", 1) != 1 or config.get("moe_layer_freq", 1) != 1:
        raise NotExpressed("has experts in some layers only, which podsim cannot count")
    shared = config.get("shared_expert_intermediate_size") or 0
    yield (
        "experts",
        {
            "count": count,
            "perToken": _number(config, "num_experts_per_tok", "experts_per_token"),
            "feedForward": _number(config, "moe_intermediate_size", "intermediate_size"),
            "shared": shared,
        },
    )


def _other_layers(config: Config, layers: int) -> Iterator[tuple[str, Any]]:
    """How many layers attend to everything, and what the others do."""
    full = _full_attention(config, layers)
    if full == layers:
        return
    yield "fullAttention", full
    if config.get("linear_num_value_heads"):
        key_dim = _number(config, "linear_key_head_dim")
        if key_dim != config.get("linear_value_head_dim", key_dim):
            raise NotExpressed("has keys and values of different widths in its linear attention")
        yield (
            "recurrent",
            {
                "keyHeads": _number(config, "linear_num_key_heads"),
                "valueHeads": _number(config, "linear_num_value_heads"),
                "headDim": key_dim,
                "convolution": _number(config, "linear_conv_kernel_dim"),
            },
        )
    else:
        yield "window", _number(config, "sliding_window")


def _full_attention(config: Config, layers: int) -> int:
    types = config.get("layer_types")
    if types:
        unknown = set(types) - {"full_attention", "sliding_attention", "linear_attention"}
        if unknown:
            raise NotExpressed(f"has layers of type {sorted(unknown)[0]}")
        return int(types.count("full_attention"))
    every = config.get("full_attention_interval") or config.get("sliding_window_pattern")
    if every:
        return int(layers // every)
    family = config.get("model_type")
    if family in ("gemma2", "gemma3_text", "gemma3"):  # defaults that a config.json may leave out
        return layers // (2 if family == "gemma2" else 6)
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    if window and window < config.get("max_position_embeddings", 0):
        raise NotExpressed("attends to a window in every layer, or does not say in which")
    return layers


def _context(config: Config) -> int | None:
    """As vLLM derives ``max_model_len``: positions, stretched where the scaling says so."""
    positions = config.get("max_position_embeddings") or config.get("n_positions")
    scaling = config.get("rope_scaling") or {}
    kind = scaling.get("rope_type") or scaling.get("type")
    if positions is None or "factor" not in scaling or kind in _LONG_ROPE:
        return None if positions is None else int(positions)
    if kind == "yarn":
        positions = scaling.get("original_max_position_embeddings", positions)
    return int(positions * scaling["factor"])


def _weight_dtype(quantization: Config) -> str | None:
    """How the weights are stored; None for bf16."""
    method = str(quantization.get("quant_method", "")).lower()
    if not method:
        return None
    groups = quantization.get("config_groups") or {}
    weights = [group.get("weights") or {} for group in groups.values()]
    bits = quantization.get("bits") or next((each.get("num_bits") for each in weights), None)
    if method in ("gptq", "awq", "compressed-tensors") and bits in (4, 8):
        return "int4" if bits == 4 else "fp8"
    if method == "modelopt":
        return "nvfp4" if "NVFP4" in str(quantization).upper() else "fp8"
    if method in _QUANTIZED:
        return _QUANTIZED[method]
    raise NotExpressed(f"has weights of quant_method {method}: give weightDtype with a plain model")
