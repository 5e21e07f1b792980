"""The verdict on one metric of one pair of variants."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

from sim.comparison.evidence import MOST_SEEDS, Evidence
from sim.comparison.observed import Observed, Unknown
from sim.comparison.pairing import named_seeds
from sim.comparison.verdict import Judged, Verdict
from sim.results.metric import Metric

ROUNDING: Final = 1e-9
"""A relative difference that another order of summation may make; no metric is held to less."""
ONE_SEED: Final = "one seed says nothing about chance"
TWO_ALIKE: Final = "two seeds that differ by the same say little about chance"
"""Counts do so in every tenth pair of seeds or so, and no spread is left to tell."""
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
    def size(self) -> Evidence | None:
        """How much it differs where both sides know it; ``None`` without two such seeds."""
        return _evidence(self.observed.differences)

    @cached_property
    def fate(self) -> Evidence | None:
        """How much more often ``new`` does not know it, for requests that are late."""
        return _evidence(self.observed.fates)

    @property
    def p_value(self) -> float:
        """Two-sided p that it does not differ, in size or in fate (Bonferroni); 1 for one seed."""
        each = [evidence.p_value for evidence in (self.size, self.fate) if evidence is not None]
        return min(1.0, len(each) * min(each, default=1.0))

    @property
    def may_differ(self) -> bool:
        """Whether there is anything to test."""
        return bool(self.size or self.fate) and any(
            (*self.observed.differences, *self.observed.fates)
        )

    @property
    def blank(self) -> Judged:
        """Its names and its means; the verdict is still to come."""
        base, new = self.observed.means
        return Judged(
            variant=self.variant,
            key=self.key,
            unit=self.metric.unit,
            primary=self.metric.primary,
            verdict="inconclusive",
            n=len(self.observed.known),
            base=base,
            new=new,
        )


def settled(question: Question) -> Judged | None:
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
            reason = f"unknown in {side} under {named_seeds(seeds)}: nothing there to measure"
            return _incomparable(question, reason)
    if not any(values.knowers):  # and some of it late, else nothing would have been asked
        reason = "unknown on both sides: requests were still on their way as the runs ended"
        return replace(question.blank, reason=reason)
    return None


def answered(question: Question, level: float) -> Judged:
    """The verdict of the tests when they may be wrong with probability ``level``."""
    tests = (question.size is not None) + (question.fate is not None)
    each = level / max(1, tests)
    judged = _measured(question, each)
    lateness = _lateness(question)
    if len(question.observed.values) == 1:
        return replace(judged, reason=_and(ONE_SEED, lateness))
    if not tests:
        values = question.observed
        alike = 2 in (len(values.differences), len(values.fates))
        few = TWO_ALIKE if alike else "known under one seed only"
        return replace(judged, reason=_and(few, lateness))
    verdict = _together(
        _of_size(question, question.size, each),
        _of_fate(question.fate, each),
        lost=bool(question.observed.lost),
    )
    needed = _seeds_needed(question, each) if verdict == "inconclusive" else None
    reason = lateness
    if verdict == "inconclusive" and needed is None:
        reason = _and(f"{MOST_SEEDS:,} seeds would not decide it", lateness)
    return replace(judged, verdict=verdict, seeds_needed=needed, reason=reason)


def _evidence(differences: Sequence[float]) -> Evidence | None:
    """``None`` for what has no spread: a single difference, or two that are alike and not 0."""
    if len(differences) == 2 and any(differences) and math.isclose(*differences, rel_tol=ALIKE):
        return None
    return Evidence.of(differences) if len(differences) > 1 else None


def _measured(question: Question, level: float) -> Judged:
    """The mean change with its interval and the margin, as shares of the base if there is one."""
    blank = replace(question.blank, p_value=question.p_value, level=level)
    differences = question.observed.differences
    if not differences or blank.base is None:
        return blank
    relative = blank.base != 0.0
    scale = abs(blank.base) if relative else 1.0
    mean = math.fsum(differences) / len(differences)
    half = question.size.half_width(level) if question.size else None
    return replace(
        blank,
        change=mean / scale,
        low=None if half is None else (mean - half) / scale,
        high=None if half is None else (mean + half) / scale,
        relative=relative,
        margin=_margin(question.metric, blank.base) / scale,
    )


def _margin(declared: Metric, base: float) -> float:
    """The difference up to which two sides count as equal, in the metric's unit."""
    return max(abs(base) * max(declared.margin, ROUNDING), declared.floor)


def _of_size(question: Question, size: Evidence | None, level: float) -> Verdict | None:
    if size is None:
        return None
    if not any(question.observed.differences):
        return "same"
    base = question.blank.base
    margin = _margin(question.metric, base if base is not None else 0.0)
    if size.p_value <= level and abs(size.mean) > margin:
        if question.metric.better == "none":
            return "changed"
        return "better" if (size.mean > 0.0) == (question.metric.better == "up") else "worse"
    return "same" if abs(size.mean) + size.half_width(level) <= margin else "inconclusive"


def _of_fate(fate: Evidence | None, level: float) -> Verdict | None:
    if fate is None:
        return None
    if fate.p_value > level:
        return "inconclusive"
    return "worse" if fate.mean > 0.0 else "better"


def _together(size: Verdict | None, fate: Verdict | None, lost: bool) -> Verdict:
    """What both tests come to; a figure that a run of new has lost is neither same nor better."""
    if "worse" in (size, fate):
        return "worse"
    if fate is None:
        return size or "inconclusive"
    return "better" if fate == "better" or (size == "better" and not lost) else "inconclusive"


def _seeds_needed(question: Question, level: float) -> int | None:
    """The seeds that would decide by the quicker of the tests that can.

    The size is known under some of the seeds only, and takes more of them all
    the more.
    """
    size, fate, values = question.size, question.fate, question.observed
    needed = [] if fate is None else [fate.seeds_needed(level, 0.0)]
    if size is not None and (fate is None or _size_may_decide(question, size)):
        known = size.seeds_needed(level, _margin(question.metric, question.blank.base or 0.0))
        needed.append(known and math.ceil(known * len(values.values) / size.n))
    return min((each for each in needed if each is not None), default=None)


def _size_may_decide(question: Question, size: Evidence) -> bool:
    """Whether, beside a test of fate, that of size may come to worse, or to better and to count."""
    if abs(size.mean) <= _margin(question.metric, question.blank.base or 0.0):
        return False
    is_better = (size.mean > 0.0) == (question.metric.better == "up")
    return not is_better or not question.observed.lost


def _lateness(question: Question) -> str:
    """Which side does not know the figure under which seeds, as its runs ended too early."""
    said = [
        f"unknown in {side} under {named_seeds(seeds)}: requests were still on their way at the end"
        for side, seeds in (
            (question.new, question.observed.lost),
            (question.base, question.observed.gained),
        )
        if seeds
    ]
    return "; ".join(said)


def _incomparable(question: Question, reason: str) -> Judged:
    return replace(question.blank, verdict="incomparable", reason=reason)


def _and(first: str, second: str) -> str:
    return f"{first}; {second}" if second else first
