"""Files of an export: written whole or not at all, tables as CSV."""

import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from sim.core.errors import UserError
from sim.results import arrow
from sim.results.tables import DECLARED, Tables
from sim.results.unfinished import make_beside, refused

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


def check_replaceable(what: str, folder: Path, ending: str) -> None:
    """Raise ``UserError`` for a folder that holds what is not ours: it would be lost.

    Ours are files whose names have this ``ending``, in it or in folders below.
    """
    with refused(what, folder):
        if not folder.exists():
            return
        if not folder.is_dir():
            raise UserError(f"cannot write {what} to {folder}: it is not a folder")
        for path in sorted(folder.rglob("*")):
            if not path.is_dir() and path.suffix != ending:
                raise UserError(
                    f"cannot write {what} to {folder}: it holds other files, such as "
                    f"{path.relative_to(folder)}; name a new folder"
                )


def write_folder(what: str, folder: Path, files: Mapping[str, bytes]) -> None:
    """Write or replace a folder of files, by their names in it, as a whole.

    Raises ``UserError``, and an older folder stays then.
    """
    with refused(what, folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        unfinished = make_beside(folder, _make_folder)
        try:
            for name, content in files.items():
                place = unfinished / name
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
            _put(unfinished, folder)
        except BaseException:
            shutil.rmtree(unfinished, ignore_errors=True)
            raise


def _put(unfinished: Path, folder: Path) -> None:
    """Rename the finished folder; what stood in its place comes back if that fails."""
    if not folder.exists():
        unfinished.rename(folder)
        return
    previous = make_beside(folder, _make_folder)
    previous.rmdir()
    folder.rename(previous)
    try:
        unfinished.rename(folder)
    except BaseException:
        previous.rename(folder)
        raise
    shutil.rmtree(previous, ignore_errors=True)


def _make_folder(place: Path) -> None:
    place.mkdir()
