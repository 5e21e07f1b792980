"""What is common to all kinds of engines: hardware, model, step time."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BeforeValidator, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from sim.core.errors import Fault
from sim.core.fields import (
    Bytes,
    DottedName,
    Duration,
    HubName,
    Model,
    PositiveTokens,
    describe,
    real,
    whole,
)
from sim.core.rules import Problem, rule
from sim.hardware.architecture import Architecture
from sim.hardware.gpu import WEIGHT_FORMATS, Gpu, KvDtype, WeightDtype, weight_format

MAX_TENSOR_PARALLEL: Final = 64

# What lies further apart than this is a slip of units, and vanishes beside the rest of a sum.
Coefficient: TypeAlias = Annotated[float, real(1e-6, 1e6, or_zero=True)]


class Curve(Model):
    """ms by the tokens that a step computes, prefill and decode together: P + B.

    Straight between the points; below the first one its value, beyond the last
    one on at the slope of the last two.
    """

    tokens: tuple[PositiveTokens, ...] = Field(description="Where the points lie, rising.")
    ms: tuple[Coefficient, ...] = Field(description="The curve at these points.")

    @rule
    def _is_a_curve(self) -> Iterator[Problem]:
        points, values = len(self.tokens), len(self.ms)
        if points != values:
            yield "", f"tokens and ms must be equally long; got {points} and {values}"
        elif points < 2:
            yield "", f"at least two points are needed; got {points}"

    @rule
    def _takes_ever_longer(self) -> Iterator[Problem]:
        if not all(self.ms) or self.ms[-1:] < self.ms[-2:-1]:
            yield "ms", "must be above 0 and not fall at its end"

    @rule
    def _rises(self) -> Iterator[Problem]:
        if any(after <= before for before, after in pairwise(self.tokens)):
            yield "tokens", "must rise"


class Prefilling(Model):
    """What a step that prefills costs more, in ms: a + c·S/1e5 + f·B/1e2.

    Its decoding sequences go through the attention kernel of the prefills,
    which is slower for them.
    """

    a: Coefficient = Field(default=0.0, description="ms of every such step.")
    c: Coefficient = Field(default=0.0, description="ms per 100,000 context tokens read.")
    f: Coefficient = Field(default=0.0, description="ms per 100 decoding sequences.")


class StepTime(Model):
    """Cost of one engine step in ms: a + b·P/1e3 + c·S/1e5 + d·A/1e8 + f·B/1e2 + g·√B.

    P prefill tokens computed, S context tokens of the decoding sequences,
    A query-key pairs of the prefill chunks, B decoding sequences. ``computed``
    and ``prefilling`` are added where they are given. A step that only
    prefills and one that only decodes must both take time.
    """

    a: Coefficient = Field(description="ms of every step.")
    b: Coefficient = Field(default=0.0, description="ms per 1,000 prefill tokens.")
    c: Coefficient = Field(default=0.0, description="ms per 100,000 context tokens read.")
    d: Coefficient = Field(default=0.0, description="ms per 1e8 query-key pairs of prefill.")
    f: Coefficient = Field(default=0.0, description="ms per 100 decoding sequences.")
    g: Coefficient = Field(
        default=0.0, description="ms per square root of the decoding sequences (experts)."
    )
    computed: Curve | None = Field(
        default=None,
        description="ms by the tokens computed, beside the other terms: what no straight line "
        "says, as that kernels work in whole tiles.",
    )
    prefilling: Prefilling = Field(
        default=Prefilling(), description="What a step that prefills costs more."
    )

    @rule
    def _prompts_take_time(self) -> Iterator[Problem]:
        if not any((self.a, self.b, self.d, self.computed, self.prefilling.a)):
            yield "", "a, b or d must be above 0: computing a prompt takes time"

    @rule
    def _answers_take_time(self) -> Iterator[Problem]:
        if not any((self.a, self.c, self.f, self.g, self.computed)):
            yield "", "a, c, f or g must be above 0: decoding a token takes time"


def _form_of_step_time(value: Any) -> str:
    return "preset" if isinstance(value, str) else "coefficients"


StepTimeForms: TypeAlias = Annotated[
    Annotated[StepTime, Tag("coefficients")] | Annotated[DottedName, Tag("preset")],
    Discriminator(_form_of_step_time),
]
"""Coefficients, or the name of a preset that has them."""


def _form_of_hardware(value: Any) -> str:
    return "data" if isinstance(value, Mapping | Model) else "name"


GpuForms: TypeAlias = Annotated[
    Annotated[Gpu, Tag("data")] | Annotated[HubName, Tag("name")], Discriminator(_form_of_hardware)
]
"""A data sheet, or the name of a GPU."""

ModelForms: TypeAlias = Annotated[
    Annotated[Architecture, Tag("data")] | Annotated[HubName, Tag("name")],
    Discriminator(_form_of_hardware),
]
"""Dimensions, or the name of a model."""


def _format(value: Any) -> Any:
    """Refuse the name of a format that podsim has otherwise, or one like it, with what to write."""
    found = weight_format(value) if isinstance(value, str) else None
    if found is None or value in WEIGHT_FORMATS:
        return value
    said = f"podsim calls it {found.dtype}" if found.exact else f"{found.dtype} stands in for it"
    context = {"known": ", ".join(WEIGHT_FORMATS), "found": describe(value), "said": said}
    raise PydanticCustomError("format", "must be one of {known}; got {found}; {said}", context)


class FrontEnd(Model):
    """What the API server of a pod takes before the engine knows of a request."""

    per_request: Duration = Field(default=0.0, description="Time per request: HTTP, queues.")
    per_prompt_token: Duration = Field(
        default=0.0, description="Time per prompt token: tokenising, hashing; 1.5us or so."
    )


class Engine(Model):
    """One kind of pod: what it runs on, what it serves, what a step costs.

    A kind of engine is a subclass with the settings of its scheduler and a
    ``kind`` of its own, bound to its implementation by ``sim.core.registry.family``.
    ``Implementation.replica(name, spec, kernel)`` builds the pods of one
    replica, each a ``sim.core.ports.PodPort``: one with that name, or one per
    data-parallel rank.
    """

    kind: str = "vllm"
    step_time: StepTimeForms | None = Field(
        default=None,
        description="Coefficients of the cost of a step, or the name of a preset "
        "(`podsim list engines`); derived from the data sheets of gpu and model when missing.",
    )
    model: ModelForms | None = Field(
        default=None,
        description="A model of the catalogue (`podsim list models`), as it or a model hub writes "
        "it; the path of a config.json, relative to the scenario; or the keys of one. Where the "
        "KV capacity is given any name, which is the one that requests may ask for.",
    )
    gpu: GpuForms | None = Field(
        default=None,
        description="A GPU of the catalogue (`podsim list gpus`), as it or a driver writes it; or "
        "the data sheet of another one.",
    )
    tensor_parallel: Annotated[int, whole(1, MAX_TENSOR_PARALLEL)] = Field(
        default=1, description="GPUs per pod."
    )
    weight_dtype: Annotated[WeightDtype, BeforeValidator(_format)] | None = Field(
        default=None,
        description="Format of the weights; that of the published ones when missing "
        "(`podsim list models`).",
    )
    kv_cache_dtype: KvDtype = Field(default="bf16", description="Format of the KV cache.")
    weights: Bytes | None = Field(
        default=None,
        description="Bytes of the weights on all GPUs of a pod, where the KV capacity should not "
        "take them from model and weightDtype.",
    )
    workspace: Bytes = Field(
        default=4 * 2.0**30, description="Bytes per GPU for activations and CUDA graphs."
    )
    gpu_memory_utilization: Annotated[float, real(0.0, 1.0, True)] = Field(
        default=0.92, description="Share of the GPU's memory that the engine may use."
    )
    front_end: FrontEnd | None = Field(
        default=None, description="What the API server takes before the engine; none when missing."
    )

    @rule
    def _takes_a_known_time(self) -> Iterator[Problem]:
        if self.step_time is None and (self.gpu is None or self.model is None):
            yield "", "the step time is unknown: give stepTime, or both gpu and model"

    @property
    def model_name(self) -> str | None:
        """What requests may ask for: the name of the model as it is written."""
        return self.model.name if isinstance(self.model, Architecture) else self.model

    @property
    def gpu_name(self) -> str | None:
        """What the GPU is called, if one is given."""
        return self.gpu.name if isinstance(self.gpu, Gpu) else self.gpu

    def kv_tokens(self) -> int:
        """Tokens of KV that one pod holds.

        Raises ``ScenarioError`` when that is not known or nothing fits; the
        path of a fault is the key of the engine.
        """
        raise NotImplementedError

    def context_tokens(self) -> int:
        """Tokens of KV that one sequence may have; raises as ``kv_tokens``."""
        return self.kv_tokens()

    @property
    def kv_derived(self) -> bool:
        """Whether the KV capacity follows from gpu and model."""
        raise NotImplementedError

    @property
    def kv_token_bytes(self) -> float | None:
        """Bytes of KV per token where the engine says it, not the catalogue for its model."""
        return None

    def warnings(self) -> list[Fault]:
        """What is possible and hardly meant; the path of each is a key of the engine.

        Asked for only when ``kv_tokens`` is known.
        """
        return []

    def concurrency(self) -> "Concurrency | None":
        """Room for sequences of the greatest length; None when that is not a matter of blocks.

        Raises ``ScenarioError`` as ``kv_tokens`` does.
        """
        return None


@dataclass(frozen=True)
class Concurrency:
    """How many sequences of the greatest length have room in the KV cache of one pod."""

    sequence_tokens: int
    blocks_per_sequence: int
    kv_blocks_per_pod: int

    @property
    def sequences(self) -> int:
        """As many as run together from their first token to their last."""
        return self.kv_blocks_per_pod // self.blocks_per_sequence

    @property
    def ratio(self) -> float:
        """What vLLM logs at its start as maximum concurrency."""
        return self.kv_blocks_per_pod / self.blocks_per_sequence
