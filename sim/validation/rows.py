"""One line of a validation: what theory says, what the whole stack did, and whether they agree."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sim.core.stats import t_interval

LEVEL: Final = 0.99
"""Level of the intervals over seeds."""


@dataclass(frozen=True)
class Row:
    """A comparison. ``low`` and ``high`` are None where it is about every single request,
    ``predicted`` where theory only orders.

    ``bound`` says what must hold for ``ok``.
    """

    scenario: str
    what: str
    predicted: float | None
    measured: float
    low: float | None
    high: float | None
    bound: str
    ok: bool


def at_most(scenario: str, what: str, predicted: float, worst: float, bound: float) -> Row:
    """The worst of all requests of all seeds is at most ``bound``."""
    ok = bool(worst <= bound)
    return Row(scenario, what, predicted, float(worst), None, None, f"<= {bound:g}", ok)


def at_least(scenario: str, what: str, predicted: float | None, worst: float, bound: float) -> Row:
    """The worst of all requests of all seeds is at least ``bound``."""
    ok = bool(worst >= bound)
    return Row(scenario, what, predicted, float(worst), None, None, f">= {bound:g}", ok)


def mean(
    scenario: str,
    what: str,
    predicted: float,
    measured: Sequence[float],
    precision: float,
    inexact: float = 0.0,
) -> Row:
    """The t interval over seeds holds the prediction, and is narrow enough to say something.

    Its half-width is at most ``precision`` of the prediction. ``inexact`` is
    the part of the prediction by which an approximation may be off the interval.
    """
    interval = t_interval(measured, LEVEL)
    assert interval.mean is not None and interval.low is not None and interval.high is not None
    half = (interval.high - interval.low) / 2.0
    off = max(interval.low - predicted, predicted - interval.high, 0.0)
    ok = half <= precision * predicted and off <= inexact * predicted
    bound = f"± {precision * 100:g} %"
    if inexact:
        bound += f", off {inexact * 100:g} %"
    return Row(scenario, what, predicted, interval.mean, interval.low, interval.high, bound, ok)


def negative(scenario: str, what: str, measured: Sequence[float]) -> Row:
    """The t interval over seeds lies below zero."""
    interval = t_interval(measured, LEVEL)
    assert interval.mean is not None and interval.low is not None and interval.high is not None
    ok = interval.high < 0.0
    return Row(scenario, what, None, interval.mean, interval.low, interval.high, "below 0", ok)
