"""A design: the points of a sweep in order, every axis with every other."""

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Final

from sim.core.errors import Fault, ScenarioError
from sim.sweep import axes
from sim.sweep.axes import MAX_POINTS, Axis

HASH_DIGITS: Final = 8


@dataclass(frozen=True)
class Design:
    """``points[i]`` are the values of point i, one for each of ``paths``; ``options`` are
    what said so, such as ``--grid``.

    ``settings`` are of every point.
    """

    paths: tuple[str, ...]
    options: tuple[str, ...]
    points: tuple[tuple[str, ...], ...]
    settings: tuple[str, ...] = ()

    def changes(self, point: int) -> tuple[str, ...]:
        """What ``--set`` would be given for a point, beside ``settings``."""
        return tuple(f"{path}={value}" for path, value in zip(self.paths, self.points[point]))

    def named(self, point: int) -> str:
        """A point in words."""
        return f"point {point} ({', '.join(self.changes(point))})"

    @property
    def hash(self) -> str:
        """Stands for the points and settings; not for the scenario, its variants or its seeds."""
        document = [self.paths, self.points, self.settings]
        return hashlib.sha256(json.dumps(document).encode("utf-8")).hexdigest()[:HASH_DIGITS]


def design(
    fixed: Sequence[Callable[[], Axis]],
    drawn: Sequence[Callable[[], Axis]] = (),
    settings: Sequence[str] = (),
) -> Design:
    """The product of the ``fixed`` axes, the last one fastest, each with all random points.

    Axes are given as what makes them, so that all of their faults are told at
    once. The axes of ``drawn`` have one value for each random point and go
    together. Raises ``ScenarioError``.
    """
    faults: list[Fault] = []
    grid = _made(fixed, faults)
    together = _made(drawn, faults)
    every = [*grid, *together]
    if not every and not faults:
        message = "give at least one axis, such as --grid backends.a.replicas=4..16..2"
        faults.append(Fault("design", 0, 0, "", message))
    faults.extend(_twice(every, settings))
    count = prod(len(axis.values) for axis in grid) * max(1, _length(together))
    if count > MAX_POINTS:
        message = f"would have {count:,} points; at most {MAX_POINTS:,}"
        faults.append(Fault("design", 0, 0, "", message))
    if faults:
        raise ScenarioError(faults)
    random_points = list(zip(*(axis.values for axis in together))) or [()]
    points = tuple(
        (*values, *random_point)
        for values in product(*(axis.values for axis in grid))
        for random_point in random_points
    )
    return Design(
        tuple(axis.path for axis in every),
        tuple(axis.option for axis in every),
        points,
        tuple(settings),
    )


def written(
    *,
    grid: Sequence[str] = (),
    log: Sequence[str] = (),
    random: Sequence[str] = (),
    points: int = 0,
    seed: int = 1,
    settings: Sequence[str] = (),
) -> Design:
    """A design as the command line has it; raises ``ScenarioError``."""
    fixed = [lambda text=text: axes.grid(text) for text in grid]
    fixed += [lambda text=text: axes.log(text) for text in log]
    drawn = [lambda text=text: axes.random(text, points, seed) for text in random]
    return design(fixed, drawn, settings)


def _made(makers: Sequence[Callable[[], Axis]], faults: list[Fault]) -> list[Axis]:
    made = []
    for make in makers:
        try:
            made.append(make())
        except ScenarioError as error:
            faults.extend(error.faults)
    return made


def _length(together: Sequence[Axis]) -> int:
    return len(together[0].values) if together else 0


def _twice(every: Sequence[Axis], settings: Sequence[str]) -> list[Fault]:
    """Axes whose path, or one above it, another axis or a setting sets as well."""
    faults = []
    others = [(f"--set {setting}", setting.partition("=")[0]) for setting in settings]
    for axis in every:
        for source, path in others:
            if source.startswith("--set") and axis.path.startswith(f"{path}."):
                continue  # a setting of a whole block, of which the axis changes a part
            if f"{axis.path}.".startswith(f"{path}.") or f"{path}.".startswith(f"{axis.path}."):
                message = f"sets what {source} sets as well; give only one"
                faults.append(Fault(axis.option, 0, 0, axis.path, message))
        others.append((f"{axis.option} {axis.path}", axis.path))
    return faults
