"""What a scrape finds: families of samples, and the moment at which it looks.

A scrape at the end of the measured window sees all that has happened since the
start of the run, warm-up included; summaries speak of the window alone. Where
a run has no end of its window, or goes on only to let its requests finish,
that is the end of the run, or the end of the window before that.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan
from typing import Any, Final, Literal, TypeAlias

import numpy as np

from sim.core.recorder import RunFacts
from sim.core.request import DIRECT
from sim.core.stats import Floats
from sim.export.buckets import Bounds, Histogram
from sim.results import arrow
from sim.results.arrow import Mask, Table
from sim.results.result import RunResult

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
