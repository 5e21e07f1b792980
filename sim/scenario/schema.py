"""The shape of a scenario: frozen models, one class per block of the file.

Keys are camelCase in files and mean what the same key means in a ModelRouter
manifest or in vLLM; attributes are snake_case, with the unit last where the
field has one. Policies and workloads bring spec models of their own, found by
``kind`` (``sim.registry``).
"""

from collections import Counter
from typing import Annotated, Any, Self, TypeAlias

from pydantic import Discriminator, Field, Tag, model_validator

from sim.scenario.catalog import gpus
from sim.scenario.dtypes import KvDtype, WeightDtype
from sim.scenario.fields import (
    DURATION,
    MAX_DURATION_S,
    STARVED,
    Bytes,
    DottedName,
    Duration,
    Model,
    Name,
    PollInterval,
    PositiveDuration,
    PositiveTokens,
    Text,
    real,
    refuse,
    whole,
)

MAX_REPLICAS = 10_000
MAX_TENSOR_PARALLEL = 64
MAX_SEED = 2**63 - 1

# What lies further apart than this is a slip of units, and vanishes beside the rest of a sum.
Coefficient: TypeAlias = Annotated[float, real(1e-6, 1e6, or_zero=True)]
Seed: TypeAlias = Annotated[int, whole(0, MAX_SEED)]


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


def _form_of_step_time(value: Any) -> str:
    return "preset" if isinstance(value, str) else "coefficients"


StepTimeForms: TypeAlias = Annotated[
    Annotated[StepTime, Tag("coefficients")] | Annotated[DottedName, Tag("preset")],
    Discriminator(_form_of_step_time),
]
"""Coefficients, or the name of a preset that has them."""


class Engine(Model):
    """One kind of pod: scheduler settings (vLLM's names), step time, KV capacity.

    Give ``kvBlocks``, or ``gpu`` and ``model`` to derive it from the catalogue;
    ``stepTime`` likewise.
    """

    step_time: StepTimeForms | None = Field(
        default=None,
        description="Coefficients of the cost of a step, or the name of a preset "
        "(`podsim list engines`); derived from the data sheets of gpu and model when missing.",
    )
    model: DottedName | None = Field(
        default=None,
        description="A model of the catalogue (`podsim list models`); with kvBlocks any name, "
        "which is the one that requests may ask for.",
    )
    gpu: DottedName | None = Field(
        default=None, description="A GPU of the catalogue (`podsim list gpus`)."
    )
    tensor_parallel: Annotated[int, whole(1, MAX_TENSOR_PARALLEL)] = Field(
        default=1, description="GPUs per pod."
    )
    kv_blocks: Annotated[int, whole(1, 10**9, STARVED)] | None = Field(
        default=None, description="KV blocks per pod; derived from gpu and model when missing."
    )
    weight_dtype: WeightDtype | None = Field(
        default=None,
        description="Format of the weights; that of the published ones when missing "
        "(`podsim list models`).",
    )
    kv_cache_dtype: KvDtype = Field(default="bf16", description="Format of the KV cache.")
    weights: Bytes | None = Field(
        default=None,
        description="Bytes of the weights of all GPUs together, where the KV capacity should "
        "not take them from model and weightDtype.",
    )
    workspace: Bytes = Field(
        default=4 * 2.0**30, description="Bytes per GPU for activations and CUDA graphs."
    )
    gpu_memory_utilization: Annotated[float, real(0.0, 1.0, True)] = Field(
        default=0.92, description="Share of the GPU's memory that the engine may use."
    )
    block_size: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default=16, description="Tokens per KV block."
    )
    max_num_batched_tokens: Annotated[int, whole(1, 10**9, STARVED)] = Field(
        default_factory=lambda data: _default_tokens(data["gpu"]),
        description="Token budget of a step. As vLLM 0.33's, the default depends on gpu: 16,384 "
        "from 160 GiB on, 8,192 from 70 GiB on (not A100, GB10), else 2,048; without gpu 8,192.",
    )
    max_num_seqs: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default_factory=lambda data: min(
            _default_sequences(data["gpu"]), data["max_num_batched_tokens"]
        ),
        description="Most sequences that run at once. As vLLM 0.33's, the default depends on gpu: "
        "1,024 from 70 GiB on (not A100, GB10), else 256; without gpu 256. Capped by "
        "maxNumBatchedTokens.",
    )
    max_model_len: PositiveTokens | None = Field(
        default=None,
        description="Longest sequence, prompt and output together; longer prompts "
        "are refused. No limit but the KV cache when missing.",
    )
    reserve_full_prompt: bool = Field(
        default=True, description="A request is admitted only when its whole prompt fits."
    )
    enable_prefix_caching: bool = Field(
        default=True, description="Keep the KV blocks of finished requests for equal prefixes."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        if self.gpu is None or self.model is None:
            if self.kv_blocks is None:
                problems.append(
                    ("", "the KV capacity is unknown: give kvBlocks, or both gpu and model")
                )
            if self.step_time is None:
                problems.append(
                    ("", "the step time is unknown: give stepTime, or both gpu and model")
                )
        if self.max_num_seqs > self.max_num_batched_tokens:
            problems.append(
                (
                    "maxNumSeqs",
                    f"must be at most maxNumBatchedTokens ({self.max_num_batched_tokens}), since "
                    f"each running sequence takes a token of the step; got {self.max_num_seqs}",
                )
            )
        refuse(problems)
        return self


def _default_tokens(gpu: str | None) -> int:
    known = gpus().get(gpu) if gpu is not None else None
    return 8192 if known is None else known.max_num_batched_tokens


def _default_sequences(gpu: str | None) -> int:
    known = gpus().get(gpu) if gpu is not None else None
    return 256 if known is None else known.max_num_seqs


class Backend(Model):
    """A set of equal pods behind one placement policy."""

    engine: Name = Field(description="One of engines.")
    replicas: Annotated[int, whole(1, MAX_REPLICAS, STARVED)] = Field(
        default=1, description="Number of pods."
    )
    policy: Any = Field(
        default=None, description="Placement policy by kind; least-loaded when missing."
    )  # the spec model of the policy once loaded
    balancing: Any = Field(
        default=None, description="The policy as a ModelRouter manifest says it; not with policy."
    )  # None once loaded


class Rule(Model):
    """Which backend serves which requests."""

    name: Name
    backends: tuple[Name, ...] = Field(
        min_length=1, max_length=1, description="Names of backends, in order of preference."
    )


class Metrics(Model):
    """How the proxy polls the engines."""

    poll_interval: PollInterval = Field(default=1.0, description="Time between two polls of a pod.")


class Router(Model):
    """One proxy in front of the backends."""

    rules: tuple[Rule, ...] = Field(min_length=1, max_length=1)
    metrics: Metrics = Metrics()


class Window(Model):
    """What is measured: requests that arrive in [warmup, warmup + measure).

    Without ``measure`` a finite workload is run to its end. ``drain`` lets the
    window's requests finish; its default is true for runs without ``measure``.
    """

    warmup: Duration = Field(default=0.0, description="Time before the window.")
    measure: PositiveDuration | None = Field(default=None, description="Length of the window.")
    drain: bool | None = Field(
        default=None, description="Let the window's requests finish after its end."
    )

    @model_validator(mode="after")
    def _within_limits(self) -> Self:
        end_s = self.warmup + (self.measure or 0.0)
        if end_s > MAX_DURATION_S:
            limit = DURATION.written(MAX_DURATION_S)
            refuse([("measure", f"must end within {limit} of simulated time; got {end_s:g}s")])
        return self


class Slo(Model):
    """Service objectives: a request attains them when it meets all that are given."""

    ttft: PositiveDuration | None = Field(default=None, description="Most time to first token.")
    tpot: PositiveDuration | None = Field(
        default=None, description="Most time per output token after the first."
    )

    @model_validator(mode="after")
    def _says_something(self) -> Self:
        if self.ttft is None and self.tpot is None:
            refuse([("", "give ttft, tpot or both")])
        return self


class Scenario(Model):
    """One thing to simulate: a scenario file with one of its variants applied."""

    name: Name = Field(description="Names the results directory.")
    description: Text = Field(default="", description="What the scenario is for.")
    window: Window = Window()
    seeds: tuple[Seed, ...] = Field(
        default=(1,), min_length=1, max_length=10_000, description="One run per seed and variant."
    )
    ring_salt: Text | None = Field(
        default=None, description="Fixes the layout of hash rings; the seed varies it when missing."
    )
    engines: dict[Name, Engine] = Field(min_length=1)
    backends: dict[Name, Backend] = Field(min_length=1)
    router: Router
    workloads: dict[Name, Any] = Field(min_length=1)  # spec models of the workloads once loaded
    slo: Slo | None = None
    variant: str = ""  # set by the loader

    @model_validator(mode="after")
    def _seeds_differ(self) -> Self:
        twice = [seed for seed, times in Counter(self.seeds).items() if times > 1]
        if twice:
            refuse([("seeds", f"seed {twice[0]} stands here twice: its runs would count double")])
        return self
