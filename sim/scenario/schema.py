"""The shape of a scenario: frozen models, one class per block of the file.

Keys are camelCase in files and mean what the same key means in a ModelRouter
manifest; attributes are snake_case, with the unit last where the field has
one. Engines, policies and workloads bring spec models of their own, found by
``kind`` (``sim.core.registry``).
"""

from collections.abc import Iterator
from typing import Annotated, Any, TypeAlias

from pydantic import AfterValidator, Field, SerializeAsAny

from sim.core.fields import (
    DURATION,
    MAX_DURATION_S,
    STARVED,
    Duration,
    Model,
    Name,
    PositiveDuration,
    Text,
    refuse,
    whole,
)
from sim.core.rules import Problem, repeated, rule
from sim.hardware.engine import Engine
from sim.scenario.events import Event
from sim.scenario.routing import Router

MAX_REPLICAS = 10_000
MAX_SEED = 2**63 - 1


def _all_different(seeds: tuple[int, ...]) -> tuple[int, ...]:
    refuse(
        [
            ("", f"seed {seed} stands here twice: its runs would count double")
            for seed in repeated(seeds)
        ]
    )
    return seeds


Seed: TypeAlias = Annotated[int, whole(0, MAX_SEED)]


class Backend(Model):
    """A set of equal pods behind one placement policy."""

    engine: Name = Field(description="One of engines.")
    replicas: Annotated[int, whole(1, MAX_REPLICAS, STARVED)] = Field(
        default=1,
        description="Number of pods; of groups of pods where the engine has dataParallel ranks.",
    )
    policy: Any = Field(
        default=None, description="Placement policy by kind; least-loaded when missing."
    )  # the spec model of the policy once loaded
    balancing: Any = Field(
        default=None, description="The policy as a ModelRouter manifest says it; not with policy."
    )  # None once loaded
    capabilities: tuple[Text, ...] = Field(
        default=(), description="What rules can ask for with requiredCapabilities."
    )
    timeout: PositiveDuration | None = Field(
        default=None,
        description="Most time from the dispatch to the first token, where the rule has none; the "
        "proxy's when missing.",
    )


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

    @rule
    def _ends_before_the_workload(self) -> Iterator[Problem]:
        if self.drain is False and self.measure is None:
            yield "drain", "false means nothing without measure: the run goes to the last end"

    @rule
    def _within_limits(self) -> Iterator[Problem]:
        end_s = self.warmup + (self.measure or 0.0)
        if end_s > MAX_DURATION_S:
            limit = DURATION.written(MAX_DURATION_S)
            yield "measure", f"must end within {limit} of simulated time; got {end_s:g}s"


class Slo(Model):
    """Service objectives: a request attains them when it meets all that are given."""

    ttft: PositiveDuration | None = Field(default=None, description="Most time to first token.")
    tpot: PositiveDuration | None = Field(
        default=None, description="Most time per output token after the first."
    )
    e2e: PositiveDuration | None = Field(
        default=None, alias="e2e", description="Most time from arrival to the end of the answer."
    )

    @rule
    def _says_something(self) -> Iterator[Problem]:
        if self.ttft is None and self.tpot is None and self.e2e is None:
            yield "", "give one or more of ttft, tpot and e2e"


class Scenario(Model):
    """One thing to simulate: a scenario file with one of its variants applied."""

    name: Name = Field(description="Names the results directory.")
    description: Text = Field(default="", description="What the scenario is for.")
    window: Window = Field(
        default=Window(), description="What is measured: requests that arrive in it."
    )
    seeds: Annotated[tuple[Seed, ...], AfterValidator(_all_different)] = Field(
        default=(1,), min_length=1, max_length=10_000, description="One run per seed and variant."
    )
    ring_salt: Text | None = Field(
        default=None, description="Fixes the layout of hash rings; the seed varies it when missing."
    )
    engines: dict[Name, SerializeAsAny[Engine]] = Field(
        min_length=1, description="Kinds of pods by name: what they run on, serve and cost."
    )  # of some kind, once loaded
    backends: dict[Name, Backend] = Field(
        min_length=1, description="Sets of equal pods by name, each behind a placement policy."
    )
    router: Router = Field(description="The proxy in front of the backends, and its rules.")
    pools: dict[Name, Any] = Field(
        default={}, description="Backends that take turns on one GPU."
    )  # spec models of the pools once loaded
    workloads: dict[Name, Any] = Field(
        min_length=1, description="Who sends requests, by name."
    )  # spec models of the workloads once loaded
    events: tuple[Event, ...] = Field(default=(), description="What happens meanwhile.")
    slo: Slo | None = Field(
        default=None, description="Service objectives; no share of requests attains them without."
    )
    variant: str = ""  # set by the loader
