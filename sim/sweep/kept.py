"""The finished runs of a sweep on disk: one small file each, written as a whole or not at all.

``<folder>/runs/point-<i>/<variant>/seed-<n>.json`` holds the figures of a run and
what they are of: the version of podsim, the hash of what was simulated.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from sim.core.errors import UserError
from sim.results.places import NO_VARIANT
from sim.results.unfinished import write_whole
from sim.sweep.design import Design
from sim.sweep.runs import Measured, Task

DEFAULT_STORE: Final = Path("results", "sweeps")
TABLE: Final = "table.parquet"
DESIGN: Final = "design.json"
FORM: Final = 1
CHECKSUM: Final = "checksum"


def folder_of(root: Path, scenario: str, design: Design) -> Path:
    """Where a sweep of a scenario by that name belongs."""
    return root / f"{scenario}-{design.hash}"


class Kept:
    """The runs that are kept in the folder of one sweep."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def begin(self, design: Design, scenario: str) -> None:
        """Make the folder and note in it what is swept; raises ``UserError``."""
        document = {
            "scenario": scenario,
            "settings": list(design.settings),
            "points": [list(design.changes(point)) for point in range(len(design.points))],
        }
        self._write(self.folder / DESIGN, document)

    def read(self, point: int, task: Task) -> Measured | None:
        """What a run has come to; None when it is missing, damaged, or not of this task."""
        try:
            found = json.loads(self._place(point, task).read_text(encoding="utf-8"))
            checksum = found.pop(CHECKSUM)
            if checksum != _checksum(found):
                return None
            if {key: found[key] for key in _identity(task)} != _identity(task):
                return None
            return Measured(found["digest"], found["figures"], tuple(found["warnings"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None

    def has_other(self, point: int, task: Task) -> bool:
        """Whether there is a file for the run: damaged, of another podsim or another scenario."""
        return self._place(point, task).exists()

    def write(self, point: int, task: Task, measured: Measured) -> None:
        """Keep a run as a whole or not at all; raises ``UserError`` when the disk refuses."""
        document = {**_identity(task), **asdict(measured)}
        self._write(self._place(point, task), {**document, CHECKSUM: _checksum(document)})

    def _place(self, point: int, task: Task) -> Path:
        folder = self.folder / "runs" / f"point-{point:05}" / (task.variant or NO_VARIANT)
        return folder / f"seed-{task.seed}.json"

    def _write(self, place: Path, document: Mapping[str, Any]) -> None:
        text = json.dumps(document, indent=1, allow_nan=False)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            write_whole(place, f"{text}\n".encode())
        except OSError as error:
            raise UserError(
                f"cannot keep a finished run in {self.folder}: {error.strerror or error}"
            ) from error


def _identity(task: Task) -> dict[str, Any]:
    """What must be the same for a kept run to stand for a new one."""
    return {
        "form": FORM,
        "podsim": task.podsim,
        "variant_hash": task.variant_hash,
        "variant": task.variant,
        "seed": task.seed,
    }


def _checksum(document: Mapping[str, Any]) -> str:
    """Of all that is kept of a run: a file that has changed since may still be JSON."""
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
