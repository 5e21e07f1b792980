"""A design: the points of a sweep, every axis with every other, as people write them."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from itertools import product
from math import prod
from typing import Final

from sim.core.document import PlacedList
from sim.core.document import parse as parse_yaml
from sim.core.errors import Fault, ScenarioError
from sim.core.rng import Streams
from sim.scenario.variants import SHARED_KEYS
from sim.sweep.quantities import NUMBER, Quantity, alike, in_base, parse, rounded

MAX_POINTS: Final = 100_000
HASH_DIGITS: Final = 8

_INTERVAL: Final = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*", re.ASCII)
_STEPPED: Final = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*", re.ASCII)
_DOTS: Final = re.compile(r"\s*[-+.]?\d.*\.\..*")
"""What was meant as a range, whether or not it is one."""

Written = str | tuple[str, tuple[str, ...]]
"""An axis: ``path=values`` as on the command line, or the path and its values one by one."""
Reader = Callable[[str, str], tuple[str, ...]]
"""The values of an axis from its path and what is written; raises ``ValueError``."""


@dataclass(frozen=True)
class Axis:
    """The ``values`` at ``path``, each as ``--set`` takes it; ``option`` is where it was given."""

    option: str
    path: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Design:
    """``points[i]`` are the values of point i, one for each of ``paths``.

    ``options`` are those that they were given in, such as ``--grid``; ``settings`` are of every
    point.
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
    *,
    grid: Sequence[Written] = (),
    log: Sequence[Written] = (),
    random: Sequence[Written] = (),
    points: int = 0,
    seed: int = 1,
    settings: Sequence[str] = (),
) -> Design:
    """The product of the axes of ``grid`` and ``log``, the last one fastest, each with all draws.

    The axes of ``random`` are drawn together, ``points`` times. Raises ``ScenarioError`` with the
    faults of all axes.
    """
    faults: list[Fault] = []
    fixed = _axes("--grid", grid, lambda _, written: _range(written) or _list(written), faults)
    fixed += _axes("--log", log, lambda _, written: _log(written), faults)
    drawn = _axes("--random", random, partial(_draws, points=points, seed=seed), faults)
    every = [*fixed, *drawn]
    if not every and not faults:
        message = "give at least one axis, such as --grid backends.a.replicas=4..16..2"
        faults.append(Fault("design", 0, 0, "", message))
    faults += _set_twice(every, settings)
    count = prod(len(axis.values) for axis in fixed) * max(1, points if drawn else 0)
    if count > MAX_POINTS:
        message = f"would have {count:,} points; at most {MAX_POINTS:,}"
        faults.append(Fault("design", 0, 0, "", message))
    if faults:
        raise ScenarioError(faults)
    draws = list(zip(*(axis.values for axis in drawn))) or [()]
    return Design(
        tuple(axis.path for axis in every),
        tuple(axis.option for axis in every),
        tuple((*p, *d) for p in product(*(axis.values for axis in fixed)) for d in draws),
        tuple(settings),
    )


def _axes(option: str, given: Sequence[Written], read: Reader, faults: list[Fault]) -> list[Axis]:
    made = []
    for each in given:
        try:
            made.append(axis(option, each, read))
        except ScenarioError as error:
            faults.extend(error.faults)
    return made


def _set_twice(every: Sequence[Axis], settings: Sequence[str]) -> list[Fault]:
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


def axis(option: str, given: Written, read: Reader) -> Axis:
    """Read an axis; raises ``ScenarioError``."""
    text = given if isinstance(given, str) else f"{given[0]}="
    source = f"{option} {text}"
    path, equals, written = text.partition("=")
    path = path.strip()
    if not equals or not all(path.split(".")):
        raise _refusal(source, "must be path=values, such as backends.a.replicas=4..16..2")
    if path.split(".")[0] in SHARED_KEYS and not path.startswith("variants."):
        hint = "; --seeds N gives every point N seeds" if path == "seeds" else ""
        raise _refusal(source, f"cannot be swept{hint}", path)
    try:
        found = read(path, written) if isinstance(given, str) else given[1]
    except ValueError as error:
        raise _refusal(source, str(error), path) from None
    except ScenarioError as error:
        faults = [Fault(source, 0, 0, path, each.message) for each in error.faults]
        raise ScenarioError(faults) from None
    if not found:
        raise _refusal(source, "has no values", path)
    twice = next((value for value, times in Counter(found).items() if times > 1), None)
    if twice is not None and option != "--random":
        raise _refusal(source, f"has the value {twice} twice", path)
    return Axis(option, path, found)


def varied(option: str, text: str) -> tuple[str, tuple[Quantity, ...], bool]:
    """The path and the values of ``path=1..32`` or ``path=2,4,8``, which go up, in one unit, and
    whether they are all: of a range they are its ends. Raises ``ScenarioError``.
    """
    found: list[Quantity] = []
    is_list = not _INTERVAL.fullmatch(text.partition("=")[2])

    def read(_: str, written: str) -> tuple[str, ...]:
        if not is_list or (_DOTS.fullmatch(written) and not _STEPPED.fullmatch(written)):
            found.extend(_interval(written, "1..32"))
        else:
            found.extend(_numbers(_range(written) or _list(written)))
        return tuple(map(str, found))

    path = axis(option, text, read).path
    return path, tuple(found), is_list


def _numbers(items: Sequence[str]) -> tuple[Quantity, ...]:
    """The values of a list in one unit, going up; raises ``ValueError``."""
    if len(items) < 2:
        raise ValueError("must be from..to, as in 1..32, or two values or more, as in 2,4,8")
    return tuple(sorted(alike([parse(item) for item in items]), key=lambda each: each.number))


def _draws(path: str, written: str, points: int, seed: int) -> tuple[str, ...]:
    """Values of an interval (uniform; whole between whole ends) or of a list.

    They come from a stream of ``seed`` that is named after the path: another
    axis changes none of them, and more points begin with the same ones.
    """
    value = _between(written)
    return tuple(value(float(s)) for s in Streams(seed).get(f"sweep/{path}").random(points))


def _range(written: str) -> tuple[str, ...]:
    """The values of ``a..b..step``, both ends inside; empty for what is not a range.

    Between whole numbers without a unit the step is 1 when it is missing.
    """
    match = _STEPPED.fullmatch(written) or _INTERVAL.fullmatch(written)
    if match is None:
        if _DOTS.fullmatch(written):
            raise ValueError(f"{written!r} is no range; a range is from..to..step, as in 4..16..2")
        return ()
    ends = [parse(part) for part in match.groups()]
    if len(ends) == 2:
        if not all(end.is_whole and not end.unit for end in ends):
            raise ValueError(
                f"{written!r} has no step; a range is from..to..step, as in 4..16..2 or 1m..10m..3m"
            )
        ends.append(Quantity(Decimal(1)))
    low, high, step = alike(ends)
    if step.number == 0:
        raise ValueError("the step is 0")
    steps = (high.number - low.number) / step.number
    if steps < 0:
        raise ValueError(f"steps of {step} do not lead from {low} to {high}")
    if steps >= MAX_POINTS:
        raise ValueError(f"would be {int(steps) + 1:,} values; at most {MAX_POINTS:,}")
    return tuple(
        str(Quantity(low.number + at * step.number, low.unit)) for at in range(int(steps) + 1)
    )


def _list(written: str) -> tuple[str, ...]:
    """The items of ``a,b,c``, where an item is YAML and may hold commas in brackets or quotes."""
    found = parse_yaml(f"[{written}]", "list")
    if not isinstance(found, PlacedList):
        raise ValueError("must be a list of values, such as 1,2,4")
    # The reader knows where each item begins; how it is written is left to its author.
    starts = [place.column - 2 for place in found.values_at]
    if any(place.line != 1 for place in found.values_at) or "\n" in written:
        raise ValueError("must stand on one line")
    items = [
        written[start:stop].strip().removesuffix(",").strip()
        for start, stop in zip(starts, [*starts[1:], len(written)])
    ]
    for item, text in zip(found, items):
        if parse_yaml(text, "list") != item:
            raise ValueError(f"cannot tell the values apart; put {text!r} in brackets or quotes")
    return tuple(items)


def _log(written: str) -> tuple[str, ...]:
    match = _STEPPED.fullmatch(written)
    if match is None or not match[3].isdecimal() or int(match[3]) < 2:
        raise ValueError("must be from..to..points with 2 points or more, as in 1..64..7")
    points = int(match[3])
    if points > MAX_POINTS:
        raise ValueError(f"would be {points:,} values; at most {MAX_POINTS:,}")
    low, high = alike([parse(match[1]), parse(match[2])])
    if low.number <= 0 or high.number <= 0:
        raise ValueError("both ends of a log design must be above 0")
    whole = low.is_whole and high.is_whole
    if whole:
        low, high = in_base(low), in_base(high)
    ratio = float(high.number / low.number)
    inner = (
        rounded(float(low.number) * ratio ** (at / (points - 1))) for at in range(1, points - 1)
    )
    numbers = [low.number, *inner, high.number]
    if whole:
        numbers = [number.to_integral_value() for number in numbers]
    return tuple(dict.fromkeys(str(Quantity(number, low.unit)) for number in numbers))


def _between(written: str) -> Callable[[float], str]:
    """From a share in [0, 1) to a value: uniform between two ends, or one of a list."""
    if not _DOTS.fullmatch(written):
        choices = _list(written)
        if not choices:
            raise ValueError("has no values")
        return lambda share: choices[int(share * len(choices))]
    low, high = _interval(written, "1..64")
    if low.is_whole and high.is_whole:
        low, high = in_base(low), in_base(high)
        first, count = int(low.number), int(high.number - low.number) + 1
        return lambda share: str(Quantity(Decimal(first + int(share * count))))
    start, length = float(low.number), float(high.number - low.number)
    return lambda share: str(Quantity(rounded(start + share * length), low.unit))


def _interval(written: str, example: str) -> tuple[Quantity, Quantity]:
    """The two ends of ``a..b``; raises ``ValueError``."""
    match = _INTERVAL.fullmatch(written)
    if match is None:
        raise ValueError(f"must be from..to, as in {example}; got {written!r}")
    low, high = alike([parse(part) for part in match.groups()])
    if low.number >= high.number:
        raise ValueError(f"must go up: {low} is not below {high}")
    return low, high


def _refusal(source: str, message: str, path: str = "") -> ScenarioError:
    return ScenarioError([Fault(source, 0, 0, path, message)])
