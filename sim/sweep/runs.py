"""One run of a sweep, somewhere; and many of them, each tried again when it fails."""

import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from sim.core.errors import InvariantError, ScenarioError, UserError, WorkerError
from sim.results.metrics import flatten
from sim.scenario.load import ScenarioSet
from sim.sweep.executor import Ended, Executor

QUEUED_PER_SLOT: Final = 2
"""Calls handed over for each that can be worked on, so that nobody waits for the next one."""


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
        window = self.scenarios.variants[0].window
        return None if window.measure is None else window.warmup + window.measure

    def measure(self) -> "Measured":
        """Make the run, wherever this is.

        Raises ``UserError`` where podsim or the files of the scenario are not
        those of the sender, and ``InvariantError`` for a bug.
        """
        from sim.execution.runner import run_set

        check_place(self)
        made = run_set(self.scenarios, seeds=(self.seed,), keep_tables=False)
        (run,) = made.runs
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


def check_place(task: Task) -> None:
    """Raises ``UserError`` unless this process would simulate what the sender means."""
    from importlib.metadata import version

    from sim.scenario.hashing import content_hash

    here = version("podsim")
    if here != task.podsim:
        raise UserError(
            f"{_machine()} has podsim {here}, the sweep podsim {task.podsim}; install the same"
        )
    for name, expected in task.scenarios.file_hashes.items():
        path = task.scenarios.directory / name
        try:
            found = content_hash(path)
        except ScenarioError:
            raise UserError(
                f"{_machine()} has no {path}: workers read the files of workloads themselves; put "
                "the scenario on a file system that all of them share"
            ) from None
        if found != expected:
            raise UserError(f"{_machine()}: {path} is not the file that the sweep began with")


def measure_all(
    tasks: Sequence[Task],
    executor: Executor,
    retries: int,
    on_end: Callable[[int, Outcome], None],
) -> None:
    """Make every run; ``on_end`` hears the index and the outcome of each as it ends, in any order.

    A run that fails is tried again after all others, ``retries`` times: a
    process may have been killed, a machine unfit. One that broke an invariant
    would do so again. Raises what ``on_end`` raises, and
    ``WorkerError`` when nobody is left to work.
    """
    waiting = deque((index, 1) for index in range(len(tasks)))
    running: dict[int, int] = {}
    while waiting or running:
        while waiting and len(running) < QUEUED_PER_SLOT * executor.slots:
            index, tries = waiting.popleft()
            running[index] = tries
            executor.submit(index, tasks[index].measure)
        ended = executor.next_end()
        tries = running.pop(ended.key)
        outcome = _outcome(ended, tries)
        if isinstance(outcome, Failed) and not outcome.is_bug and tries <= retries:
            waiting.append((ended.key, tries + 1))
        else:
            on_end(ended.key, outcome)


def _outcome(ended: Ended, tries: int) -> Outcome:
    if ended.error is not None:  # whatever a third-party policy, or a cluster, may raise
        return Failed(_told(ended.error), tries, isinstance(ended.error, InvariantError))
    measured: Measured = ended.result
    return measured


def _told(error: Exception) -> str:
    """The failure in one line, a bug by its type."""
    words = " ".join(str(error).split())
    known = isinstance(error, UserError | WorkerError | InvariantError)
    return words if known else f"{type(error).__name__}: {words}".rstrip(": ")


def _machine() -> str:
    return f"worker on {os.uname().nodename}"
