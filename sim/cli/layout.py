"""Plain text in columns and lines of one width: how every verb lays out what it prints."""

import shutil
import sys
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import pairwise
from textwrap import wrap
from typing import Final

WIDTH: Final = 100
GAP: Final = "  "
NARROWEST: Final = 40


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
