"""Where a stored run lies, and how it comes there, is found again, and goes: always as a whole.

``<root>/<scenario>-<hash8>/<variant>/seed-<n>/``. Beside a run may lie, under names that begin
with a dot, what it replaces until it is there, and what is being written or taken away. Whoever
moves a run is alone in the folder above it; whoever writes one holds a lock on what he writes, so
that others can tell it from the rests of a process that died.
"""

import errno
import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from sim.results.unfinished import UNFINISHED, make_beside

NO_VARIANT: Final = "base"
HASH_DIGITS: Final = 8
MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
PREVIOUS: Final = ".previous-"
_TRIES: Final = 100


def scenario_name(scenario: str, scenario_hash: str) -> str:
    """Name of the folder that holds the folders of all variants of a scenario."""
    return f"{scenario}-{scenario_hash[:HASH_DIGITS]}"


def run_path(scenario: str, scenario_hash: str, variant: str, seed: int) -> Path:
    """Where below the root the folder of a run belongs."""
    return Path(scenario_name(scenario, scenario_hash), variant or NO_VARIANT, f"seed-{seed}")


@contextmanager
def put(target: Path) -> Iterator[Path]:
    """An empty folder that becomes ``target`` when the work in it is done, and is gone if it fails.

    What stood at ``target`` is replaced, or still there. Raises ``OSError``.
    """
    with _alone_in(target.parent):
        unfinished = make_beside(target, Path.mkdir)
        held = _locked(unfinished)
    try:
        yield unfinished
        with _alone_in(target.parent):
            _recover(target)
            _replace(unfinished, target)
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    finally:
        os.close(held)


def recover(target: Path) -> None:
    """Finish what a writer that died between its two renames has begun; wait for one at work.

    Raises ``OSError`` where that needs a change which the disk refuses.
    """
    if previous(target).exists():
        with _alone_in(target.parent):
            _recover(target)


def take_away(target: Path) -> None:
    """Remove a run: out of sight at once and as a whole, then from the disk.

    Rests of dead processes beside it go as well. Raises ``OSError``.
    """
    with _alone_in(target.parent):
        _recover(target)
        aside = make_beside(target, Path.mkdir)
        try:
            target.rename(aside)  # onto an empty folder
        except BaseException:
            aside.rmdir()
            raise
        shutil.rmtree(aside, ignore_errors=True)
        for rest in target.parent.glob(f"{UNFINISHED}*"):
            if _abandoned(rest):
                shutil.rmtree(rest, ignore_errors=True)


@contextmanager
def undisturbed(directory: Path) -> Iterator[None]:
    """Nobody moves runs in ``directory`` meanwhile: what lists it sees each of them once.

    Raises ``OSError`` when there is no such folder, or it cannot be read.
    """
    held = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        with suppress(OSError):  # some network file systems have no locks
            fcntl.flock(held, fcntl.LOCK_SH)
        yield
    finally:
        os.close(held)


def previous(target: Path) -> Path:
    """Where the run lies that is being replaced."""
    return target.with_name(f"{PREVIOUS}{target.name}")


def make_folder(directory: Path) -> None:
    """Make a folder and those above it, though others remove them meanwhile; raises ``OSError``."""
    for tries_left in reversed(range(_TRIES)):
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, FileNotFoundError):  # it was there, or its parent, and is gone
            if not tries_left:
                raise
        else:
            return


def remove_if_empty(directory: Path) -> None:
    """Remove a folder in which nothing is left; whoever was about to write there makes it anew."""
    with suppress(OSError):
        held = _locked(directory)
        try:
            directory.rmdir()
        finally:
            os.close(held)


@contextmanager
def _alone_in(directory: Path) -> Iterator[None]:
    """One at a time moves runs in ``directory``, among all processes of this machine."""
    held = _made_and_locked(directory)
    try:
        yield
    finally:
        os.close(held)


def _made_and_locked(directory: Path) -> int:
    """A descriptor of a folder that is locked; it may be removed, and made again, while we wait."""
    for _ in range(_TRIES):
        with suppress(FileNotFoundError):
            make_folder(directory)
            held = _locked(directory)
            if _is_at(held, directory):
                return held
            os.close(held)
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(directory))


def _locked(directory: Path) -> int:
    """A descriptor that locks a folder for others until it is closed."""
    descriptor = os.open(directory, os.O_RDONLY)
    with suppress(OSError):  # some network file systems have no locks
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    return descriptor


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _abandoned(unfinished: Path) -> bool:
    """Whether nobody works in it any more; where there are no locks, nobody can know."""
    try:
        descriptor = os.open(unfinished, os.O_RDONLY)
    except FileNotFoundError:  # its writer has failed a moment ago and taken it along
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _replace(unfinished: Path, target: Path) -> None:
    """Put a finished folder in its place; what stood there comes back if that fails."""
    if target.exists():
        target.rename(previous(target))
    try:
        unfinished.rename(target)
    except BaseException:
        _recover(target)
        raise
    shutil.rmtree(previous(target), ignore_errors=True)


def _recover(target: Path) -> None:
    older = previous(target)
    if not older.exists():
        return
    if target.exists():
        shutil.rmtree(older)
    else:
        older.rename(target)
