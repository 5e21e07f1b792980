"""What a scenario needs to know of a GPU: its data sheet, and what vLLM makes of it."""

from collections.abc import Iterator
from typing import Annotated, Final

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
from sim.hardware.dtypes import Arithmetic

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
    def is_whole(self) -> bool:
        """Whether it has no faults that hide a step time."""
        return self.gives("memory", "bandwidth") and "bf16" in self.teraflops

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
