"""Tables as CSV: nothing lost, nothing half-written, nothing of others overwritten."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from sim.core.errors import UserError
from sim.export.files import check_replaceable, csv_files, formulas, write_folder
from sim.results import arrow
from sim.results.arrow import INTEGER, Table, csv_text
from sim.results.tables import DECLARED, schema
from tests.results.builders import Book, facts, mixed_run, pooled_run


def read_back(text: str, title: str) -> Table:
    """The table that a CSV holds, its columns typed as declared."""
    rows = list(csv.DictReader(io.StringIO(text, newline="")))
    columns = []
    for column in DECLARED[title]:
        cells = [row[column.name] for row in rows]
        if column.dtype == arrow.TEXT:
            known = [cell if cell or column.name == "variant" else None for cell in cells]
            columns.append(arrow.texts(arrow.encode(known)))
        elif column.dtype == INTEGER:
            whole = [int(cell) if cell else -1 for cell in cells]
            columns.append(arrow.integers(np.array(whole, dtype=np.int64)))
        else:
            floats = [float(cell) if cell else float("nan") for cell in cells]
            columns.append(arrow.floats(np.array(floats, dtype=np.float64)))
    return arrow.table(schema(DECLARED[title]), columns)


@pytest.mark.parametrize("result", [mixed_run(), pooled_run()], ids=["mixed", "pooled"])
def test_every_table_comes_back_bit_for_bit(result):
    """A spreadsheet would hold other numbers than the run: rounded times, nulls as zeros."""
    files = csv_files(result.tables)
    assert list(files) == [f"{name}.csv" for name in DECLARED]
    for title in DECLARED:
        table = getattr(result.tables, title)
        text = files[f"{title}.csv"].decode()
        assert read_back(text, title).to_pylist() == table.to_pylist()
        assert text.count("\r\n") == text.count("\n") == table.num_rows + 1


def test_a_float_that_needs_all_its_digits_keeps_them():
    """0.1 + 0.2 would come back as 0.3."""
    book = Book()
    book.answered(0.1 + 0.2, 1e-9)
    text = csv_text(book.freeze(facts()).tables.requests)
    assert "0.30000000000000004" in text


def test_names_of_users_are_quoted_and_not_changed():
    """A comma, a quote or a line end in a name would shift the columns behind it."""
    odd = 'a,"b"\r\nc; é'
    book = Book()
    request = book.request(1.0, session=odd, workload="=1+1")
    request.model = "=cmd|' /C calc'!A0"
    result = book.freeze(facts())
    table = read_back(csv_text(result.tables.requests), "requests")
    assert table["session_id"].to_pylist() == [odd]
    assert table["model"].to_pylist() == ["=cmd|' /C calc'!A0"]
    assert list(formulas(result.tables)) == [
        "requests.csv, column workload: '=1+1'",
        "requests.csv, column model: \"=cmd|' /C calc'!A0\"",
    ]


def test_a_folder_is_replaced_as_a_whole(tmp_path: Path):
    """A second export would leave files of the first one among its own."""
    place = tmp_path / "deep" / "tables"
    write_folder("the tables", place, {"old/a.csv": b"1", "b.csv": b"2"})
    check_replaceable("the tables", place, ".csv")
    write_folder("the tables", place, {"c.csv": b"3"})
    assert [path.name for path in place.rglob("*")] == ["c.csv"]
    assert [path.name for path in place.parent.iterdir()] == ["tables"]


def test_a_folder_of_others_is_left_alone(tmp_path: Path):
    """Exporting into one's home folder would empty it."""
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match=r"holds other files, such as thesis\.txt; name a new"):
        check_replaceable("the tables", tmp_path, ".csv")
    with pytest.raises(UserError, match="not a folder"):
        check_replaceable("the tables", tmp_path / "thesis.txt", ".csv")


def test_what_the_disk_refuses_leaves_the_old_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A full disk would cost the tables of the last export."""
    place = tmp_path / "tables"
    write_folder("the tables", place, {"a.csv": b"old"})
    written = []

    def full(self: Path, content: bytes) -> int:
        written.append(self.name)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(UserError, match=r"cannot write the tables to .*No space left"):
        write_folder("the tables", place, {"a.csv": b"new"})
    assert written == ["a.csv"]
    assert (place / "a.csv").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["tables"]
