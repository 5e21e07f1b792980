"""The runs of a sweep: making them somewhere, and storing their figures.

``<folder>/runs/point-<i>/<variant>/seed-<n>.json`` holds the figures of a run and
what they are of: the version of podsim, the hash of what was simulated.
"""

import hashlib
import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

from sim.core.errors import InvariantError, ScenarioError, UserError, WorkerError
from sim.execution.parallel import Executor, Tick, no_tick
from sim.execution.runner import planned_s, run_set
from sim.results.metrics import flatten
from sim.results.stored import NO_VARIANT
from sim.results.unfinished import write_whole
from sim.scenario.hashing import content_hash
from sim.scenario.load import ScenarioSet
from sim.sweep.design import Design

DEFAULT_STORE: Final = Path("results", "sweeps")
TABLE: Final = "table.parquet"
DESIGN: Final = "design.json"
FORM: Final = 1
CHECKSUM: Final = "checksum"


@dataclass(frozen=True)
class Task:
    """A run to be made: ``scenarios`` holds one variant, ``podsim`` is the version that sends it.

    Small enough to be sent to another machine.
    """

    scenarios: ScenarioSet
    seed: int
    podsim: str

    @property
    def variant(self) -> str:
        """Its name; empty for a scenario without variants."""
        return self.scenarios.variants[0].variant

    @property
    def variant_hash(self) -> str:
        """Stands for what is simulated, the seed aside."""
        return self.scenarios.variant_hash(0)

    @property
    def planned_s(self) -> float | None:
        """Seconds to be simulated; None for a run to the end of its workload."""
        return planned_s(self.scenarios.variants[0])

    def measure(self, _: Tick = no_tick) -> "Measured":
        """Make the run, wherever this is.

        Raises ``UserError`` where podsim or the files of the scenario are not
        those of the sender, and ``InvariantError`` for a bug.
        """
        check_machine(self)
        (run,) = run_set(self.scenarios, seeds=(self.seed,), keep_tables=False).runs
        return Measured(run.digest, dict(flatten(run.summary)), run.warnings)


@dataclass(frozen=True)
class Measured:
    """What a run has come to: every figure by its key, null is None."""

    digest: str
    figures: Mapping[str, float | None]
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class Failed:
    """Why there is no result, after so many tries; ``is_bug`` when a run broke its own rules."""

    reason: str
    tries: int
    is_bug: bool = False


Outcome = Measured | Failed


def check_machine(task: Task) -> None:
    """Raise ``UserError`` unless this process would simulate what the sender means."""
    here, machine = version("podsim"), f"worker on {os.uname().nodename}"
    if here != task.podsim:
        raise UserError(
            f"{machine} has podsim {here}, the sweep podsim {task.podsim}; install the same"
        )
    for name, expected in task.scenarios.file_hashes.items():
        path = task.scenarios.directory / name
        try:
            found = content_hash(path)
        except ScenarioError:
            raise UserError(
                f"{machine} has no {path}: workers read the files of workloads themselves; put "
                "the scenario on a file system that all of them share"
            ) from None
        if found != expected:
            raise UserError(f"{machine}: {path} is not the file that the sweep began with")


def measure_all(
    tasks: Sequence[Task],
    executor: Executor,
    retries: int,
    on_end: Callable[[int, Outcome], None],
) -> None:
    """Make every run; ``on_end`` gets the index and the outcome of each as it ends, in any order.

    A run that fails is tried again after all others, ``retries`` times: a
    process may have been killed, a machine unfit. One that broke an invariant
    would do so again. Raises what ``on_end`` raises, and
    ``WorkerError`` when nothing is left that could make runs.
    """
    tries = [0] * len(tasks)

    def ended(index: int, outcome: Any) -> bool:
        tries[index] += 1
        if isinstance(outcome, BaseException):  # whatever a policy, or a cluster, may raise
            is_bug = isinstance(outcome, InvariantError)
            if not is_bug and tries[index] <= retries:
                return True
            outcome = Failed(_reason(outcome), tries[index], is_bug)
        on_end(index, outcome)
        return False

    executor.run([task.measure for task in tasks], ended)


def _reason(error: BaseException) -> str:
    """The failure in one line, a bug by its type."""
    words = " ".join(str(error).split())
    known = isinstance(error, UserError | WorkerError | InvariantError)
    return words if known else f"{type(error).__name__}: {words}".rstrip(": ")


class RunStore:
    """The finished runs of one sweep, each in a small file that is written as a whole."""

    def __init__(self, root: Path, scenario: str, design: Design) -> None:
        """Make the folder of the sweep and note in it what is swept; raises ``UserError``."""
        self.folder = root / f"{scenario}-{design.hash}"
        document = {
            "scenario": scenario,
            "settings": list(design.settings),
            "points": [list(design.changes(point)) for point in range(len(design.points))],
        }
        self._write(self.folder / DESIGN, document)

    def read(self, point: int, task: Task) -> Measured | None:
        """Return what a run has come to; None if it is missing, damaged, or not of this task."""
        try:
            found = json.loads(self.path(point, task).read_text(encoding="utf-8"))
            checksum = found.pop(CHECKSUM)
            if checksum != _checksum(found) or not _identity(task).items() <= found.items():
                return None
            return Measured(found["digest"], found["figures"], tuple(found["warnings"]))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
            return None

    def write(self, point: int, task: Task, measured: Measured) -> None:
        """Store a run as a whole or not at all; raises ``UserError`` when the disk refuses."""
        document = {**_identity(task), **asdict(measured)}
        self._write(self.path(point, task), {**document, CHECKSUM: _checksum(document)})

    def path(self, point: int, task: Task) -> Path:
        """Return where the file of a run is."""
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
    """What must be the same for a stored run to stand for a new one."""
    return {
        "form": FORM,
        "podsim": task.podsim,
        "variant_hash": task.variant_hash,
        "variant": task.variant,
        "seed": task.seed,
    }


def _checksum(document: Mapping[str, Any]) -> str:
    """Of all that is stored of a run: a file that has changed since may still be JSON."""
    text = json.dumps(document, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode("utf-8")).hexdigest()
