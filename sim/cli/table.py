"""What ``podsim run`` prints: the variants side by side as columns of a table, or as JSON."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from sim.core.stats import PERCENTILE_METHOD
from sim.core.text import UNKNOWN, few, seed_list, side_by_side, wrapped
from sim.results.metrics import flatten
from sim.results.report_rows import (
    PARTLY_UNKNOWN,
    PARTLY_UNKNOWN_MEANS,
    ReportRow,
    alike_warnings,
    input_facts,
    report_rows,
    seeds_in_words,
    window_in_words,
)
from sim.results.survivors import LATE_MEANS, is_late

if TYPE_CHECKING:
    from sim.cli.kept import KeptRuns
    from sim.comparison.sides import MetricVerdict
    from sim.execution.runner import Runs

    AnyRuns: TypeAlias = Runs | KeptRuns
    """Just simulated or from the disk; rows of tables are not read."""

LEAST_SEEDS: Final = 2
"""Fewer say nothing about chance."""
MOST_NAMED: Final = 6
"""Metrics named of each verdict."""


def render(runs: "AnyRuns", folder: Path | None) -> str:
    """The whole answer to a reader: what was measured, the table, what to beware of.

    ``folder`` is where the results lie, None when nothing was written.
    """
    comparison = runs.comparison
    ran: dict[str, list[int]] = {}
    for run in runs.runs:
        ran.setdefault(run.variant, []).append(run.seed)
    variants = list(ran)
    seeds = sorted({seed for under in ran.values() for seed in under})
    rows = report_rows(comparison)
    columns = [
        [variant or runs.scenario.name]
        + [
            row.written(comparison[row.key][variant], len(ran[variant])) if row.key else ""
            for row in rows
        ]
        for variant in variants
    ]
    blocks = side_by_side(["", *(row.label for row in rows)], columns)
    lines = [*_heading(runs, variants, seeds), "", *blocks, ""]
    if any(PARTLY_UNKNOWN in column for column in columns):
        lines.append(f"* {PARTLY_UNKNOWN_MEANS}")
    late = [row.label.strip() for row in rows if row.news_if_unknown and _is_late(runs, row.key)]
    if late:
        lines += wrapped(f"{UNKNOWN} {'; '.join(dict.fromkeys(late))}: {LATE_MEANS}")
    lines += [
        f"{variant} ran under {seed_list(sorted(under))} only"
        for variant, under in ran.items()
        if len(under) < len(seeds)
    ]
    lines += [*_answers(runs, ran, rows), *_notes(runs)]
    if folder is not None:
        lines.append(f"Tables of each run: {folder}/<variant>/seed-<n>/")
    return "\n".join(lines).rstrip("\n")


def as_document(runs: "AnyRuns") -> str:
    """The JSON document for machines; unknown figures are null, keys are sorted."""
    document: dict[str, Any] = {
        "scenario": runs.scenario.name,
        "runs": [
            {
                "variant": run.variant,
                "seed": run.seed,
                "digest": run.digest,
                "summary": run.summary,
                "warnings": list(run.warnings),
            }
            for run in runs.runs
        ],
        "comparison": runs.comparison,
    }
    return json.dumps(document, indent=2, sort_keys=True, allow_nan=False)


def _heading(runs: "AnyRuns", variants: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """Which scenario, which window, which seeds."""
    description = " ".join(runs.scenario.description.split())
    title = f"{runs.scenario.name}: {description}" if description else runs.scenario.name
    windows = {run.variant: window_in_words(run.facts) for run in runs.runs}
    if len(set(windows.values())) == 1:
        measured = [f"Requests that arrived {windows[variants[0]]}."]
    else:
        measured = [f"{name}: requests that arrived {windows[name]}." for name in variants]
    percentiles = f"Percentiles are those of each run, over all its requests ({PERCENTILE_METHOD})."
    changed = wrapped(f"Set over the file: {', '.join(runs.scenario.settings)}")
    return [
        *wrapped(title),
        *(changed if runs.scenario.settings else ()),
        *measured,
        f"{seeds_in_words(seeds)}.",
        percentiles,
    ]


def _is_late(runs: "AnyRuns", key: str) -> bool:
    """Whether some run does not know a figure since requests were still on their way."""
    summaries = (dict(flatten(run.summary)) for run in runs.runs)
    return any(each.get(key, 0.0) is None and is_late(key, each) for each in summaries)


def _answers(
    runs: "AnyRuns", ran: Mapping[str, Sequence[int]], rows: Sequence[ReportRow]
) -> Iterator[str]:
    """What the seeds say of each variant beside the first one, in the primary metrics.

    ``ran`` are the seeds of each variant, ``rows`` those of the table.
    """
    base, *others = ran
    others = [name for name in others if len({*ran[base]} & {*ran[name]}) >= LEAST_SEEDS]
    if not others:
        return
    from sim.comparison.paired import compare
    from sim.comparison.sides import result_side

    labels = {row.key: row.label.strip().rpartition(", ")[0] for row in rows}
    first, *rest = [
        result_side(name, runs.scenario.name, [run for run in runs.runs if run.variant == name])
        for name in (base, *others)
    ]
    for other in rest:
        found = compare(first, other, across=True)
        verdicts = [
            f"{words}: {few([_change(each, labels) for each in judged], MOST_NAMED)}"
            for words, judged in (
                ("better", found.named("better")),
                ("worse", found.named("worse")),
                ("not settled by these seeds", found.named("inconclusive")),
            )
            if judged
        ]
        verdict = "; ".join(verdicts) or "no difference"
        yield from wrapped(f"{other.label} against {first.label}: {verdict}")


def _change(judged: "MetricVerdict", labels: Mapping[str, str]) -> str:
    """A figure under its label in the table, if it is there, and how much it changes."""
    from sim.comparison.wording import change

    return f"{labels.get(judged.key) or judged.key} {change(judged)}".rstrip()


def _notes(runs: "AnyRuns") -> list[str]:
    """Warnings of the file and of the runs, then facts about the input; alike ones only once."""
    notes = [f"warning: {warning}" for warning in runs.scenario.warnings]
    notes += [f"warning: {run}: {warning}" for run, warning in alike_warnings(runs.runs)]
    notes += [f"workload {workload}: {facts}" for workload, facts in input_facts(runs.runs)]
    return [line for note in notes for line in wrapped(note)]
