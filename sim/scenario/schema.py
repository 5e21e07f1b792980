"""The shape of a scenario: frozen models, one class per block of the file.

Keys are camelCase in files and mean what the same key means in a ModelRouter
manifest or in vLLM; attributes are snake_case, with the unit last where the
field has one. Policies and workloads bring spec models of their own, found by
``kind`` (``sim.registry``).
"""

from typing import Any

from pydantic import Field

from sim.scenario.fields import (
    Bytes,
    Duration,
    Model,
    Name,
    PositiveDuration,
    PositiveTokens,
    Probability,
    Text,
    Tokens,
    count,
    number,
)

MAX_REPLICAS = 10_000
MAX_SEED = 2**63 - 1

Coefficient = number(0.0, 1e9)


class StepTime(Model):
    """Cost of one engine step in ms: a + b·P/1e3 + c·S/1e5 + d·A/1e8 + f·B/1e2 + g·√B.

    P prefill tokens computed, S context tokens of the decoding sequences,
    A query-key pairs of the prefill chunks, B decoding sequences.
    """

    a: Coefficient
    b: Coefficient = 0.0
    c: Coefficient = 0.0
    d: Coefficient = 0.0
    f: Coefficient = 0.0
    g: Coefficient = 0.0


class Engine(Model):
    """One kind of pod: scheduler settings (vLLM's names), step time, KV capacity.

    Give ``kvBlocks``, or ``gpu`` and ``model`` to derive it from the catalogue.
    """

    step_time: StepTime
    model: Name | None = None
    gpu: Name | None = None
    tensor_parallel: count(1, 64) = 1  # type: ignore[valid-type]
    kv_blocks: count(1, 10**9) | None = None  # type: ignore[valid-type]
    weights: Bytes | None = None
    workspace: Bytes = 4 * 2.0**30
    gpu_memory_utilization: number(0.0, 1.0, True) = 0.92  # type: ignore[valid-type]
    block_size: count(1, 10**6) = 16  # type: ignore[valid-type]
    max_num_seqs: count(1, 10**6) = 256  # type: ignore[valid-type]
    max_num_batched_tokens: count(1, 10**9) = 8192  # type: ignore[valid-type]
    max_model_len: PositiveTokens | None = None
    reserve_full_prompt: bool = True
    enable_prefix_caching: bool = True


class Backend(Model):
    """A set of equal pods behind one placement policy."""

    engine: Name
    replicas: count(1, MAX_REPLICAS) = 1  # type: ignore[valid-type]
    policy: Any = None  # the spec model of the policy once loaded
    balancing: Any = None


class Rule(Model):
    """Which backend serves which requests."""

    name: Name
    backends: tuple[Name, ...] = Field(min_length=1, max_length=1)


class Metrics(Model):
    """How the proxy polls the engines."""

    poll_interval: PositiveDuration = 1.0


class Router(Model):
    """One proxy in front of the backends."""

    rules: tuple[Rule, ...] = Field(min_length=1, max_length=1)
    metrics: Metrics = Metrics()


class Window(Model):
    """What is measured: requests that arrive in [warmup, warmup + measure).

    Without ``measure`` a finite workload is run to its end. ``drain`` lets the
    window's requests finish; its default is true for runs without ``measure``.
    """

    warmup: Duration = 0.0
    measure: PositiveDuration | None = None
    drain: bool | None = None


class Slo(Model):
    """Service objectives: a request attains them when it meets all that are given."""

    ttft: PositiveDuration | None = None
    tpot: PositiveDuration | None = None


class Scenario(Model):
    """One thing to simulate: a scenario file with one of its variants applied."""

    name: Name
    description: Text = ""
    window: Window = Window()
    seeds: tuple[count(0, MAX_SEED), ...] = Field(default=(1,), min_length=1)  # type: ignore[valid-type]
    ring_salt: Text | None = None
    engines: dict[Name, Engine] = Field(min_length=1)
    backends: dict[Name, Backend] = Field(min_length=1)
    router: Router
    workloads: dict[Name, Any] = Field(min_length=1)  # values: spec models of the workloads
    slo: Slo | None = None
    variant: str = ""  # set by the loader
