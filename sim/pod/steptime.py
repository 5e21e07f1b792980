"""What a step costs, and what a span of equal decode steps costs, in closed form."""

from math import sqrt

from sim.scenario.engine import StepTime as Coefficients


class StepTime:
    """The additive step time of the engine semantics (sections 0 and 6), in seconds.

    ``t = a + b·P/1e3 + c·S/1e5 + d·A/1e8 + f·B/1e2 + g·√B`` milliseconds, with P
    prefill tokens, S context tokens of the decoding sequences, A query-key
    pairs of the prefill chunks and B decoding sequences.
    """

    __slots__ = ("_base", "_context", "_decoder", "_pair", "_prefill", "_root")

    def __init__(self, coefficients: Coefficients) -> None:
        self._base = coefficients.a / 1e3
        self._prefill = coefficients.b / 1e6
        self._context = coefficients.c / 1e8
        self._pair = coefficients.d / 1e11
        self._decoder = coefficients.f / 1e5
        self._root = coefficients.g / 1e3

    def fixed_s(self, decoders: int) -> float:
        """The part of a step that depends only on the number of decoding sequences."""
        return self._base + self._decoder * decoders + self._root * sqrt(decoders)

    def step_s(self, prefill_tokens: int, pairs: float, decoders: int, context: int) -> float:
        """Duration of one step."""
        decode_s = self.fixed_s(decoders) + self._context * context
        return decode_s + self._prefill * prefill_tokens + self._pair * pairs

    def span(self, start_s: float, decoders: int, context: int) -> "Span":
        """Equal decode steps from ``start_s`` on; ``context`` tokens are read in the first."""
        first_s = self.fixed_s(decoders) + self._context * context
        return Span(start_s, first_s, self._context * decoders)


class Span:
    """Decode steps of one batch: each lasts ``growth_s`` longer than the one before it.

    n steps last T(n) = n·first + growth·n(n-1)/2, since every step reads one
    token more of each sequence. Step ends are the start plus T(n), never sums
    of steps, so that everybody computes the same float.
    """

    __slots__ = ("_first_s", "_growth_s", "start_s")

    def __init__(self, start_s: float, first_s: float, growth_s: float) -> None:
        self.start_s = start_s
        self._first_s = first_s
        self._growth_s = growth_s

    def end_s(self, steps: int) -> float:
        """When the step number ``steps`` ends."""
        lasting_s = steps * self._first_s + self._growth_s * (steps * (steps - 1) / 2)
        return self.start_s + lasting_s

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
