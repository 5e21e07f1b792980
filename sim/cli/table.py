"""The table that ``podsim run`` prints: plain text, the variants side by side as columns."""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.cli.rows import Row, shown

if TYPE_CHECKING:
    from sim.runner import Runs

WIDTH: Final = 100
UNKNOWN: Final = "–"
PARTLY_UNKNOWN: Final = "–*"
GAP: Final = "  "


def render(runs: "Runs", folder: Path | None) -> str:
    """The whole answer to a reader: what was measured, the table, what to beware of.

    ``folder`` is where the results lie, None when nothing was written.
    """
    comparison = runs.comparison
    variants = list(dict.fromkeys(run.variant for run in runs.runs))
    seeds = list(dict.fromkeys(run.seed for run in runs.runs))
    rows = shown(comparison)
    columns = [
        [variant or runs.scenario.name]
        + [_cell(comparison, variant, row, len(seeds)) for row in rows]
        for variant in variants
    ]
    blocks = side_by_side(["", *(row.label for row in rows)], columns)
    lines = [*_heading(runs, variants, seeds), "", *blocks, ""]
    if any(PARTLY_UNKNOWN in column for column in columns):
        lines.append("* null under some seeds, of which a mean of the others would say nothing")
    lines += _notes(runs)
    if folder is not None:
        lines.append(f"Tables of each run: {folder}/<variant>/seed-<n>/")
    return "\n".join(lines).rstrip("\n")


def _cell(comparison: dict[str, Any], variant: str, row: Row, seeds: int) -> str:
    """A mean with the half-width of its interval; a dash where not every run knows the value."""
    if not row.key:
        return ""
    figure = comparison[row.key][variant]
    if figure["n"] < seeds:
        return PARTLY_UNKNOWN if figure["n"] else UNKNOWN
    text = f"{figure['mean'] * row.scale:,.{row.decimals}f}"
    if figure["low"] is None:
        return text
    half = (figure["high"] - figure["low"]) / 2.0
    return f"{text} ± {half * row.scale:,.{row.decimals}f}"


def side_by_side(labels: Sequence[str], columns: Iterable[Sequence[str]]) -> list[str]:
    """As many columns beside the labels as fit the width, the rest below in further blocks."""
    label_width = max(len(label) for label in labels)
    blocks: list[list[str]] = []
    for column in columns:
        width = max(len(cell) for cell in column)
        if not blocks or len(blocks[-1][0]) + len(GAP) + width > WIDTH:
            blocks.append([label.ljust(label_width) for label in labels])
        blocks[-1] = [
            f"{line}{GAP}{cell.rjust(width)}" for line, cell in zip(blocks[-1], column, strict=True)
        ]
    lines = list(blocks[0])
    for _, block in pairwise(blocks):
        lines += ["", *block]
    return [line.rstrip() for line in lines]


def _heading(runs: "Runs", variants: Sequence[str], seeds: Sequence[int]) -> list[str]:
    """Which scenario, which window, which seeds."""
    description = " ".join(runs.scenario.description.split())
    title = f"{runs.scenario.name}: {description}" if description else runs.scenario.name
    windows = {
        run.variant: _window(run.facts.window_start_s, run.facts.window_end_s) for run in runs.runs
    }
    if len(set(windows.values())) == 1:
        measured = [f"Requests that arrived {windows[variants[0]]}."]
    else:
        measured = [f"{name}: requests that arrived {windows[name]}." for name in variants]
    return [*wrapped(title), *measured, _seeds(seeds)]


def _window(start_s: float, end_s: float) -> str:
    if end_s == float("inf"):
        return f"from {start_s:,g} s to the end of the workload"
    return f"from {start_s:,g} s to {end_s:,g} s of simulated time"


def _seeds(seeds: Sequence[int]) -> str:
    if len(seeds) == 1:
        return f"One run per variant, {_listed(seeds)}."
    return f"Mean over {_listed(seeds)} ± half-width of the 95 % t interval."


def _listed(seeds: Sequence[int]) -> str:
    """The seeds in words, three or more in a row by their two ends."""
    rows: list[list[int]] = []
    for seed in seeds:
        if rows and seed == rows[-1][-1] + 1:
            rows[-1].append(seed)
        else:
            rows.append([seed])
    parts = [f"{row[0]} to {row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows]
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(parts)}"


def wrapped(text: str) -> list[str]:
    """Lines of a text, the second and later ones indented."""
    from textwrap import wrap

    return wrap(text, WIDTH, subsequent_indent=GAP)


def _notes(runs: "Runs") -> list[str]:
    """Warnings of the file and of the runs, then facts about the input; alike ones only once."""
    said: dict[tuple[str, str], tuple[str, list[int]]] = {}
    for run in runs.runs:
        for warning in run.warnings:
            alike = re.sub(r"[\d.,]+", "#", warning)
            _, seeds = said.setdefault((run.variant, alike), (warning, []))
            seeds.append(run.seed)
    lines = [line for warning in runs.scenario.warnings for line in wrapped(f"warning: {warning}")]
    for (variant, _), (warning, seeds) in said.items():
        who = f"{variant or runs.scenario.name}, seed {seeds[0]}"
        others = f" (also under {_listed(seeds[1:])})" if seeds[1:] else ""
        lines += wrapped(f"warning: {who}: {warning}{others}")
    return lines + _input_facts(runs)


def _input_facts(runs: "Runs") -> list[str]:
    """What the workloads count about their input, where it is not zero."""
    counts: dict[str, dict[str, list[int]]] = {}
    for run in runs.runs:
        for workload, facts in run.facts.workload_counts.items():
            for name, count in facts.items():
                counts.setdefault(workload, {}).setdefault(name, []).append(count)
    lines = []
    for workload, facts_found in counts.items():
        said = [
            f"{name.replace('_', ' ')} {_range(values)}"
            for name, values in facts_found.items()
            if any(values)
        ]
        if said:
            lines += wrapped(f"workload {workload}: {', '.join(said)}")
    return lines


def _range(values: Sequence[int]) -> str:
    low, high = min(values), max(values)
    return f"{low:,}" if low == high else f"{low:,} to {high:,} per run"
