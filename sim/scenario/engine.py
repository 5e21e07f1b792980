"""What is common to all kinds of engines: hardware, model, step time."""

from typing import Annotated, Self, TypeAlias

from pydantic import Field, model_validator

from sim.scenario.fields import Bytes, DottedName, Duration, Model, real, refuse, whole

# What lies further apart than this is a slip of units, and vanishes beside the rest of a sum.
Coefficient: TypeAlias = Annotated[float, real(1e-6, 1e6, or_zero=True)]


class StepTime(Model):
    """Cost of one engine step in ms: a + b·P/1e3 + c·S/1e5 + d·A/1e8 + f·B/1e2 + g·√B.

    P prefill tokens computed, S context tokens of the decoding sequences,
    A query-key pairs of the prefill chunks, B decoding sequences. A step that
    only prefills and one that only decodes must both take time.
    """

    a: Coefficient = Field(description="ms of every step.")
    b: Coefficient = Field(default=0.0, description="ms per 1,000 prefill tokens.")
    c: Coefficient = Field(default=0.0, description="ms per 100,000 context tokens read.")
    d: Coefficient = Field(default=0.0, description="ms per 1e8 query-key pairs of prefill.")
    f: Coefficient = Field(default=0.0, description="ms per 100 decoding sequences.")
    g: Coefficient = Field(
        default=0.0, description="ms per square root of the decoding sequences (experts)."
    )

    @model_validator(mode="after")
    def _takes_time(self) -> Self:
        problems = []
        if not any((self.a, self.b, self.d)):
            problems.append(("", "a, b or d must be above 0: computing a prompt takes time"))
        if not any((self.a, self.c, self.f, self.g)):
            problems.append(("", "a, c, f or g must be above 0: decoding a token takes time"))
        refuse(problems)
        return self


class FrontEnd(Model):
    """What the API server of a pod takes before the engine knows of a request."""

    per_request: Duration = Field(default=0.0, description="Time per request: HTTP, queues.")
    per_prompt_token: Duration = Field(
        default=0.0, description="Time per prompt token: tokenising, hashing; 1.5us or so."
    )


class Engine(Model):
    """One kind of pod: what it runs on, what it serves, what a step costs.

    A kind of engine is a subclass with the settings of its scheduler and a
    ``kind`` of its own, bound to its implementation by ``sim.registry.family``.
    The implementation is built as ``Implementation(name, spec, kernel)`` and is
    a ``sim.ports.PodPort``.
    """

    kind: str = "vllm"
    step_time: StepTime
    model: DottedName | None = Field(
        default=None,
        description="A model of the catalogue (`podsim list models`); where the KV capacity is "
        "given any name, which is the one that requests may ask for.",
    )
    gpu: DottedName | None = Field(
        default=None, description="A GPU of the catalogue (`podsim list gpus`)."
    )
    tensor_parallel: Annotated[int, whole(1, 64)] = Field(default=1, description="GPUs per pod.")
    weights: Bytes | None = Field(
        default=None,
        description="Bytes of the weights of all GPUs together, for a model at "
        "another precision than the catalogue's bf16.",
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

    def kv_tokens(self) -> int:
        """Tokens of KV that one pod holds.

        Raises ``ScenarioError`` when that is not known or nothing fits; the
        path of a fault is the key of the engine.
        """
        raise NotImplementedError

    @property
    def kv_derived(self) -> bool:
        """Whether the KV capacity follows from gpu and model."""
        raise NotImplementedError
