"""GPUs by data sheet, and number formats of weights and KV cache."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias

from pydantic import BeforeValidator, Field

from sim.core.fields import (
    ByteRate,
    HubName,
    Model,
    PositiveBytes,
    PositiveDuration,
    Text,
    real,
)
from sim.core.rules import Problem, rule

WeightDtype: TypeAlias = Literal["bf16", "fp8", "nvfp4", "mxfp4", "int4", "q8_0", "q4_0"]
KvDtype: TypeAlias = Literal["bf16", "fp8"]
Arithmetic: TypeAlias = Literal["bf16", "fp8", "fp4"]
Extent: TypeAlias = Literal["all", "layers", "experts"]

KV_BYTES: Final[dict[KvDtype, float]] = {"bf16": 2.0, "fp8": 1.0}
"""Bytes of one key or value element."""


@dataclass(frozen=True)
class WeightFormat:
    """A way to store weights.

    ``bits`` per weight, scales included. ``extent`` is what is stored so, the
    rest being bf16: all matrices, those of the layers (embedding and output
    head stay bf16), or those of the experts. ``arithmetic`` multiplies them on
    a GPU that has what it ``requires``; any other GPU unpacks them to bf16.
    """

    bits: float
    extent: Extent
    arithmetic: Arithmetic
    requires: Arithmetic


WEIGHT_FORMATS: Final[dict[WeightDtype, WeightFormat]] = {
    "bf16": WeightFormat(16, "all", "bf16", requires="bf16"),
    "fp8": WeightFormat(8, "layers", "fp8", requires="fp8"),
    # 4 bits and an 8-bit scale for 16 weights.
    "nvfp4": WeightFormat(4.5, "layers", "fp4", requires="fp4"),
    # 4 bits and an 8-bit scale for 32 weights; gpt-oss has its experts so.
    # GPUs with fp4 multiply them with 8-bit activations, at the rate of fp8.
    "mxfp4": WeightFormat(4.25, "experts", "fp8", requires="fp4"),
    # AWQ and GPTQ: 4 bits, a 16-bit scale and a 4-bit zero for 128 weights; only stored so.
    "int4": WeightFormat(4.15625, "layers", "bf16", requires="bf16"),
    # llama.cpp: 8 or 4 bits and a 16-bit scale for 32 weights.
    "q8_0": WeightFormat(8.5, "all", "bf16", requires="bf16"),
    "q4_0": WeightFormat(4.5, "all", "bf16", requires="bf16"),
}


class Format(NamedTuple):
    """A format of weights that podsim knows; not ``exact`` where it is only the nearest."""

    dtype: WeightDtype
    exact: bool


_FORMATS: Final[Mapping[str, Format]] = {
    r"q8_0": Format("q8_0", True),
    r"q4_0": Format("q4_0", True),
    r"q[56]_[01k](?:_[a-z]+)?": Format("q8_0", False),
    r"i?q[1234]_[a-z0-9]+(?:_[a-z]+)?": Format("q4_0", False),
    r"bf16|f16|fp16|bfloat16|float16": Format("bf16", True),
    r"fp8(?:_[a-z0-9]+)?|w8a8": Format("fp8", True),
    r"nvfp4|modelopt_fp4": Format("nvfp4", True),
    r"mxfp4": Format("mxfp4", True),
    r"awq(?:_marlin)?|gptq(?:_marlin)?|int4|w4a16": Format("int4", True),
    r"squeezellm|bitsandbytes|4bit": Format("int4", False),
}


def weight_format(text: str) -> Format | None:
    """The format that ``text`` names, such as a quantization or a file; None if none.

    llama.cpp's K-quants and others that podsim does not know are taken for the
    nearest that it does: up to 4 bits ``q4_0``, above ``q8_0``.
    """
    for pattern, found in _FORMATS.items():
        if re.search(f"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])", text.lower()):
            return found
    return None


GIB: Final = 2.0**30

MESSAGES_BYTES: Final = (2.0**14, 2.0**21, 2.0**27)
"""The messages whose all-reduce the catalogue knows: small, of a decode step, of a prefill."""


def gib(size_bytes: float) -> str:
    """Bytes as people read them: ``23.5 GiB``."""
    return f"{size_bytes / GIB:.1f} GiB"


class Gpu(Model):
    """A GPU: its data sheet, and what its driver and an all-reduce really give."""

    name: HubName = Field(default="own-gpu", description="What it is called in outputs.")
    memory: PositiveBytes = Field(
        description="Bytes that the driver reports, not those on the label."
    )
    bandwidth: ByteRate = Field(description="Bytes per second of its memory, such as 3.35TB/s.")
    teraflops: dict[Arithmetic, Annotated[float, real(1.0, 1e6)]] = Field(
        description="Peak rate by precision, 1e12 dense operations per second; bf16 (fp16) at "
        "least."
    )
    host_link: ByteRate | None = Field(
        default=None,
        description="Bytes per second of the link to the host's memory, in one direction, as in "
        "the data sheet; missing where the memory is the host's, or no source was found.",
    )
    all_reduce: dict[
        Annotated[int, BeforeValidator(int)],
        tuple[PositiveDuration, PositiveDuration, PositiveDuration],
    ] = Field(
        default_factory=dict,
        description="By the number of GPUs, seconds for messages of 16 KiB, 2 MiB and 128 MiB.",
    )
    small_defaults: bool = Field(
        default=False,
        description="Whether vLLM gives it the defaults of small GPUs whatever its memory.",
    )
    source: Text = Field(default="", description="Where the numbers are from.")

    @rule
    def _multiplies_in_16_bits(self) -> Iterator[Problem]:
        if "bf16" not in self.teraflops:
            yield "teraflops", "must have bf16: attention is computed so, whatever the weights are"

    @property
    def max_num_batched_tokens(self) -> int:
        """vLLM 0.33's default for its API server (engine/arg_utils.py)."""
        if self.small_defaults or self.memory < 70 * GIB:
            return 2048
        return 16_384 if self.memory >= 160 * GIB else 8192

    @property
    def max_num_seqs(self) -> int:
        """vLLM 0.33's default (engine/arg_utils.py)."""
        return 256 if self.small_defaults or self.memory < 70 * GIB else 1024
