"""What a search has come to: the values that were tried, and the answer for each variant."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from sim.stats import Interval
from sim.sweep.target import Target, Verdict

Status: TypeAlias = Literal["found", "undecided", "always", "never", "unmeasured"]


@dataclass(frozen=True)
class Trial:
    """One value that was tried: the mean of the figure over the seeds with its 95 % t interval.

    A mean is infinite when the figure of any seed was censored. The value is
    ``unmeasured``, without a mean, when under any seed there was nothing to be
    measured; ``reason`` says under which, and what was missing.
    """

    value: str
    interval: Interval
    verdict: Verdict | Literal["unmeasured"]
    reason: str | None = None


@dataclass(frozen=True)
class Answer:
    """What a search has come to for one variant.

    ``status`` is ``found`` when ``value`` surely meets the target and its
    neighbour ``misses`` surely does not; ``undecided`` when intervals in
    between straddle the bound (``value`` is then the nearest that surely meets
    it, if any); ``always`` and ``never`` when both ends say so; ``unmeasured``
    when it came to a value at which there was nothing to be measured, or which is
    no scenario; ``reason`` then says where and what. ``larger_helps`` is None for the last three.
    ``trials`` go up; ``contradictions`` are pairs of them between which the
    figure surely went the wrong way.
    """

    variant: str
    path: str
    target: Target
    status: Status
    larger_helps: bool | None
    value: str | None
    misses: str | None
    trials: tuple[Trial, ...]
    contradictions: tuple[tuple[str, str], ...]
    reason: str | None = None

    @property
    def crossing(self) -> tuple[str, str] | None:
        """The neighbours among the trials between which the means alone cross the bound; None
        unless there is one such place.
        """
        measured = [trial for trial in self.trials if trial.verdict != "unmeasured"]
        found = [
            (one.value, other.value)
            for one, other in pairwise(measured)
            if self.target.kept_by_mean(one.interval) != self.target.kept_by_mean(other.interval)
        ]
        return found[0] if len(found) == 1 else None
