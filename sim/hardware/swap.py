"""How members of a model pool are loaded and unloaded, as scenarios say it.

``sim.hardware.swaptimes`` says how long that takes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field
from pydantic.alias_generators import to_camel

from sim.core.fields import (
    DURATION,
    MAX_DURATION_S,
    ByteRate,
    Duration,
    Model,
    Probability,
    Quantity,
)
from sim.core.rules import Problem, rule

Method: TypeAlias = Literal["vllm-sleep-1", "vllm-sleep-2", "vllm-cold", "llamacpp"]

FailureTime: TypeAlias = Annotated[
    float, Quantity("a duration", "20s", DURATION, 0.001, MAX_DURATION_S)
]
"""Seconds from the beginning of a load to its failure; never at once: retries must take time."""

GB_PER_S: Final = 1e9


@dataclass(frozen=True)
class Constants:
    """What a method takes whatever the weights; the defaults of ``Swap``.

    ``disk`` and ``loader`` are in bytes per second and infinite where weights
    are not read. From the timings of vLLM 0.11 to 0.22 and of llama.cpp that
    ``sim/data/measured/swaps.csv`` has; within their spread where they differ.
    """

    engine_kind: str
    unload_s: float
    init_s: float
    compile_s: float = 0.0
    graphs_s: float = 0.0
    warm_up_s: float = 0.0
    disk: float = inf
    loader: float = inf
    copies_back: bool = False
    """Whether unloading copies the weights to the host."""

    @property
    def foreign_keys(self) -> tuple[str, ...]:
        """Settings of ``Swap`` that say nothing about this method."""
        reading = () if self.disk < inf else ("disk", "loader")
        compiling = () if self.compile_s else ("compile_cache", "compile", "graphs")
        return (*reading, *compiling, *(() if self.copies_back else ("pinning",)))


METHODS: Final[Mapping[Method, Constants]] = {
    "vllm-sleep-1": Constants("vllm", unload_s=0.1, init_s=0.2, copies_back=True),
    "vllm-sleep-2": Constants(
        "vllm", unload_s=0.2, init_s=0.5, disk=4 * GB_PER_S, loader=6 * GB_PER_S
    ),
    "vllm-cold": Constants(
        "vllm",
        unload_s=0.0,
        init_s=15.0,
        compile_s=8.0,
        graphs_s=10.0,
        warm_up_s=2.0,
        disk=4 * GB_PER_S,
        loader=8 * GB_PER_S,
    ),
    "llamacpp": Constants(
        "llamacpp",
        unload_s=0.0,
        init_s=1.0,
        warm_up_s=0.75,
        disk=1 * GB_PER_S,
        loader=9 * GB_PER_S,
    ),
}


class Swap(Model):
    """How a member is loaded: times follow from its weights and these bandwidths."""

    method: Method = Field(
        description="vllm-sleep-1: the weights wait in host memory, unloading and loading copy "
        "them, and the first unload of a process pins that memory before. vllm-sleep-2: the "
        "process waits, loading reads the weights again. vllm-cold: a new process, which reads "
        "weights, compiles and captures CUDA graphs. llamacpp: a new process of llama-server, "
        "which only reads.",
    )
    disk: ByteRate | None = Field(
        default=None,
        description="Bandwidth that the weights are read with: 9GB/s or so from the page cache, "
        "3GB/s to 7GB/s from a server's NVMe, 1GB/s from a volume or a desktop's NVMe, 500MB/s "
        "from SATA. 4GB/s when missing, with llamacpp 1GB/s.",
    )
    loader: ByteRate | None = Field(
        default=None,
        description="What the engine's loader reaches at most, however fast the disk; when missing "
        "6GB/s with vllm-sleep-2, 8GB/s with vllm-cold, 9GB/s with llamacpp.",
    )
    host_to_device: ByteRate | None = Field(
        default=None,
        description="Bandwidth from host memory to each GPU; when missing 0.7 of the link in the "
        "data sheet of the engine's gpu: 22GB/s with PCIe 4, 45GB/s with PCIe 5. Without such a "
        "gpu no limit, but vllm-sleep-1 needs it.",
    )
    host: ByteRate | None = Field(
        default=None,
        description="Bandwidth from host memory to all GPUs together; when missing two times "
        "hostToDevice.",
    )
    pinning: ByteRate | None = Field(
        default=None,
        description="Bandwidth at which each GPU's process pins host memory for its copy of the "
        "weights, once, in its first sleep; 2.76GB/s when missing. For vllm-sleep-1.",
    )
    compile_cache: bool | None = Field(
        default=None,
        description="Whether torch.compile finds its cache, on a volume that outlives the pod; "
        "when missing it does. Without it compiling takes 38 s, not 8 s. For vllm-cold.",
    )
    init: Duration | None = Field(
        default=None,
        description="Time until weights are loaded: process, imports, allocation. When missing "
        "0.2s, 0.5s, 15s and 1s in the order of the methods.",
    )
    compile: Duration | None = Field(
        default=None, description="Time to compile, instead of what compileCache says."
    )
    graphs: Duration | None = Field(
        default=None, description="Time to capture CUDA graphs; 10s when missing. For vllm-cold."
    )
    warm_up: Duration | None = Field(
        default=None,
        description="Time of warm-up and first request; when missing 2s with vllm-cold, 0.75s with "
        "llamacpp, 0s when waking up.",
    )

    @rule
    def _of_one_method(self) -> Iterator[Problem]:
        for key in self.constants.foreign_keys:
            if key in self.model_fields_set and self.gives(key):
                yield to_camel(key), f"means nothing to method {self.method}"

    @rule
    def _compiles_in_one_time(self) -> Iterator[Problem]:
        foreign = "compile" in self.constants.foreign_keys
        if not foreign and self.gives("compile", "compile_cache"):
            yield "compileCache", "means nothing where compile gives the time itself"

    @property
    def constants(self) -> Constants:
        """Those of its method."""
        return METHODS[self.method]


class LoadFailure(Model):
    """Loads that fail by chance, each independently."""

    probability: Probability = Field(description="Share of the loads that fail.")
    after: FailureTime | None = Field(
        default=None,
        description="Time from the beginning of a load to its failure, until which it is not "
        "ready; its end when missing.",
    )


class Member(Model):
    """A member of a model pool: how long it loads and unloads, and whether that succeeds."""

    load: Duration | None = Field(
        default=None, description="Time to load, until it is ready; or give swap."
    )
    swap: Swap | None = Field(
        default=None, description="Compute the times to load and unload; or give load."
    )
    unload: Duration | None = Field(
        default=None,
        description="Time from the end of draining until its memory is free; when missing 0s with "
        "load, and with swap what its method takes.",
    )
    load_limit: FailureTime | None = Field(
        default=None,
        description="Limit of a health check: a load that takes longer fails at that time, every "
        "time. None when missing.",
    )
    load_failure: LoadFailure | None = Field(
        default=None, description="Loads that fail by chance; none when missing."
    )

    @rule
    def _known_in_one_way(self) -> Iterator[Problem]:
        if self.gives("load") == self.gives("swap"):
            found = "both" if self.gives("load") else "neither"
            yield "", f"give load (a time such as 30s) or swap (to compute it); got {found}"
