"""A run is a pure function of a scenario and a seed: build, run, check, summarise."""

import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sim.cluster.cluster import Cluster
from sim.cluster.wiring import foreign_families
from sim.core.blame import suspects
from sim.core.errors import InvariantError, PackageError
from sim.core.ports import PodObserver
from sim.core.recorder import Recorder
from sim.execution.parallel import run_all
from sim.invariants import check_all, check_cheap
from sim.results import arrow
from sim.results.comparison import compare_variants
from sim.results.freeze import freeze
from sim.results.result import RunResult
from sim.results.sent import Sent
from sim.results.store import Origin, made, put, scenario_folder, scratch, write_folder
from sim.results.stored import run_path
from sim.scenario.load import ScenarioSet
from sim.scenario.schema import Scenario
from sim.timeline.excerpt import Excerpt, StepLog
from sim.timeline.timeline import Plan, Timeline, Written, plans
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


OnProgress = Callable[[Progress], None]


def _table_of_all(table: str) -> property:
    def stacked(runs: "Runs") -> "pd.DataFrame":
        frame = runs._stacked(table)
        rows = [getattr(run.tables, table).num_rows for run in runs.runs]
        frame.insert(0, "variant", np.repeat([run.variant for run in runs.runs], rows))
        frame.insert(1, "seed", np.repeat([run.seed for run in runs.runs], rows))
        return frame

    stacked.__doc__ = f"The {table} tables of all runs, each row with its variant and seed."
    return property(stacked)


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

    placements = _table_of_all("placements")
    pods = _table_of_all("pods")
    failed_attempts = _table_of_all("failed_attempts")
    retries = _table_of_all("retries")
    pools = _table_of_all("pools")

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
    progress: OnProgress | None = None,
    keep_tables: bool = True,
    timeline: Path | None = None,
    excerpt: Excerpt | None = None,
    provenance: Mapping[str, Any] | None = None,
) -> Runs:
    """Simulate every variant under every seed; results and order do not depend on ``jobs``.

    A finished run is stored at once, so an interruption loses only the runs
    in flight; a run whose process was killed is made once more. ``check`` verifies every
    invariant, not only the cheap ones, and with families of other packages that a second run comes
    to the same. Without ``keep_tables`` the results come back with empty tables.
    ``timeline`` is the file for the timeline of ``excerpt``, see
    ``sim.timeline.timeline``; it is refused before anything runs. ``provenance``
    is stored with every run.
    """
    chosen = scenarios.seeds if seeds is None else seeds
    with ExitStack() as stack:
        room = None
        if store is not None:
            place = scenario_folder(store, scenarios.name, scenarios.scenario_hash)
            stack.enter_context(made(place))
            room = stack.enter_context(scratch(place))
        tasks = [
            RunTask(scenarios, index, seed, check, store, room, keep_tables, provenance)
            for index in range(len(scenarios.variants))
            for seed in chosen
        ]
        if timeline is not None:
            planned = plans(timeline, excerpt, [(task.scenario, task.seed) for task in tasks])
            tasks = [replace(task, plan=plan) for task, plan in zip(tasks, planned)]
        return _run_tasks(scenarios, tasks, jobs, progress)


def _run_tasks(
    scenarios: ScenarioSet, tasks: Sequence["RunTask"], jobs: int, progress: OnProgress | None
) -> Runs:
    tally = Tally([task.planned_s for task in tasks], progress)
    timelines: dict[int, Written] = {}

    def on_done(index: int, ended: _Ended) -> None:
        task = tasks[index]
        if ended.finished is not None:
            put(ended.finished, task.target)
        if ended.timeline is not None and task.plan is not None:
            timelines[index] = write_timeline(ended.timeline, task.plan.path)
        tally.end(index, ended.result.facts.end_s)

    ended = run_all([task.run for task in tasks], jobs, on_done, tally.tick)
    results = tuple(each.result for each in ended)
    return Runs(scenarios, results, tuple(timelines[index] for index in sorted(timelines)))


def run_one(
    scenario: Scenario,
    seed: int,
    directory: Path = Path(),
    on_tick: Callable[[float], None] | None = None,
    observer: PodObserver | None = None,
    recorder: Recorder | None = None,
) -> RunResult:
    """Simulate one variant under one seed.

    ``directory`` is where the file names of the scenario start; ``on_tick``
    hears the simulated time now and then, ``observer`` every step of the pods;
    ``recorder`` collects what happens.
    """
    with without_collector():
        cluster = Cluster(scenario, seed, directory, observer, recorder)
        facts = cluster.run(on_tick)
        return freeze(cluster.recorder, facts)


@dataclass(frozen=True)
class _Ended:
    """What a run of a set has come to; ``finished`` is the folder that it is stored in so far."""

    result: RunResult
    timeline: Timeline | None
    finished: Path | None


@dataclass(frozen=True)
class RunTask:
    """One run of a set, small enough to be sent to a worker process.

    The process only writes into ``room``, if the run is to be stored: it may be killed.
    """

    scenarios: ScenarioSet
    index: int
    seed: int
    check: bool
    store: Path | None
    room: Path | None
    keep_tables: bool
    provenance: Mapping[str, Any] | None
    plan: Plan | None = None

    @property
    def scenario(self) -> Scenario:
        """The variant that is run."""
        return self.scenarios.variants[self.index]

    @property
    def target(self) -> Path:
        """Where the run is stored in the end."""
        name, hashed = self.scenarios.name, self.scenarios.scenario_hash
        return Path(self.store or "", run_path(name, hashed, self.scenario.variant, self.seed))

    @property
    def planned_s(self) -> float | None:
        """Seconds to be simulated; None for a run to the end of its workload."""
        return planned_s(self.scenario)

    def run(self, on_tick: Callable[[float], None]) -> _Ended:
        """Simulate, check, write."""
        log = None if self.plan is None else StepLog(self.plan.excerpt)
        recorder = Recorder()
        result = run_one(self.scenario, self.seed, self.scenarios.directory, on_tick, log, recorder)
        self._verify(result)
        finished = timeline = None
        if self.room is not None:
            sent = Sent.of(recorder.requests)
            finished = write_folder(result, self.room, self.target, self._origin(), sent)
        if self.plan is not None and log is not None:
            timeline = drawn(result, log)
        if not self.keep_tables:
            result = replace(result, tables=result.tables.emptied())
        return _Ended(result, timeline, finished)

    def _verify(self, result: RunResult) -> None:
        """Raise ``InvariantError`` for a broken rule, ``PackageError`` for a run that differs."""
        foreign = foreign_families(self.scenario)
        named = (result.facts.scenario, result.variant, f"seed {result.seed}")
        where = " ".join(filter(None, named))
        if violations := check_all(result) if self.check else check_cheap(result):
            lines = "\n".join(f"{where}: {text}" for text in violations)
            raise InvariantError(lines + suspects(foreign))
        if self.check and foreign:
            again = run_one(self.scenario, self.seed, self.scenarios.directory)
            if again.digest != result.digest:
                raise PackageError(
                    f"{where}: a second run came to other results, so one of these is not "
                    "deterministic: draw from the streams of its context, and let no clock, set or "
                    f"hash() decide: {', '.join(map(str, foreign))}"
                )

    def _origin(self) -> Origin:
        return Origin(
            scenario_hash=self.scenarios.scenario_hash,
            scenario=self.scenario.model_dump(mode="json", by_alias=True),
            variant_hash=self.scenarios.variant_hash(self.index),
            variants=self.scenarios.every_variant,
            settings=self.scenarios.settings,
            warnings=self.scenarios.warnings,
            provenance=self.provenance,
        )


def planned_s(scenario: Scenario) -> float | None:
    """Seconds to be simulated; None for a run to the end of its workload."""
    window = scenario.window
    return None if window.measure is None else window.warmup + window.measure


class Tally:
    """Adds up how far each of some runs has come, and reports it."""

    def __init__(self, ends_s: Sequence[float | None], progress: OnProgress | None) -> None:
        self._ends_s = ends_s
        planned = [end_s for end_s in ends_s if end_s is not None]
        self._planned_s = sum(planned) if len(planned) == len(ends_s) else None
        self._now_s = [0.0] * len(ends_s)
        self._done = 0
        self._progress = progress

    def tick(self, index: int, now_s: float) -> None:
        """Note that the run with this index is at ``now_s``; draining after its end is left out."""
        end_s = self._ends_s[index]
        self._now_s[index] = now_s if end_s is None else min(now_s, end_s)
        self.report()

    def end(self, index: int, end_s: float) -> None:
        """Note that the run with this index has ended, at ``end_s`` if that was not planned."""
        planned_s = self._ends_s[index]
        self._now_s[index] = end_s if planned_s is None else planned_s
        self._done += 1
        self.report()

    def report(self) -> None:
        """Report how far all of them are."""
        if self._progress is not None:
            total = len(self._now_s)
            self._progress(Progress(self._done, total, sum(self._now_s), self._planned_s))


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
