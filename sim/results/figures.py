"""What figures are made of: the measured window, counts, ratios, spreads."""

from dataclasses import dataclass

import numpy as np

from sim.core.recorder import RunFacts
from sim.core.stats import Floats, Sample
from sim.results.arrow import Mask


@dataclass(frozen=True)
class MeasuredWindow:
    """The measured interval [start, end) in seconds; ``length_s`` is what of it the run covered.

    ``end_s`` is infinite for a finite workload that is run to its end.
    """

    start_s: float
    end_s: float
    length_s: float

    @staticmethod
    def of(facts: RunFacts) -> "MeasuredWindow":
        """The window of a run; its length is 0 when the run ended before it began."""
        covered_s = min(facts.window_end_s, facts.end_s) - facts.window_start_s
        return MeasuredWindow(facts.window_start_s, facts.window_end_s, max(0.0, covered_s))

    def contains(self, times_s: Floats) -> Mask:
        """Which times lie in the window; a time that never came (NaN) does not."""
        return (times_s >= self.start_s) & (times_s < self.end_s)

    def per_s(self, amount: float) -> float | None:
        """A rate over the covered part; ``None`` when nothing was covered."""
        return amount / self.length_s if self.length_s > 0.0 else None


def sample(values: Floats, where: Mask, growing: Mask) -> Sample:
    """The known values of ``where``, and how many of the unknown ones are still growing."""
    return Sample(known(values[where]), count(where & growing & np.isnan(values)))


def to_ns(lasted_s: Floats) -> Floats:
    """Differences of times without their float noise: pools know the ends to the ns."""
    return np.round(lasted_s, 9)


def known(values: Floats) -> Floats:
    """The values that there are."""
    return values[~np.isnan(values)]


def spread(sample: Sample, figures: tuple[str, ...]) -> dict[str, float | None]:
    """Mean and percentiles under the names ``mean``, ``p50`` and so on."""
    percents = [float(figure[1:]) for figure in figures if figure != "mean"]
    percentiles = iter(sample.percentiles(*percents))
    return {figure: sample.mean() if figure == "mean" else next(percentiles) for figure in figures}


def count(mask: Mask) -> int:
    """How many."""
    return int(np.count_nonzero(mask))


def ratio(part: float, whole: float) -> float | None:
    """A share; ``None`` of nothing."""
    return part / whole if whole else None
