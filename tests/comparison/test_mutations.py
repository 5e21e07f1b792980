"""Whatever is scaled by a tenth, in the tables or in the summary, changes the verdict."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sim
import sim.results.freeze
from sim.comparison.exact import compare_exactly, first_difference
from sim.comparison.paired import compare
from sim.comparison.sides import Figures, Side, fresh_side
from sim.results import arrow
from sim.results.comparison import NOT_COMPARED
from sim.results.digest import digest
from sim.results.metrics import flatten, metric
from sim.results.requests import RequestColumns
from sim.results.result import RunResult
from sim.results.summary import summarise
from sim.results.tables import DECLARED, Tables
from tests.comparison.harness import BUSY, only

TENTH = 1.1
EMPTY = {("placements", "predicted_cached_tokens")}
"""Columns that no policy of podsim fills."""

NUMBERS = [
    (title, column.name)
    for title, columns in DECLARED.items()
    for column in columns
    if column.dtype != arrow.TEXT and column.name not in ("request_id", "try")
]
"""Columns that can be scaled; a number that points into another table cannot be and stay one."""

POINTERS = [
    (title, column.name)
    for title, columns in DECLARED.items()
    for column in columns
    if column.name in ("request_id", "try")
]
TEXTS = [
    (title, column.name)
    for title, columns in DECLARED.items()
    for column in columns
    if column.dtype == arrow.TEXT
]


@dataclass(frozen=True)
class Made:
    """Real runs, and of each which requests close a session: tables do not say that."""

    side: Side
    results: tuple[RunResult, ...]
    closes: tuple[arrow.Mask, ...]


@cache
def made() -> Made:
    closes: list[arrow.Mask] = []

    def noted(
        facts: Any, tables: Any, requests: Any, closes_session: arrow.Mask, *more: Any
    ) -> Any:
        closes.append(closes_session)
        return summarise(facts, tables, requests, closes_session, *more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sim.results.freeze, "summarise", noted)
        runs = sim.run(BUSY)
    return Made(fresh_side("base", runs), runs.runs, tuple(closes))


def recomputed(change: Any) -> Side:
    """The same runs with other tables, and the summaries that follow from these."""

    def all_runs() -> Iterator[Figures]:
        for run, result, closes in zip(made().side.runs, made().results, made().closes):
            tables: Tables = change(result.tables)
            requests = RequestColumns.of(tables.requests)
            summary = summarise(result.facts, tables, requests, closes)
            yield replace(
                run,
                digest=digest(tables),
                summary=dict(flatten(summary)),
                tables=lambda tables=tables: tables,
            )

    return Side("new", "busy", tuple(all_runs()))


def scaled(table: Any, name: str) -> Any:
    """The table with one column of numbers 1.1 times as large; whole numbers are rounded up."""
    values, valid = arrow.exact(table, name)
    if values.dtype.kind == "f":
        column = arrow.floats(np.where(valid, values * TENTH, np.nan))
    else:
        column = arrow.integers(np.where(valid, np.ceil(values * TENTH), -1).astype(np.int64))
    return table.set_column(table.schema.names.index(name), table.schema.field(name), column)


def test_recomputing_changes_nothing_by_itself() -> None:
    """The mutations below would be found for what the test does, not for what it changes."""
    same = recomputed(lambda tables: tables)
    assert compare(made().side, same).verdict == "identical"
    assert compare_exactly(made().side, same).verdict == "identical"


@pytest.mark.parametrize(("title", "name"), NUMBERS)
def test_a_scaled_column_changes_the_verdict(title: str, name: str) -> None:
    """A tenth more in any column of any table would be identical to what it was."""

    def change(tables: Tables) -> Tables:
        return replace(tables, **{title: scaled(getattr(tables, title), name)})

    new = recomputed(change)
    exact, paired = compare_exactly(made().side, new), compare(made().side, new)
    if (title, name) in EMPTY:
        assert exact.verdict == "identical"
        return
    assert exact.verdict == "different"
    found = [run.cell for run in exact.runs if run.verdict == "different"]
    assert {(cell.table, cell.column) for cell in found if cell} == {(title, name)}
    assert paired.verdict != "identical"
    assert any(each.verdict != "identical" for each in paired.judged)


@pytest.mark.parametrize(("title", "name"), [*POINTERS, *TEXTS])
def test_one_other_name_or_number_is_found(title: str, name: str) -> None:
    """A request that went elsewhere, or was answered otherwise, would be no difference."""

    def change(tables: Tables) -> Tables:
        table = getattr(tables, title)
        values = table[name].to_pylist()
        values[-1] = "another" if (title, name) in TEXTS else values[-1] + 1
        field = table.schema.field(name)
        column = pa.array(values, field.type)
        return replace(
            tables, **{title: table.set_column(table.schema.names.index(name), field, column)}
        )

    at = next(
        at for at, result in enumerate(made().results) if getattr(result.tables, title).num_rows
    )
    before = made().results[at].tables
    after = change(before)
    found = first_difference(before, after)
    assert digest(before) != digest(after)
    assert found is not None
    assert (found.table, found.column) == (title, name)
    assert found.row == getattr(before, title).num_rows - 1


def figures() -> list[str]:
    """Every figure of the runs that is not null or zero under every seed."""
    runs = made().side.runs
    keys = dict.fromkeys(key for run in runs for key in run.summary)
    return [key for key in keys if any(run.summary.get(key) for run in runs)]


def with_scaled(key: str) -> Side:
    """The same runs, of which one figure is a tenth larger."""
    runs = (
        replace(run, summary={**run.summary, key: value * TENTH})
        if (value := run.summary.get(key)) is not None
        else run
        for run in made().side.runs
    )
    return Side("new", "busy", tuple(runs))


def test_a_scaled_figure_changes_the_verdict() -> None:
    """A summary could say something else of the same tables and be identical.

    A tenth is beyond every margin, so that with a direction it is better or worse.
    """
    directed = 0
    for key in figures():
        new = with_scaled(key)
        exact, paired = compare_exactly(made().side, new), compare(made().side, new)
        assert exact.verdict == "different", key
        assert {each.key for run in exact.runs for each in run.figures} == {key}
        assert paired.verdict != "identical", key
        values, declared = [run.summary.get(key) for run in made().side.runs], metric(key)
        if key.startswith(NOT_COMPARED) or not all(values) or declared.better == "none":
            continue
        verdict = only(paired, key).verdict
        if 0.1 * sum(value or 0.0 for value in values) / len(values) <= declared.floor:
            assert verdict == "same", key
            continue
        assert verdict == ("better" if declared.better == "up" else "worse"), key
        assert (paired.verdict == "worse") == (verdict == "worse" and declared.primary), key
        directed += 1
    assert directed > 40
