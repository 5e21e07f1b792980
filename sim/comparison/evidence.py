"""Paired differences, and what they prove: t tests, Holm's levels, the seeds that would decide.

A difference is one number per seed, new - base under the same workload. Seeds
are independent, so Student's t holds for their mean; the requests of one run
are not, and nothing here looks at them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sim.core.stats import t_quantile, t_tail

MOST_SEEDS: Final = 100
"""More seeds than this are advice that nobody can follow."""
FEW_SEEDS: Final = 20
"""Beyond these the sign test is near enough."""


@dataclass(frozen=True)
class Evidence:
    """Mean, standard deviation (n - 1) and number of independent differences."""

    mean: float
    deviation: float
    n: int

    @staticmethod
    def of(differences: Sequence[float]) -> "Evidence":
        """Raises ``ValueError`` for fewer than two: one difference has no spread."""
        n = len(differences)
        if n < 2:
            raise ValueError(f"a spread needs two differences; got {n}")
        mean = math.fsum(differences) / n
        squares = math.fsum((each - mean) ** 2 for each in differences)
        return Evidence(mean, math.sqrt(squares / (n - 1)), n)

    @property
    def p_value(self) -> float:
        """Two-sided p of Student's t against no difference.

        Differences that are all alike leave no doubt: 1 when they are 0, else 0.
        """
        if self.mean == 0.0:
            return 1.0
        if self.deviation == 0.0:
            return 0.0
        t = abs(self.mean) / (self.deviation / math.sqrt(self.n))
        return 2.0 * t_tail(-t, self.n - 1)

    def half_width(self, level: float) -> float:
        """Half of the t interval that misses the true mean with probability ``level``."""
        return _half_width(self.deviation, self.n, level)

    def seeds_needed(self, level: float, margin: float) -> int | None:
        """How many seeds would decide, were mean and deviation to stay what they are.

        Decided is what leaves out 0 when the mean is beyond the margin, and what
        lies within the margin when it is not. ``None`` when no number up to
        ``MOST_SEEDS`` would.
        """
        beyond = abs(self.mean) > margin
        room = abs(self.mean) if beyond else margin - abs(self.mean)

        def decided(n: int) -> bool:
            half = _half_width(self.deviation, n, level)
            return half < room if beyond else half <= room

        if not decided(MOST_SEEDS):
            return None
        low, high = 1, MOST_SEEDS  # low does not decide, high does: the width falls with n
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if decided(middle) else (middle, high)
        return high


def lateness_p(more: int, fewer: int, n: int) -> float:
    """Probability that under ``more`` of ``n`` seeds only one given side is late, and only the
    other under ``fewer``, or anything as telling, when chance alone decides.

    How telling it is says the sign test of the seeds that differ. Its p is a bound;
    for few seeds it is made exact (R. D. Boschloo, 1970): runs are late with some
    probability q, the same on both sides, so that each side is late alone with
    q (1 - q), a quarter at most and less when the two go together. The worst of
    these counts.
    """
    observed = _sign_p(more, more + fewer)
    if n > FEW_SEEDS:
        return observed
    tails = [
        max((p for least in range(d + 1) if (p := _sign_p(least, d)) <= observed), default=0.0)
        for d in range(n + 1)
    ]

    def chance(alone: float) -> float:
        differ = 2.0 * alone
        return sum(
            math.comb(n, d) * differ**d * (1.0 - differ) ** (n - d) * tail
            for d, tail in enumerate(tails)
        )

    return max(chance(quarter / 100.0) for quarter in range(1, 26))


def lateness_seeds_needed(more: int, fewer: int, n: int, level: float) -> int | None:
    """How many seeds would tell at ``level``, were the shares of both to stay what they are."""
    if more <= fewer:
        return None
    counts = range(n, MOST_SEEDS + 1)
    scaled = ((seeds, seeds * more // n, -(-seeds * fewer // n)) for seeds in counts)
    return next(
        (seeds for seeds, one, other in scaled if lateness_p(one, other, seeds) <= level), None
    )


def _sign_p(heads: int, tosses: int) -> float:
    """Probability of so many heads or more."""
    return math.ldexp(sum(math.comb(tosses, each) for each in range(heads, tosses + 1)), -tosses)


def _half_width(deviation: float, n: int, level: float) -> float:
    if n < 2:
        return math.inf
    return t_quantile(1.0 - level / 2.0, n - 1) * deviation / math.sqrt(n)


def holm_levels(p_values: Sequence[float], level: float) -> list[float]:
    """The level at which each of several tests is held, so that together they keep ``level``.

    Holm's step-down procedure: with the p values in ascending order, the k-th of
    m is held to level / (m - k + 1) until one fails; that one and all after it
    are held to the level that it failed. A test succeeds exactly when its p is at
    most its level, and then its interval at that level leaves out zero (S. Holm,
    1979).
    """
    order = sorted(range(len(p_values)), key=lambda at: p_values[at])
    levels = [level] * len(p_values)
    failed: float | None = None
    for rank, at in enumerate(order):
        held_to = failed if failed is not None else level / (len(order) - rank)
        levels[at] = held_to
        if p_values[at] > held_to and failed is None:
            failed = held_to
    return levels
