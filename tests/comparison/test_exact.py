from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import sim
from sim.comparison.exact import ExactComparison, ExactRun, compare_exactly, first_difference
from sim.comparison.sides import Side, fresh_side
from sim.comparison.wording import exact_sentence
from sim.execution.runner import Runs
from sim.results.digest import digest
from sim.results.tables import Tables
from tests.comparison.harness import BUSY


@cache
def runs() -> Runs:
    """Two real runs that have rows in every table."""
    return sim.run(BUSY, seeds=(1, 3))


def tables() -> Tables:
    return runs().runs[0].tables


def with_cell(table: Any, column: str, row: int, value: Any) -> Any:
    """The table with one other value."""
    values = table[column].to_pylist()
    values[row] = value
    field = table.schema.field(column)
    return table.set_column(table.schema.names.index(column), field, pa.array(values, field.type))


def altered(**changes: Any) -> Tables:
    return replace(tables(), **changes)


def against(new: Tables, **changes: Any) -> ExactComparison:
    """Both runs against themselves, the first one with other tables."""
    base = fresh_side("base", runs())
    first, second = base.runs
    other = replace(first, digest=digest(new), tables=lambda: new, **changes)
    return compare_exactly(base, Side("new", "busy", (other, second)))


def first_run(comparison: ExactComparison) -> ExactRun:
    return comparison.runs[0]


def test_runs_made_twice_are_identical() -> None:
    """Reproducibility would be claimed and never be checked."""
    base, new = fresh_side("base", runs()), fresh_side("new", sim.run(BUSY, seeds=(1, 3)))
    comparison = compare_exactly(base, new)
    assert comparison.verdict == "identical"
    assert [(run.seed, run.verdict) for run in comparison.runs] == [
        (1, "identical"),
        (3, "identical"),
    ]


def test_one_ulp_is_found_where_it_is() -> None:
    """A difference in the last bit of one float would be rounded away, or could not be found."""
    before = tables().requests["first_token_s"][17].as_py()
    after = float(np.nextafter(before, np.inf))
    comparison = against(altered(requests=with_cell(tables().requests, "first_token_s", 17, after)))
    cell = first_run(comparison).cell
    assert comparison.verdict == "different"
    assert cell is not None
    assert (cell.table, cell.row, cell.column) == ("requests", 17, "first_token_s")
    assert (cell.base, cell.new) == (before, after)
    assert repr(after) in exact_sentence(first_run(comparison))
    assert comparison.runs[1].verdict == "identical"


@pytest.mark.parametrize(
    ("table", "column", "row", "value"),
    [
        ("requests", "status", 3, "lost"),
        ("requests", "reason", 0, "some"),
        ("requests", "end_s", 5, None),
        ("requests", "output_tokens", 2, None),
        ("placements", "pod", 40, "fleet-9"),
        ("placements", "cached_tokens", 7, 12345),
        ("pods", "kv_usage", 11, 0.123),
        ("failed_attempts", "error", 0, "?"),
        ("retries", "retry_after_s", 0, 0.5),
        ("pools", "member", 2, "nobody"),
    ],
)
def test_any_cell_is_found(table: str, column: str, row: int, value: Any) -> None:
    """Texts, nulls or the tables at the end of the list would go unseen."""
    old = getattr(tables(), table)
    found = first_difference(tables(), altered(**{table: with_cell(old, column, row, value)}))
    assert found is not None
    assert (found.table, found.row, found.column) == (table, row, column)
    assert (found.base, found.new) == (old[column][row].as_py(), value)


@pytest.mark.parametrize(
    ("session_row", "end_row", "place"),
    [(30, 20, (20, "end_s")), (10, 20, (10, "session_id")), (20, 20, (20, "session_id"))],
)
def test_of_two_differences_the_first_row_comes_first(
    session_row: int, end_row: int, place: tuple[int, str]
) -> None:
    """The reader would be led to a consequence, not to the cause."""
    one = with_cell(tables().requests, "session_id", session_row, "another")
    found = first_difference(tables(), altered(requests=with_cell(one, "end_s", end_row, 1.0)))
    assert found is not None
    assert (found.row, found.column) == place


def test_zeros_of_two_signs_are_two_values() -> None:
    """The digests would differ while the tables do not."""
    plus = with_cell(tables().requests, "hold_s", 4, 0.0)
    minus = with_cell(tables().requests, "hold_s", 4, -0.0)
    found = first_difference(altered(requests=plus), altered(requests=minus))
    assert found is not None
    assert found.column == "hold_s"


def test_shuffled_rows_are_different_and_said_to_be_the_same_ones() -> None:
    """Another order would pass as equal, or be told like a change of every value."""
    order = np.random.default_rng(1).permutation(tables().placements.num_rows)
    comparison = against(altered(placements=tables().placements.take(pa.array(order))))
    cell = first_run(comparison).cell
    assert comparison.verdict == "different"
    assert cell is not None
    assert cell.table == "placements"
    assert cell.reordered
    assert "the rows are the same in another order" in exact_sentence(first_run(comparison))


def test_a_row_twice_for_another_is_no_shuffle() -> None:
    """Rows would be compared as sets."""
    table = tables().pods
    rows = [*range(table.num_rows - 1), 0]
    found = first_difference(tables(), altered(pods=table.take(pa.array(rows))))
    assert found is not None
    assert not found.reordered


@pytest.mark.parametrize("title", ["requests", "retries", "pools"])
def test_rows_that_are_missing_or_more(title: str) -> None:
    """A table that was cut short would be equal as far as it goes."""
    whole = getattr(tables(), title)
    cut = altered(**{title: whole.slice(0, whole.num_rows - 1)})
    for old, new, side in ((tables(), cut, "base"), (cut, tables(), "new")):
        found = first_difference(old, new)
        assert found is not None
        assert (found.table, found.row, found.column) == (title, whole.num_rows - 1, "")
        run = ExactRun("", 1, "different", found)
        assert f"only in {side}" in exact_sentence(run)


def test_tables_do_not_differ_by_how_they_are_stored() -> None:
    """A result that was read from disk in chunks would differ from the one in memory."""
    table = tables().requests
    chunked = pa.concat_tables([table.slice(0, 7), table.slice(7)])
    assert first_difference(tables(), altered(requests=chunked)) is None


def test_a_figure_that_differs_alone_is_named() -> None:
    """A new definition of a figure over the same tables would be identical."""
    base = fresh_side("base", runs())
    summary = {**base.runs[0].summary, "tries": 999}
    comparison = against(tables(), summary=summary)
    assert comparison.verdict == "different"
    assert first_run(comparison).cell is None
    assert [(each.key, each.new) for each in first_run(comparison).figures] == [("tries", 999)]
    assert "defined in another way" in exact_sentence(first_run(comparison))


def test_digests_without_tables_still_differ() -> None:
    """A baseline that keeps only digests would be equal to anything."""
    base = fresh_side("base", runs())
    bare = Side("base", "busy", tuple(replace(run, tables=None) for run in base.runs))
    new = Side("new", "busy", (replace(base.runs[0], digest="other"), base.runs[1]))
    comparison = compare_exactly(bare, new)
    assert comparison.verdict == "different"
    assert first_run(comparison).reason == ("the digests differ; base keeps no tables to say where")


def test_a_run_that_new_lacks_is_not_passed_over() -> None:
    """Half of the runs would be identical, and so would be all."""
    base = fresh_side("base", runs())
    comparison = compare_exactly(base, Side("new", "busy", base.runs[:1]))
    assert comparison.verdict == "incomparable"
    assert [(run.seed, run.verdict) for run in comparison.runs] == [
        (1, "identical"),
        (3, "incomparable"),
    ]
    assert comparison.runs[1].reason == "new has no such run"


def test_another_scenario_is_not_different_but_not_comparable() -> None:
    """An edited scenario would look like a bug in the engine."""
    other = fresh_side("new", sim.run({**BUSY, "window": {"measure": "5s"}}, seeds=(1, 3)))
    assert compare_exactly(fresh_side("base", runs()), other).verdict == "incomparable"


def test_variants_that_differ_in_their_name_only_are_identical() -> None:
    """Two variants side by side always differed, in the column that holds their name."""
    base = fresh_side("base", runs())
    first = base.runs[0]
    requests = tables().requests
    for row in range(requests.num_rows):
        requests = with_cell(requests, "variant", row, "other")
    renamed = altered(requests=requests)
    new = replace(first, variant="other", digest=digest(renamed), tables=lambda: renamed)
    one = replace(base, runs=(first,))
    assert compare_exactly(one, Side("new", "busy", (new,))).verdict == "identical"
    late = with_cell(renamed.requests, "end_s", 3, 1e9)
    changed = replace(new, tables=lambda: replace(renamed, requests=late))
    comparison = compare_exactly(one, Side("new", "busy", (changed,)))
    assert comparison.verdict == "different"
    assert (cell := first_run(comparison).cell) is not None and cell.column == "end_s"
