"""What differs between variants: each beside the first one, judged over paired seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sim.comparison.paired import compare
from sim.comparison.sides import MetricVerdict, Side, stored_side
from sim.comparison.wording import change, interval, remark, told
from sim.report.selection import Study
from sim.results.shown import Row

LEAST_SEEDS: Final = 2
"""Fewer shared seeds say nothing about chance."""


COLUMNS: Final = 4
"""Variants beside each other; more would not fit on paper."""


@dataclass(frozen=True)
class Verdict:
    """How a variant does in one metric: the verdict, the change with its interval, a remark."""

    verdict: str
    change: str
    remark: str


@dataclass(frozen=True)
class Contrast:
    """One metric: in ``cells`` the verdict on each variant, None where there is none.

    Without cells it is the heading of those that follow.
    """

    label: str
    cells: tuple[Verdict | None, ...]
    below: bool = False


@dataclass(frozen=True)
class Contrasts:
    """A table of verdicts on some variants."""

    variants: tuple[str, ...]
    rows: tuple[Contrast, ...]


@dataclass(frozen=True)
class Judge:
    """Compares variants of a study; each pair is judged once.

    The primary metrics of a pair are one family: whatever is said to differ in
    it does so with 95 % confidence in all of them together.
    """

    study: Study
    _sides: dict[str, Side] = field(default_factory=dict)
    _judged: dict[tuple[str, str], Mapping[str, MetricVerdict]] = field(default_factory=dict)

    def judged(self, base: str, new: str) -> Mapping[str, MetricVerdict]:
        """Every metric of ``new`` against ``base``, by key."""
        if (base, new) not in self._judged:
            found = compare(self._side(base), self._side(new))
            self._judged[base, new] = {each.key: each for each in found.judged}
        return self._judged[base, new]

    def shared_seeds(self, base: str, new: str) -> int:
        """Under how many seeds both were run."""
        seeds = self.study.seeds
        return len(set(seeds[base]) & set(seeds[new]))

    def _side(self, variant: str) -> Side:
        if variant not in self._sides:
            runs = [run for run in self.study.stored if run.variant == variant]
            self._sides[variant] = stored_side(self.study.called(variant), runs)
        return self._sides[variant]


def contrasts(judge: Judge, rows: Sequence[Row]) -> tuple[Contrasts, ...]:
    """The primary metrics among ``rows``; nothing without a second variant or enough seeds."""
    first, *others = judge.study.variants
    tables = (others[at : at + COLUMNS] for at in range(0, len(others), COLUMNS))
    return tuple(
        _beside(judge, first, names, rows)
        for names in tables
        if any(judge.shared_seeds(first, name) >= LEAST_SEEDS for name in names)
    )


def _beside(judge: Judge, first: str, names: Sequence[str], rows: Sequence[Row]) -> Contrasts:
    columns = [judge.judged(first, name) for name in names]
    return Contrasts(
        tuple(map(judge.study.called, names)),
        tuple(_rows(columns, rows)),
    )


def _rows(
    columns: Sequence[Mapping[str, MetricVerdict]], rows: Sequence[Row]
) -> Iterator[Contrast]:
    """The primary metrics, those of a workload or a pool below its heading."""
    heading = ""
    for row in rows:
        if not row.key:
            heading = row.label
        elif any(column[row.key].primary for column in columns if row.key in column):
            if heading:
                yield Contrast(heading, ())
                heading = ""
            yield Contrast(
                row.label.strip(),
                tuple(_verdict(column.get(row.key)) for column in columns),
                row.label.startswith(" "),
            )


def _verdict(judged: MetricVerdict | None) -> Verdict | None:
    if judged is None:
        return None
    said = f"{change(judged)} {interval(judged)}".strip().replace("-", "\N{MINUS SIGN}")
    return Verdict(told(judged.verdict), "" if judged.change == 0.0 else said, remark(judged))
