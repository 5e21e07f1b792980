"""Distributions as scenarios write them: a number, or one named form with its parameters.

``Count`` is a distribution of whole numbers (tokens, turns), ``Delay`` one of
seconds. Every draw is rounded when it is made, counts to whole numbers and
delays to 1 µs, so that what follows from it is the same on every machine.
``min`` and ``max`` clip; they never draw again.
"""

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Annotated, Any, ClassVar, TypeAlias

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
    Scale,
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
    """Return seconds, rounded to whole µs."""
    return np.rint(seconds * 1e6).astype(np.int64)


class Range(Model):
    """Base of what has a least and a greatest value."""

    @rule
    def _ordered(self) -> Iterator[Problem]:
        low, high = self.min, self.max  # type: ignore[attr-defined]
        if low > high:
            yield "min", f"must not be above max, {high:g}; got {low:g}"


class Lognormal(Model):
    """Base of exp(N(mu, sigma)); ``median``, instead of ``mu``, is exp(mu)."""

    mu: LogMean | None = Field(
        default=None, description="Mean of the natural logarithm; or give median."
    )
    median: float | None = None
    sigma: LogSigma = Field(description="Standard deviation of the natural logarithm.")

    @rule
    def _one_location(self) -> Iterator[Problem]:
        yield from exactly_one(self, ("mu", "median"))

    @property
    def log_mean(self) -> float:
        """Mean of the natural logarithm."""
        if self.mu is not None:
            return float(self.mu)
        assert self.median is not None
        return math.log(self.median)


class UniformCount(Range):
    """Every whole number from ``min`` to ``max``, both inclusive, equally likely."""

    min: PositiveTokens = Field(description="Least number.")
    max: PositiveTokens = Field(description="Greatest number.")

    @property
    def typical(self) -> float:
        """A number that draws come near: the largest."""
        return self.max

    def share_above(self, limit: int) -> float:
        """Return the share of the draws that are greater than ``limit``."""
        return min(1.0, max(0.0, (self.max - limit) / (self.max - self.min + 1)))

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """Return ``size`` independent whole numbers."""
        return generator.integers(self.min, self.max, size, endpoint=True)


class LognormalCount(Lognormal, Range):
    """``shift`` + exp(N(mu, sigma)), rounded, clipped; ``median`` is exp(mu)."""

    median: PositiveTokens | None = Field(
        default=None, description="exp(mu), before shift; instead of mu."
    )
    shift: Tokens = Field(default=0, description="Added to every draw.")
    min: PositiveTokens = Field(default=1, description="Draws below it are set to it.")
    max: PositiveTokens = Field(
        default=MAX_TOKENS, description="Draws above it are set to it; no limit when missing."
    )

    @rule
    def _draws_something(self) -> Iterator[Problem]:
        if self.mu is None and self.median is None:
            return
        middle = self.typical
        for key, cut in (("min", middle < self.min), ("max", middle > self.max)):
            if cut and key in self.model_fields_set:
                would = f"about {middle:,.0f}, and would be {getattr(self, key):,}"
                yield key, f"half of all draws lie beyond it, {would}"

    @property
    def typical(self) -> float:
        """A number that half the draws are above: the median."""
        return float(self.shift + math.exp(self.log_mean))

    def share_above(self, limit: int) -> float:
        """Return the share of the draws that are greater than ``limit``."""
        if not self.min <= limit < self.max:
            return float(limit < self.min)
        least = limit + 0.5 - self.shift  # what is rounded up
        if least <= 0:
            return 1.0
        distance = math.log(least) - self.log_mean
        if not self.sigma:
            return float(distance < 0)
        return 0.5 * math.erfc(distance / (self.sigma * math.sqrt(2.0)))

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """Return ``size`` independent whole numbers."""
        values = generator.lognormal(self.log_mean, self.sigma, size) + self.shift
        return np.rint(np.clip(values, self.min, self.max)).astype(np.int64)


class GeometricCount(Model):
    """1, 2, 3 ... with a constant chance to stop; the memoryless whole number of this mean."""

    mean: MeanCount = Field(description="The mean, from 1 on.")

    @property
    def typical(self) -> float:
        """A number that draws are often above: the mean."""
        return float(self.mean)

    def share_above(self, limit: int) -> float:
        """Return the share of the draws that are greater than ``limit``."""
        return float((1.0 - 1.0 / self.mean) ** limit)

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """Return ``size`` independent whole numbers."""
        return generator.geometric(1.0 / self.mean, size)


class Forms(Model):
    """Base of what is written in exactly one of several forms."""

    _scale: ClassVar[Scale | None] = None

    @rule
    def _one_form(self) -> Iterator[Problem]:
        yield from exactly_one(self, tuple(type(self).model_fields))

    def in_words(self) -> str:
        """Return it as a reader takes it in: ``lognormal (median 121.5, sigma 1, min 2)``."""
        (name,) = self.model_fields_set & type(self).model_fields.keys()
        form = getattr(self, name)
        if name == "constant":
            return in_words(form, self._scale)
        if isinstance(form, QuantileDelay):
            points = ((0.5, "median"), (0.9, "p90"), (1.0, "at most"))
            read = ((said, float(np.interp(at, form.at, form.values))) for at, said in points)
            name, shown = "recorded", {said: in_words(each, DURATION) for said, each in read}
        else:
            given = [each for each in settings(form) if each.given]
            shown = {str(each.path[-1]): in_words(each.value, each.scale) for each in given}
        if shown.pop("mu", None) is not None:
            median = in_words(float(f"{math.exp(form.mu):.4g}"), self._scale)
            shown = {"median": median, **shown}
        return f"{name} ({', '.join(f'{key} {text}' for key, text in shown.items())})"


class CountForms(Forms):
    """A whole number: exactly one of these forms."""

    constant: PositiveTokens | None = Field(default=None, description="Always this number.")
    uniform: UniformCount | None = Field(default=None, description="Equally likely numbers.")
    lognormal: LognormalCount | None = Field(
        default=None, description="A lognormal number, rounded and clipped."
    )
    geometric: GeometricCount | None = Field(default=None, description="A memoryless number.")

    @property
    def typical(self) -> float:
        """A number that draws are often near: what a limit of the field is held against."""
        return self.constant if self.constant is not None else self._form().typical

    def share_above(self, limit: int) -> float:
        """Return the share of the draws that are greater than ``limit``."""
        if self.constant is not None:
            return float(self.constant > limit)
        return self._form().share_above(limit)

    def draw(self, generator: np.random.Generator, size: int) -> Counts:
        """Return ``size`` independent whole numbers, at least 1 each."""
        if self.constant is not None:
            return np.full(size, self.constant, np.int64)
        return self._form().draw(generator, size)

    def _form(self) -> UniformCount | LognormalCount | GeometricCount:
        form = self.uniform or self.lognormal or self.geometric
        assert form is not None
        return form


class UniformDelay(Range):
    """Seconds from ``min`` to ``max``, equally likely."""

    min: Duration = Field(description="Shortest delay.")
    max: Duration = Field(description="Longest delay.")

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """Return ``size`` independent delays in seconds, not yet rounded."""
        return generator.uniform(self.min, self.max, size)


class LognormalDelay(Lognormal):
    """exp(N(mu, sigma)) seconds; ``median`` is exp(mu)."""

    median: PositiveDuration | None = Field(
        default=None, description="exp(mu), a duration; instead of mu."
    )

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """Return ``size`` independent delays in seconds, not yet rounded."""
        return generator.lognormal(self.log_mean, self.sigma, size)


class ExponentialDelay(Model):
    """Memoryless delays of this mean."""

    mean: PositiveDuration = Field(description="The mean delay.")

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """Return ``size`` independent delays in seconds, not yet rounded."""
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
    def _is_a_distribution(self) -> Iterator[Problem]:
        at, values = len(self.at), len(self.values)
        if at != values:
            yield "", f"at and values must be equally long; got {at} and {values} points"
        if self.at[:1] != (0.0,) or any(low >= high for low, high in pairwise(self.at)):
            yield "at", "must start at 0 and rise"
        if any(low > high for low, high in pairwise(self.values)):
            yield "values", "must not fall"

    def draw(self, generator: np.random.Generator, size: int) -> Delays:
        """Return ``size`` independent delays in seconds, not yet rounded."""
        return np.interp(generator.random(size), self.at, self.values)


class MixturePart(Model):
    """One ingredient of a mixture; shares are relative to their sum."""

    share: Weight = Field(description="How often it is drawn, relative to the sum of all shares.")
    delay: "Delay" = Field(description="The delay, in any form.")


class DelayForms(Forms):
    """A delay in seconds: exactly one of these forms."""

    _scale = DURATION

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
        """Return ``size`` independent delays in seconds, at most ``cap_s``, rounded to 1 µs."""
        longest_s = MAX_DURATION_S if cap_s is None else cap_s
        values = np.minimum(self._raw(generator, size), longest_s)
        return np.rint(values * 1e6) / 1e6

    def in_words(self) -> str:
        """Return it as a reader takes it in, parts of a mixture with their shares of all."""
        if self.mixture is None:
            return super().in_words()
        whole = sum(part.share for part in self.mixture)
        parts = (
            f"{100 * each.share / whole:.3g} % {each.delay.in_words()}" for each in self.mixture
        )
        return f"mixture ({', '.join(parts)})"

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
    """Yield the problem of ``model`` unless exactly one of its fields ``names`` is given."""
    given = [name for name in names if getattr(model, name) is not None]
    if len(given) != 1:
        found = ", ".join(given) or "none"
        yield "", f"give exactly one of {', '.join(names)}; got {found}"
