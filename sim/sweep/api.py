"""Sweeps and searches from scripts and notebooks."""

import json
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from operator import index
from pathlib import Path
from typing import Any, TypeAlias

from sim.core.errors import UserError
from sim.sweep import axes, table
from sim.sweep.answer import Answer
from sim.sweep.axes import Axis
from sim.sweep.design import design
from sim.sweep.finding import DEFAULT_MAX_SEEDS, ladder
from sim.sweep.finding import find as search
from sim.sweep.kept import DEFAULT_STORE, TABLE
from sim.sweep.places import opener_for_scripts
from sim.sweep.points import Source
from sim.sweep.sweep import Sweep, carry_out, plan
from sim.sweep.target import parse

Values: TypeAlias = str | Iterable[Any]
Axes: TypeAlias = Mapping[str, Values]


def run(
    scenario: Source,
    *,
    grid: Axes | None = None,
    log: Mapping[str, str] | None = None,
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
) -> Sweep:
    """Simulate a scenario at every point of a design; the DataFrame is ``.table`` of the result.

    An axis is a path and its values: a text as on the command line
    (``grid={"backends.qwen.replicas": "4..16..2"}``) or a list (``[4, 8, 16]``,
    items being whatever the scenario may have there). ``seeds`` are those of the
    scenario when missing. Runs that an earlier call kept below ``store`` are not
    made again; the table is written there, too, and ``.failed`` says which runs
    have no result. With ``jobs`` above 1 the runs go to worker processes, so a
    script needs the usual ``if __name__ == "__main__"``; with ``executor="dask"``
    to the cluster at ``address``, without one to a cluster here, of as many
    processes as cores unless ``jobs`` is above 1.

    Raises ``ScenarioError`` with every fault of every point before anything
    runs, and ``UserError`` for arguments that cannot be meant.
    """
    fixed = [_maker("--grid", axes.grid, *axis) for axis in (grid or {}).items()]
    fixed += [_maker("--log", axes.log, *axis) for axis in (log or {}).items()]
    draw = partial(axes.random, points=points, seed=sweep_seed)
    drawn = [_drawn(draw, *axis) for axis in (random or {}).items()]
    if bool(drawn) != (points > 0):
        raise UserError("random axes need points, the number of points to draw, and the reverse")
    made = design(fixed, drawn, tuple(settings))
    opened = opener_for_scripts(executor, jobs, address)
    chosen = None if seeds is None else tuple(seeds)
    planned = plan(scenario, made, variants=tuple(variants), seeds=chosen)
    found = carry_out(planned, Path(store), opened, retries=retries)
    table.write(found.columns, found.folder / TABLE)
    return found


def find(
    scenario: Source,
    vary: str,
    target: str | Iterable[str],
    *,
    tolerance: str | None = None,
    variants: Iterable[str] = (),
    seeds: Iterable[int] | None = None,
    max_seeds: int = DEFAULT_MAX_SEEDS,
    settings: Iterable[str] = (),
    jobs: int = 1,
    executor: str = "processes",
    address: str | None = None,
    retries: int = 1,
    store: str | Path = DEFAULT_STORE,
) -> tuple[Answer, ...]:
    """Bisect one parameter for a target, as ``podsim find``: one answer for each variant.

    ``vary`` is ``"backends.qwen.replicas=1..32"`` or ``"...=2,4,8"``, ``target``
    ``"ttft_s.p95 <= 2.5"`` or several of them, which are to hold together. Values of
    an answer are numbers, in its ``unit``. ``jobs``, ``executor``, ``address`` and
    ``store`` are as in ``run``.
    Raises ``ScenarioError`` and ``UserError`` for what cannot be meant.
    """
    return search(
        scenario,
        ladder(vary, tolerance),
        [parse(each) for each in ([target] if isinstance(target, str) else target)],
        opener_for_scripts(executor, jobs, address),
        variants=tuple(variants),
        seeds=None if seeds is None else tuple(seeds),
        max_seeds=max_seeds,
        settings=tuple(settings),
        retries=retries,
        root=Path(store),
    )


def _maker(
    option: str, read: Callable[[str], Axis], path: str, values: Values
) -> Callable[[], Axis]:
    if isinstance(values, str):
        return partial(read, f"{path}={values}")
    return partial(axes.values, option, path, _items(path, values))


def _drawn(read: Callable[[str], Axis], path: str, values: Values) -> Callable[[], Axis]:
    written = values if isinstance(values, str) else ",".join(_items(path, values))
    return partial(read, f"{path}={written}")


def _items(path: str, values: Iterable[Any]) -> tuple[str, ...]:
    """Values as ``--set`` takes them: text as it stands, anything else as JSON, which is YAML."""
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        raise UserError(
            f"{path}: must be a text such as '4..16..2' or a list such as [4, 8]; got {values!r}"
        )
    return tuple(
        value if isinstance(value, str) else json.dumps(value, default=index) for value in values
    )
