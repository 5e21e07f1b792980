"""The table of a sweep: one row per run, in the order of the design, a column per figure.

``point``, then a column for each swept path, then ``variant``, ``seed``,
``status`` (completed or failed), ``error``, the ``warnings`` of the run, its
``digest``, ``variant_hash`` and ``podsim``, and every figure of a summary under
its key. A swept value that is a number is one in every row, in seconds, bytes
or tokens; anything else is the text that was written. Figures are floats,
whatever they count: a null, or every figure of a run that failed, is null.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sim.core.errors import UserError
from sim.core.stats import Floats
from sim.results import arrow
from sim.results.comparison import figure_keys
from sim.results.metrics import metric
from sim.results.unfinished import replacing, write_whole
from sim.scenario.load import ScenarioSet
from sim.scenario.variants import parse_settings
from sim.sweep.design import Design
from sim.sweep.runs import Measured, Outcome, Task

if TYPE_CHECKING:
    import pandas as pd

LEFT_OUT: Final = ("pod_requests.",)
"""A pod has nothing in common with the one of that name at another point."""

CSV: Final = ".csv"

Value = str | int | float | None


def build(
    design: Design,
    scenarios: Sequence[ScenarioSet],
    runs: Sequence[tuple[int, Task]],
    outcomes: Sequence[Outcome],
) -> arrow.Table:
    """The table of ``runs``, each a point and what was to be made there, and their outcomes."""
    points = [point for point, _ in runs]
    tasks = [task for _, task in runs]
    measured = [outcome if isinstance(outcome, Measured) else None for outcome in outcomes]
    columns: list[tuple[str, arrow.Array]] = [("point", _integers(points))]
    for path, values in zip(design.paths, swept_values(design, scenarios)):
        columns.append((path, _column([values[point] for point in points])))
    texts: dict[str, Sequence[str | None]] = {
        "variant": [task.variant for task in tasks],
        "status": ["failed" if run is None else "completed" for run in measured],
        "error": [getattr(outcome, "reason", None) for outcome in outcomes],
        "warnings": [("\n".join(run.warnings) or None) if run else None for run in measured],
        "digest": [run.digest if run else None for run in measured],
        "variant_hash": [task.variant_hash for task in tasks],
        "podsim": [task.podsim for task in tasks],
    }
    for name, column in texts.items():
        columns.append((name, arrow.texts(arrow.encode(column))))
        if name == "variant":
            columns.append(("seed", _integers([task.seed for task in tasks])))
    # Whether integers may be null is up to the design, not to what has failed.
    kinds = [
        arrow.field(name, column.type, nullable=arrow.has_nulls(column) or name in texts)
        for name, column in columns
    ]
    for key, found in figures(measured).items():
        columns.append((key, arrow.floats(_floats(found))))
        kinds.append(arrow.field(key, arrow.FLOAT, nullable=True))
    return arrow.table(kinds, [column for _, column in columns])


def write(table: arrow.Table, place: Path) -> None:
    """Write the table as a whole or not at all; raises ``UserError`` when the disk refuses.

    It is CSV where the name says .csv, else parquet.
    """
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        if place.suffix.lower() == CSV:
            write_whole(place, arrow.csv_text(table).encode())
            return
        with replacing(place) as unfinished:
            arrow.write(table, unfinished)
    except OSError as error:
        reason = error.strerror or error
        raise UserError(
            f"cannot write the table {place}: {reason}; the same command writes it again"
        ) from error


def read(place: str | Path) -> "pd.DataFrame":
    """The table of a sweep from its file, or from the folder of the sweep, for pandas.

    Raises ``UserError`` when there is none that can be read.
    """
    path = Path(place)
    path = path / "table.parquet" if path.is_dir() else path
    try:
        return arrow.data_frame(arrow.read(path))
    except (OSError, ValueError) as error:
        raise UserError(f"cannot read a table of a sweep from {path}: {error}") from error


def swept_values(design: Design, scenarios: Sequence[ScenarioSet]) -> list[list[Value]]:
    """For each swept path its value at each point: numbers if all are, else the texts written."""
    resolved = [_document(scenario) for scenario in scenarios]
    found: list[list[Value]] = []
    for at, path in enumerate(design.paths):
        written = [point[at] for point in design.points]
        values = [
            _value(_at(document, _within(path, document["variant"]).split(".")), f"{path}={text}")
            for document, text in zip(resolved, written)
        ]
        found.append(list(written) if any(isinstance(value, str) for value in values) else values)
    return found


def _within(path: str, variant: str) -> str:
    """The path in the scenario of what is swept; ``variants.NAME.path`` is of the only one."""
    return path.removeprefix(f"variants.{variant}.")


def _document(scenarios: ScenarioSet) -> Mapping[str, Any]:
    return scenarios.variants[0].model_dump(mode="json", by_alias=True)


def _at(document: Any, path: Sequence[str]) -> Any:
    """What a checked scenario has at a path; None where it has nothing."""
    for segment in path:
        if isinstance(document, Mapping):
            document = document.get(segment)
        elif isinstance(document, list) and segment.isdecimal() and int(segment) < len(document):
            document = document[int(segment)]
        else:
            return None
    return document


def _value(resolved: Any, setting: str) -> Value:
    """The number, in base units, or the null that a setting means; else a text."""
    changes, _ = parse_settings([setting])
    written = changes[0].value
    if written is None:
        return None
    if isinstance(written, int | float | str):
        for value in (resolved, written):
            if isinstance(value, int | float) and not isinstance(value, bool):
                return value
    return setting


def _column(values: Sequence[Value]) -> arrow.Array:
    """Integers if all are and none is negative, floats if all are numbers, else texts."""
    if any(isinstance(value, str) for value in values):
        return arrow.texts(
            arrow.encode([None if value is None else str(value) for value in values])
        )
    if all(value is None or (isinstance(value, int) and value >= 0) for value in values):
        return _integers([-1 if value is None else int(value) for value in values])
    return arrow.floats(_floats(values))


def figures(
    runs: Iterable[Measured | None], keys: Sequence[str] | None = None
) -> dict[str, list[float | None]]:
    """Figures by key, each with its value in every run: every key that any run has, in the order
    of the declarations, if no ``keys`` are given.

    A run that failed has none. A name that is missing from a family counts 0.
    """
    found = list(runs)
    if keys is None:
        # Of thousands of runs most have the same keys.
        known = dict.fromkeys(key for run in found if run is not None for key in run.figures)
        every = figure_keys([dict.fromkeys(known)])
        keys = [key for key in every if not key.startswith(LEFT_OUT)]
    missing = {key: 0.0 if metric(key).is_family else None for key in keys}
    return {
        key: [None if run is None else run.figures.get(key, missing[key]) for run in found]
        for key in keys
    }


def _integers(values: Sequence[int]) -> arrow.Array:
    return arrow.integers(np.array(values, dtype=np.int64))


def _floats(values: Sequence[Any]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], dtype=np.float64)
