"""A sweep: its points as checked scenarios, what is stored of it, what is still to be run."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.core import registry
from sim.core.errors import Fault, ScenarioError, UserError
from sim.core.textfile import read_text
from sim.execution.runner import OnProgress, Tally
from sim.results import arrow
from sim.scenario.inputs import Inputs
from sim.scenario.load import ScenarioSet, load_dict, load_text
from sim.sweep import table
from sim.sweep.design import Design, Written, design
from sim.sweep.executors import ExecutorFactory, factory_for_scripts
from sim.sweep.runs import (
    DEFAULT_STORE,
    TABLE,
    Failed,
    Measured,
    Outcome,
    RunStore,
    Task,
    measure_all,
)

if TYPE_CHECKING:
    import pandas as pd

Source = str | Path | Mapping[str, Any]
"""A scenario file, or the mapping that it would hold."""
Values = str | Iterable[Any]
Axes = Mapping[str, Values] | Sequence[str]
"""Paths and their values, or texts as on the command line, ``path=values``."""


def run(
    scenario: Source,
    *,
    grid: Axes | None = None,
    log: Axes | None = None,
    random: Axes | None = None,
    points: int = 0,
    sweep_seed: int = 1,
    variants: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    settings: Iterable[str] = (),
    jobs: int = 1,
    executor: str = "processes",
    address: str | None = None,
    retries: int = 1,
    store: str | Path = DEFAULT_STORE,
    table_file: Path | None = None,
    opened: ExecutorFactory | None = None,
    on_message: Callable[[str], None] = lambda _: None,
    progress: OnProgress | None = None,
) -> "Sweep":
    """Simulate a scenario at every point of a design; the DataFrame is ``.table`` of the result.

    An axis is a path and its values: a text as on the command line
    (``grid={"backends.qwen.replicas": "4..16..2"}``) or a list (``[4, 8, 16]``,
    items being whatever the scenario may have there). ``seeds`` are those of the
    scenario when missing. Runs that an earlier call stored below ``store`` are not
    made again; the table is written there, too, and ``.failed`` says which runs
    have no result. With ``jobs`` above 1 the runs go to worker processes, so a
    script needs the usual ``if __name__ == "__main__"``; with ``executor="dask"``
    to the cluster at ``address``, without one to a cluster here, of as many
    processes as cores unless ``jobs`` is above 1. ``opened`` is an executor of one's own;
    ``on_message`` gets warnings and what was stored before.

    Raises ``ScenarioError`` with every fault of every point before anything
    runs, and ``UserError`` for arguments that cannot be meant.
    """
    if bool(random) != (points > 0):
        raise UserError("random axes need points, the number of points to draw, and the reverse")
    made = design(
        grid=_written(grid or {}),
        log=_written(log or {}),
        random=[
            each if isinstance(each, str) else f"{each[0]}={','.join(each[1])}"
            for each in _written(random or {})
        ],
        points=points,
        seed=sweep_seed,
        settings=tuple(settings),
    )
    opened = opened or factory_for_scripts(executor, jobs, address)
    chosen = None if seeds is None else tuple(seeds)
    planned = plan(scenario, made, variants=tuple(variants), seeds=chosen)
    for warning in planned.warnings:
        on_message(f"warning: {warning}")
    found = run_sweep(
        planned, Path(store), opened, retries=retries, on_message=on_message, progress=progress
    )
    table.write(found.columns, table_file or found.folder / TABLE)
    return found


def _written(axes: Axes) -> list[Written]:
    if not isinstance(axes, Mapping):
        return list(axes)
    return [
        f"{path}={values}" if isinstance(values, str) else (path, _items(path, values))
        for path, values in axes.items()
    ]


def _items(path: str, values: Iterable[Any]) -> tuple[str, ...]:
    """Values as ``--set`` takes them: text as it stands, anything else as JSON, which is YAML."""
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise UserError(
            f"{path}: must be a text such as '4..16..2' or a list such as [4, 8]; got {values!r}"
        )
    return tuple(
        value if isinstance(value, str) else json.dumps(value, default=index) for value in values
    )


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
    """A plan and what each of its runs has come to; ``folder`` is where they are stored."""

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


def run_sweep(
    planned: Plan,
    root: Path,
    opened: ExecutorFactory,
    *,
    retries: int = 1,
    on_message: Callable[[str], None] = lambda _: None,
    progress: OnProgress | None = None,
) -> Sweep:
    """Make the runs that are not stored below ``root`` yet, store each at once, write no table.

    ``on_message`` gets what was stored before; ``progress`` how far the missing ones
    are. Raises ``UserError`` when a finished run cannot be stored.
    """
    store = RunStore(root, planned.name, planned.design)
    outcomes: list[Outcome | None] = [store.read(point, task) for point, task in planned.runs]
    missing = [at for at, outcome in enumerate(outcomes) if outcome is None]
    _report_stored(planned, store, missing, on_message)
    tasks = [planned.runs[at][1] for at in missing]
    tally = Tally([task.planned_s for task in tasks], progress)

    def on_end(index: int, outcome: Outcome) -> None:
        at = missing[index]
        outcomes[at] = outcome
        if isinstance(outcome, Measured):
            store.write(*planned.runs[at], outcome)
        tally.end(index, 0.0)

    if tasks:
        with opened(tasks) as executor:
            tally.report()
            measure_all(tasks, executor, retries, on_end)
    return Sweep(planned, tuple(one for one in outcomes if one is not None), store.folder)


def _report_stored(
    planned: Plan, store: RunStore, missing: Sequence[int], on_message: Callable[[str], None]
) -> None:
    found = len(planned.runs) - len(missing)
    if found:
        on_message(f"{found} of {len(planned.runs)} runs are kept in {store.folder} from before")
    others = sum(store.path(*planned.runs[at]).exists() for at in missing)
    if others:
        on_message(
            f"{others} kept runs are of another podsim or another form of the scenario, or "
            "damaged; they are made anew"
        )


class Loader:
    """Loads a scenario again and again with other settings; what it needs is read once.

    Raises ``ScenarioError`` when the file cannot be read.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._text = "" if isinstance(source, Mapping) else read_text(Path(source))
        self._directory = Path() if isinstance(source, Mapping) else Path(source).parent
        self._inputs = Inputs(self._directory)
        self._registry = registry.load()  # looks through everything that is installed

    def load(self, settings: Sequence[str], variants: Sequence[str]) -> ScenarioSet:
        """The scenario with ``settings``; raises ``ScenarioError`` with every fault at once."""
        inputs = self._inputs
        if isinstance(self._source, Mapping):
            found = load_dict(
                self._source, settings, registry=self._registry, variants=variants, inputs=inputs
            )
        else:
            source, directory = str(self._source), self._directory
            found = load_text(
                self._text, source, settings, directory, self._registry, variants, inputs
            )
        # A worker has a working directory of its own.
        return replace(found, directory=self._directory.resolve())


def load_points(
    source: Source, design: Design, variants: Sequence[str] = ()
) -> tuple[ScenarioSet, ...]:
    """One checked scenario for each point, in the order of the design.

    Raises ``ScenarioError`` with the faults of all points, each once, and for
    two writings of one value, and ``UserError`` for a variant that is not there.
    """
    loader = Loader(source)
    found: list[ScenarioSet] = []
    hashes: list[str | None] = []
    faults: dict[Fault, list[int]] = {}
    for point in range(len(design.points)):
        try:
            found.append(loader.load((*design.settings, *design.changes(point)), variants))
            hashes.append(found[-1].scenario_hash)
        except ScenarioError as error:
            hashes.append(None)
            for fault in dict.fromkeys(error.faults):
                faults.setdefault(_of_axis(fault, design, point), []).append(point)
    merged = [_at_points(fault, points, design) for fault, points in _of_whole_axes(faults, design)]
    merged += _written_twice(design, hashes)
    for option, path in zip(design.options, design.paths):
        merged += of_one_variant(option, path, found[:1])
    if merged:
        raise ScenarioError(merged)
    return tuple(found)


def of_one_variant(option: str, path: str, loaded: Sequence[ScenarioSet]) -> list[Fault]:
    """What is wrong where ``variants.NAME.path`` is swept and other variants are run as well."""
    if not path.startswith("variants.") or all(len(each.variants) == 1 for each in loaded):
        return []
    message = "the other variants would be run again for each value; give --variant NAME as well"
    return [Fault(option, 0, 0, path, message)]


def _written_twice(design: Design, hashes: Sequence[str | None]) -> list[Fault]:
    """The values of an axis that are one value, such as 60s and 1m: each would be run again.

    Only the scenarios can tell, since it is for their fields to say what a
    text means: two values are one when, all else being equal, the scenarios
    are. ``hashes`` are those of the points, None of faulty ones. Random points
    are draws and may be alike.
    """
    faults = []
    for at, (option, path) in enumerate(zip(design.options, design.paths)):
        if option == "--random":
            continue
        meaning: dict[str, list[str | None]] = {}
        for values, found in zip(design.points, hashes):
            # The other axes go through their values in one order, whichever this one has.
            meaning.setdefault(values[at], []).append(found)
        alike: dict[tuple[str | None, ...], list[str]] = {}
        for value, scenarios in meaning.items():
            if any(scenarios):
                alike.setdefault(tuple(scenarios), []).append(value)
        for same in alike.values():
            if len(same) > 1:
                named = f"{', '.join(same[:-1])} and {same[-1]}"
                faults.append(
                    Fault(option, 0, 0, path, f"{named} are the same value; give only one")
                )
    return faults


def _of_axis(fault: Fault, design: Design, point: int) -> Fault:
    """The fault of a swept value says which option it came from."""
    for option, change in zip(design.options, design.changes(point)):
        if fault.source == f"--set {change}":
            return fault._replace(source=f"{option} {change}")
    return fault


def _of_whole_axes(
    faults: Mapping[Fault, list[int]], design: Design
) -> Iterator[tuple[Fault, list[int]]]:
    """Faults and their points; what every value of an axis has alike is a fault of the axis."""
    alike: dict[tuple[str, str], dict[Fault, list[int]]] = {}
    for fault, points in faults.items():
        alike.setdefault((fault.path, fault.message), {})[fault] = points
    for same in alike.values():
        first, sources = next(iter(same)), {fault.source for fault in same}
        for option, path, values in zip(design.options, design.paths, zip(*design.points)):
            if len(sources) > 1 and sources == {f"{option} {path}={value}" for value in values}:
                same = {first._replace(source=option): list(range(len(design.points)))}
        yield from same.items()


def _at_points(fault: Fault, points: Sequence[int], design: Design) -> Fault:
    """What only some of the points have that might, says at which it was found."""
    count = len(design.points)
    might = [point for point in range(count) if _stems_from(fault, design, point)] or range(count)
    if len(points) == len(might):
        return fault
    first = ", ".join(design.changes(points[0]))
    more = f" and {len(points) - 1} more" if len(points) > 1 else ""
    return fault._replace(message=f"{fault.message} (at {first}{more})")


def _stems_from(fault: Fault, design: Design, point: int) -> bool:
    """Whether a point has the swept value that the fault is about."""
    changes = zip(design.options, design.changes(point))
    return any(fault.source == f"{option} {change}" for option, change in changes)
