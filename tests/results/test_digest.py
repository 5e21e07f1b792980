from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest

from sim.results import arrow
from sim.results.arrow import Table, concatenated
from sim.results.digest import digest
from sim.results.tables import DECLARED, Tables
from tests.results.builders import Book, facts, mixed_run, pooled_run

RESULT = mixed_run()
TABLES = RESULT.tables


def with_column(table: Table, name: str, values: pa.Array) -> Table:
    """The table with other values in one column."""
    at = table.column_names.index(name)
    return table.set_column(at, table.schema.field(name), values)


def test_equal_runs_have_equal_digests() -> None:
    """A digest that holds an address or an order of a set would never repeat."""
    assert mixed_run().digest == RESULT.digest == digest(TABLES)
    assert len(RESULT.digest) == 32


def test_digest_is_this_one_on_every_machine() -> None:
    """The digest would depend on byte order, library versions or the build."""
    book = Book()
    book.answered(1.0, 0.5)
    assert book.freeze(facts()).digest == "816a57020312a505035ef6ddeaa7d76f"


@pytest.mark.parametrize("column", ["arrival_s", "end_s"])
def test_one_unit_in_the_last_place_changes_it(column: str) -> None:
    """Two runs that differ by rounding would pass for the same."""
    values = TABLES.requests.column(column).to_pylist()
    values[1] = float(np.nextafter(values[1], np.inf))
    requests = with_column(TABLES.requests, column, pa.array(values, pa.float64()))
    assert digest(replace(TABLES, requests=requests)) != RESULT.digest


@pytest.mark.parametrize("table", DECLARED)
def test_every_column_of_every_table_counts(table: str) -> None:
    """A column would be left out, so that runs may differ there unseen."""
    result = mixed_run() if table == "pods" else pooled_run()
    whole: Table = getattr(result.tables, table)
    for name in whole.column_names:
        values = whole.column(name).to_pylist()
        if arrow.is_text(whole, name):
            values[0] = f"{values[0]}!"
        else:
            values[0] = 1 if values[0] is None else values[0] + 1
        other = with_column(whole, name, pa.array(values, whole.schema.field(name).type))
        assert digest(replace(result.tables, **{table: other})) != result.digest, name


def test_a_null_is_not_a_zero() -> None:
    """A request that was never admitted would equal one that found nothing cached."""
    values = TABLES.requests.column("cached_tokens").to_pylist()
    assert values[4] is None
    values[4] = 0
    requests = with_column(TABLES.requests, "cached_tokens", pa.array(values, pa.int64()))
    assert digest(replace(TABLES, requests=requests)) != RESULT.digest


def test_two_swapped_words_change_it() -> None:
    """Codes would be hashed without the words they stand for."""
    values = TABLES.requests.column("pod").to_pylist()
    swapped = {"qwen-0": "qwen-1", "qwen-1": "qwen-0", None: None}
    other = pa.array([swapped[value] for value in values]).dictionary_encode()
    requests = with_column(TABLES.requests, "pod", other)
    assert digest(replace(TABLES, requests=requests)) != RESULT.digest


def test_order_of_a_dictionary_does_not_change_it() -> None:
    """Another version of a library, or a file read back, would give another digest."""
    values = TABLES.requests.column("status").to_pylist()
    words = sorted(set(values), reverse=True)
    codes = pa.array([words.index(value) for value in values], pa.int32())
    other = pa.DictionaryArray.from_arrays(codes, pa.array([*words, "never used"]))
    assert other.dictionary != TABLES.requests.column("status").chunk(0).dictionary
    requests = with_column(TABLES.requests, "status", other)
    assert digest(replace(TABLES, requests=requests)) == RESULT.digest


@pytest.mark.parametrize("cut", [1, 3, 8])
def test_chunks_do_not_change_it(cut: int) -> None:
    """A table put together from parts would not equal the whole."""
    parts = []
    result = pooled_run()
    for name in DECLARED:
        table = getattr(result.tables, name)
        cut_here = min(cut, table.num_rows)
        parts.append(concatenated([table.slice(0, cut_here), table.slice(cut_here)]))
    assert digest(Tables(*parts)) == result.digest


def test_chunks_with_dictionaries_of_their_own_do_not_change_it() -> None:
    """Codes of one part would be read with the words of another."""
    values = TABLES.requests.column("pod").to_pylist()
    kind = TABLES.requests.schema.field("pod").type
    chunks = [pa.array(values[:3], kind), pa.array(values[3:], kind)]
    assert chunks[0].dictionary != chunks[1].dictionary
    requests = with_column(TABLES.requests, "pod", pa.chunked_array(chunks))
    assert digest(replace(TABLES, requests=requests)) == RESULT.digest


def test_an_empty_run_has_a_digest() -> None:
    """A scenario in which nothing happens would crash when it is stored."""
    empty = Book().freeze(facts())
    assert empty.digest == Book().freeze(facts()).digest != RESULT.digest
