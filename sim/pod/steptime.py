"""What a step costs, and what a span of equal decode steps costs, in closed form."""

from math import sqrt

from sim.scenario.schema import StepTime as Coefficients


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

    def span_s(self, steps: int, decoders: int, context: int) -> float:
        """Duration of ``steps`` decode steps; ``context`` tokens are read in the first.

        T(n) = n·(α + c·S) + c·B·n(n-1)/2: every step reads ``decoders`` tokens more.
        """
        first_s = self.fixed_s(decoders) + self._context * context
        return steps * first_s + self._context * decoders * (steps * (steps - 1) / 2)

    def steps_until(self, start_s: float, until_s: float, decoders: int, context: int) -> int:
        """How many steps of a span that began at ``start_s`` have ended at ``until_s``.

        The inverse of ``span_s`` by a square root in the form that loses no
        digits, then corrected against ``start_s + span_s(n)``: on exact
        boundaries the root alone is off by one about every second time.
        """
        elapsed_s = until_s - start_s
        if elapsed_s <= 0:
            return 0
        growth_s = self._context * decoders
        rate = self.fixed_s(decoders) + self._context * context - growth_s / 2
        steps = int(2 * elapsed_s / (rate + sqrt(rate * rate + 2 * growth_s * elapsed_s)))
        while start_s + self.span_s(steps + 1, decoders, context) <= until_s:
            steps += 1
        while steps and start_s + self.span_s(steps, decoders, context) > until_s:
            steps -= 1
        return steps
