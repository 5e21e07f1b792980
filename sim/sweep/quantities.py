"""Numbers of a design as people write them, with their unit, in exact decimals."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, InvalidOperation
from typing import Final

from sim.core.units import COUNT_UNITS, DURATION_UNITS_S, RATE_UNITS_BYTES_PER_S, SIZE_UNITS_BYTES

DIGITS: Final = 6
"""Significant digits of values that are computed, not written: log and random designs."""

MAX_EXPONENT: Final = 30
"""Of the first digit of a number, up or down; sums of such numbers need no care."""

NUMBER: Final = r"[+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?(?:[A-Za-z]+(?:/s)?)?"
"""A number with or without a unit, as a regular expression without groups."""

_PARTS: Final = re.compile(
    r"([+-]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][+-]?\d+)?)([A-Za-z]+(?:/s)?)?", re.ASCII
)
_SCALES: Final = (
    ("s", DURATION_UNITS_S),
    ("B", SIZE_UNITS_BYTES),
    ("B/s", RATE_UNITS_BYTES_PER_S),
    ("", COUNT_UNITS),
)
_ROUNDING: Final = Context(prec=DIGITS, rounding=ROUND_HALF_EVEN)


@dataclass(frozen=True)
class Quantity:
    """A number in ``unit``; without a unit it is seconds, bytes or tokens, as its path has it."""

    number: Decimal
    unit: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether it is written as a count: no unit and no decimals, or a whole one in k, M, G."""
        if not self.unit:
            return int(self.number.as_tuple().exponent) >= 0
        base = self.number * _size(self.unit)
        return _scale(self.unit) == "" and base == base.to_integral_value()

    @property
    def value(self) -> int | float:
        """The number as Python has it; whole where it is."""
        return int(self.number) if self.number == int(self.number) else float(self.number)

    def __str__(self) -> str:
        """As ``--set`` takes it."""
        return f"{_plain(self.number)}{self.unit}"


def parse(text: str) -> Quantity:
    """Raises ``ValueError``, in words, for what is no number or has an unknown unit."""
    match = _PARTS.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text.strip()!r} is not a number")
    unit = match[2] or ""
    _size(unit)
    try:
        number = Decimal(match[1])
    except InvalidOperation:  # an exponent that does not fit into a machine word
        number = Decimal("Infinity")
    if not number.is_finite() or abs(number.adjusted()) > MAX_EXPONENT:
        raise ValueError(f"{text.strip():.40} is too large, or too small, for a number")
    return Quantity(number, unit)


def alike(quantities: Sequence[Quantity]) -> tuple[Quantity, ...]:
    """The same quantities in one unit: theirs if they have the same, else the base of its kind.

    A number without a unit goes with any. Raises ``ValueError`` for a mixture
    such as ``1m..64KiB``.
    """
    units = {quantity.unit for quantity in quantities}
    if len(units) == 1:
        return tuple(quantities)
    kinds = sorted({_scale(unit) for unit in units if unit})
    if len(kinds) > 1:
        raise ValueError(f"mixes units: {', '.join(map(str, quantities))}")
    return tuple(
        Quantity(quantity.number * _size(quantity.unit), kinds[0]) for quantity in quantities
    )


def in_base(quantity: Quantity) -> Quantity:
    """The same in seconds, bytes, bytes per second or plain numbers."""
    return Quantity(
        quantity.number * _size(quantity.unit), _scale(quantity.unit) if quantity.unit else ""
    )


def rounded(number: float) -> Decimal:
    """A computed number to six significant digits: the last bits differ between machines."""
    return _ROUNDING.create_decimal_from_float(number)


def _scale(unit: str) -> str:
    """The base unit of the kind of ``unit``; empty for counts and for none."""
    return next((base for base, units in _SCALES if unit in units), "")


def _size(unit: str) -> Decimal:
    if not unit:
        return Decimal(1)
    for _, units in _SCALES:
        if unit in units:
            return Decimal(str(units[unit]))
    known = ", ".join(word for _, units in _SCALES for word in units)
    raise ValueError(f"unknown unit {unit!r}; known: {known}")


def _plain(number: Decimal) -> str:
    """Without an exponent and without zeros that say nothing."""
    text = f"{number:f}"
    return (text.rstrip("0").rstrip(".") if "." in text else text) or "0"
