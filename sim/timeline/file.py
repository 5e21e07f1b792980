"""Timelines on disk: where each run's goes, refused early, written as a whole or not at all."""

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.core.errors import UserError
from sim.results.unfinished import make_beside, make_file, write_whole
from sim.timeline.excerpt import Excerpt
from sim.timeline.timeline import Timeline

GZIP: Final = ".gz"
COMPRESSION: Final = 6


@dataclass(frozen=True)
class Written:
    """A timeline that has been written: without its text, with the size of its file."""

    path: Path
    excerpt: Excerpt
    events: int
    cut: bool
    swap_elsewhere_s: float | None
    size_bytes: int


def path_of_run(path: Path, variant: str, seed: int) -> Path:
    """The file of one run among several: ``out-ring-seed-1.json`` for ``out.json``."""
    ending = path.suffix
    if ending == GZIP:
        ending = path.with_suffix("").suffix + GZIP
    stem = path.name.removesuffix(ending)
    return path.with_name("-".join(filter(None, (stem, variant, f"seed-{seed}"))) + ending)


def check_writable(path: Path) -> None:
    """Raise ``UserError`` unless a file could be written there now."""
    with _refused(path):
        if path.exists() and not path.is_file():
            raise UserError(f"cannot write the timeline to {path}: it is not a file")
        make_beside(path, make_file).unlink()


def write(timeline: Timeline, path: Path) -> Written:
    """Write a timeline, compressed when the name ends in ``.gz``; replaces what is there.

    Raises ``UserError`` when the disk is full or the folder cannot be
    written; an older file stays then.
    """
    content = timeline.text.encode()
    if path.suffix == GZIP:
        content = gzip.compress(content, COMPRESSION, mtime=0)  # equal runs, equal bytes
    with _refused(path):
        write_whole(path, content)
    return Written(
        path,
        timeline.excerpt,
        timeline.events,
        timeline.cut,
        timeline.swap_elsewhere_s,
        len(content),
    )


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Tell the user what the disk has refused."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write the timeline to {path}: {error.strerror}") from error
