"""Prometheus' exposition text of stored runs, and what dashboards make of its histograms."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from sim.core.recorder import RunFacts
from sim.core.stats import Sample
from sim.export.families import Family, Histogram, Labels, Scrape, Value
from sim.export.pod_families import pod_families
from sim.export.pool_families import pool_families
from sim.export.router_families import router_families
from sim.results.result import RunResult

WHICH_RUN: Final = ("scenario", "variant", "seed")
COVERS: Final = "Simulated by podsim; covers the run from its start, warm-up included."
PERCENTS: Final = (50.0, 95.0, 99.0)


@dataclass(frozen=True)
class Scraped:
    """A run and the families that a scrape of it finds."""

    facts: RunFacts
    families: tuple[Family, ...]

    @property
    def labels(self) -> Labels:
        """What tells it from other runs, in the order of ``WHICH_RUN``."""
        return self.facts.scenario, self.facts.variant, str(self.facts.seed)


def scraped(result: RunResult, scenario: Mapping[str, Any]) -> Scraped:
    """Return all that a scrape of a run finds; families without samples are left out.

    ``scenario`` is its resolved variant as JSON has it.
    """
    scrape = Scrape(result, scenario)
    found = (*router_families(scrape), *pool_families(scrape), *pod_families(scrape))
    return Scraped(result.facts, tuple(family for family in found if family.samples))


def together(runs: Sequence[Scraped]) -> list[Family]:
    """Return the families of several runs, told apart by labels that one run does not need."""
    if len(runs) == 1:
        return list(runs[0].families)
    merged: dict[str, tuple[Family, dict[Labels, Value]]] = {}
    for run in runs:
        for family in run.families:
            _, samples = merged.setdefault(family.name, (family, {}))
            samples.update({(*run.labels, *own): each for own, each in family.samples.items()})
    return [
        Family(first.name, first.kind, first.help, (*WHICH_RUN, *first.labels), samples)
        for first, samples in merged.values()
    ]


def exposition(found: Iterable[Family]) -> bytes:
    """Return the text that a scrape would get; equal runs give equal bytes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Found([_metric(family) for family in found]))
    text: bytes = generate_latest(registry)
    return text


class _Found(Collector):
    """Gives a registry metrics that are known already."""

    def __init__(self, metrics: Sequence[Metric]) -> None:
        self._metrics = metrics

    def describe(self) -> list[Metric]:
        """Nothing before it is collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Each family in the library's form."""
        yield from self._metrics


def _metric(family: Family) -> Metric:
    about = family.help if family.kind == "gauge" else f"{family.help} {COVERS}"
    kinds = {
        "counter": CounterMetricFamily,
        "gauge": GaugeMetricFamily,
        "histogram": HistogramMetricFamily,
    }
    metric: Any = kinds[family.kind](family.name, about, labels=family.labels)
    for labels, value in family.samples.items():
        if isinstance(value, Histogram):
            names = [*map(floatToGoString, value.bounds), "+Inf"]
            buckets = [(name, float(count)) for name, count in zip(names, value.cumulative)]
            metric.add_metric(labels, buckets=buckets, sum_value=value.sum)
        else:
            metric.add_metric(labels, value)
    described: Metric = metric
    return described


@dataclass(frozen=True)
class Percentiles:
    """Percentiles in seconds of one histogram, exact and as its buckets give them.

    ``labels`` are those of one series; of all together, as ``sum by (le)`` adds
    them up, without any.
    """

    name: str
    labels: dict[str, str]
    n: int
    exact: dict[str, float | None]
    estimated: dict[str, float | None]

    @staticmethod
    def of(name: str, labels: dict[str, str], histogram: Histogram) -> "Percentiles":
        """Look at one histogram."""
        names = [f"p{percent:g}" for percent in PERCENTS]
        exact = Sample(histogram.values).percentiles(*PERCENTS)
        estimated = [histogram.quantile(percent / 100.0) for percent in PERCENTS]
        n = len(histogram.values)
        return Percentiles(name, labels, n, dict(zip(names, exact)), dict(zip(names, estimated)))

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


def percentiles(families: Iterable[Family]) -> list[Percentiles]:
    """Return those of each histogram of one run that has values, all its series together."""
    found = []
    for family in families:
        if series := list(_series(family).values()):
            columns = zip(*(each.cumulative for each in series), strict=True)
            values = np.concatenate([each.values for each in series])
            added = Histogram(series[0].bounds, tuple(map(sum, columns)), values)
            found.append(Percentiles.of(family.name, {}, added))
    return found


def percentiles_by_series(families: Iterable[Family]) -> list[Percentiles]:
    """Return those of each histogram of one run, its series one by one."""
    return [
        Percentiles.of(family.name, dict(zip(family.labels, labels, strict=True)), each)
        for family in families
        for labels, each in _series(family).items()
    ]


def _series(family: Family) -> dict[Labels, Histogram]:
    return {
        labels: each
        for labels, each in family.samples.items()
        if isinstance(each, Histogram) and len(each.values)
    }
