"""Bisection for the value at which a target begins to be met, of values that may stay undecided."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from sim.core.stats import Interval
from sim.sweep.target import Verdict

Judge = Callable[[int], Verdict]

_RANK: Final[dict[Verdict, int]] = {"misses": 0, "undecided": 1, "meets": 2}


@dataclass(frozen=True)
class Edge:
    """Where the target begins to be met, by the index of values.

    ``meets`` is the value next to those that miss which surely meets the
    target, ``misses`` the one next to it which surely does not; None where
    there is none. ``upward`` says whether larger values help, None where both
    ends say the same.
    """

    upward: bool | None
    misses: int | None
    meets: int | None

    @property
    def is_sharp(self) -> bool:
        """Whether no value between the two is left undecided."""
        if self.misses is None or self.meets is None:
            return False
        return abs(self.meets - self.misses) == 1


def edge(last: int, judge: Judge) -> Edge:
    """Bisect the indices 0 to ``last`` (1 or more); ``judge`` is asked once for each that matters.

    Two bisections when there are undecided values: one for where values begin
    to meet the target for sure, one for where they cease to miss it for sure.
    Verdicts are taken to change in one direction; see ``contradictions``.
    """
    known: dict[int, Verdict] = {}

    def verdict(index: int) -> Verdict:
        if index not in known:
            known[index] = judge(index)
        return known[index]

    first, second = verdict(0), verdict(last)
    if first == second:
        end = {"meets": (None, 0), "misses": (last, None), "undecided": (None, None)}[first]
        return Edge(None, *end)
    upward = _RANK[first] < _RANK[second]
    worse, better = (0, last) if upward else (last, 0)
    meets: int | None = None
    short = better  # the best value that does not surely meet the target, once it is known
    if verdict(better) == "meets":
        short, meets = _between(worse, better, lambda index: verdict(index) == "meets")
    if verdict(worse) != "misses":
        return Edge(upward, None, meets)
    if verdict(short) == "misses":
        return Edge(upward, short, meets)
    missing = [index for index, found in known.items() if found == "misses"]
    start = min(missing, key=lambda index: abs(index - short))
    misses, _ = _between(start, short, lambda index: verdict(index) != "misses")
    return Edge(upward, misses, meets)


def _between(no: int, yes: int, holds: Callable[[int], bool]) -> tuple[int, int]:
    """Neighbours, the first without and the second with what ``yes`` has and ``no`` has not."""
    while abs(yes - no) > 1:
        middle = (no + yes) // 2
        if holds(middle):
            yes = middle
        else:
            no = middle
    return no, yes


def contradictions(trials: Mapping[int, Interval]) -> Sequence[tuple[int, int]]:
    """Neighbours among the tried indices between which the figure went the wrong way, surely.

    The right way is the one from the first to the last; surely means that
    their intervals do not touch. A search that meets such a pair may have
    missed another place where the target begins to be met.
    """
    tried = sorted(trials)
    rises = _mean(trials[tried[-1]]) >= _mean(trials[tried[0]])
    return [
        (one, other)
        for one, other in pairwise(tried)
        if _parted(trials[other], trials[one])
        if (_mean(trials[other]) > _mean(trials[one])) != rises
    ]


def _mean(interval: Interval) -> float:
    return 0.0 if interval.mean is None else interval.mean


def _parted(one: Interval, other: Interval) -> bool:
    bounds = (one.low, one.high, other.low, other.high)
    low, high, other_low, other_high = (float("nan") if each is None else each for each in bounds)
    return low > other_high or high < other_low
