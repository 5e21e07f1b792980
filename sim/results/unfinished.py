"""Room beside a file or folder where it is written until it is whole."""

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL
from pathlib import Path
from typing import Final

from sim.core.errors import UserError

UNFINISHED: Final = ".unfinished-"


def unfinished_name() -> str:
    """Return a name for what is written or removed in a folder; it is no other's."""
    return f"{UNFINISHED}{os.getpid()}-{secrets.token_hex(4)}"


def is_abandoned(path: Path) -> bool:
    """Return whether the process of an ``unfinished_name`` was killed before it could tidy up."""
    number = path.name.removeprefix(UNFINISHED).partition("-")[0]
    if not path.name.startswith(UNFINISHED) or not number.isdecimal():
        return False
    try:
        os.kill(int(number), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False
    return False


def make_beside(target: Path, make: Callable[[Path], None]) -> Path:
    """Return what ``make`` has made beside ``target``; an ``OSError`` names ``target``."""
    place = target.with_name(unfinished_name())
    try:
        make(place)
    except OSError as error:
        error.filename = str(target)
        raise
    return place


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A path to write to: it replaces ``target`` when it is whole, or leaves what was there.

    Raises ``OSError`` when the disk refuses it, and for a device or a pipe, which a
    file must not take the place of: a root's /dev/null would be gone.
    """
    if target.exists() and not target.is_file() and not target.is_dir():
        raise OSError(EINVAL, "it is not a file", str(target))
    unfinished = make_beside(target, make_file)
    try:
        yield unfinished
        unfinished.replace(target)
    except BaseException as error:
        with suppress(OSError):
            unfinished.unlink()
        if isinstance(error, OSError):
            error.filename, error.filename2 = str(target), None
        raise


def write_whole(target: Path, content: bytes) -> None:
    """Write a file as a whole or not at all; raises ``OSError`` as ``replacing`` does."""
    with replacing(target) as unfinished:
        unfinished.write_bytes(content)


def make_file(place: Path) -> None:
    """Make an empty file; raises ``FileExistsError`` when there is one."""
    place.touch(exist_ok=False)


@contextmanager
def refused(what: str, path: Path) -> Iterator[None]:
    """Turn what the disk refuses into a ``UserError`` that names ``what`` and ``path``."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise UserError(f"cannot write {what} to {path}: {reason}") from error


def check_writable(what: str, path: Path) -> None:
    """Raise ``UserError`` unless a file could be written there now."""
    with refused(what, path):
        if path.exists() and not path.is_file():
            raise UserError(f"cannot write {what} to {path}: it is not a file")
        make_beside(path, make_file).unlink()


def write_file(what: str, path: Path, content: bytes) -> None:
    """Write or replace a file; raises ``UserError``, and an older file stays then."""
    check_writable(what, path)
    with refused(what, path):
        write_whole(path, content)
