"""What ``podsim validate --theory`` prints: a row per comparison, as they come."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from sim.validation.case import TheoryRow

LINE: Final = "{:<39} {:>9} {:>9} {:>18}  {:<13} {}"
HEADING: Final = LINE.format("", "predicted", "measured", "99 % interval", "bound", "ok")


def report(folder: Path, as_json: bool) -> bool:
    """Print the comparison of the scenarios in ``folder`` with theory; whether all is well."""
    from sim.cli.progress import waited
    from sim.execution.runner import available_jobs
    from sim.validation.queues import validate_theory

    rows: list[TheoryRow] = []
    for row in waited(validate_theory(folder, available_jobs()), "simulating queues"):
        if not as_json:
            for line in _lines(row, rows[-1].scenario if rows else None):
                click.echo(line)
        rows.append(row)
    failed = sum(not row.ok for row in rows)
    if as_json:
        click.echo(json.dumps([asdict(row) for row in rows], indent=2, allow_nan=False))
    else:
        click.echo(f"\n{len(rows)} comparisons, {failed or 'none'} out of bounds")
    return not failed


def _lines(row: "TheoryRow", scenario_before: str | None) -> list[str]:
    heading = [HEADING] if scenario_before is None else []
    if row.scenario != scenario_before:
        heading.append(row.scenario)
    interval = "" if row.low is None else f"{row.low:.4g} to {row.high:.4g}"
    predicted = "" if row.predicted is None else f"{row.predicted:.4g}"
    measured = f"{row.measured:.4g}" if row.low is not None else f"{row.measured:.3g}"
    ok = "ok" if row.ok else "NO"
    return [*heading, LINE.format(f"  {row.what}", predicted, measured, interval, row.bound, ok)]
