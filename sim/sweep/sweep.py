"""A sweep from its design to its table: what is planned, what is kept, what is still to be run."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from sim.execution.runner import Progress
from sim.results import arrow
from sim.scenario.load import ScenarioSet
from sim.sweep import table
from sim.sweep.design import Design
from sim.sweep.executor import Executor
from sim.sweep.kept import Kept, folder_of
from sim.sweep.points import Source, load_points
from sim.sweep.runs import Failed, Measured, Outcome, Task, measure_all

if TYPE_CHECKING:
    import pandas as pd

Opened = Callable[[Sequence[Task]], AbstractContextManager[Executor]]
"""Makes the executor for some tasks; it is not asked for when nothing is to be run."""


@dataclass(frozen=True)
class Plan:
    """What a sweep runs: ``scenarios`` by point, ``runs`` as (point, task) in design order."""

    name: str
    design: Design
    scenarios: tuple[ScenarioSet, ...]
    seeds: tuple[int, ...]
    runs: tuple[tuple[int, Task], ...]

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants; one empty name for a scenario without any."""
        return tuple(scenario.variant for scenario in self.scenarios[0].variants)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is doubtful about the scenario of any point, each once."""
        return tuple(dict.fromkeys(text for each in self.scenarios for text in each.warnings))


@dataclass(frozen=True, repr=False)
class Sweep:
    """A plan and what each of its runs has come to; ``folder`` is where they are kept."""

    plan: Plan
    outcomes: tuple[Outcome, ...]
    folder: Path

    def __repr__(self) -> str:
        """One line: a notebook shows it."""
        design, failed = self.plan.design, len(self.failed)
        lost = f", {failed} failed" if failed else ""
        return (
            f"Sweep({self.plan.name}: {', '.join(design.paths)}, {len(design.points)} points, "
            f"{len(self.outcomes)} runs{lost})"
        )

    @property
    def failed(self) -> tuple[tuple[int, Task, Failed], ...]:
        """The runs without a result: point, what was to be made, why."""
        return tuple(
            (point, task, outcome)
            for (point, task), outcome in zip(self.plan.runs, self.outcomes)
            if isinstance(outcome, Failed)
        )

    @cached_property
    def columns(self) -> arrow.Table:
        """The table as it is written; see ``sim.sweep.table``."""
        return table.build(self.plan.design, self.plan.scenarios, self.plan.runs, self.outcomes)

    @property
    def table(self) -> "pd.DataFrame":
        """The table for pandas, one row per run."""
        return arrow.data_frame(self.columns)


def plan(
    source: Source,
    design: Design,
    *,
    variants: Sequence[str] = (),
    seeds: Sequence[int] | None = None,
) -> Plan:
    """Load every point; raises ``ScenarioError`` with the faults of all of them at once."""
    scenarios = load_points(source, design, variants)
    podsim = version("podsim")
    chosen = tuple(scenarios[0].seeds if seeds is None else seeds)
    runs = tuple(
        (point, Task(loaded.variant([scenario.variant]), seed, podsim))
        for point, loaded in enumerate(scenarios)
        for scenario in loaded.variants
        for seed in chosen
    )
    return Plan(scenarios[0].name, design, scenarios, chosen, runs)


def carry_out(
    planned: Plan,
    root: Path,
    opened: Opened,
    *,
    retries: int = 1,
    note: Callable[[str], None] = lambda _: None,
    progress: Callable[[Progress], None] | None = None,
) -> Sweep:
    """Make the runs that are not kept below ``root`` yet, keep each at once, write no table.

    ``note`` hears what was kept before; ``progress`` how far the missing ones
    are. Raises ``UserError`` when a finished run cannot be kept.
    """
    kept = Kept(folder_of(root, planned.name, planned.design))
    kept.begin(planned.design, planned.name)
    outcomes: list[Outcome | None] = [kept.read(point, task) for point, task in planned.runs]
    missing = [at for at, outcome in enumerate(outcomes) if outcome is None]
    _tell_kept(planned, kept, missing, note)
    tasks = [planned.runs[at][1] for at in missing]
    tally = _Tally(tasks, progress)

    def ended(index: int, outcome: Outcome) -> None:
        at = missing[index]
        outcomes[at] = outcome
        if isinstance(outcome, Measured):
            kept.write(*planned.runs[at], outcome)
        tally.done(index)

    if tasks:
        with opened(tasks) as executor:
            tally.tell()
            measure_all(tasks, executor, retries, ended)
    return Sweep(planned, tuple(one for one in outcomes if one is not None), kept.folder)


def _tell_kept(
    planned: Plan, kept: Kept, missing: Sequence[int], note: Callable[[str], None]
) -> None:
    found = len(planned.runs) - len(missing)
    if found:
        note(f"{found} of {len(planned.runs)} runs are kept in {kept.folder} from before")
    others = sum(kept.has_other(*planned.runs[at]) for at in missing)
    if others:
        note(
            f"{others} kept runs are of another podsim or another form of the scenario, or "
            "damaged; they are made anew"
        )


class _Tally:
    """Counts runs that have ended, and the simulated time that was planned for them."""

    def __init__(self, tasks: Sequence[Task], progress: Callable[[Progress], None] | None) -> None:
        self._planned_s = [task.planned_s for task in tasks]
        self._done = 0
        self._simulated_s = 0.0
        self._progress = progress

    def done(self, index: int) -> None:
        self._done += 1
        self._simulated_s += self._planned_s[index] or 0.0
        self.tell()

    def tell(self) -> None:
        if self._progress is not None:
            known = [planned_s for planned_s in self._planned_s if planned_s is not None]
            total_s = sum(known) if len(known) == len(self._planned_s) else None
            total = len(self._planned_s)
            self._progress(Progress(self._done, total, self._simulated_s, total_s))
