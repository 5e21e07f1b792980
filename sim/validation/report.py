"""``podsim validate --theory`` and ``--measured``: rows as they come, each with its bound."""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import click

if TYPE_CHECKING:
    from sim.validation.case import TheoryRow
    from sim.validation.figures import FigureTable, MeasuredFigure


DEFAULT_THEORY: Final = Path("scenarios", "theory")
Waited: TypeAlias = Callable[[Iterable[Any], str], Iterable[Any]]

THEORY_LINE: Final = "{:<39} {:>9} {:>9} {:>18}  {:<13} {}"
THEORY_HEADING: Final = THEORY_LINE.format(
    "", "predicted", "measured", "99 % interval", "bound", "ok"
)


def theory(place: str | None, as_json: bool, waited: Waited) -> bool:
    """Print the comparison of the scenarios in a folder with theory; return whether all is well.

    ``waited`` is called with the rows and a text that says what they wait for.
    """
    from sim.execution.runner import available_jobs
    from sim.validation.queues import validate_theory

    rows: list[TheoryRow] = []
    for row in waited(
        validate_theory(Path(place or DEFAULT_THEORY), available_jobs()), "simulating queues"
    ):
        if not as_json:
            for line in _theory_lines(row, rows[-1].scenario if rows else None):
                click.echo(line)
        rows.append(row)
    failed = sum(not row.ok for row in rows)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2, allow_nan=False))
    else:
        click.echo(f"\n{len(rows)} comparisons, {failed or 'none'} out of bounds")
    return not failed


def _theory_lines(row: "TheoryRow", scenario_before: str | None) -> list[str]:
    heading = [THEORY_HEADING] if scenario_before is None else []
    if row.scenario != scenario_before:
        heading.append(row.scenario)
    interval = "" if row.low is None else f"{row.low:.4g} to {row.high:.4g}"
    predicted = "" if row.predicted is None else f"{row.predicted:.4g}"
    measured = f"{row.measured:.4g}" if row.low is not None else f"{row.measured:.3g}"
    ok = "ok" if row.ok else "NO"
    return [
        *heading,
        THEORY_LINE.format(f"  {row.what}", predicted, measured, interval, row.bound, ok),
    ]


LINE: Final = "{:<44} {:>10} {:>10} {:>9}  {:<8} {}"
OVERVIEW: Final = "{:<65} {:>7} {:>7} {:>7} {:>7}"
HEADING: Final = LINE.format("", "predicted", "measured", "error", "bound", "ok")


def measured(place: str | None, as_json: bool, waited: Waited) -> bool:
    """Print one part of the measurements, or all, beside podsim; return whether bounds hold."""
    from sim.validation.figures import as_data
    from sim.validation.measured import validate_measured

    tables: list[FigureTable] = []
    for table in waited(validate_measured(place), "simulating what was measured"):
        if not as_json:
            for line in _lines(table, first=not tables):
                click.echo(line)
        tables.append(table)
    if as_json:
        click.echo(json.dumps(as_data(tables), indent=2, allow_nan=False))
    else:
        for line in ("", *overview(tables)):
            click.echo(line)
    return all(table.out_of_bounds == 0 for table in tables)


def overview(tables: list["FigureTable"]) -> list[str]:
    """A line per table, then what is bounded at all and whether it holds."""
    found = [OVERVIEW.format("errors", "figures", "median", "p95", "worst")]
    for table in tables:
        errors = ["" if error is None else f"{error:.1%}" for error in _errors(table)]
        found.append(OVERVIEW.format(table.name, len(table.figures), *errors))
    return [*found, verdict(tables)]


def verdict(tables: list["FigureTable"]) -> str:
    """How many figures there are, how many of them have bounds, and how many bounds fail."""
    count = f"{sum(len(table.figures) for table in tables)} figures"
    bounded = sum(table.bounded for table in tables)
    medians = sum(table.median_bound is not None for table in tables)
    if not bounded + medians:
        return f"{count}; nothing is bounded here"
    parts = [f"{bounded} of them"] if bounded else []
    parts += [f"{medians} of {len(tables)} medians"] if medians else []
    failed = sum(table.out_of_bounds for table in tables)
    holds = f"{failed} out of bounds" if failed else "all hold"
    return f"{count}, {' and '.join(parts)} bounded: {holds}"


def _errors(table: "FigureTable") -> tuple[float | None, ...]:
    return table.median, table.p95, table.worst


def _lines(table: "FigureTable", first: bool) -> list[str]:
    """A table as text: its name, its figures, the median and the 95th percentile of the errors."""
    found = [*([HEADING] if first else []), table.name]
    found += [figure_line(figure) for figure in table.figures]
    if table.median is not None and table.p95 is not None:
        bound, ok = _bound(table.median_bound, table.median_ok)
        found.append(LINE.format("  median error", "", "", f"{table.median:.1%}", bound, ok))
        found.append(LINE.format("  p95 error", "", "", f"{table.p95:.1%}", "", ""))
    found += [f"  {note}" for note in table.notes]
    return [line.rstrip() for line in found]


def figure_line(figure: "MeasuredFigure") -> str:
    """One figure as text."""
    error = "" if figure.error is None else f"{figure.error:+.1%}"
    what, bound = f"  {figure.what}", _bound(figure.bound, figure.ok)
    return LINE.format(
        what, _value(figure.predicted), _value(figure.measured), error, *bound
    ).rstrip()


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _bound(bound: float | None, ok: bool) -> tuple[str, str]:
    return ("", "") if bound is None else (f"{bound:.0%}", "ok" if ok else "NO")
