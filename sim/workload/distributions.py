"""Distributions as scenarios write them: a number, or one named form with its parameters.

``Count`` is a distribution of whole numbers (tokens, turns), ``Delay`` one of
seconds. Every draw is rounded when it is made, counts to whole numbers and
delays to 1 µs, so that what follows from it is the same on every machine.
``min`` and ``max`` clip; they never draw again.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Annotated, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BeforeValidator, Field, TypeAdapter

from sim.core.fields import (
    DURATION,
    MAX_DURATION_S,
    MAX_TOKENS,
    Duration,
    Model,
    PositiveDuration,
    PositiveTokens,
    Probability,
    Tokens,
    number,
)
from sim.core.rules import Problem, rule
from sim.scenario.walk import in_words, settings

Counts: TypeAlias = NDArray[np.int64]
Delays: TypeAlias = NDArray[np.float64]

LogMean: TypeAlias = number(-50.0, 50.0)  # type: ignore[valid-type]
LogSigma: TypeAlias = number(0.0, 10.0)  # type: ignore[valid-type]
Weight: TypeAlias = number(0.0, 1e9, low_open=True)  # type: ignore[valid-type]
MeanCount: TypeAlias = number(1.0, 1e12)  # type: ignore[valid-type]


def whole_microseconds(seconds: NDArray[np.float64]) -> NDArray[np.int64]:
    """Seconds, rounded to whole µs."""
    return np.rint(seconds * 1e6).astype(np.int64)


class UniformCount(Model):
    """Every whole number from ``min`` to ``max``, both inclusive, equally likely."""

    min: PositiveTokens = Field(description="Least number.")
    max: PositiveTokens = Field(description="Greatest number.")

    @rule
    def _ordered(self) -> Iterator[Problem]:
        yield from _in_order(self.min, self.max)

    @property
    def typical(self) -> float:
        """A number that draws come near: the largest."""
        return self.max

    def share_above(self, limit: int) -> float:
        """Share of the draws that are greater than ``limit``."""
        return min(1.0, max(0.0, (self.max - limit) / (self.max - self.min + 1)))

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """``size`` independent whole numbers."""
        return generator.integers(self.min, self.max, size, endpoint=True)


class LognormalCount(Model):
    """``shift`` + exp(N(mu, sigma)), rounded, clipped; ``median`` is exp(mu)."""

    mu: LogMean | None = Field(
        default=None, description="Mean of the natural logarithm; or give median."
    )
    median: PositiveTokens | None = Field(
        default=None, description="exp(mu), before shift; instead of mu."
    )
    sigma: LogSigma = Field(description="Standard deviation of the natural logarithm.")
    shift: Tokens = Field(default=0, description="Added to every draw.")
    min: PositiveTokens = Field(default=1, description="Draws below it are set to it.")
    max: PositiveTokens = Field(
        default=MAX_TOKENS, description="Draws above it are set to it; no limit when missing."
    )

    @rule
    def _one_location(self) -> Iterator[Problem]:
        yield from exactly_one(self, ("mu", "median"))

    @rule
    def _ordered(self) -> Iterator[Problem]:
        yield from _in_order(self.min, self.max)

    @rule
    def _draws_something(self) -> Iterator[Problem]:
        if self.mu is None and self.median is None:
            return
        middle = self.shift + math.exp(_log_mean(self.mu, self.median))
        for key, cut in (("min", middle < self.min), ("max", middle > self.max)):
            if cut and key in self.model_fields_set:
                limit = getattr(self, key)
                said = (
                    f"half of all draws lie beyond it, about {middle:,.0f}, and would be {limit:,}"
                )
                yield key, said

    @property
    def typical(self) -> float:
        """A number that half the draws are above: the median."""
        return float(self.shift + math.exp(_log_mean(self.mu, self.median)))

    def share_above(self, limit: int) -> float:
        """Share of the draws that are greater than ``limit``."""
        if not self.min <= limit < self.max:
            return float(limit < self.min)
        least = limit + 0.5 - self.shift  # what is rounded up
        if least <= 0:
            return 1.0
        distance = math.log(least) - _log_mean(self.mu, self.median)
        if not self.sigma:
            return float(distance < 0)
        return 0.5 * math.erfc(distance / (self.sigma * math.sqrt(2.0)))

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """``size`` independent whole numbers."""
        mu = _log_mean(self.mu, self.median)
        values = generator.lognormal(mu, self.sigma, size) + self.shift
        return np.rint(np.clip(values, self.min, self.max)).astype(np.int64)


class GeometricCount(Model):
    """1, 2, 3 ... with a constant chance to stop; the memoryless whole number of this mean."""

    mean: MeanCount = Field(description="The mean, from 1 on.")

    @property
    def typical(self) -> float:
        """A number that draws are often above: the mean."""
        return float(self.mean)

    def share_above(self, limit: int) -> float:
        """Share of the draws that are greater than ``limit``."""
        return float((1.0 - 1.0 / self.mean) ** limit)

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """``size`` independent whole numbers."""
        return generator.geometric(1.0 / self.mean, size)


class CountForms(Model):
    """A whole number: exactly one of these forms."""

    constant: PositiveTokens | None = Field(default=None, description="Always this number.")
    uniform: UniformCount | None = Field(default=None, description="Equally likely numbers.")
    lognormal: LognormalCount | None = Field(
        default=None, description="A lognormal number, rounded and clipped."
    )
    geometric: GeometricCount | None = Field(default=None, description="A memoryless number.")

    @rule
    def _one_form(self) -> Iterator[Problem]:
        yield from exactly_one(self, ("constant", "uniform", "lognormal", "geometric"))

    @property
    def typical(self) -> float:
        """A number that draws are often near: what a limit of the field is held against."""
        return self.constant if self.constant is not None else self._form().typical

    def share_above(self, limit: int) -> float:
        """Share of the draws that are greater than ``limit``."""
        if self.constant is not None:
            return float(self.constant > limit)
        return self._form().share_above(limit)

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """``size`` independent whole numbers, at least 1 each."""
        if self.constant is not None:
            return np.full(size, self.constant, np.int64)
        return self._form().draw(generator, size)

    def in_words(self) -> str:
        """As a reader takes it in: ``lognormal (median 121.5, sigma 1, min 2)``."""
        return _in_words(self)

    def _form(self) -> UniformCount | LognormalCount | GeometricCount:
        form = self.uniform or self.lognormal or self.geometric
        assert form is not None
        return form


class UniformDelay(Model):
    """Seconds from ``min`` to ``max``, equally likely."""

    min: Duration = Field(description="Shortest delay.")
    max: Duration = Field(description="Longest delay.")

    @rule
    def _ordered(self) -> Iterator[Problem]:
        yield from _in_order(self.min, self.max)

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """``size`` independent delays in seconds, not yet rounded."""
        return generator.uniform(self.min, self.max, size)


class LognormalDelay(Model):
    """exp(N(mu, sigma)) seconds; ``median`` is exp(mu)."""

    mu: LogMean | None = Field(
        default=None, description="Mean of the natural logarithm; or give median."
    )
    median: PositiveDuration | None = Field(
        default=None, description="exp(mu), a duration; instead of mu."
    )
    sigma: LogSigma = Field(description="Standard deviation of the natural logarithm.")

    @rule
    def _one_location(self) -> Iterator[Problem]:
        yield from exactly_one(self, ("mu", "median"))

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """``size`` independent delays in seconds, not yet rounded."""
        return generator.lognormal(_log_mean(self.mu, self.median), self.sigma, size)


class ExponentialDelay(Model):
    """Memoryless delays of this mean."""

    mean: PositiveDuration = Field(description="The mean delay.")

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """``size`` independent delays in seconds, not yet rounded."""
        return generator.exponential(self.mean, size)


class QuantileDelay(Model):
    """A recorded distribution: ``values[i]`` is its quantile at the share ``at[i]``.

    Linear between the points; above the last one its value.
    """

    at: tuple[Probability, ...] = Field(description="Shares of the delays, rising from 0.")
    values: tuple[Duration, ...] = Field(
        description="The delays that these shares of all do not exceed."
    )

    @rule
    def _has_a_value_at_each_point(self) -> Iterator[Problem]:
        at, values = len(self.at), len(self.values)
        if at != values:
            yield "", f"at and values must be equally long; got {at} and {values} points"

    @rule
    def _begins_at_zero(self) -> Iterator[Problem]:
        if not self.at or self.at[0] != 0.0 or not _rising(self.at, strictly=True):
            yield "at", "must start at 0 and rise"

    @rule
    def _does_not_fall(self) -> Iterator[Problem]:
        if not _rising(self.values, strictly=False):
            yield "values", "must not fall"

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """``size`` independent delays in seconds, not yet rounded."""
        return np.interp(generator.random(size), self.at, self.values)


class MixturePart(Model):
    """One ingredient of a mixture; shares are relative to their sum."""

    share: Weight = Field(description="How often it is drawn, relative to the sum of all shares.")
    delay: "Delay" = Field(description="The delay, in any form.")


class DelayForms(Model):
    """A delay in seconds: exactly one of these forms."""

    constant: Duration | None = Field(default=None, description="Always this delay.")
    uniform: UniformDelay | None = Field(default=None, description="Equally likely delays.")
    lognormal: LognormalDelay | None = Field(default=None, description="A lognormal delay.")
    exponential: ExponentialDelay | None = Field(default=None, description="A memoryless delay.")
    quantiles: QuantileDelay | None = Field(
        default=None, description="A recorded distribution, by its quantiles."
    )
    mixture: tuple[MixturePart, ...] | None = Field(
        default=None, description="One of several delays, drawn by their shares."
    )

    @rule
    def _one_form(self) -> Iterator[Problem]:
        forms = ("constant", "uniform", "lognormal", "exponential", "quantiles", "mixture")
        yield from exactly_one(self, forms)

    @rule
    def _mixes_something(self) -> Iterator[Problem]:
        if self.mixture == ():
            yield "mixture", "needs at least one part"

    @property
    def least_s(self) -> float:
        """No draw is below it."""
        if self.mixture is not None:
            return min(part.delay.least_s for part in self.mixture)
        if self.constant is not None:
            return self.constant
        return self.uniform.min if self.uniform is not None else 0.0

    def draw(self, generator: np.random.Generator, size: int, cap_s: float | None = None) -> Delays:
        """``size`` independent delays in seconds, at most ``cap_s``, rounded to 1 µs."""
        longest_s = MAX_DURATION_S if cap_s is None else cap_s
        values = np.minimum(self._raw(generator, size), longest_s)
        return np.rint(values * 1e6) / 1e6

    def in_words(self) -> str:
        """As a reader takes it in, parts of a mixture with their shares of all."""
        if self.mixture is None:
            return _in_words(self)
        whole = sum(part.share for part in self.mixture)
        shown = (
            f"{100 * part.share / whole:.3g} % {part.delay.in_words()}" for part in self.mixture
        )
        return f"mixture ({', '.join(shown)})"

    def _raw(self, generator: np.random.Generator, size: int) -> Delays:
        if self.constant is not None:
            return np.full(size, self.constant)
        if self.mixture is not None:
            return self._mixed(generator, size, self.mixture)
        form = self.uniform or self.lognormal or self.exponential or self.quantiles
        assert form is not None
        return form.draw(generator, size)

    @staticmethod
    def _mixed(generator: np.random.Generator, size: int, parts: tuple[MixturePart, ...]) -> Delays:
        bounds = np.cumsum([part.share for part in parts])
        chosen = np.searchsorted(bounds, generator.random(size) * bounds[-1], side="right")
        values = np.empty(size)
        for index, part in enumerate(parts):
            mask = chosen == index
            values[mask] = part.delay._raw(generator, int(np.count_nonzero(mask)))
        return values


def _scalar_or(constant: Callable[..., Model], scalar: TypeAdapter[Any]) -> Callable[[Any], Any]:
    # The scalar is checked here, so that a fault is reported at the key that was written.
    def read(value: Any) -> Any:
        if isinstance(value, int | float | str):
            return constant(constant=scalar.validate_python(value))
        return value

    return read


Count: TypeAlias = Annotated[
    CountForms,
    BeforeValidator(
        _scalar_or(CountForms, TypeAdapter(PositiveTokens)),
        json_schema_input_type=PositiveTokens | CountForms,
    ),
]
"""A number such as ``2000`` or ``2k``, or one of ``CountForms``."""

Delay: TypeAlias = Annotated[
    DelayForms,
    BeforeValidator(
        _scalar_or(DelayForms, TypeAdapter(Duration)),
        json_schema_input_type=Duration | DelayForms,
    ),
]
"""A duration such as ``30s``, or one of ``DelayForms``."""

MixturePart.model_rebuild()
DelayForms.model_rebuild()


def exactly_one(model: Model, names: tuple[str, ...]) -> Iterator[Problem]:
    """The problem of ``model`` unless exactly one of its fields ``names`` is given."""
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        found = ", ".join(given) or "none"
        yield "", f"give exactly one of {', '.join(names)}; got {found}"


def _in_order(low: float, high: float) -> Iterator[Problem]:
    if low > high:
        yield "min", f"must not be above max, {high:g}; got {low:g}"


def _in_words(forms: CountForms | DelayForms) -> str:
    """The form that is given, and its parameters with their units; of a logarithm the median."""
    (name,) = forms.model_fields_set & type(forms).model_fields.keys()
    form = getattr(forms, name)
    if name == "constant":
        return in_words(form, DURATION if isinstance(forms, DelayForms) else None)
    if isinstance(form, QuantileDelay):
        points = ((0.5, "median"), (0.9, "p90"), (1.0, "at most"))
        read = ((said, float(np.interp(at, form.at, form.values))) for at, said in points)
        shown = {said: in_words(each, DURATION) for said, each in read}
        return f"recorded ({_pairs(shown)})"
    shown = {
        str(each.path[-1]): in_words(each.value, each.scale)
        for each in settings(form)
        if each.given
    }
    if form.model_dump().get("mu") is not None:
        scale = DURATION if isinstance(forms, DelayForms) else None
        shown = {"median": in_words(float(f"{math.exp(form.mu):.4g}"), scale), **shown}
        del shown["mu"]
    return f"{name} ({_pairs(shown)})"


def _pairs(shown: dict[str, str]) -> str:
    return ", ".join(f"{key} {text}" for key, text in shown.items())


def _log_mean(mu: float | None, median: float | None) -> float:
    if mu is not None:
        return mu
    assert median is not None
    return math.log(median)


def _rising(values: Iterable[float], strictly: bool) -> bool:
    points = list(values)
    return all(low < high or (low == high and not strictly) for low, high in pairwise(points))
