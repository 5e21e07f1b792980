"""A scenario of theory: its parameters, its requests, and a row for each figure compared."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import exp
from typing import Final, NamedTuple

import numpy as np

from sim.core.stats import Floats, t_interval
from sim.engine.spec import Vllm
from sim.hardware.step_times import step_time
from sim.results import arrow
from sim.results.arrow import Codes, Integers, Mask
from sim.results.result import RunResult
from sim.scenario.schema import Backend, Scenario
from sim.validation.theory import UnanswerableError
from sim.workload.agent_spec import AgentsSpec
from sim.workload.distributions import CountForms
from sim.workload.requests import RequestsSpec

LEVEL: Final = 0.99
"""Level of the intervals over seeds."""


@dataclass(frozen=True)
class TheoryRow:
    """A comparison. ``low`` and ``high`` are None where it is about every single request,
    ``predicted`` where theory only orders.

    ``bound`` says what must hold for ``ok``.
    """

    scenario: str
    what: str
    predicted: float | None
    measured: float
    low: float | None
    high: float | None
    bound: str
    ok: bool


def at_most(scenario: str, what: str, predicted: float, worst: float, bound: float) -> TheoryRow:
    """The worst of all requests of all seeds is at most ``bound``."""
    ok = bool(worst <= bound)
    return TheoryRow(scenario, what, predicted, float(worst), None, None, f"<= {bound:g}", ok)


def at_least(
    scenario: str, what: str, predicted: float | None, worst: float, bound: float
) -> TheoryRow:
    """The worst of all requests of all seeds is at least ``bound``."""
    ok = bool(worst >= bound)
    return TheoryRow(scenario, what, predicted, float(worst), None, None, f">= {bound:g}", ok)


def mean(
    scenario: str,
    what: str,
    predicted: float,
    measured: Sequence[float],
    precision: float,
    inexact: float = 0.0,
) -> TheoryRow:
    """The t interval over seeds holds the prediction, and is narrow enough to say something.

    Its half-width is at most ``precision`` of the prediction. ``inexact`` is
    the part of the prediction by which an approximation may be off the interval.
    """
    interval = t_interval(measured, LEVEL)
    assert interval.mean is not None and interval.low is not None and interval.high is not None
    half = (interval.high - interval.low) / 2.0
    off = max(interval.low - predicted, predicted - interval.high, 0.0)
    ok = half <= precision * predicted and off <= inexact * predicted
    bound = f"± {precision * 100:g} %"
    if inexact:
        bound += f", off {inexact * 100:g} %"
    return TheoryRow(
        scenario, what, predicted, interval.mean, interval.low, interval.high, bound, ok
    )


def negative(scenario: str, what: str, measured: Sequence[float]) -> TheoryRow:
    """The t interval over seeds lies below zero."""
    interval = t_interval(measured, LEVEL)
    assert interval.mean is not None and interval.low is not None and interval.high is not None
    ok = interval.high < 0.0
    return TheoryRow(
        scenario, what, None, interval.mean, interval.low, interval.high, "below 0", ok
    )


@dataclass(frozen=True)
class CaseSample:
    """The requests of one seed that are over, in order of arrival.

    ``measured`` are those that arrived in the window. Times in seconds.
    """

    arrival_s: Floats
    scheduled_s: Floats
    end_s: Floats
    output_tokens: Integers
    cached_tokens: Integers
    pod: Codes
    measured: Mask

    @property
    def sojourn_s(self) -> float:
        """Mean time in the system."""
        return float(np.mean((self.end_s - self.arrival_s)[self.measured]))

    @property
    def waits_s(self) -> Floats:
        """Time from arrival to the first step."""
        return (self.scheduled_s - self.arrival_s)[self.measured]

    def services_s(self, per_token_s: float) -> Floats:
        """What each request asks of a pod that gives it a token in ``per_token_s``."""
        return np.asarray(self.output_tokens * per_token_s, dtype=np.float64)

    def by_pod(self) -> Iterator[Mask]:
        """The requests of each pod."""
        for code in range(int(self.pod.max()) + 1):
            yield self.pod == code


def sample(result: RunResult) -> CaseSample:
    """The requests of ``result`` that are over."""
    table = result.tables.requests
    end_s = arrow.numbers(table, "end_s")
    over = ~np.isnan(end_s)
    arrival_s = arrow.numbers(table, "arrival_s")[over]
    facts = result.facts
    return CaseSample(
        arrival_s=arrival_s,
        scheduled_s=arrow.numbers(table, "scheduled_s")[over],
        end_s=end_s[over],
        output_tokens=arrow.whole(table, "output_tokens")[over],
        cached_tokens=arrow.whole(table, "cached_tokens")[over],
        pod=arrow.strings(table, "pod").codes[over],
        measured=(arrival_s >= facts.window_start_s) & (arrival_s < facts.window_end_s),
    )


class Moments(NamedTuple):
    """Mean and mean square of a whole number."""

    mean: float
    square: float


def moments(count: CountForms) -> Moments:
    """Of a form that theory knows; a lognormal that is rounded and clipped is taken as it is meant.

    Raises ``UnanswerableError`` for any other form.
    """
    if count.constant is not None:
        return Moments(count.constant, count.constant**2)
    if count.geometric is not None:
        average = count.geometric.mean
        return Moments(average, 2.0 * average**2 - average)
    if count.lognormal is not None and count.lognormal.mu is not None:
        mu, variance = count.lognormal.mu, count.lognormal.sigma**2
        return Moments(exp(mu + variance / 2.0), exp(2.0 * (mu + variance)))
    raise UnanswerableError("tokens must be constant, geometric, or lognormal by mu and sigma")


def need(cases: Mapping[str, "Case"], *variants: str) -> None:
    """Raise ``UnanswerableError`` unless all these variants are there."""
    missing = [variant for variant in variants if variant not in cases]
    if missing:
        raise UnanswerableError(f"the variants {', '.join(missing)} are missing")


class Case:
    """A variant with its runs, one per seed; it has one engine, one backend and one workload.

    Raises ``UnanswerableError`` for any other scenario, and when asked for the
    workload of another kind.
    """

    def __init__(self, scenario: Scenario, runs: tuple[RunResult, ...]) -> None:
        self.runs = runs
        self.name = "/".join(filter(None, (scenario.name, scenario.variant)))
        for block in (scenario.engines, scenario.backends, scenario.workloads):
            if len(block) != 1:
                raise UnanswerableError(
                    f"one engine, backend and workload are compared, not {[*block]}"
                )
        (engine,) = scenario.engines.values()
        if not isinstance(engine, Vllm):
            raise UnanswerableError(f"engines of kind vllm are compared, not {engine.kind}")
        self._engine = engine
        (self._backend,) = scenario.backends.values()
        (self._workload,) = scenario.workloads.values()

    @cached_property
    def samples(self) -> tuple[CaseSample, ...]:
        """What the requests of each seed went through."""
        return tuple(sample(run) for run in self.runs)

    @property
    def engine(self) -> Vllm:
        """The engine of all pods."""
        return self._engine

    @property
    def backend(self) -> Backend:
        """The pods."""
        return self._backend

    @property
    def requests(self) -> RequestsSpec:
        """The open-loop workload."""
        if not isinstance(self._workload, RequestsSpec):
            raise UnanswerableError(f"needs a workload of kind requests, not {self._workload.kind}")
        return self._workload

    @property
    def agents(self) -> AgentsSpec:
        """The closed-loop workload."""
        if not isinstance(self._workload, AgentsSpec):
            raise UnanswerableError(f"needs a workload of kind agents, not {self._workload.kind}")
        return self._workload

    @property
    def arrivals_per_s(self) -> float:
        """Requests per second."""
        return float(self.requests.arrivals.rate)

    @property
    def step_s(self) -> float:
        """A step that costs the same whatever is in it."""
        return step_time(self._engine).a / 1e3

    @property
    def step_per_sequence_s(self) -> float:
        """What each sequence of a step adds to it, whether it decodes or prefills one token."""
        return step_time(self._engine).f / 1e5

    @property
    def servers(self) -> int:
        """Sequences that a pod serves at once."""
        return self._engine.max_num_seqs
