"""The page: everything that was found about the runs, set in one HTML file that loads nothing."""

from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final

from jinja2 import Environment, StrictUndefined

from sim.core.stats import PERCENTILE_METHOD
from sim.report.answers import Answer, answers, name_of
from sim.report.contrasts import Contrasts, Judge, contrasts
from sim.report.figures import Group, groups
from sim.report.provenance import Made, Recipe, doubts, file_warnings, origins, recipe, runs_made
from sim.report.selection import Study, studies
from sim.report.setup import Line, Settings, changed, lines
from sim.results.comparison import compare_variants
from sim.results.metrics import metric
from sim.results.shown import PARTLY_UNKNOWN, PARTLY_UNKNOWN_MEANS, Row, shown
from sim.results.stored import StoredRun
from sim.results.wording import alike_warnings, input_facts, seeds_in_words, window_in_words

COLUMNS: Final = 5
"""Variants beside each other in one table; more would not fit on paper."""


@dataclass(frozen=True)
class TableRow:
    """A line of a table of figures; without cells it is the heading of those that follow.

    One that is a part of the line before it stands ``below`` it.
    """

    label: str
    cells: tuple[str, ...]
    below: bool = False


@dataclass(frozen=True)
class Table:
    """Figures of some variants beside each other."""

    variants: tuple[str, ...]
    rows: tuple[TableRow, ...]


@dataclass(frozen=True)
class Section:
    """All that the page says of one scenario; ``anchor`` begins the ids of its parts."""

    anchor: str
    name: str
    scenario_hash: str
    question: str
    measured: str
    replication: str
    variants: tuple[str, ...]
    setup: tuple[Line, ...]
    changed: tuple[Settings, ...]
    answers: tuple[Answer, ...]
    contrasts: tuple[Contrasts, ...]
    tables: tuple[Table, ...]
    footnote: str
    definitions: tuple[Line, ...]
    method: tuple[str, ...]
    groups: tuple[Group, ...]
    notices: tuple[Line, ...]
    origins: tuple[Line, ...]
    made: tuple[Made, ...]
    recipe: Recipe


def report(runs: Sequence[StoredRun], title: str | None = None) -> str:
    """One HTML page about stored runs, a section per scenario; the same runs, the same bytes.

    ``title`` is the names of the scenarios when missing. Raises ``UserError``
    for a run that cannot be read, and for two of one variant and seed that differ.
    """
    found = studies(runs)
    sections = [_section(study, f"s{at + 1}") for at, study in enumerate(found)]
    style = _packaged("page.css")
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_packaged("page.html")).render(
        title=title or ", ".join(dict.fromkeys(study.name for study in found)),
        sections=sections,
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        podsim="; ".join(dict.fromkeys(section.recipe.podsim for section in sections)),
    )


def _packaged(name: str) -> str:
    return files("sim.report").joinpath(name).read_text(encoding="utf-8")


def _section(study: Study, anchor: str) -> Section:
    comparison, judge = compare_variants(study.results), Judge(study)
    rows = shown(comparison)
    tables = tuple(_tables(study, comparison, rows))
    partly = any(PARTLY_UNKNOWN in row.cells for table in tables for row in table.rows)
    return Section(
        anchor=anchor,
        name=study.name,
        scenario_hash=study.scenario_hash,
        question=study.description,
        measured=_measured(study),
        replication=_replication(study),
        variants=tuple(map(study.called, study.variants)),
        setup=lines(study),
        changed=changed(study),
        answers=answers(judge, comparison),
        contrasts=contrasts(judge, rows),
        tables=tables,
        footnote=f"* {PARTLY_UNKNOWN_MEANS}" if partly else "",
        definitions=tuple(_definitions(rows)),
        method=tuple(_method(study)),
        groups=groups(study, comparison, anchor),
        notices=tuple(_notices(study)),
        origins=origins(study),
        made=runs_made(study),
        recipe=recipe(study),
    )


def _measured(study: Study) -> str:
    windows = dict.fromkeys(window_in_words(result.facts) for result in study.results)
    if len(windows) > 1:
        return "Each variant has a window of its own, see below"
    return f"Requests that arrived {next(iter(windows))}"


def _replication(study: Study) -> str:
    seeds = list(study.seeds.values())
    if len(set(seeds)) == 1:
        return seeds_in_words(seeds[0])
    if all(len(own) == 1 for own in seeds):
        return "One run per variant, not all under the same seed"
    return "Means over the seeds of each variant ± half-width of the 95 % t interval"


def _tables(study: Study, comparison: Mapping[str, Any], rows: Sequence[Row]) -> Iterator[Table]:
    """The rows of the terminal, in as many tables of like width as the variants need."""
    seeds = study.seeds
    count = -(-len(study.variants) // COLUMNS)
    width = -(-len(study.variants) // count)
    for start in range(0, len(study.variants), width):
        names = study.variants[start : start + width]
        yield Table(
            tuple(map(study.called, names)),
            tuple(
                TableRow(
                    row.label.strip(),
                    tuple(
                        row.written(comparison[row.key][name], len(seeds[name])) for name in names
                    )
                    if row.key
                    else (),
                    row.label.startswith(" "),
                )
                for row in rows
            ),
        )


def _definitions(rows: Sequence[Row]) -> Iterator[Line]:
    """What each row means; those that share a definition once."""
    said: dict[str, list[str]] = {}
    for row in rows:
        if row.key:
            label, _ = name_of(row)
            said.setdefault(metric(row.key).definition, []).append(label)
    for definition, labels in said.items():
        yield Line(", ".join(dict.fromkeys(labels)), definition)


def _method(study: Study) -> Iterator[str]:
    """How to read the figures: percentiles, averages, seeds."""
    yield (
        f"Percentiles are interpolated between order statistics ({PERCENTILE_METHOD} of Hyndman "
        "and Fan) and taken over all requests of one run, all pods together."
    )
    if max(map(len, study.seeds.values())) > 1:
        yield (
            "Over several seeds each figure is the mean over seeds of each run's figure: a "
            "percentile is the mean of the runs' percentiles, not the percentile of all their "
            "requests. ± is the half-width of Student's 95 % t interval of that mean. All variants "
            "see the same workload under the same seed."
        )
    else:
        yield "There is one run per variant, so there are no intervals."
    polls = dict.fromkeys(
        f"{scenario['router']['metrics']['pollInterval']:g} s"
        for scenario in study.scenarios.values()
    )
    yield (
        "KV usage and requests in flight are means over the polls of the pods, one every "
        f"{' or '.join(polls)}: averages over time as sampled, not over arrivals or engine steps. "
        "The prompt cache hit rate is weighted by tokens. Rates per second are counts in the "
        "window divided by its length."
    )
    yield (
        "A request that has no first token when the run ends counts as later than all others; a "
        "percentile that falls among such requests is unknown (–)."
    )


def _notices(study: Study) -> Iterator[Line]:
    for doubt in doubts(study):
        yield Line("All runs", doubt)
    for warning in file_warnings(study):
        yield Line("Scenario file", warning)
    for who, warning in alike_warnings(study.results):
        yield Line(who, warning)
    for workload, facts in input_facts(study.results):
        yield Line(f"Workload {workload}", facts)
