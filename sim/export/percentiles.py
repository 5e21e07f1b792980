"""What a dashboard would say of the histograms of a run, beside what is true."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sim.core.stats import Sample
from sim.export.families import Family, Histogram, Labels

PERCENTS: Final = (50.0, 95.0, 99.0)
NAMES: Final = tuple(f"p{percent:g}" for percent in PERCENTS)


@dataclass(frozen=True)
class Beside:
    """Percentiles in seconds of one histogram, exact and as its buckets give them.

    ``labels`` are those of one series; of all together, as ``sum by (le)`` adds
    them up, without any. ``None`` stands for no values.
    """

    name: str
    labels: dict[str, str]
    n: int
    exact: dict[str, float | None]
    estimated: dict[str, float | None]

    @property
    def plain(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "histogram": self.name,
            "labels": self.labels,
            "unit": "s",
            "n": self.n,
            "exact": self.exact,
            "estimated_from_buckets": self.estimated,
        }


def beside(families: Iterable[Family]) -> list[Beside]:
    """For each histogram of one run that has values, all its series together."""
    found = []
    for family in families:
        series = [each for each in family.samples.values() if isinstance(each, Histogram)]
        if series and sum(len(each.values) for each in series):
            found.append(_row(family.name, {}, added(series)))
    return found


def by_series(families: Iterable[Family]) -> list[Beside]:
    """For each histogram of one run, its series one by one."""
    return [
        _row(family.name, dict(zip(family.labels, labels, strict=True)), each)
        for family in families
        for labels, each in _with_values(family)
    ]


def _with_values(family: Family) -> Iterable[tuple[Labels, Histogram]]:
    for labels, each in family.samples.items():
        if isinstance(each, Histogram) and len(each.values):
            yield labels, each


def added(series: Iterable[Histogram]) -> Histogram:
    """Histograms of equal bounds, their buckets added up."""
    series = list(series)
    columns = zip(*(each.cumulative for each in series), strict=True)
    cumulative = tuple(sum(column) for column in columns)
    values = np.concatenate([each.values for each in series])
    return Histogram(series[0].bounds, cumulative, values)


def _row(name: str, labels: dict[str, str], histogram: Histogram) -> Beside:
    exact = Sample(histogram.values).percentiles(*PERCENTS)
    estimated = [histogram.quantile(percent / 100.0) for percent in PERCENTS]
    return Beside(
        name,
        labels,
        len(histogram.values),
        dict(zip(NAMES, exact, strict=True)),
        dict(zip(NAMES, estimated, strict=True)),
    )
