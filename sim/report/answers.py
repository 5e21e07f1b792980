"""The answers on the first screen, and the verdicts on variants over paired seeds."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from sim.comparison.paired import compare
from sim.comparison.sides import MetricVerdict, Side, stored_side
from sim.comparison.wording import change, interval, margin, remark, told
from sim.core.text import sentence_list
from sim.plots.style import looks
from sim.report.study import Study
from sim.results.metrics import metric
from sim.results.report_rows import ReportRow

LEAST_SEEDS: Final = 2
"""Fewer shared seeds say nothing about chance."""
COLUMNS: Final = 4
"""Variants beside each other in a table of verdicts; more would not fit on paper."""
TTFT: Final = "ttft_s.p95"
BY_WORKLOAD: Final = "by_workload."
AFTER_TTFT: Final = ("error_ratio", "prompt_cache_hit_ratio", "output_tokens_per_s")
MOST: Final = 4
"""Figures on the first screen."""
NAMES: Final = {
    "slo_attainment": "Requests within the SLO",
    "error_ratio": "Error rate",
    "prompt_cache_hit_ratio": "Prompt cache hit rate",
    "output_tokens_per_s": "Output",
}
"""What figures of the first screen are called where the label of their row is no name."""
BETTER: Final = {"up": "higher is better", "down": "lower is better", "none": ""}


@dataclass(frozen=True)
class Standing:
    """One variant's value: as text, and as shares of the longest bar; None where it is unknown.

    ``colour`` is the variant's in all figures.
    """

    variant: str
    text: str
    colour: str
    bar: float | None
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Answer:
    """One figure of the first screen: its name and unit, which way is better, what it says."""

    title: str
    unit: str
    better: str
    standings: tuple[Standing, ...]
    finding: str


@dataclass(frozen=True)
class TableRow:
    """A line of a table; without cells it is the heading of those that follow.

    One that is a part of the line before it stands ``below`` it.
    """

    label: str
    cells: tuple[Any, ...] = ()
    below: bool = False


@dataclass(frozen=True)
class Table:
    """Some variants beside each other."""

    variants: tuple[str, ...]
    rows: tuple[TableRow, ...]


@cache
def judged(study: Study, base: str, new: str) -> Mapping[str, MetricVerdict]:
    """Every metric of one variant against another, by key.

    The primary metrics of a pair are one family: whatever is said to differ in
    it does so with 95 % confidence in all of them together.
    """
    return {each.key: each for each in compare(_side(study, base), _side(study, new)).judged}


@cache
def _side(study: Study, variant: str) -> Side:
    runs = [run for run in study.stored if run.variant == variant]
    return stored_side(study.called(variant), runs)


def _shared_seeds(study: Study, base: str, new: str) -> int:
    """Under how many seeds both were run."""
    return len(set(study.seeds[base]) & set(study.seeds[new]))


def answers(study: Study) -> Iterator[Answer]:
    """At most four figures that a reader asks for first: SLO, waiting, errors, hits, output."""
    rows = {row.key: row for row in study.rows if row.key}
    waits = [key for key in study.comparison if key.startswith(BY_WORKLOAD) and key.endswith(TTFT)]
    asked = ("slo_attainment", *(waits or (TTFT,)), *AFTER_TTFT)
    known = [key for key in asked if key in rows and (key != "error_ratio" or _any(study, key))]
    for key in known[:MOST]:
        title, unit = name_of(rows[key])
        better = BETTER[metric(key).better]
        yield Answer(title, unit, better, _standings(study, rows[key]), _finding(study, rows[key]))


def _any(study: Study, key: str) -> bool:
    """Whether a metric is not 0 everywhere: no errors are no news."""
    return any(figure["mean"] for figure in study.comparison[key].values())


def name_of(row: ReportRow) -> tuple[str, str]:
    """What a row is about, with the workload that it is of, and its unit."""
    label, _, unit = row.label.strip().rpartition(", ")
    if not label:
        label, unit = unit, ""
    label = NAMES.get(row.key, label)
    if row.key.startswith(BY_WORKLOAD):
        label = f"{label} of {row.key.removeprefix(BY_WORKLOAD).partition('.')[0]}"
    return label, unit


def _standings(study: Study, row: ReportRow) -> tuple[Standing, ...]:
    figures = study.comparison[row.key]
    known = [name for name in study.variants if study.value(row.key, name) is not None]
    ends = [max(figures[name]["mean"], figures[name]["high"] or 0.0) for name in known]
    longest = max(ends, default=0.0) or 1.0

    def share(name: str, part: str) -> float | None:
        value = figures[name][part] if name in known else None
        return None if value is None else min(1.0, max(0.0, value / longest))

    return tuple(
        Standing(
            study.called(name),
            row.written(figures[name], len(study.seeds[name])),
            look.colour,
            share(name, "mean"),
            share(name, "low"),
            share(name, "high"),
        )
        for name, look in looks(study.variants).items()
    )


def _finding(study: Study, row: ReportRow) -> str:
    """A sentence on who stands where, and whether the seeds bear it out."""
    title, unit = name_of(row)
    title = f"{title[0].upper()}{title[1:]}"
    values = {name: study.value(row.key, name) for name in study.variants}
    missing = [study.called(name) for name, value in values.items() if value is None]
    if missing:
        return f"{title} is not known of {sentence_list(missing)}"
    up = metric(row.key).better == "up"
    ordered = sorted(study.variants, key=lambda name: values[name] or 0.0, reverse=up)
    best, worst = (
        f"{row.number(values[name] or 0.0)} {unit}".rstrip() for name in (ordered[0], ordered[-1])
    )
    if len(ordered) == 1:
        return f"{title} is {best}"
    if best == worst:
        return f"{title} is {best} with every variant"
    return (
        f"{title} is {'highest' if up else 'lowest'} with {study.called(ordered[0])}, {best}, "
        f"against {worst} with {study.called(ordered[-1])}"
        f"{_borne_out(study, row.key, ordered[-1], ordered[0])}"
    )


def _borne_out(study: Study, key: str, base: str, new: str) -> str:
    """Whether the seeds tell the two apart, where they do not."""
    shared = _shared_seeds(study, base, new)
    if shared < LEAST_SEEDS:
        return " (one seed, which says nothing about chance)" if shared else " (no seed in common)"
    found = judged(study, base, new).get(key)
    if found is None or found.verdict not in ("same", "inconclusive"):
        return ""
    if found.verdict == "same":
        return f"; a difference of less than {margin(found)} counts as none"
    return f"; {shared} seeds do not settle whether that is more than chance"


def verdicts(study: Study) -> Iterator[Table]:
    """The primary metrics of each variant beside the first, where enough seeds are shared.

    A cell is a verdict, the change with its interval, and a remark; or None.
    """
    first, *others = study.variants
    for names in (others[at : at + COLUMNS] for at in range(0, len(others), COLUMNS)):
        if any(_shared_seeds(study, first, name) >= LEAST_SEEDS for name in names):
            columns = [judged(study, first, name) for name in names]
            rows = tuple(_primary(columns, study.rows))
            yield Table(tuple(map(study.called, names)), rows)


def _primary(
    columns: Sequence[Mapping[str, MetricVerdict]], rows: Sequence[ReportRow]
) -> Iterator[TableRow]:
    """The primary metrics, those of a workload or a pool below its heading."""
    heading = ""
    for row in rows:
        if not row.key:
            heading = row.label
        elif any(column[row.key].primary for column in columns if row.key in column):
            if heading:
                yield TableRow(heading)
                heading = ""
            cells = tuple(_verdict(column.get(row.key)) for column in columns)
            yield TableRow(row.label.strip(), cells, row.label.startswith(" "))


def _verdict(found: MetricVerdict | None) -> tuple[str, str, str] | None:
    if found is None:
        return None
    by = f"{change(found)} {interval(found)}".strip().replace("-", "\N{MINUS SIGN}")
    return told(found.verdict), "" if found.change == 0.0 else by, remark(found)
