"""A run is a pure function of a scenario and a seed: build, run, check, summarise."""

import gc
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.cluster.cluster import Cluster
from sim.cluster.wiring import foreign_families
from sim.core.blame import suspects
from sim.core.errors import InvariantError, PackageError
from sim.core.ports import PodObserver
from sim.execution.workers import run_all
from sim.invariants import check_all, check_cheap
from sim.results import arrow
from sim.results.comparison import compare_variants
from sim.results.freeze import freeze
from sim.results.result import RunResult
from sim.results.store import Origin, write
from sim.scenario.load import ScenarioSet
from sim.scenario.schema import Scenario
from sim.timeline.excerpt import Excerpt, StepLog
from sim.timeline.timeline import Plan, Written, plans
from sim.timeline.timeline import timeline as drawn
from sim.timeline.timeline import write as write_timeline

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a set of runs has come, in simulated seconds over all of them, in flight or done.

    ``planned_s`` is None when not every run has a planned end.
    """

    runs_done: int
    runs_total: int
    simulated_s: float
    planned_s: float | None


@dataclass(frozen=True, repr=False)
class Runs:
    """The results of a scenario: every variant under every seed, variants in file order.

    ``timelines`` are those that were asked for, one for each run.
    """

    scenario: ScenarioSet
    runs: tuple[RunResult, ...]
    timelines: tuple[Written, ...] = ()

    def __repr__(self) -> str:
        """One line: a notebook shows it."""
        variants = len(dict.fromkeys(run.variant for run in self.runs))
        seeds = list(dict.fromkeys(str(run.seed) for run in self.runs))
        counted = f"{variants} variant" + ("s" if variants != 1 else "")
        named = " and ".join(filter(None, (", ".join(seeds[:-1]), seeds[-1])))
        return f"Runs({self.scenario.name}: {counted}, seed{'s' * (len(seeds) > 1)} {named})"

    @property
    def comparison(self) -> dict[str, Any]:
        """Means over seeds and 95 % t intervals, by metric and variant."""
        return compare_variants(self.runs)

    @property
    def requests(self) -> "pd.DataFrame":
        """The requests tables of all runs, one below the other."""
        return self._stacked("requests")

    @property
    def placements(self) -> "pd.DataFrame":
        """The placements tables of all runs, each row with its variant and seed."""
        return self._told_apart("placements")

    @property
    def pods(self) -> "pd.DataFrame":
        """The pods tables of all runs, each row with its variant and seed."""
        return self._told_apart("pods")

    @property
    def failed_attempts(self) -> "pd.DataFrame":
        """The failed_attempts tables of all runs, each row with its variant and seed."""
        return self._told_apart("failed_attempts")

    @property
    def retries(self) -> "pd.DataFrame":
        """The retries tables of all runs, each row with its variant and seed."""
        return self._told_apart("retries")

    @property
    def pools(self) -> "pd.DataFrame":
        """The pools tables of all runs, each row with its variant and seed."""
        return self._told_apart("pools")

    def _told_apart(self, table: str) -> "pd.DataFrame":
        frame = self._stacked(table)
        rows = [getattr(run.tables, table).num_rows for run in self.runs]
        frame.insert(0, "variant", np.repeat([run.variant for run in self.runs], rows))
        frame.insert(1, "seed", np.repeat([run.seed for run in self.runs], rows))
        return frame

    def _stacked(self, table: str) -> "pd.DataFrame":
        tables = [getattr(run.tables, table) for run in self.runs]
        return arrow.data_frame(arrow.concatenated(tables))


def run_set(
    scenarios: ScenarioSet,
    *,
    seeds: tuple[int, ...] | None = None,
    jobs: int = 1,
    check: bool = False,
    store: Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    keep_tables: bool = True,
    timeline: Path | None = None,
    excerpt: Excerpt | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Runs:
    """Simulate every variant under every seed; results and order do not depend on ``jobs``.

    A finished run is stored at once, so an interruption loses only the runs
    in flight. ``check`` verifies every invariant, not only the cheap ones, and
    with families of other packages that a second run comes to the same.
    Without ``keep_tables`` the results come back with empty tables.
    ``timeline`` is the file for the timeline of ``excerpt``, see
    ``sim.timeline.timeline``; it is refused before anything runs. ``provenance``
    is kept with every stored run.
    """
    tasks = [
        _Task(scenarios, index, seed, check, store, keep_tables, provenance)
        for index in range(len(scenarios.variants))
        for seed in (scenarios.seeds if seeds is None else seeds)
    ]
    if timeline is not None:
        planned = plans(timeline, excerpt, [(task.scenario, task.seed) for task in tasks])
        tasks = [replace(task, plan=plan) for task, plan in zip(tasks, planned)]
    workers = min(jobs, len(tasks))
    ended = _run_here(tasks, progress) if workers <= 1 else _run_apart(tasks, workers, progress)
    timelines = (run.timeline for run in ended if run.timeline is not None)
    return Runs(scenarios, tuple(run.result for run in ended), tuple(timelines))


def run_one(
    scenario: Scenario,
    seed: int,
    directory: Path = Path(),
    on_tick: Callable[[float], None] | None = None,
    observer: PodObserver | None = None,
) -> RunResult:
    """Simulate one variant under one seed.

    ``directory`` is where the file names of the scenario start; ``on_tick``
    hears the simulated time now and then, ``observer`` every step of the pods.
    """
    with without_collector():
        cluster = Cluster(scenario, seed, directory, observer)
        facts = cluster.run(on_tick)
        return freeze(cluster.recorder, facts)


@dataclass(frozen=True)
class _Ended:
    """What a run of a set has come to."""

    result: RunResult
    timeline: Written | None


@dataclass(frozen=True)
class _Task:
    """One run of a set, small enough to be sent to a worker process."""

    scenarios: ScenarioSet
    index: int
    seed: int
    check: bool
    store: Path | None
    keep_tables: bool
    provenance: Mapping[str, Any] | None
    plan: Plan | None = None

    @property
    def scenario(self) -> Scenario:
        return self.scenarios.variants[self.index]

    @property
    def origin(self) -> Origin:
        return Origin(
            scenario_hash=self.scenarios.scenario_hash,
            scenario=self.scenario.model_dump(mode="json", by_alias=True),
            variant_hash=self.scenarios.variant_hash(self.index),
            variants=self.scenarios.every_variant,
            settings=self.scenarios.settings,
            warnings=self.scenarios.warnings,
            provenance=self.provenance,
        )

    @property
    def horizon_s(self) -> float | None:
        window = self.scenario.window
        return None if window.measure is None else window.warmup + window.measure

    def run(self, on_tick: Callable[[float], None]) -> _Ended:
        log = None if self.plan is None else StepLog(self.plan.excerpt)
        result = run_one(self.scenario, self.seed, self.scenarios.directory, on_tick, log)
        violations = check_all(result) if self.check else check_cheap(result)
        named = (result.facts.scenario, result.variant, f"seed {result.seed}")
        where = " ".join(filter(None, named))
        if violations:
            told = "\n".join(f"{where}: {text}" for text in violations)
            raise InvariantError(told + suspects(foreign_families(self.scenario)))
        if self.check and (foreign := foreign_families(self.scenario)):
            again = run_one(self.scenario, self.seed, self.scenarios.directory)
            if again.digest != result.digest:
                raise PackageError(
                    f"{where}: a second run came to other results, so one of these is not "
                    "deterministic: draw from the streams of its context, and let no clock, set or "
                    f"hash() decide: {', '.join(map(str, foreign))}"
                )
        if self.store is not None:
            write(result, self.store, self.origin)
        written = None
        if self.plan is not None and log is not None:
            written = write_timeline(drawn(result, log), self.plan.path)
        return _Ended(result if self.keep_tables else _without_rows(result), written)


def _without_rows(result: RunResult) -> RunResult:
    return replace(result, tables=result.tables.emptied())


class _Tally:
    """Adds up how far each run of a set has come, and tells ``progress``."""

    def __init__(self, tasks: list[_Task], progress: Callable[[Progress], None] | None) -> None:
        self._ends_s = [task.horizon_s for task in tasks]
        planned_s = [end_s for end_s in self._ends_s if end_s is not None]
        self._planned_s = sum(planned_s) if len(planned_s) == len(tasks) else None
        self._now_s = [0.0] * len(tasks)
        self._done = 0
        self._progress = progress

    def tick(self, index: int, now_s: float) -> None:
        """The run with this index stands at ``now_s``; what drains after its end counts no more."""
        end_s = self._ends_s[index]
        self._now_s[index] = now_s if end_s is None else min(now_s, end_s)
        self._tell()

    def done(self, index: int, ended: _Ended) -> None:
        """The run with this index has ended."""
        end_s = self._ends_s[index]
        self._now_s[index] = ended.result.facts.end_s if end_s is None else end_s
        self._done += 1
        self._tell()

    def _tell(self) -> None:
        if self._progress is not None:
            total = len(self._now_s)
            self._progress(Progress(self._done, total, sum(self._now_s), self._planned_s))


def _run_here(tasks: list[_Task], progress: Callable[[Progress], None] | None) -> list[_Ended]:
    tally = _Tally(tasks, progress)
    results = []
    for index, task in enumerate(tasks):
        results.append(task.run(partial(tally.tick, index)))
        tally.done(index, results[index])
    return results


def _run_apart(
    tasks: list[_Task], workers: int, progress: Callable[[Progress], None] | None
) -> list[_Ended]:
    tally = _Tally(tasks, progress)
    return run_all([task.run for task in tasks], workers, tally.tick, tally.done)


@contextmanager
def without_collector() -> Iterator[None]:
    """No cyclic garbage collection: a run keeps nearly all it makes, and scanning it costs 9 %."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def available_jobs() -> int:
    """How many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
