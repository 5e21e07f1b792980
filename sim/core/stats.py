"""Statistics that are easy to get subtly wrong, each written once.

Percentiles are linear interpolations between order statistics (type 7 of
Hyndman and Fan, numpy's default). A sample may be *censored*: some of its values
are known only to be larger than what was seen. Such values count as infinite
in the order, and whatever would have to look at one of them is ``None``.
Intervals are over independent runs, never over the requests of one run.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Floats: TypeAlias = NDArray[np.float64]

PERCENTILE_METHOD: Final = "linear, type 7"
MSER_BATCH: Final = 5
MSER_LEAST_VALUES: Final = 50
"""Fewer values than this make fewer than ten batches, on which MSER-5 says nothing."""
MSER_LEAST_KEPT_BATCHES: Final = 5
"""A remainder shorter than this looks steady by accident."""


@dataclass(frozen=True)
class Sample:
    """Values that were observed, and the number of those that were still growing."""

    observed: Floats
    censored: int = 0

    def percentiles(self, *percents: float) -> list[float | None]:
        """Type 7 percentiles; ``None`` for an empty sample and for one among the censored.

        Raises ``ValueError`` for a percentage outside [0, 100].
        """
        ordered = np.sort(self.observed)
        return [_interpolated(ordered, self.censored, percent) for percent in percents]

    def percentile(self, percent: float) -> float | None:
        """One percentile; see ``percentiles``."""
        return self.percentiles(percent)[0]

    def mean(self) -> float | None:
        """Mean of the observed values; ``None`` when none is, or the p95 falls among the censored.

        The mean of a censored sample is that of its survivors. It is given
        while few are missing and withheld where it would flatter.
        """
        if self.percentile(95.0) is None:
            return None
        return float(np.mean(self.observed))


def is_beyond(percent: float, known: int, unknown: int) -> bool:
    """Whether a type 7 percentile looks at one of ``unknown`` values that are larger than all
    those known.
    """
    return math.ceil((known + unknown - 1) * (percent / 100.0)) >= known


def _interpolated(ordered: Floats, censored: int, percent: float) -> float | None:
    if not 0.0 <= percent <= 100.0:
        raise ValueError(f"a percentage lies in [0, 100]; got {percent}")
    count = len(ordered) + censored
    if count == 0:
        return None
    rank = (count - 1) * (percent / 100.0)
    lower = math.floor(rank)
    weight = rank - lower
    upper = lower + 1 if weight > 0.0 else lower
    if is_beyond(percent, len(ordered), censored):
        return None
    low, high = float(ordered[lower]), float(ordered[upper])
    # The same two forms as numpy's, so that a notebook gets the same float.
    if weight >= 0.5:
        return high - (high - low) * (1.0 - weight)
    return low + (high - low) * weight


@dataclass(frozen=True)
class Interval:
    """Mean of independent values with a confidence interval; no interval from one value."""

    mean: float | None
    low: float | None
    high: float | None
    n: int


def t_quantile(probability: float, degrees_of_freedom: int) -> float:
    """Quantile of Student's t distribution."""
    from scipy.special import stdtrit  # a quarter of a second that runs with one seed save

    return float(stdtrit(degrees_of_freedom, probability))


def t_tail(t: float, degrees_of_freedom: int) -> float:
    """Probability that Student's t is below ``t``."""
    from scipy.special import stdtr

    return float(stdtr(degrees_of_freedom, t))


def t_interval(values: Sequence[float], level: float = 0.95) -> Interval:
    """Student's t interval of the mean of ``values``, one value per independent run."""
    n = len(values)
    if n == 0:
        return Interval(None, None, None, 0)
    mean = math.fsum(values) / n
    if n == 1:
        return Interval(mean, None, None, 1)
    variance = math.fsum((value - mean) ** 2 for value in values) / (n - 1)
    half = t_quantile((1.0 + level) / 2.0, n - 1) * math.sqrt(variance / n)
    return Interval(mean, mean - half, mean + half, n)


def mser5(values: Floats) -> int | None:
    """How many leading values MSER-5 would drop as warm-up; ``None`` when it finds no steady state.

    Batches of five; the cut d minimises the squared standard error of what is
    kept, sum of (y_j - mean)^2 over j > d, divided by (n - d)^2. A cut in the
    second half of the series means that the series never settled (K. P. White,
    1997). Raises ``ValueError`` for fewer than ``MSER_LEAST_VALUES`` values.
    """
    if len(values) < MSER_LEAST_VALUES:
        raise ValueError(f"MSER-5 needs {MSER_LEAST_VALUES} values; got {len(values)}")
    batches = len(values) // MSER_BATCH
    means = values[: batches * MSER_BATCH].reshape(batches, MSER_BATCH).mean(axis=1)
    # Centred and freed of rounding noise, so that a constant series has no variance at all.
    scale = float(np.abs(means).max()) or 1.0
    means = np.round((means - means.mean()) / scale, 9)
    kept = np.arange(batches, 0, -1, dtype=np.float64)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum((means**2)[::-1])[::-1]
    errors = (squares - sums**2 / kept) / kept**2
    cut = int(np.argmin(errors[: batches - MSER_LEAST_KEPT_BATCHES + 1]))
    return None if cut > batches / 2 else cut * MSER_BATCH


def mann_kendall(values: Sequence[float]) -> int:
    """Mann and Kendall's S: pairs that rise minus pairs that fall; large when there is a trend."""
    return sum(
        (later > earlier) - (later < earlier)
        for at, earlier in enumerate(values)
        for later in values[at + 1 :]
    )


def present_at(starts: Floats, ends: Floats, times: Floats) -> NDArray[np.int64]:
    """How many of the intervals [start, end) contain each of ``times``."""
    begun = np.searchsorted(np.sort(starts), times, side="right")
    over = np.searchsorted(np.sort(ends), times, side="right")
    return (begun - over).astype(np.int64)


def time_average(starts: Floats, ends: Floats, start: float, end: float) -> float | None:
    """Time average over [start, end) of the number of intervals that are open.

    An infinite end is an interval that is still open. ``None`` for an empty range.
    """
    if end <= start:
        return None
    overlap = np.minimum(ends, end) - np.maximum(starts, start)
    return float(np.sum(np.maximum(overlap, 0.0))) / (end - start)


def arrival_average(starts: Floats, ends: Floats) -> float | None:
    """Mean number of open intervals that each arrival finds, itself not counted.

    ``starts`` are in order of arrival: of several at one instant, each finds
    the ones before it, and an interval that ends at that instant is over.
    """
    if len(starts) == 0:
        return None
    lasting = ends > starts  # an interval of no length is open for nobody
    begun: NDArray[np.int64] = np.cumsum(lasting) - lasting
    over = np.searchsorted(np.sort(ends[lasting]), starts, side="right")
    return float(np.mean(begun - over))


def step_average(starts: Floats, ends: Floats, times: Floats) -> float | None:
    """Mean number of open intervals over given instants: engine steps or gauge readings.

    It weighs a short step like a long one, so it is not the time average.
    """
    return float(np.mean(present_at(starts, ends, times))) if len(times) else None
