"""Room beside a file or folder where it is written until it is whole."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

UNFINISHED: Final = ".unfinished-"


def make_beside(target: Path, make: Callable[[Path], None]) -> Path:
    """What ``make`` has made beside ``target``, under a name that nobody has.

    Others may be writing the same, or have died of it: ``make`` raises
    ``FileExistsError`` for what is there, and the next name is tried. Any other
    ``OSError`` is told of ``target``, the name that its user knows.
    """
    number = 0
    while True:
        place = target.with_name(f"{UNFINISHED}{target.name}-{number}")
        try:
            make(place)
        except FileExistsError:
            number += 1
        except OSError as error:
            error.filename = str(target)
            raise
        else:
            return place


def write_whole(target: Path, content: bytes) -> None:
    """Write a file, or leave what was there: it replaces the old one when it is whole.

    Raises ``OSError`` when the disk refuses it.
    """
    unfinished = make_beside(target, make_file)
    try:
        unfinished.write_bytes(content)
        unfinished.replace(target)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(target), None
        raise


def make_file(place: Path) -> None:
    """Make an empty file; raises ``FileExistsError`` when there is one."""
    place.touch(exist_ok=False)
