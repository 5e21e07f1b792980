"""The tables of a run as comma-separated values (RFC 4180, UTF-8), without any loss.

Columns are called as in parquet, the unit last. A null is an empty cell (no
column but ``variant`` holds empty texts, and that one no nulls); a float is the
shortest number that reads as the same one.
"""

from collections.abc import Iterator
from typing import Final

from sim.results import arrow
from sim.results.tables import DECLARED, Tables

ENDING: Final = ".csv"
FORMULA_MARKS: Final = ("=", "+", "-", "@")
"""With these, spreadsheets take a text for a formula."""


def csv_files(tables: Tables) -> dict[str, bytes]:
    """The files of a run, by name."""
    return {f"{name}{ENDING}": arrow.csv_text(getattr(tables, name)).encode() for name in DECLARED}


def formulas(tables: Tables) -> Iterator[str]:
    """Columns with texts that a spreadsheet would take for formulas: they are not changed."""
    for title in DECLARED:
        table = getattr(tables, title)
        for name in arrow.names(table):
            if arrow.is_text(table, name):
                texts = arrow.strings(table, name).words
                found = [text for text in texts if text.startswith(FORMULA_MARKS)]
                if found:
                    yield f"{title}{ENDING}, column {name}: {found[0]!r}"
