"""Families of Prometheus metrics: samples, labels, and histograms in buckets."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

from sim.core.recorder import RunFacts
from sim.core.stats import Floats
from sim.results import arrow
from sim.results.arrow import Table
from sim.results.result import RunResult

if TYPE_CHECKING:
    import pandas as pd

Bounds: TypeAlias = tuple[float, ...]

VLLM_TTFT_S: Final[Bounds] = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0),
    *(2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Of ``vllm:time_to_first_token_seconds``; vLLM, ``vllm/v1/metrics/loggers.py``."""


def doubling(first: float, count: int) -> Bounds:
    """Return ``count`` bounds from ``first`` on, each twice the one before."""
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
        """Return what ``histogram_quantile(share, ...)`` of PromQL says; None without values."""
        return bucket_quantile(share, self.bounds, self.cumulative)


def bucket_quantile(
    share: float, bounds: Sequence[float], cumulative: Sequence[int]
) -> float | None:
    """Return the estimate of PromQL's ``histogram_quantile`` for classic buckets.

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


def counted(frame: "pd.DataFrame", labels: Labels) -> dict[Labels, float]:
    """Return how often each combination of labels occurs among the rows, in their order."""
    counts = Counter(_keys(frame, labels))
    return {each: float(counts[each]) for each in sorted(counts)}


def observed(
    frame: "pd.DataFrame",
    labels: Labels,
    column: str,
    bounds: Bounds,
    always: Iterable[Labels] = (),
) -> dict[Labels, Value]:
    """Return a histogram of a column for each combination of labels; ``always`` of some."""
    found: dict[Labels, list[float]] = {each: [] for each in always}
    for each, value in zip(_keys(frame, labels), frame[column].tolist(), strict=True):
        if not math.isnan(value):
            found.setdefault(each, []).append(value)
    return {each: Histogram.of(np.array(found[each]), bounds) for each in sorted(found)}


def _keys(frame: "pd.DataFrame", labels: Labels) -> Iterator[Labels]:
    return zip(*(frame[label].tolist() for label in labels))


@dataclass(frozen=True)
class Scrape:
    """A run and its scenario as JSON has it, at the moment of the scrape.

    In its frames a text that is null is empty, as Prometheus has it, and the label ``router``
    is the name of the scenario: it has one router.
    """

    result: RunResult
    scenario: Mapping[str, Any]

    @property
    def facts(self) -> RunFacts:
        """Facts of the run."""
        return self.result.facts

    @property
    def at_s(self) -> float:
        """When it looks; what is due at this very instant has not happened yet."""
        return self.facts.window_end_s

    @cached_property
    def requests(self) -> "pd.DataFrame":
        """The requests table."""
        return self._frame(self.result.tables.requests)

    @cached_property
    def placements(self) -> "pd.DataFrame":
        """The placements table."""
        return self._frame(self.result.tables.placements)

    @cached_property
    def pools(self) -> "pd.DataFrame":
        """The pools table."""
        return self._frame(self.result.tables.pools)

    @cached_property
    def retries(self) -> "pd.DataFrame":
        """The retries table."""
        return self._frame(self.result.tables.retries)

    def _frame(self, table: Table) -> "pd.DataFrame":
        frame = arrow.data_frame(table)
        for name in arrow.names(table):
            if arrow.is_text(table, name):
                frame[name] = frame[name].fillna("")
        return frame.assign(router=self.facts.scenario, namespace=NAMESPACE)
