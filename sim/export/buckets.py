"""Histograms as Prometheus keeps them, and what a dashboard reads off them.

A dashboard does not see the values, only how many were at most each bound. Its
percentile is a point on the straight line through the bucket into which the
percentile falls, whatever the values in that bucket were.
"""

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from sim.core.stats import Floats

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
