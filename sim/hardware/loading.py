"""How long members of a model pool take to load and to unload.

A swap is: the incumbent drains, it unloads, the other loads. Draining depends
on the requests that run and is no part of this. A load is

    init + bytes / min(disk, loader, hostToDevice x GPUs, host) + compile + graphs + warm-up

with the bytes of the weights on all GPUs of the pod. An unload by vLLM's sleep
of level 1 copies them to the host; the first of a process pins the memory for
that before, which takes far longer than the copy. Whatever the method, the
KV cache and with it the prefix cache are empty afterwards: vLLM's sleep drops
them on both levels (vLLM's documentation of sleep mode), a process that ends
loses them. What a swap costs beyond these times is the prefill of every
conversation that comes back.
"""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from math import inf
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field
from pydantic.alias_generators import to_camel

from sim.core.errors import Fault, ScenarioError
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
from sim.hardware import catalog
from sim.hardware.engine import Engine

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
            if key in self.model_fields_set and getattr(self, key) is not None:
                yield to_camel(key), f"means nothing to method {self.method}"

    @rule
    def _compiles_in_one_time(self) -> Iterator[Problem]:
        foreign = "compile" in self.constants.foreign_keys
        if not foreign and self.compile is not None and self.compile_cache is not None:
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
        if (self.load is None) == (self.swap is None):
            found = "both" if self.load is not None else "neither"
            yield "", f"give load (a time such as 30s) or swap (to compute it); got {found}"


LINK_REACHED: Final = 0.7
"""Of the data sheet of a link: 61 GB in 2.7 s to and from an A100, whose link has 32 GB/s."""

LINKS_PER_HOST: Final = 2.0
"""Links that a host keeps busy: to four A100, 236 GB take 5.3 s, which is 44 GB/s together."""

PINNING: Final = 2.76e9
"""Bytes of host memory that a process pins in a second: 32 MB in 11.6 ms (dask-cuda issue 106)."""

PINNED_PER_BYTE: Final = 4.0 / 3.0
"""Bytes pinned for each that is kept: PyTorch takes the next power of two for each tensor, which
is a third more for sizes that lie evenly between two of them (22 GiB for 16.4 GB of Qwen3-8B)."""

UNCACHED_COMPILE_S: Final = 30.0
"""What compiling takes longer without a cache."""


@dataclass(frozen=True)
class LoadParts:
    """What a computed load consists of, in this order; seconds."""

    init_s: float
    weights_s: float
    compile_s: float
    graphs_s: float
    warm_up_s: float

    @property
    def total_s(self) -> float:
        """The whole load."""
        return float(sum(astuple(self)))


@dataclass(frozen=True)
class SwapTimes:
    """Seconds that a member takes to unload once it is drained, and to load until it is ready.

    ``parts`` is None where the time to load was given. The first unload of a process
    takes ``pinning_s`` longer than the later ones. ``bytes_per_s`` is how fast weights
    are taken in, infinite where nobody says.
    """

    unload_s: float
    load_s: float
    parts: LoadParts | None = None
    pinning_s: float = 0.0
    bytes_per_s: float = inf

    @property
    def first_unload_s(self) -> float:
        """How long the first unload of a process takes."""
        return self.unload_s + self.pinning_s


def swap_times(member: Member, engine: Engine) -> SwapTimes:
    """The times of ``member`` when ``engine`` is what it runs, without any draining.

    Raises ``ScenarioError`` when they cannot be computed: nobody says what the
    weights are or how fast they are copied, or the method is another engine's.
    The path of a fault is the key of the member.
    """
    if member.swap is None:
        assert member.load is not None
        return SwapTimes(member.unload or 0.0, member.load)
    swap = member.swap
    faults = (*_foreign_engine(swap, engine), *_unknown_bytes(engine), *_unknown_link(swap, engine))
    if faults:
        raise ScenarioError([*faults])
    weights, constants = catalog.weights_bytes(engine), swap.constants
    copying = _copying(swap, engine)
    unload_s = constants.unload_s + (weights / copying if constants.copies_back else 0.0)
    reading = min(swap.disk or constants.disk, swap.loader or constants.loader)
    parts = LoadParts(
        init_s=_given(swap.init, constants.init_s),
        weights_s=weights / min(reading, copying),
        compile_s=_given(swap.compile, _compile_s(swap)),
        graphs_s=_given(swap.graphs, constants.graphs_s),
        warm_up_s=_given(swap.warm_up, constants.warm_up_s),
    )
    taken = min(swap.loader or constants.loader, copying)
    if member.unload is not None:
        return SwapTimes(member.unload, parts.total_s, parts, bytes_per_s=taken)
    return SwapTimes(unload_s, parts.total_s, parts, _pinning_s(swap, engine, weights), taken)


def _pinning_s(swap: Swap, engine: Engine, weights: float) -> float:
    """Before its first copy to the host each GPU's process pins memory for it (vLLM pull 58066).

    What is free after a wake stays pinned: PyTorch keeps it for the next sleep.
    """
    if not swap.constants.copies_back:
        return 0.0
    rate = (swap.pinning or PINNING) * engine.tensor_parallel
    return PINNED_PER_BYTE * weights / rate


def _compile_s(swap: Swap) -> float:
    return swap.constants.compile_s + (UNCACHED_COMPILE_S if swap.compile_cache is False else 0.0)


def _given(value: float | None, default: float) -> float:
    return default if value is None else value


def _copying(swap: Swap, engine: Engine) -> float:
    """Bytes per second between host memory and all GPUs of a pod; infinite when nobody says."""
    link = swap.host_to_device or _link(engine)
    return min(link * engine.tensor_parallel, swap.host or link * LINKS_PER_HOST)


def _link(engine: Engine) -> float:
    """Bytes per second between host memory and one GPU; infinite when nobody says."""
    known = catalog.gpu(engine.gpu)
    return inf if known is None or known.host_link is None else LINK_REACHED * known.host_link


def _foreign_engine(swap: Swap, engine: Engine) -> Iterator[Fault]:
    kinds = {constants.engine_kind for constants in METHODS.values()}
    if engine.kind not in kinds or engine.kind == swap.constants.engine_kind:
        return
    own = [name for name, each in METHODS.items() if each.engine_kind == engine.kind]
    message = (
        f"{swap.method} is no way to load an engine of kind {engine.kind}; use {', '.join(own)}"
    )
    yield Fault("member", 0, 0, "swap.method", message)


def _unknown_bytes(engine: Engine) -> Iterator[Fault]:
    """Nobody says what the weights are."""
    if engine.weights is None and catalog.model(engine.model) is None:
        name = engine.model_name
        why = "the engine has no model" if name is None else catalog.unknown_model(name)
        message = (
            f"the bytes to load are unknown ({why}): give the engine's weights, such as 54GB, or "
            "load, a time, instead of swap"
        )
        yield Fault("member", 0, 0, "swap", message)


def _unknown_link(swap: Swap, engine: Engine) -> Iterator[Fault]:
    """Nobody says how fast the weights are copied from the host."""
    if swap.constants.copies_back and _copying(swap, engine) == inf:
        message = (
            f"{swap.method} copies weights from host memory, and the link to the GPU is unknown: "
            "give hostToDevice, such as 22GB/s with PCIe 4 or 45GB/s with PCIe 5"
        )
        yield Fault("member", 0, 0, "swap", message)
