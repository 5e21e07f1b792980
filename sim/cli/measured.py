"""What ``podsim validate --measured`` prints: a table per comparison, as they come."""

import json
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from sim.validation.figures import Figure, Table

LINE: Final = "{:<44} {:>10} {:>10} {:>9}  {:<8} {}"
HEADING: Final = LINE.format("", "predicted", "measured", "error", "bound", "ok")


def report(as_json: bool) -> bool:
    """Print podsim beside what was measured; whether all bounds hold."""
    from sim.validation.figures import as_data
    from sim.validation.measured import validate_measured

    tables: list[Table] = []
    for table in validate_measured():
        if not as_json:
            if not tables:
                click.echo(HEADING)
            for line in lines(table):
                click.echo(line)
        tables.append(table)
    failed = sum(table.out_of_bounds for table in tables)
    if as_json:
        click.echo(json.dumps(as_data(tables), indent=2, allow_nan=False))
    else:
        figures = sum(len(table.figures) for table in tables)
        click.echo(f"\n{figures} figures, {failed or 'none'} out of bounds")
    return not failed


def lines(table: "Table") -> list[str]:
    """A table as text: its name, its figures, the median and the 95th percentile of the errors."""
    found = [table.name]
    found += [_line(figure) for figure in table.figures]
    if table.median is not None and table.p95 is not None:
        bound, ok = _verdict(table.median_bound, table.median_ok)
        found.append(LINE.format("  median error", "", "", f"{table.median:.1%}", bound, ok))
        found.append(LINE.format("  p95 error", "", "", f"{table.p95:.1%}", "", ""))
    found += [f"  {note}" for note in table.notes]
    return [line.rstrip() for line in found]


def _line(figure: "Figure") -> str:
    error = "" if figure.error is None else f"{figure.error:+.1%}"
    what, bound = f"  {figure.what}", _verdict(figure.bound, figure.ok)
    return LINE.format(what, _value(figure.predicted), _value(figure.measured), error, *bound)


def _value(value: float | None) -> str:
    return "" if value is None else f"{value:.4g}"


def _verdict(bound: float | None, ok: bool) -> tuple[str, str]:
    return ("", "") if bound is None else (f"{bound:.0%}", "ok" if ok else "NO")
