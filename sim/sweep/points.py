"""The points of a design as checked scenarios, or everything that is wrong with any of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sim.core import registry
from sim.core.errors import Fault, ScenarioError
from sim.core.textfile import read_text
from sim.scenario.inputs import Inputs
from sim.scenario.load import ScenarioSet, load_dict, load_text
from sim.sweep.design import Design

Source = str | Path | Mapping[str, Any]
"""A scenario file, or the mapping that it would hold."""


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
    told = [_at_points(fault, points, design) for fault, points in _of_whole_axes(faults, design)]
    told += _written_twice(design, hashes)
    for option, path in zip(design.options, design.paths):
        told += of_one_variant(option, path, found[:1])
    if told:
        raise ScenarioError(told)
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
