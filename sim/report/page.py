"""The page: everything that was found about the runs, set in one HTML file that loads nothing."""

from base64 import b64encode
from collections.abc import Iterator, Sequence
from hashlib import sha256
from shlex import quote
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from sim.core.stats import PERCENTILE_METHOD
from sim.report.answers import Table, TableRow, answers, name_of, verdicts
from sim.report.figures import figures
from sim.report.scenario import changes, resolved_yaml, setup
from sim.report.study import Fact, Study, studies
from sim.results.metrics import metric
from sim.results.report_rows import (
    PARTLY_UNKNOWN,
    PARTLY_UNKNOWN_MEANS,
    alike_warnings,
    input_facts,
    seeds_in_words,
    window_in_words,
)
from sim.results.stored import StoredRun

COLUMNS: Final = 5
"""Variants beside each other in one table of figures; more would not fit on paper."""


def report(runs: Sequence[StoredRun], title: str | None = None) -> str:
    """One HTML page about stored runs, a section per scenario; the same runs, the same bytes.

    ``title`` is the names of the scenarios when missing. Raises ``UserError``
    for a run that cannot be read, and for two of one variant and seed that differ.
    """
    found = studies(runs)
    environment = Environment(
        loader=PackageLoader("sim", "report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"quote": quote, "base64": _base64}
    style = environment.get_template("page.css").render()
    return environment.get_template("page.html").render(
        title=title or ", ".join(dict.fromkeys(study.name for study in found)),
        sections=[_section(study, f"s{at + 1}") for at, study in enumerate(found)],
        style=style,
        style_hash=b64encode(sha256(style.encode()).digest()).decode(),
        percentiles=PERCENTILE_METHOD,
        partly=PARTLY_UNKNOWN,
        partly_means=PARTLY_UNKNOWN_MEANS,
    )


def _section(study: Study, anchor: str) -> dict[str, Any]:
    """All that the page says of one scenario; ``anchor`` begins the ids of its parts."""
    texts = (measured, replication, polls, podsim, scenario_file)
    lists = (needs, setup, changes, answers, verdicts, tables, definitions, notices)
    return {
        "study": study,
        "anchor": anchor,
        "figures": list(figures(study, anchor)),
        **{part.__name__: part(study) for part in texts},
        **{part.__name__: list(part(study)) for part in lists},
    }


def _base64(text: str) -> str:
    return b64encode(text.encode()).decode()


def measured(study: Study) -> str:
    """Which requests are measured."""
    windows = {window_in_words(result.facts) for result in study.results}
    if len(windows) > 1:
        return "Each variant has a window of its own, see below"
    return f"Requests that arrived {windows.pop()}"


def replication(study: Study) -> str:
    """What a figure over the seeds is."""
    seeds = list(study.seeds.values())
    if len(set(seeds)) == 1:
        return seeds_in_words(seeds[0])
    if all(len(own) == 1 for own in seeds):
        return "One run per variant, not all under the same seed"
    return "Means over the seeds of each variant ± half-width of the 95 % t interval"


def polls(study: Study) -> str:
    """How often the pods are polled."""
    found = [each["router"]["metrics"]["pollInterval"] for each in study.scenarios.values()]
    return " or ".join(dict.fromkeys(f"{each:g} s" for each in found))


def podsim(study: Study) -> str:
    """Which podsim made the runs."""
    return "; ".join(dict.fromkeys(str(run.manifest["podsim"]) for run in study.stored))


def scenario_file(study: Study) -> str:
    """The resolved scenario as a file."""
    seeds = tuple(dict.fromkeys(seed for own in study.seeds.values() for seed in own))
    remark = (
        "The resolved scenario of a podsim report: every setting as it was in effect.\n"
        f"Times are seconds, sizes bytes. Scenario hash {study.stored[0].scenario_hash}"
    )
    return resolved_yaml(study.scenarios, seeds, remark)


def needs(study: Study) -> list[str]:
    """Files that the workloads read, as the scenario names them."""
    workloads = [one for each in study.scenarios.values() for one in each["workloads"].values()]
    return list(dict.fromkeys(str(each["file"]) for each in workloads if each.get("file")))


def tables(study: Study) -> Iterator[Table]:
    """The rows of the terminal, in as many tables of like width as the variants need."""
    count = -(-len(study.variants) // COLUMNS)
    width = -(-len(study.variants) // count)
    for start in range(0, len(study.variants), width):
        names = study.variants[start : start + width]
        rows = [
            TableRow(
                row.label.strip(),
                tuple(
                    row.written(study.comparison[row.key][name], len(study.seeds[name]))
                    for name in names
                    if row.key
                ),
                row.label.startswith(" "),
            )
            for row in study.rows
        ]
        yield Table(tuple(map(study.called, names)), tuple(rows))


def definitions(study: Study) -> Iterator[Fact]:
    """What each row means; those that share a definition once."""
    labels: dict[str, dict[str, None]] = {}
    for row in study.rows:
        if row.key:
            labels.setdefault(metric(row.key).definition, {})[name_of(row)[0]] = None
    for definition, names in labels.items():
        yield ", ".join(names), definition


def notices(study: Study) -> Iterator[Fact]:
    """What a reader should beware of: doubts about the runs, warnings, facts about the input."""
    manifests = [run.manifest for run in study.stored]
    if len(set(study.seeds.values())) > 1:
        yield (
            "All runs",
            "not every variant was run under the same seeds, so differences between variants are "
            "partly those of their workloads",
        )
    if len({each["podsim"] for each in manifests}) > 1:
        yield "All runs", "the runs were made by different versions of podsim"
    commits = [str(run.provenance.get("commit", "")) for run in study.stored]
    for commit in [each for each in commits if each.endswith("-dirty")][:1]:
        yield (
            "All runs",
            f"commit {commit.removesuffix('-dirty')} had been changed in its folder when the runs "
            "were made; the resolved scenario below holds every setting all the same",
        )
    doubts = [str(each) for one in manifests for each in one.get("scenario_warnings", ())]
    yield from (("Scenario file", doubt) for doubt in dict.fromkeys(doubts))
    yield from alike_warnings(study.results)
    yield from ((f"Workload {name}", facts) for name, facts in input_facts(study.results))
