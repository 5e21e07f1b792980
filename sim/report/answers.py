"""The answer on the first screen: a few figures, each with its variants beside each other."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from sim.comparison.wording import margin
from sim.plots.style import looks
from sim.report.contrasts import LEAST_SEEDS, Judge
from sim.results.metrics import metric
from sim.results.shown import Row, shown

BEFORE: Final = ("slo_attainment",)
AFTER: Final = ("error_ratio", "prompt_cache_hit_ratio", "output_tokens_per_s")
TTFT: Final = "ttft_s.p95"
BY_WORKLOAD: Final = "by_workload."
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

    ``colour`` is the variant's in all drawings.
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


def answers(judge: Judge, comparison: Mapping[str, Any]) -> tuple[Answer, ...]:
    """What a reader asks first: objectives met, waiting, errors, cache hits, output; at most four.

    ``comparison`` is that of ``sim.results.comparison``.
    """
    rows = {row.key: row for row in shown(dict(comparison)) if row.key}
    keys = [key for key in _asked(comparison) if key in rows and _tells(key, comparison)]
    return tuple(_answer(judge, rows[key], comparison[key]) for key in islice(keys, MOST))


def name_of(row: Row) -> tuple[str, str]:
    """What a row is about, with the workload that it is of, and its unit."""
    label, _, unit = row.label.strip().rpartition(", ")
    if not label:
        label, unit = unit, ""
    label = NAMES.get(row.key, label)
    if row.key.startswith(BY_WORKLOAD):
        label = f"{label} of {row.key.removeprefix(BY_WORKLOAD).partition('.')[0]}"
    return label, unit


def _asked(comparison: Mapping[str, Any]) -> Iterator[str]:
    """Keys in order of interest; with several workloads it matters whose requests wait."""
    yield from BEFORE
    by_workload = [key for key in comparison if key.startswith(BY_WORKLOAD) and key.endswith(TTFT)]
    yield from by_workload or (TTFT,)
    yield from AFTER


def _tells(key: str, comparison: Mapping[str, Any]) -> bool:
    """Whether it is news: no errors are none."""
    return key != "error_ratio" or any(figure["mean"] for figure in comparison[key].values())


def _answer(judge: Judge, row: Row, figures: Mapping[str, Mapping[str, Any]]) -> Answer:
    study = judge.study
    seeds = {variant: len(own) for variant, own in study.seeds.items()}
    known = {name: figure for name, figure in figures.items() if figure["n"] == seeds[name]}
    longest = max((_end(figure) for figure in known.values()), default=0.0) or 1.0
    title, unit = name_of(row)

    def share(name: str, part: str) -> float | None:
        value = known[name][part] if name in known else None
        return None if value is None else min(1.0, max(0.0, value / longest))

    return Answer(
        title,
        unit,
        BETTER[metric(row.key).better],
        tuple(
            Standing(
                study.called(name),
                row.written(dict(figures[name]), seeds[name]),
                look.colour,
                share(name, "mean"),
                share(name, "low"),
                share(name, "high"),
            )
            for name, look in looks(study.variants).items()
        ),
        _finding(judge, row, known),
    )


def _end(figure: Mapping[str, Any]) -> float:
    """How far the bar and the line of its interval reach."""
    return max(float(figure["mean"]), float(figure["high"] or 0.0))


def _finding(judge: Judge, row: Row, known: Mapping[str, Mapping[str, Any]]) -> str:
    """A sentence on who stands where, and whether the seeds bear it out."""
    study = judge.study
    title, unit = name_of(row)
    title = f"{title[0].upper()}{title[1:]}"
    better = metric(row.key).better
    if len(known) < len(study.variants):
        missing = [study.called(name) for name in study.variants if name not in known]
        return f"{title} is not known of {listed(missing)}"
    ordered = sorted(known, key=lambda name: known[name]["mean"], reverse=better == "up")
    values = [_with_unit(row.number(known[name]["mean"]), unit) for name in ordered]
    if len(ordered) == 1:
        return f"{title} is {values[0]}"
    first, last = (study.called(ordered[end]) for end in (0, -1))
    if values[0] == values[-1]:
        return f"{title} is {values[0]} with every variant"
    adjective = "highest" if better == "up" else "lowest"
    return (
        f"{title} is {adjective} with {first}, {values[0]}, against {values[-1]} with {last}"
        f"{_borne_out(judge, row.key, ordered[-1], ordered[0])}"
    )


def _borne_out(judge: Judge, key: str, base: str, new: str) -> str:
    """Whether the seeds tell the two apart, where they do not."""
    shared = judge.shared_seeds(base, new)
    if shared < LEAST_SEEDS:
        return " (one seed, which says nothing about chance)" if shared else " (no seed in common)"
    found = judge.judged(base, new).get(key)
    if found is None or found.verdict not in ("same", "inconclusive"):
        return ""
    if found.verdict == "same":
        return f"; a difference of less than {margin(found)} counts as none"
    return f"; {shared} seeds do not settle whether that is more than chance"


def _with_unit(number: str, unit: str) -> str:
    return f"{number} {unit}".rstrip()


def listed(names: Iterable[str]) -> str:
    """Names as a sentence has them: "a", "a and b", "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last
