"""What a step costs, and what a span of equal decode steps costs, in closed form."""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from math import sqrt

from sim.hardware.engine import Curve, StepTime


class StepCost:
    """The additive step time of ``sim.hardware.engine.StepTime``, in seconds.

    ``t = a + b·P/1e3 + c·S/1e5 + d·A/1e8 + f·B/1e2 + g·√B`` milliseconds, with P
    prefill tokens, S context tokens of the decoding sequences, A query-key
    pairs of the prefill chunks and B decoding sequences; beside it a curve
    over P + B, and terms in S and B that only a step that prefills has. With
    no prefill and a fixed B it is affine in S, which spans rely on.

    An engine that computes at most ``pass_tokens`` tokens in one forward pass
    pays ``a`` and the curve for each pass of a step; all but the last are full.
    """

    __slots__ = (
        *("_base", "_context", "_curve", "_decoder", "_pair", "_prefill", "_root"),
        *("_full_pass_s", "_pass_tokens"),
        *("_prefilling_base", "_prefilling_context", "_prefilling_decoder"),
    )

    def __init__(self, coefficients: StepTime, pass_tokens: int | None = None) -> None:
        self._base = coefficients.a / 1e3
        self._prefill = coefficients.b / 1e6
        self._context = coefficients.c / 1e8
        self._pair = coefficients.d / 1e11
        self._decoder = coefficients.f / 1e5
        self._root = coefficients.g / 1e3
        self._prefilling_base = coefficients.prefilling.a / 1e3
        self._prefilling_context = coefficients.prefilling.c / 1e8
        self._prefilling_decoder = coefficients.prefilling.f / 1e5
        self._curve = (
            None if coefficients.computed is None else Interpolation(coefficients.computed)
        )
        self._pass_tokens = pass_tokens
        self._full_pass_s = self._base
        if pass_tokens is not None and self._curve is not None:
            self._full_pass_s += self._curve.at_s(pass_tokens)

    def fixed_s(self, decoders: int, prefill_tokens: int = 0) -> float:
        """The part of a step that depends only on how many tokens it computes for whom."""
        fixed_s = self._base + self._decoder * decoders + self._root * sqrt(decoders)
        tokens = prefill_tokens + decoders
        if self._pass_tokens is not None and tokens > self._pass_tokens:
            full_passes = (tokens - 1) // self._pass_tokens
            tokens -= full_passes * self._pass_tokens
            fixed_s += full_passes * self._full_pass_s
        return fixed_s if self._curve is None else fixed_s + self._curve.at_s(tokens)

    def step_s(self, prefill_tokens: int, pairs: float, decoders: int, context: int) -> float:
        """Duration of one step."""
        decode_s = self.fixed_s(decoders, prefill_tokens) + self._context * context
        step_s = decode_s + self._prefill * prefill_tokens + self._pair * pairs
        if prefill_tokens:
            step_s += self._prefilling_base + self._prefilling_decoder * decoders
            step_s += self._prefilling_context * context
        return step_s

    def span(self, start_s: float, decoders: int, context: int) -> "Span":
        """Equal decode steps from ``start_s`` on; ``context`` tokens are read in the first."""
        first_s = self.fixed_s(decoders) + self._context * context
        return Span(start_s, first_s, self._context * decoders)


class Interpolation:
    """Straight lines between points; before the first one level, beyond the last one on."""

    __slots__ = ("_slopes", "_tokens", "_values_s")

    def __init__(self, points: Curve) -> None:
        self._tokens = points.tokens
        self._values_s = tuple(ms / 1e3 for ms in points.ms)
        rises = zip(pairwise(self._values_s), pairwise(self._tokens))
        self._slopes = [(high - low) / (end - start) for (low, high), (start, end) in rises]

    def at_s(self, tokens: int) -> float:
        """The curve at a number of tokens."""
        piece = min(bisect_right(self._tokens, tokens), len(self._slopes)) - 1
        if piece < 0:
            return self._values_s[0]
        return self._values_s[piece] + self._slopes[piece] * (tokens - self._tokens[piece])


class Span:
    """Decode steps of one batch: each lasts ``growth_s`` longer than the one before it.

    n steps last T(n) = n·first + growth·n(n-1)/2, since every step reads one
    token more of each sequence. SchedulerOutput ends are the start plus T(n), never sums
    of steps, so that everybody computes the same float.
    """

    __slots__ = ("_first_s", "_growth_s", "start_s")

    def __init__(self, start_s: float, first_s: float, growth_s: float) -> None:
        self.start_s = start_s
        self._first_s = first_s
        self._growth_s = growth_s

    def first_steps(self) -> tuple[float, float]:
        """Sorts spans by the length of their first step, equal ones by that of the second."""
        return self._first_s, self._growth_s

    def end_s(self, steps: int) -> float:
        """When the step number ``steps`` ends."""
        lasting_s = steps * self._first_s + self._growth_s * (steps * (steps - 1) / 2)
        return self.start_s + lasting_s

    def leads(self, other: "Span", limit: int) -> int:
        """For how many steps, at most ``limit``, none of ``other``'s is longer than its own.

        The first of its own must be at least as long as the other's.
        """
        ahead_s = self._first_s - other._first_s
        gain_s = other._growth_s - self._growth_s
        return limit if ahead_s >= gain_s * limit else min(limit, int(ahead_s / gain_s) + 1)

    def steps_until(self, until_s: float) -> int:
        """How many steps have ended at ``until_s``.

        The inverse of T by a square root in the form that loses no digits,
        then corrected against the step ends: on exact boundaries the root
        alone is off by one about every second time.
        """
        elapsed_s = until_s - self.start_s
        if elapsed_s <= 0:
            return 0
        growth_s = self._growth_s
        rate = self._first_s - growth_s / 2
        steps = int(2 * elapsed_s / (rate + sqrt(rate * rate + 2 * growth_s * elapsed_s)))
        while self.end_s(steps + 1) <= until_s:
            steps += 1
        while steps and self.end_s(steps) > until_s:
            steps -= 1
        return steps

    def steps_before(self, until_s: float) -> int:
        """How many steps have ended before ``until_s``, which is not part of the interval."""
        steps = self.steps_until(until_s)
        while steps and self.end_s(steps) >= until_s:
            steps -= 1
        return steps


def slowest(spans: Sequence[Span], limit: int) -> tuple[Span, int]:
    """The span with the longest steps, and for how many of the next ``limit`` steps it is that.

    Lengths of steps are affine in their number, so their maximum is one of
    them up to the step at which another one overtakes it.
    """
    longest = spans[0]
    if len(spans) > 1:
        longest = max(spans, key=Span.first_steps)
        for span in spans:
            limit = longest.leads(span, limit)
    return longest, limit
