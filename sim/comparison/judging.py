"""The verdict on one metric of one pair of variants: t test, Holm's level, seeds that would decide.

A difference is one number per seed, new - base under the same workload. Seeds
are independent, so Student's t holds for their mean; the requests of one run
are not, and nothing here looks at them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from sim.comparison.observed import Observed, Unknown
from sim.comparison.pairing import named_seeds
from sim.comparison.sides import MetricVerdict, Verdict
from sim.core.stats import t_quantile, t_tail
from sim.core.text import share
from sim.results.metrics import Metric
from sim.results.survivors import REFUSED, WORTH_SAYING

MOST_SEEDS: Final = 100
"""More seeds than this are advice that nobody can follow."""
FEW_SEEDS: Final = 20
"""Beyond these the sign test is near enough."""


@dataclass(frozen=True)
class MeanDifference:
    """Mean, standard deviation (n - 1) and number of independent differences."""

    mean: float
    deviation: float
    n: int

    @staticmethod
    def of(differences: Sequence[float]) -> "MeanDifference":
        """Raises ``ValueError`` for fewer than two: one difference has no spread."""
        n = len(differences)
        if n < 2:
            raise ValueError(f"a spread needs two differences; got {n}")
        mean = math.fsum(differences) / n
        squares = math.fsum((each - mean) ** 2 for each in differences)
        return MeanDifference(mean, math.sqrt(squares / (n - 1)), n)

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


ROUNDING: Final = 1e-9
"""A relative difference that another order of summation may make; no metric is held to less."""
ONE_SEED: Final = "one seed says nothing about chance"
TWO_ALIKE: Final = "two seeds that differ by the same say little about chance"
"""Counts do so in every tenth pair of seeds or so, and no spread is left to tell."""
RATIO_SCALES: Final = ("s", "tokens/s", "requests/s", "turns/h")
"""Units of times and rates, which are above 0 and of which one is so many times another."""
LARGEST_LOG: Final = 700.0
"""Two seeds that disagree bound a ratio by more than a number can hold; no ratio is so large."""
ALIKE: Final = 1e-4
"""Up to this share of each other two differences are alike: beyond the rounding of baselines."""


@dataclass(frozen=True)
class Question:
    """One metric of a pair of variants, before it is known how strictly it is tested.

    ``key`` is the figure, ``metric`` its declaration; ``base`` and ``new`` are
    what the sides are called.
    """

    variant: str
    key: str
    metric: Metric
    observed: Observed
    base: str
    new: str

    @cached_property
    def in_logs(self) -> bool:
        """Whether it is compared by logarithms of ratios: a time or a rate, none of them 0."""
        known = self.observed.known
        return self.metric.unit in RATIO_SCALES and all(min(pair) > 0.0 for pair in known)

    @cached_property
    def differences(self) -> list[float]:
        """By seed under which both sides know it: log(new / base), or new - base."""
        if self.in_logs:
            return [math.log(new / base) for base, new in self.observed.known]
        return self.observed.differences

    @cached_property
    def margin(self) -> float:
        """Up to which difference two sides count as equal, in the measure of ``differences``."""
        base = abs(self.observed.means[0] or 0.0)
        equal = max(base * max(self.metric.margin, ROUNDING), self.metric.floor)
        return math.log1p(equal / base) if self.in_logs and base else equal

    @cached_property
    def size(self) -> MeanDifference | None:
        """How much it differs where both sides know it; ``None`` without two such seeds."""
        return _evidence(self.differences)

    @property
    def late(self) -> tuple[int, int]:
        """Under how many seeds only ``new`` does not know it, for lateness, and only the base."""
        return len(self.observed.lost), len(self.observed.gained)

    @property
    def p_value(self) -> float:
        """Two-sided p that it does not differ in size; 1 for one seed."""
        return 1.0 if self.size is None else self.size.p_value

    @property
    def may_differ(self) -> bool:
        """Whether there is anything to test."""
        return self.size is not None and any(self.differences)

    @property
    def blank(self) -> MetricVerdict:
        """Its names and its means; the verdict is still to come."""
        base, new = self.observed.means
        return MetricVerdict(
            variant=self.variant,
            key=self.key,
            unit=self.metric.unit,
            primary=self.metric.primary,
            verdict="inconclusive",
            n=len(self.observed.known),
            base=base,
            new=new,
        )


def settled(question: Question) -> MetricVerdict | None:
    """The verdict on what needs no statistics: values that are no numbers, or known to one side.

    ``None`` when it takes statistics.
    """
    values, sides = question.observed, (question.base, question.new)
    for side, seeds in zip(sides, values.broken):
        if seeds:
            return _incomparable(question, f"no usable number in {side} under {named_seeds(seeds)}")
    for side, seeds in (
        (question.new, values.seeds(None, Unknown.NONE)),
        (question.base, values.seeds(Unknown.NONE, None)),
    ):
        if seeds:
            reason = f"{side} had nothing to measure it by under {named_seeds(seeds)}"
            return _incomparable(question, reason)
    if not any(values.knowers):  # and some of it late, else nothing would have been asked
        reason = "known to neither side: requests were still on their way as the runs ended"
        return replace(question.blank, reason=reason)
    return None


def answered(question: Question, own: float, level: float) -> MetricVerdict:
    """The verdict when the test of size may be wrong with probability ``own``, and that of
    lateness, which is no matter of size and outside of any family, with ``level``.
    """
    values, lateness = question.observed, _lateness(question)
    judged = _measured(question, own)
    if len(values.values) == 1:
        return replace(judged, reason=_and(ONE_SEED, lateness))
    is_late = bool(values.lost or values.gained)
    if question.size is None and not is_late:
        few = TWO_ALIKE if len(question.differences) == 2 else "known under one seed only"
        return replace(judged, reason=few)
    verdict = _verdict(question, own, level)
    if verdict == "better" and _served_fewer(question):
        return replace(judged, reason=_and(_of_the_served(question), lateness))
    if verdict != "inconclusive":
        return replace(judged, verdict=verdict, reason=lateness)
    needed = _seeds_needed(question, own, level)
    reason = lateness
    if needed is None:
        reason = _and(f"it would take more than {MOST_SEEDS} seeds to tell", lateness)
    return replace(judged, seeds_needed=needed, reason=reason)


def _evidence(differences: Sequence[float]) -> MeanDifference | None:
    """``None`` for what has no spread: a single difference, or two that are alike and not 0."""
    if len(differences) == 2 and any(differences) and math.isclose(*differences, rel_tol=ALIKE):
        return None
    return MeanDifference.of(differences) if len(differences) > 1 else None


def _measured(question: Question, level: float) -> MetricVerdict:
    """The mean change with its interval and the margin: as ratios, or as shares of the base, of
    which at most all is lost; from a base of zero, and of times some of which are zero, in the
    unit of the metric.
    """
    blank = replace(question.blank, p_value=question.p_value, level=level)
    differences, size = question.differences, question.size
    if not differences or blank.base is None:
        return blank
    mean = math.fsum(differences) / len(differences)
    half = math.nan if size is None else size.half_width(level)
    found: tuple[float, ...] = (mean, mean - half, mean + half, question.margin)
    relative = question.in_logs
    if relative:
        found = tuple(math.expm1(min(each, LARGEST_LOG)) for each in found)
    elif blank.base != 0.0 and question.metric.unit not in RATIO_SCALES:
        relative = True
        found = tuple(max(-1.0, each / abs(blank.base)) for each in found)
    change, low, high, margin = found
    return replace(
        blank,
        change=change,
        low=None if size is None else low,
        high=None if size is None else high,
        relative=relative,
        margin=margin,
    )


def _verdict(question: Question, own: float, level: float) -> Verdict:
    """Of size and lateness together; a figure that a run of new has lost is neither same nor
    better.
    """
    (lost, gained), seeds = question.late, len(question.observed.values)
    if lost and lateness_p(lost, gained, seeds) <= level:
        return "worse"
    size = "inconclusive" if question.size is None else _of_size(question, question.size, own)
    if size == "worse":
        return "worse"
    if lost:
        return "inconclusive"
    if gained:
        is_sure = lateness_p(gained, lost, seeds) <= level
        return "better" if is_sure or size == "better" else "inconclusive"
    return size


def _of_size(question: Question, size: MeanDifference, level: float) -> Verdict:
    if not any(question.differences):
        return "same"
    if size.p_value <= level and abs(size.mean) > question.margin:
        if question.metric.better == "none":
            return "changed"
        return "better" if (size.mean > 0.0) == (question.metric.better == "up") else "worse"
    within = abs(size.mean) + size.half_width(level) <= question.margin
    return "same" if within else "inconclusive"


def _seeds_needed(question: Question, own: float, level: float) -> int | None:
    """The seeds that would decide by the quicker of the tests that can.

    The size is known under some of the seeds only, and takes more of them all
    the more.
    """
    size, seeds = question.size, len(question.observed.values)
    needed = [lateness_seeds_needed(max(question.late), min(question.late), seeds, level)]
    if size is not None and (not any(question.late) or _size_may_decide(question, size)):
        known = size.seeds_needed(own, question.margin)
        needed.append(known and math.ceil(known * seeds / size.n))
    return min((each for each in needed if each is not None), default=None)


def _size_may_decide(question: Question, size: MeanDifference) -> bool:
    """Whether, beside lateness, the size may come to worse, or to better and to count."""
    if abs(size.mean) <= question.margin:
        return False
    is_better = (size.mean > 0.0) == (question.metric.better == "up")
    return not is_better or not question.observed.lost


def _served_fewer(question: Question) -> bool:
    """Whether new leaves out more, so that who was served is not who was served before."""
    base, new = question.observed.left_out
    return new - base > WORTH_SAYING


def _of_the_served(question: Question) -> str:
    base, new = map(share, question.observed.left_out)
    few = f"{new} {REFUSED} in {question.new}, {base} in {question.base}"
    return f"better for those served only: {few}"


def _lateness(question: Question) -> str:
    """Which side does not know the figure under which seeds, and why."""
    said = [
        f"{side} has no value for it under {named_seeds(seeds)}: {_why_late(question, at)}"
        for side, seeds, at in (
            (question.new, question.observed.lost, 1),
            (question.base, question.observed.gained, 0),
        )
        if seeds
    ]
    return "; ".join(said)


def _why_late(question: Question, at: int) -> str:
    left_out = question.observed.left_out[at]
    if left_out > WORTH_SAYING:
        return f"{share(left_out)} {REFUSED}, or were still on their way at the end"
    return "requests were still on their way at the end"


def _incomparable(question: Question, reason: str) -> MetricVerdict:
    return replace(question.blank, verdict="incomparable", reason=reason)


def _and(first: str, second: str) -> str:
    return f"{first}; {second}" if second else first
