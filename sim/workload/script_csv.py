"""Scripted rows in a CSV file: the keys of a row as columns, times with their unit.

The header names columns as the scenario does (``promptTokens``, or
``prompt_tokens``). A column of times says its unit, ``arrival_ms``, unless
the scenario's ``unit`` says it for all; a file without is refused, for a
thousandfold load must not pass without a word. Empty cells and lines of
blanks are nothing.
"""

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from sim.core.errors import Fault, ScenarioError
from sim.core.suggest import meant, nearest, suggestion
from sim.workload.files import not_csv, public_header, stamp, unpacked
from sim.workload.script_rows import Row, check_rows

TIMES: Final = ("arrival", "think", "cancel")
REQUIRED: Final = ("arrival", "promptTokens", "outputTokens")
TEXTS: Final = ("id", "session", "sharedPrefix", "model")
PER_SECOND: Final = {"s": 1.0, "ms": 1e3, "us": 1e6}
KEYS: Final = tuple(str(field.alias) for field in Row.model_fields.values())
NUMBER: Final = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
"""What ``float`` reads, but for words, underscores and the digits of other scripts."""
HEADERS: Final = tuple(
    header
    for key in KEYS
    for header in ([f"{key}_{unit}" for unit in PER_SECOND] if key in TIMES else [key])
)
SEPARATORS: Final = {"\t": "tabs", ";": "semicolons", "|": "bars"}


@dataclass(frozen=True)
class Stamps:
    """How times of a file are meant.

    ``unit`` is that of columns that do not say theirs. Arrivals come ``speed``
    times as fast; the first one is at ``first_s``, at its stamp if that is None.
    """

    unit: str | None = None
    first_s: float | None = None
    speed: float = 1.0

    @property
    def move(self) -> bool:
        """Whether an arrival is not at its stamp."""
        return self.first_s is not None or self.speed != 1.0


@dataclass(frozen=True)
class Column:
    """One column: its header, the key it fills, and how many of its units make a second.

    ``base``, in its units, is what stands for ``start_s``.
    """

    header: str
    key: str
    per_second: float = 1.0
    base: float = 0.0
    start_s: float = 0.0

    def seconds(self, number: float) -> float:
        """A time in this column."""
        return (number - self.base) / self.per_second + self.start_s


class Line(NamedTuple):
    """One row of the file: where it begins, and its cells without surrounding blanks."""

    number: int
    cells: list[str]


def read_rows(
    path: Path, stamps: Stamps, reuse_output: bool, models: Sequence[str] = ()
) -> tuple[Row, ...]:
    """Return the rows of the file; they may ask for ``models``, for any if there are none.

    Raises ``ScenarioError`` with every fault of the file, each with line and column.
    """
    reader = _Reader(str(path), unpacked(path, not_csv))
    rows = reader.read(stamps, reuse_output, models)
    if reader.faults:
        raise ScenarioError(sorted(reader.faults))
    return rows


def read_header(path: Path) -> list[str]:
    """Return the columns of a file that has no faults."""
    (cells,) = csv.reader([unpacked(path, not_csv).lstrip("\n").partition("\n")[0]])
    return [cell.strip() for cell in cells]


class _Reader:
    """Reads one file and collects what is wrong with it."""

    def __init__(self, source: str, text: str) -> None:
        self.faults: list[Fault] = []
        self._source = source
        self._text = text
        self._lines = text.split("\n")

    def read(self, stamps: Stamps, reuse_output: bool, models: Sequence[str]) -> tuple[Row, ...]:
        """Return the rows that have no faults of their own."""
        lines = self._split()
        if not lines:
            if not self.faults:
                self._fault(0, 0, "", "is empty; it needs a header and at least one row")
            return ()
        header, body = lines[0], lines[1:]
        columns = self._columns(header, stamps.unit)
        if not body and not self.faults:
            self._fault(header.number, 0, "", "has a header but no rows; at least one is needed")
        if not self.faults:
            columns = self._moved(columns, body, stamps)
        if self.faults:
            return ()
        rows = [row for row in (self._row(line, columns) for line in body) if row is not None]
        if len(rows) == len(body):
            for fault in check_rows(rows, reuse_output, models):
                self._value_fault(body[fault.row], columns, fault.key, fault.message)
        return tuple(rows)

    def _split(self) -> list[Line]:
        reader = csv.reader(io.StringIO(self._text), strict=True)
        lines: list[Line] = []
        number = 1
        try:
            for written in reader:
                cells = [cell.strip() for cell in written]
                if cells not in ([], [""]):
                    lines.append(Line(number, cells))
                number = reader.line_num + 1
        except csv.Error as error:
            self._fault(number, 0, "", f"is not CSV: {error}")
        return lines

    def _columns(self, header: Line, unit: str | None) -> list[Column]:
        if said := _of_another_tool(header.cells):
            self._fault(header.number, 0, "", said)
            return []
        columns: list[Column] = []
        for index, name in enumerate(header.cells):
            column = self._column(header, index, name, unit)
            if column is None:
                continue
            if any(column.key == other.key for other in columns):
                self._fault(header.number, index, name, f"a second column for {column.key}")
            columns.append(column)
        named = {column.key for column in columns} | {*map(_key, header.cells)} & {*TIMES}
        misspelt = {_key_of(near) for near in meant(header.cells, HEADERS)}
        for key in REQUIRED:
            if key not in named | misspelt:
                wanted = _in_units(key) if key in TIMES else key
                self._fault(header.number, 0, "", f"the column {wanted} is missing")
        return columns

    def _column(self, header: Line, index: int, name: str, unit: str | None) -> Column | None:
        stem, _, suffix = name.rpartition("_")
        key = _key(name)
        if stem in TIMES and suffix in PER_SECOND:
            return Column(name, stem, PER_SECOND[suffix])
        if key in TIMES and unit is not None:
            return Column(name, key, PER_SECOND[unit])
        if key in KEYS and key not in TIMES:
            return Column(name, key)
        if key in TIMES:
            said = f"times need a unit: name the column {_in_units(key)}"
            said += ", or give unit in the scenario"
        elif not name:
            said = f"column {index + 1} has no name; is there a comma too many?"
        else:
            hint = suggestion(name, HEADERS, present=[*header.cells, *map(_key, header.cells)])
            near = nearest(name, HEADERS)
            if near is not None and suffix not in PER_SECOND and _key_of(near) in TIMES:
                hint = f"; did you mean {_in_units(_key_of(near))}?"
            said = f"unknown column{hint}"
        self._fault(header.number, index, name, said)
        return None

    def _moved(self, columns: list[Column], body: list[Line], stamps: Stamps) -> list[Column]:
        """Return the columns, that of arrivals with the beginning and the speed of ``stamps``."""
        index = [column.key for column in columns].index("arrival")
        column = columns[index]
        written = [(line, line.cells[index]) for line in body if len(line.cells) == len(columns)]
        for line, cell in written:
            said = stamp(cell, column.per_second, stamps.first_s is not None)
            if said is not None:  # once: the other rows have the same
                self._fault(line.number, index, column.header, said)
                return columns
        if not stamps.move:
            return columns
        for line, cell in written:
            if cell and not NUMBER.fullmatch(cell):
                said = f"must be a bare number where firstArrival or speed moves it; got {cell!r}"
                self._fault(line.number, index, column.header, said)
        if not self.faults:
            column = replace(column, per_second=column.per_second * stamps.speed)
            if stamps.first_s is not None:
                base = min((float(cell) for _, cell in written if cell), default=0.0)
                column = replace(column, base=base, start_s=stamps.first_s)
        return [*columns[:index], column, *columns[index + 1 :]]

    def _row(self, line: Line, columns: Sequence[Column]) -> Row | None:
        if len(line.cells) != len(columns):
            found = f"has {len(line.cells)} values, the header names {len(columns)} columns"
            surplus = len(columns) if len(line.cells) > len(columns) else 0
            self._fault(line.number, surplus, "", found)
            return None
        values = {
            column.key: _value(column, cell)
            for column, cell in zip(columns, line.cells, strict=True)
            if cell
        }
        try:
            return Row.model_validate(values)
        except ValidationError as error:
            for details in error.errors():
                for key, message in _said(details):
                    self._value_fault(line, columns, key, message)
            return None

    def _value_fault(self, line: Line, columns: Sequence[Column], key: str, message: str) -> None:
        index = next((i for i, column in enumerate(columns) if column.key == key), None)
        if index is None:
            self._fault(line.number, 0, key, message)
        else:
            message = message.replace("{cell}", repr(line.cells[index]))
            self._fault(line.number, index, columns[index].header, message)

    def _fault(self, number: int, index: int, header: str, message: str) -> None:
        column = _position(self._lines[number - 1], index) if number else 0
        self.faults.append(Fault(self._source, number, column, header, message))


def _of_another_tool(cells: list[str]) -> str | None:
    """Return what a header is that is not podsim's, if it can be recognised."""
    for separator, name in SEPARATORS.items():
        if len(cells) == 1 and separator in cells[0]:
            return f"columns must be separated by commas; these are by {name}"
    public = public_header(cells)
    return public and f"is {public}"


def _key_of(header: str) -> str:
    """Return the key that one of ``HEADERS`` fills."""
    stem, _, unit = header.rpartition("_")
    return stem if unit in PER_SECOND else _key(header)


def _in_units(key: str) -> str:
    """Return the columns of times that fill ``key``: ``arrival_s, arrival_ms or arrival_us``."""
    return f"{key}_s, {key}_ms or {key}_us"


def _key(name: str) -> str:
    return to_camel(name) if "_" in name else name


def _value(column: Column, cell: str) -> Any:
    """Return a cell as the scenario would say it: a number where it is one, times in seconds."""
    if column.key in TEXTS:
        return cell
    if not NUMBER.fullmatch(cell):
        return cell  # with a unit of its own, or a fault
    number = float(cell)
    if column.key in TIMES:
        return column.seconds(number)
    return int(number) if number.is_integer() else number


def _said(details: ErrorDetails) -> list[tuple[str, str]]:
    """Return the keys at fault and what is wrong, ``{cell}`` standing for what the file says."""
    context = details.get("ctx", {})
    if details["type"] == "inconsistent":
        return [(key, message) for key, message in context["problems"]]
    key = str(details["loc"][0])
    if details["type"] == "quantity":
        return [(key, f"must be {context['legal']}; got {{cell}}")]
    if details["type"] == "missing":
        return [(key, "missing: every row needs one")]
    return [(key, details["msg"])]


def _position(line: str, index: int) -> int:
    """Return the column, from 1, where the cell ``index`` of a line begins."""
    quoted = False
    cell = 0
    for position, character in enumerate(line, start=1):
        if cell == index:
            return position
        if character == '"':
            quoted = not quoted
        elif character == "," and not quoted:
            cell += 1
    return len(line) + 1
