"""Prometheus' exposition text of stored runs, under the names that dashboards know."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from sim.core.recorder import RunFacts
from sim.export.families import Family, Histogram, Labels, Scrape, Value
from sim.export.pod_families import pod_families
from sim.export.pool_families import pool_families
from sim.export.router_families import router_families
from sim.results.result import RunResult

WHICH_RUN: Final = ("scenario", "variant", "seed")
COVERS: Final = "Simulated by podsim; covers the run from its start, warm-up included."


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
    """All that a scrape of a run finds; families without samples are left out.

    ``scenario`` is its resolved variant as JSON has it.
    """
    scrape = Scrape(result, scenario)
    found = (*router_families(scrape), *pool_families(scrape), *pod_families(scrape))
    return Scraped(result.facts, tuple(family for family in found if family.samples))


def together(runs: Sequence[Scraped]) -> list[Family]:
    """The families of several runs, told apart by labels; those of one run have no more labels."""
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
    """The text that a scrape would get; equal runs give equal bytes."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Found(list(found)))
    text: bytes = generate_latest(registry)
    return text


class _Found(Collector):
    """Gives a registry families that are known already."""

    def __init__(self, found: Sequence[Family]) -> None:
        self._found = found

    def describe(self) -> list[Metric]:
        """Nothing before it is collected."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Each family in the library's form."""
        for family in self._found:
            yield _metric(family)


def _metric(family: Family) -> Metric:
    told = f"{family.help} {COVERS}" if family.kind != "gauge" else family.help
    if family.kind == "histogram":
        return _histograms(family, told)
    kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
    metric: CounterMetricFamily | GaugeMetricFamily = kind(family.name, told, labels=family.labels)
    for labels, value in family.samples.items():
        assert not isinstance(value, Histogram)
        metric.add_metric(labels, value)
    return metric


def _histograms(family: Family, told: str) -> Metric:
    metric = HistogramMetricFamily(family.name, told, labels=family.labels)
    for labels, value in family.samples.items():
        assert isinstance(value, Histogram)
        names = [*map(floatToGoString, value.bounds), "+Inf"]
        buckets = [(name, float(count)) for name, count in zip(names, value.cumulative)]
        metric.add_metric(labels, buckets=buckets, sum_value=value.sum)
    return metric
