"""Axes of a sweep: a path of the scenario and the values that it takes, as people write them."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from sim.core.document import PlacedList
from sim.core.document import parse as parse_yaml
from sim.core.errors import Fault, ScenarioError
from sim.core.rng import Streams
from sim.scenario.variants import SHARED_KEYS
from sim.sweep.amounts import NUMBER, Amount, alike, in_base, parse, rounded

MAX_POINTS: Final = 100_000

_INTERVAL: Final = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*", re.ASCII)
_STEPPED: Final = re.compile(rf"\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*\.\.\s*({NUMBER})\s*", re.ASCII)
_DOTS: Final = re.compile(r"\s*[-+.]?\d.*\.\..*")
"""What was meant as a range, whether or not it is one."""


@dataclass(frozen=True)
class Axis:
    """What stands at ``path`` in turn, each value as ``--set`` takes it; ``option`` said so."""

    option: str
    path: str
    values: tuple[str, ...]


def grid(text: str) -> Axis:
    """``path=4..16..2``, ``path=1..32`` or ``path=a,b,c``; raises ``ScenarioError``."""
    return _axis("--grid", text, lambda written: _range(written) or _list(written))


def log(text: str) -> Axis:
    """``path=1..64..7``: seven points whose neighbours have one ratio; raises ``ScenarioError``.

    Whole numbers stay whole, so that there may be fewer of them.
    """
    return _axis("--log", text, _log)


def random(text: str, points: int, seed: int) -> Axis:
    """``path=1..64`` (uniform; whole between whole ends) or ``path=a,b,c``: ``points`` draws.

    They come from a stream of ``seed`` that is named after the path: another
    axis changes none of them, and more points begin with the same ones.
    Raises ``ScenarioError``.
    """
    path = text.partition("=")[0].strip()

    def drawn(written: str) -> tuple[str, ...]:
        value = _between(written)
        shares = Streams(seed).get(f"sweep/{path}").random(points)
        return tuple(value(float(share)) for share in shares)

    return _axis("--random", text, drawn)


def values(option: str, path: str, written: tuple[str, ...]) -> Axis:
    """An axis of values that are given one by one; raises ``ScenarioError``."""
    return _axis(option, f"{path}=", lambda _: written)


def varied(option: str, text: str) -> tuple[str, tuple[Amount, ...], bool]:
    """The path and the values of ``path=1..32`` or ``path=2,4,8``, which go up, in one unit, and
    whether they are all: of a range they are its ends. Raises ``ScenarioError``.
    """
    found: list[tuple[Amount, ...]] = []
    is_list = not _INTERVAL.fullmatch(text.partition("=")[2])

    def read(written: str) -> tuple[str, ...]:
        if not is_list or (_DOTS.fullmatch(written) and not _STEPPED.fullmatch(written)):
            found.append(_interval(written, "1..32"))
        else:
            found.append(_numbers(_range(written) or _list(written)))
        return tuple(map(str, found[0]))

    axis = _axis(option, text, read)
    return axis.path, found[0], is_list


def _numbers(items: Sequence[str]) -> tuple[Amount, ...]:
    """The values of a list in one unit, going up; raises ``ValueError``."""
    if len(items) < 2:
        raise ValueError("must be from..to, as in 1..32, or two values or more, as in 2,4,8")
    return tuple(sorted(alike([parse(item) for item in items]), key=lambda each: each.number))


def _axis(option: str, text: str, read: Callable[[str], tuple[str, ...]]) -> Axis:
    source = f"{option} {text}"
    path, equals, written = text.partition("=")
    path = path.strip()
    if not equals or not all(path.split(".")):
        raise _refusal(source, "must be path=values, such as backends.a.replicas=4..16..2")
    if path.split(".")[0] in SHARED_KEYS and not path.startswith("variants."):
        hint = "; --seeds N gives every point N seeds" if path == "seeds" else ""
        raise _refusal(source, f"cannot be swept{hint}", path)
    try:
        found = read(written)
    except ValueError as error:
        raise _refusal(source, str(error), path) from None
    except ScenarioError as error:
        raise ScenarioError([_fault(source, each.message, path) for each in error.faults]) from None
    if not found:
        raise _refusal(source, "has no values", path)
    if option != "--random":
        twice = next((value for value, times in Counter(found).items() if times > 1), None)
        if twice is not None:
            raise _refusal(source, f"has the value {twice} twice", path)
    return Axis(option, path, found)


def _range(written: str) -> tuple[str, ...]:
    """The values of ``a..b..step``, both ends inside; empty for what is not a range.

    Between whole numbers without a unit the step is 1 when it is missing.
    """
    match = _STEPPED.fullmatch(written) or _INTERVAL.fullmatch(written)
    if match is None:
        if _DOTS.fullmatch(written):
            raise ValueError(f"{written!r} is no range; a range is from..to..step, as in 4..16..2")
        return ()
    amounts = [parse(part) for part in match.groups()]
    if len(amounts) == 2:
        if not all(amount.is_whole and not amount.unit for amount in amounts):
            raise ValueError(
                f"{written!r} has no step; a range is from..to..step, as in 4..16..2 or 1m..10m..3m"
            )
        amounts.append(Amount(Decimal(1)))
    low, high, step = alike(amounts)
    if step.number == 0:
        raise ValueError("the step is 0")
    steps = (high.number - low.number) / step.number
    if steps < 0:
        raise ValueError(f"steps of {step} do not lead from {low} to {high}")
    if steps >= MAX_POINTS:
        raise ValueError(f"would be {int(steps) + 1:,} values; at most {MAX_POINTS:,}")
    return tuple(
        str(Amount(low.number + at * step.number, low.unit)) for at in range(int(steps) + 1)
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
    return tuple(dict.fromkeys(str(Amount(number, low.unit)) for number in numbers))


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
        return lambda share: str(Amount(Decimal(first + int(share * count))))
    start, length = float(low.number), float(high.number - low.number)
    return lambda share: str(Amount(rounded(start + share * length), low.unit))


def _interval(written: str, example: str) -> tuple[Amount, Amount]:
    """The two ends of ``a..b``; raises ``ValueError``."""
    match = _INTERVAL.fullmatch(written)
    if match is None:
        raise ValueError(f"must be from..to, as in {example}; got {written!r}")
    low, high = alike([parse(part) for part in match.groups()])
    if low.number >= high.number:
        raise ValueError(f"must go up: {low} is not below {high}")
    return low, high


def _refusal(source: str, message: str, path: str = "") -> ScenarioError:
    return ScenarioError([_fault(source, message, path)])


def _fault(source: str, message: str, path: str) -> Fault:
    return Fault(source, 0, 0, path, message)
