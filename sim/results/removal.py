"""Taking stored runs off the disk: whole runs, and nothing that podsim has not written."""

import os
import re
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from sim.core.interrupts import interrupts_deferred
from sim.results.sent import FILES
from sim.results.stored import MANIFEST, SUMMARY
from sim.results.tables import DECLARED
from sim.results.unfinished import is_abandoned, unfinished_name

_TABLES: Final = frozenset(f"{name}.parquet" for name in (*DECLARED, *FILES))
_WRITTEN: Final = _TABLES | {MANIFEST, SUMMARY}
_SEED: Final = re.compile(r"seed-[0-9]+")
_SCENARIO: Final = re.compile(r".+-[0-9a-f]{8}")
MAX_NAMED: Final = 3
"""How many strange files are named before the rest is only counted."""


def obstacle(run: Path, torn: bool) -> str | None:
    """Why a folder must not be removed; None when all that it holds is a run.

    With a manifest that is ``torn`` there must be a table, or the folder must lie where runs do:
    others write files of that name, too.
    """
    if run.is_symlink():
        return "is a link; remove the folder that it leads to"
    try:
        with os.scandir(run) as entries:
            files = {entry.name: entry.is_file(follow_symlinks=False) for entry in entries}
    except OSError as error:
        return f"cannot be looked into: {error.strerror}"
    strange = sorted(name for name, is_file in files.items() if name not in _WRITTEN or not is_file)
    if strange:
        more = f" and {len(strange) - MAX_NAMED} more" if len(strange) > MAX_NAMED else ""
        named = ", ".join(strange[:MAX_NAMED])
        return f"holds {named}{more}, which podsim has not written; move that away first"
    if torn and not _TABLES & files.keys() and not _in_place(run):
        return f"holds a {MANIFEST} that may be another program's"
    return None


def link_to(run: Path, place: Path) -> Path | None:
    """The link through which a run was found below ``place``; None when it lies there itself."""
    folder = place
    for name in run.relative_to(place).parts[:-1]:
        folder /= name
        if folder.is_symlink():
            return folder
    return None


def remove(run: Path) -> None:
    """Remove a run, and the folders of its variant and its scenario if these are empty then.

    It is out of sight at once and as a whole. Raises ``OSError``; the run is whole then.
    """
    aside = run.with_name(unfinished_name())
    with interrupts_deferred():
        run.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    if _in_place(run):
        for folder in (run.parent, run.parent.parent):
            with suppress(OSError):
                for rest in filter(is_abandoned, list(folder.iterdir())):
                    shutil.rmtree(rest, ignore_errors=True)
                folder.rmdir()


def _in_place(run: Path) -> bool:
    """Whether it lies in a folder of a variant in one of a scenario."""
    scenario = run.parent.parent
    return bool(_SEED.fullmatch(run.name) and _SCENARIO.fullmatch(scenario.name))
