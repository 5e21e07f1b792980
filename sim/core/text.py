"""Text for people: numbers and lists in words, tables and lines of one width."""

import shutil
import sys
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from itertools import pairwise
from textwrap import wrap
from typing import Final

WIDTH: Final = 100
GAP: Final = "  "
UNKNOWN: Final = "–"
"""What stands in the place of a value that there is not."""
NARROWEST: Final = 40


def plural(thing: str, number: int) -> str:
    """The noun for that many: "run", "runs"."""
    return thing if number == 1 else f"{thing}s"


def counted(number: int, thing: str) -> str:
    """How many of what: "1,234 runs"."""
    return f"{number:,} {plural(thing, number)}"


def sentence_list(names: Iterable[str]) -> str:
    """Names as a sentence has them: "a", "a and b", "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def few(names: Sequence[str], most: int = 3) -> str:
    """The first of several names, and how many more there are."""
    more = len(names) - most
    return ", ".join(names[:most]) + (f" and {more} more" if more > 0 else "")


def ranges(numbers: Iterable[int], to: str = "-") -> str:
    """Ascending numbers, three or more in a row by their two ends: "1-20, 25"."""
    rows: list[list[int]] = []
    for number in numbers:
        if rows and number == rows[-1][-1] + 1:
            rows[-1].append(number)
        else:
            rows.append([number])
    return ", ".join(
        f"{row[0]}{to}{row[-1]}" if len(row) > 2 else ", ".join(map(str, row)) for row in rows
    )


def seed_list(seeds: Sequence[int]) -> str:
    """Which seeds: "seed 3", "seeds 1 to 5, 7"."""
    return f"{plural('seed', len(seeds))} {ranges(seeds, ' to ')}"


def share(value: float) -> str:
    """A part of 1 in percent."""
    return f"{100.0 * value:.1f} %"


def size(number: int) -> str:
    """A number of bytes in decimal units."""
    for unit, factor in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= factor:
            return f"{number / factor:,.1f} {unit}"
    return f"{number} B"


def mean_and_interval(
    mean: float, low: float | None, high: float | None, written: Callable[[float], str]
) -> str:
    """A mean ± the half-width of its interval, if it has one, each as ``written`` formats it."""
    if low is None or high is None:
        return written(mean)
    return f"{written(mean)} ± {written((high - low) / 2.0)}"


def aligned(rows: Sequence[Sequence[str]], numbers: Container[int] = ()) -> list[str]:
    """Rows of a table, each column as wide as its widest cell.

    Cells stand to the left, those of the columns ``numbers`` to the right. A row
    may end before the last column.
    """
    widths = [0] * max(map(len, rows))
    for row in rows:
        widths[: len(row)] = map(max, widths, map(len, row))
    return [
        GAP.join(
            cell.rjust(width) if at in numbers else cell.ljust(width)
            for at, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]


def side_by_side(labels: Sequence[str], columns: Iterable[Sequence[str]]) -> list[str]:
    """As many columns beside the labels as fit the width, the rest below in further blocks."""
    label_width = max(len(label) for label in labels)
    blocks: list[list[str]] = []
    for column in columns:
        width = max(len(cell) for cell in column)
        if not blocks or len(blocks[-1][0]) + len(GAP) + width > WIDTH:
            blocks.append([label.ljust(label_width) for label in labels])
        blocks[-1] = [
            f"{line}{GAP}{cell.rjust(width)}" for line, cell in zip(blocks[-1], column, strict=True)
        ]
    lines = list(blocks[0])
    for _, block in pairwise(blocks):
        lines += ["", *block]
    return [line.rstrip() for line in lines]


def terms(meanings: Mapping[str, str]) -> list[str]:
    """Names and what each is: a line each for other programs, on a terminal as many as it takes."""
    column = max(map(len, meanings)) + len(GAP)
    room = shutil.get_terminal_size().columns if sys.stdout.isatty() else sys.maxsize
    width, indent = max(room, column + NARROWEST), " " * column
    lines: list[str] = []
    for name, meaning in meanings.items():
        lines += wrap(
            meaning, width, initial_indent=name.ljust(column), subsequent_indent=indent
        ) or [name]
    return lines


def wrapped(text: str) -> list[str]:
    """Lines of a text, the second and later ones indented."""
    return wrap(text, WIDTH, subsequent_indent=GAP)
