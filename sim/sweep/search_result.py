"""What a search has come to: the values that were tried, and the answer for each variant."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from sim.core.stats import Interval
from sim.sweep.target import Target, Verdict

Status: TypeAlias = Literal["found", "undecided", "always", "never", "unmeasured"]
Judgement: TypeAlias = Verdict | Literal["unmeasured"]
Number: TypeAlias = int | float


@dataclass(frozen=True)
class Judged:
    """One target at one value: the mean of its figure over the seeds with its 95 % t interval.

    A mean is infinite when the figure of any seed was censored, or left out more
    requests than its percentile has room for; ``left_out`` is the share of
    those that have no value since they were refused, broke off or gave up, under the
    seed with the most of them. It is
    ``unmeasured``, without a mean, when under any seed there was nothing to be
    measured; ``reason`` says under which, and what was missing.
    """

    target: Target
    interval: Interval
    verdict: Judgement
    left_out: float = 0.0
    reason: str | None = None


@dataclass(frozen=True)
class Trial:
    """One value that was tried, and the judgement of each target."""

    value: Number
    judged: tuple[Judged, ...]

    @property
    def verdict(self) -> Judgement:
        """What the targets come to together: missed where any surely is, met where all are."""
        order: tuple[Judgement, ...] = ("misses", "unmeasured", "undecided", "meets")
        return min((each.verdict for each in self.judged), key=order.index)

    @property
    def reason(self) -> str | None:
        """Why nothing was measured, if so."""
        if self.verdict != "unmeasured":
            return None
        return next(each.reason for each in self.judged if each.verdict == "unmeasured")

    @property
    def seeds(self) -> int:
        """Under how many it was run."""
        return self.judged[0].interval.n


@dataclass(frozen=True)
class Answer:
    """What a search has come to for one variant.

    ``status`` is ``found`` when ``value`` surely meets all targets and its
    neighbour ``misses`` surely does not; ``undecided`` when intervals in
    between straddle a bound (``value`` is then the nearest that surely meets
    them, if any); ``always`` and ``never`` when both ends say so; ``unmeasured``
    when it came to a value at which there was nothing to be measured;
    ``reason`` then says where and what. ``larger_helps`` is None for the last three.
    Values are numbers, in ``unit`` where they were written in one. ``trials`` go
    up; ``contradictions`` are pairs of them between which a figure surely went
    the wrong way; ``skipped`` are values that cannot be run, and why.
    """

    variant: str
    path: str
    targets: tuple[Target, ...]
    status: Status
    larger_helps: bool | None
    value: Number | None
    misses: Number | None
    trials: tuple[Trial, ...]
    contradictions: tuple[tuple[Number, Number], ...]
    unit: str = ""
    skipped: tuple[tuple[Number, str], ...] = ()
    reason: str | None = None

    def __repr__(self) -> str:
        """One line: a notebook shows it."""
        value = "" if self.value is None else f" = {self.value:g}{self.unit}"
        return (
            f"Answer({self.variant or 'no variants'}: {in_words(self.targets)}: {self.status}, "
            f"{self.path}{value}, {len(self.trials)} values tried)"
        )

    @property
    def crossing(self) -> tuple[Number, Number] | None:
        """The neighbours among the trials between which the means alone cross a bound; None
        unless there is one such place.
        """
        measured = [trial for trial in self.trials if trial.verdict != "unmeasured"]
        found = [
            (one.value, other.value)
            for one, other in pairwise(measured)
            if _kept_by_means(one) != _kept_by_means(other)
        ]
        return found[0] if len(found) == 1 else None


def in_words(targets: Sequence[Target]) -> str:
    """Targets that are to hold together."""
    return " and ".join(map(str, targets))


def _kept_by_means(trial: Trial) -> bool:
    return all(each.target.kept_by_mean(each.interval) for each in trial.judged)
