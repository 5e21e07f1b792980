"""Families of Prometheus metrics: samples, labels, and histograms in buckets."""

import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from sim.core.recorder import RunFacts
from sim.core.request import DIRECT
from sim.core.stats import Floats
from sim.results import arrow
from sim.results.arrow import Mask, Table
from sim.results.result import RunResult

Bounds: TypeAlias = tuple[float, ...]

VLLM_TTFT_S: Final[Bounds] = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Of ``vllm:time_to_first_token_seconds``; vLLM, ``vllm/v1/metrics/loggers.py``."""


def doubling(first: float, count: int) -> Bounds:
    """``count`` bounds from ``first`` on, each twice the one before."""
    return tuple(first * 2.0**power for power in range(count))


DEFAULT_S: Final[Bounds] = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""Prometheus' own (client_golang, ``DefBuckets``); LLMKube's of request durations."""

# LLMKube, internal/metrics: of its router's first token, its pools' swaps and its pools' holds.
ROUTER_TTFT_S: Final = doubling(0.01, 12)
SWAP_S: Final = doubling(1.0, 10)
HOLD_S: Final = doubling(0.1, 12)


@dataclass(frozen=True)
class Histogram:
    """Values, and how many of them are at most each of ``bounds``, rising, and in all.

    ``cumulative`` has an entry more than ``bounds``: that of the bucket without a bound.
    """

    bounds: Bounds
    cumulative: tuple[int, ...]
    values: Floats

    @staticmethod
    def of(values: Floats, bounds: Bounds) -> "Histogram":
        """Count known ``values``."""
        ordered = np.sort(values)
        at_most = np.searchsorted(ordered, bounds, side="right").tolist()
        return Histogram(bounds, (*at_most, len(ordered)), values)

    @property
    def sum(self) -> float:
        """The sum of the values, the same in whatever order they came."""
        return math.fsum(self.values.tolist())

    def quantile(self, share: float) -> float | None:
        """What ``histogram_quantile(share, ...)`` of PromQL says; ``None`` without values."""
        return bucket_quantile(share, self.bounds, self.cumulative)


def bucket_quantile(
    share: float, bounds: Sequence[float], cumulative: Sequence[int]
) -> float | None:
    """The estimate of PromQL's ``histogram_quantile`` for classic buckets.

    ``cumulative[i]`` values are at most ``bounds[i]``, the last entry counts all.
    The rank is share x count; inside its bucket the estimate is a linear
    interpolation, from 0 in the first one (whose bound is positive), and in the
    bucket without a bound it is the highest bound. ``None`` without values.
    Source: Prometheus documentation, query functions, histogram_quantile().
    Raises ``ValueError`` for a share outside [0, 1].
    """
    if not 0.0 <= share <= 1.0:
        raise ValueError(f"a share lies in [0, 1]; got {share}")
    if not cumulative[-1]:
        return None
    rank = share * cumulative[-1]
    bucket = bisect_left(cumulative, rank, 0, len(bounds))
    if bucket == len(bounds):
        return bounds[-1]
    start = bounds[bucket - 1] if bucket else 0.0
    before = cumulative[bucket - 1] if bucket else 0
    inside = cumulative[bucket] - before
    if not inside:  # rank 0 before an empty first bucket: not a number in PromQL
        return None
    return start + (bounds[bucket] - start) * ((rank - before) / inside)


Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = tuple[str, ...]
Value: TypeAlias = float | Histogram

NAMESPACE: Final = "default"
"""Kubernetes' own word for where objects without one are; podsim knows no namespaces."""


@dataclass(frozen=True)
class Family:
    """Samples of one name: the names of its labels, and a value for each of their values."""

    name: str
    kind: Kind
    help: str
    labels: Labels
    samples: Mapping[Labels, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Scrape:
    """A run, its scenario as JSON has it, and the moment of the scrape in seconds."""

    result: RunResult
    scenario: Mapping[str, Any]

    @property
    def facts(self) -> RunFacts:
        """Facts of the run."""
        return self.result.facts

    @property
    def router(self) -> str:
        """The label ``router``: a scenario has one, which goes by its name."""
        return self.facts.scenario

    @property
    def at_s(self) -> float:
        """When it looks; what is due at this very instant has not happened yet."""
        return self.facts.window_end_s

    def happened(self, times_s: Floats) -> Mask:
        """Which times lie before the scrape; one that never came does not."""
        return times_s < self.at_s

    def engine(self, backend: str) -> Mapping[str, Any]:
        """The engine of the pods of a backend."""
        engine: Mapping[str, Any] = self.scenario["engines"][
            self.scenario["backends"][backend]["engine"]
        ]
        return engine

    @property
    def through_router(self) -> Mask:
        """The requests that did not go past the router."""
        table = self.result.tables.placements
        past = arrow.strings(table, "proxy").equal(DIRECT)
        reached = np.ones(self.result.tables.requests.num_rows, dtype=bool)
        reached[arrow.whole(table, "request_id")[past]] = False
        return reached


def words(table: Table, name: str) -> list[str]:
    """A column of texts; a null is the empty text, as Prometheus has it."""
    texts = arrow.strings(table, name)
    known = [*texts.words, ""]  # a null is -1
    return [known[code] for code in texts.codes.tolist()]


def counted(labels: Iterable[Labels], where: Mask) -> dict[Labels, float]:
    """How often each combination of labels occurs among the rows of ``where``, in their order."""
    counts: defaultdict[Labels, int] = defaultdict(int)
    for each, chosen in zip(labels, where.tolist(), strict=True):
        if chosen:
            counts[each] += 1
    return {each: float(counts[each]) for each in sorted(counts)}


def observed(
    labels: Sequence[Labels],
    values: Floats,
    where: Mask,
    bounds: Bounds,
    always: Iterable[Labels] = (),
) -> dict[Labels, Value]:
    """A histogram for each combination of labels; those of ``always`` even if it is empty."""
    found: defaultdict[Labels, list[float]] = defaultdict(list)
    for each in always:
        found[each] = []
    rows = zip(labels, values.tolist(), where.tolist(), strict=True)
    for each, value, chosen in rows:
        if chosen and not isnan(value):
            found[each].append(value)
    return {
        each: Histogram.of(np.array(found[each], dtype=np.float64), bounds)
        for each in sorted(found)
    }
