"""The only module that touches pyarrow: columns in, columns out, parquet files.

Columns are made from numpy arrays in which a null is NaN (floats), -1
(integers: counts, ids and codes are never negative) or a code of -1 (texts).
Arrays are built from their buffers: ``pyarrow.array`` would import pandas,
which costs a quarter of a second at the start of every run.
"""

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sim.core.stats import Floats

if TYPE_CHECKING:
    import pandas as pd

Array: TypeAlias = pa.Array
Field: TypeAlias = pa.Field
Schema: TypeAlias = pa.Schema
Table: TypeAlias = pa.Table
Integers: TypeAlias = NDArray[np.int64]
Codes: TypeAlias = NDArray[np.int32]
Mask: TypeAlias = NDArray[np.bool_]

INTEGER: Final = pa.int64()
FLOAT: Final = pa.float64()
TEXT: Final = pa.dictionary(pa.int32(), pa.string())

VERSION: Final[str] = pa.__version__


@dataclass(frozen=True)
class Texts:
    """A column of texts: ``codes`` point into ``words``, -1 is null.

    As ``strings`` reads them, words stand in the order of their first
    appearance and each of them appears, so that equal columns have equal codes
    however they were stored.
    """

    codes: Codes
    words: tuple[str, ...]

    def equal(self, word: str) -> Mask:
        """The rows that hold ``word``."""
        code = self.words.index(word) if word in self.words else len(self.words)
        return np.equal(self.codes, code)

    def counts(self, where: Mask) -> dict[str, int]:
        """How often each word occurs among the rows of ``where``, in alphabetical order."""
        codes = self.codes[where]
        occurrences = np.bincount(codes[codes >= 0], minlength=len(self.words))
        return {
            word: int(times) for word, times in sorted(zip(self.words, occurrences)) if times > 0
        }


def encode(values: Iterable[Any]) -> Texts:
    """Texts from Python strings; ``None`` is null."""
    index: defaultdict[Any, int] = defaultdict(count().__next__)
    index[None] = -1
    codes = np.fromiter(map(index.__getitem__, values), dtype=np.int32)
    return Texts(codes, tuple(word for word in index if word is not None))


def integers(values: Integers) -> Array:
    """An integer column; -1 is null."""
    return _array(INTEGER, np.ascontiguousarray(values, dtype="<i8"), values >= 0)


def floats(values: Floats) -> Array:
    """A float column; NaN is null."""
    return _array(FLOAT, np.ascontiguousarray(values, dtype="<f8"), ~np.isnan(values))


def texts(values: Texts) -> Array:
    """A dictionary-encoded text column."""
    encoded = [word.encode() for word in values.words]
    offsets = np.cumsum([0, *map(len, encoded)], dtype="<i4")
    words = pa.Array.from_buffers(
        pa.string(),
        len(encoded),
        [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(encoded))],
    )
    codes = np.ascontiguousarray(values.codes, dtype="<i4")
    return pa.DictionaryArray.from_arrays(_array(pa.int32(), codes, codes >= 0), words)


def _array(kind: Any, values: NDArray[Any], valid: Mask) -> Array:
    bitmap = None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, len(values), [bitmap, pa.py_buffer(values)])


def has_nulls(values: Array) -> bool:
    """Whether any value of a column is null."""
    return bool(values.null_count)


def field(name: str, kind: Any, nullable: bool) -> Field:
    """A column's name, type and whether it may hold nulls."""
    return pa.field(name, kind, nullable=nullable)


def table(schema: Sequence[Field], columns: Sequence[Array]) -> Table:
    """A table of ``columns``; raises ``ValueError`` for a null where none may be."""
    for column, declared in zip(columns, schema, strict=True):
        if column.null_count and not declared.nullable:
            raise ValueError(f"column {declared.name} holds {column.null_count} nulls")
    return pa.Table.from_arrays(list(columns), schema=pa.schema(list(schema)))


def empty(schema: Sequence[Field]) -> Table:
    """A table without rows."""
    return pa.schema(list(schema)).empty_table()


def names(of: Table) -> list[str]:
    """The names of the columns of a table."""
    return list(of.column_names)


def is_text(of: Table, name: str) -> bool:
    """Whether a column holds texts."""
    return bool(of.schema.field(name).type == TEXT)


def matches(of: Table, schema: Sequence[Field]) -> bool:
    """Whether a table has exactly the declared columns."""
    return bool(of.schema.equals(pa.schema(list(schema))))


def numbers(of: Table, name: str) -> Floats:
    """A column of numbers as floats; NaN is null."""
    values, valid = exact(of, name)
    return np.where(valid, values.astype(np.float64), np.nan)


def whole(of: Table, name: str) -> Integers:
    """A column of integers; -1 is null."""
    values, valid = exact(of, name)
    return np.where(valid, values, -1).astype(np.int64)


def exact(of: Table, name: str) -> tuple[NDArray[Any], Mask]:
    """The values of a column of numbers in their own type (0 for a null), and which are valid."""
    chunks = [_values(chunk) for chunk in of.column(name).chunks]
    if not chunks:
        return np.zeros(0, dtype=of.schema.field(name).type.to_pandas_dtype()), np.zeros(0, bool)
    valid = np.concatenate([valid for _, valid in chunks])
    values = np.concatenate([values for values, _ in chunks])
    return np.where(valid, values, values.dtype.type(0)), valid


def strings(of: Table, name: str) -> Texts:
    """A column of texts, its words in order of first appearance."""
    index: defaultdict[str, int] = defaultdict(count().__next__)
    parts = [np.zeros(0, dtype=np.int32)]
    for chunk in of.column(name).chunks:
        # A null is -1 and so reads the last entry.
        codes_of_words = np.array(
            [*(index[word] for word in chunk.dictionary.to_pylist()), -1], dtype=np.int32
        )
        codes, valid = _values(chunk.indices)
        parts.append(codes_of_words[np.where(valid, codes, -1)])
    return _by_first_appearance(np.concatenate(parts), list(index))


def _by_first_appearance(codes: Codes, words: list[str]) -> Texts:
    first = np.full(len(words) + 1, len(codes))
    rows = np.arange(len(codes))
    first[codes[::-1]] = rows[::-1]  # of equal codes the last assignment, the first row, stays
    order = np.argsort(first[:-1], kind="stable")
    order = order[first[order] < len(codes)]
    ranks = np.full(len(words) + 1, -1, dtype=np.int32)
    ranks[order] = np.arange(len(order))
    return Texts(ranks[codes], tuple(words[at] for at in order))


def _values(array: Array) -> tuple[NDArray[Any], Mask]:
    """Values and validity of one chunk, read from its buffers without a copy."""
    start, stop = array.offset, array.offset + len(array)
    bitmap, data = array.buffers()
    values = np.frombuffer(data, dtype=array.type.to_pandas_dtype())[start:stop]
    if bitmap is None:
        return values, np.ones(len(array), dtype=bool)
    bits = np.unpackbits(np.frombuffer(bitmap, dtype=np.uint8), bitorder="little")
    return values, bits[start:stop].astype(bool)


def rows(of: Table, where: Mask) -> list[dict[str, Any]]:
    """The rows of ``where`` as mappings from column to value; a null is None."""
    chosen: list[dict[str, Any]] = of.take(integers(np.flatnonzero(where))).to_pylist()
    return chosen


def records(of: Table, columns: Sequence[str]) -> list[dict[str, Any]]:
    """All rows as mappings from these columns to values; a null is None."""
    chosen: list[dict[str, Any]] = of.select(list(columns)).to_pylist()
    return chosen


def concatenated(tables: Sequence[Table]) -> Table:
    """The rows of several tables of one kind, one below the other."""
    return pa.concat_tables(tables)


def write(of: Table, path: Path) -> None:
    """Write a parquet file; raises ``OSError`` when it cannot be written."""
    from pyarrow import parquet

    texts_only = [name for name in names(of) if is_text(of, name)]
    parquet.write_table(
        of, path, compression="lz4", use_dictionary=texts_only, write_statistics=False
    )


def csv_text(of: Table) -> str:
    """A header and the rows, without any loss: nulls are empty, floats read as the same ones."""
    stream = io.StringIO()
    writer = csv.writer(stream)
    writer.writerow(names(of))
    for row in records(of, names(of)):
        writer.writerow([_cell(value) for value in row.values()])
    return stream.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return repr(value) if isinstance(value, float) else str(value)


def read(path: Path) -> Table:
    """Read a parquet file; raises ``OSError`` or ``ValueError`` when it cannot be read."""
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            return file.read(use_threads=False)
    except (pa.ArrowException, OSError, MemoryError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{path.name} is torn: {error}") from error


def data_frame(of: Table) -> "pd.DataFrame":
    """The table for pandas: texts as plain strings, integers that may be null as Int64.

    The types of the columns do not depend on whether a run has nulls.
    """
    import pandas as pd

    columns: dict[str, pd.Series[Any]] = {}
    for declared in of.schema:
        column = of.column(declared.name)
        if declared.type == TEXT:
            columns[declared.name] = column.cast(pa.string()).to_pandas()
        elif declared.type == INTEGER and declared.nullable:
            nullable = {INTEGER: pd.Int64Dtype()}.get
            columns[declared.name] = column.to_pandas(types_mapper=nullable)
        else:
            columns[declared.name] = column.to_pandas()
    return pd.DataFrame(columns)
