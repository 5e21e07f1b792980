"""One figure under every seed of a pair of variants: what is known, and why the rest is not."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias

from sim.comparison.pairing import Runs
from sim.results.comparison import figure_value
from sim.results.metrics import metric
from sim.results.survivors import behind, is_late, left_out

LARGEST: Final = 1e100
"""Of larger numbers the squares are none; no run of podsim comes near."""


class Unknown(Enum):
    """Why a figure has no value.

    ``LATE``: what it measures was still going on when the run ended, or more were
    refused than it leaves room for, so that it is larger than whatever was seen.
    ``NONE``: there was nothing to measure. ``BROKEN``: it is no number that can be
    reckoned with, which no run of podsim writes.
    """

    LATE = "late"
    NONE = "none"
    BROKEN = "broken"


Value: TypeAlias = float | Unknown


@dataclass(frozen=True)
class Observed:
    """A figure under the seeds that both sides have; ``values`` by seed, those of base and new.

    ``left_out`` are the shares of the requests that it says nothing of, on both sides.
    """

    values: Mapping[int, tuple[Value, Value]]
    left_out: tuple[float, float] = (0.0, 0.0)

    @property
    def known(self) -> list[tuple[float, float]]:
        """The values under the seeds for which both sides know it."""
        return [
            (base, new)
            for base, new in self.values.values()
            if not isinstance(base, Unknown) and not isinstance(new, Unknown)
        ]

    @property
    def differences(self) -> list[float]:
        """New - base under those seeds."""
        return [new - base for base, new in self.known]

    @property
    def means(self) -> tuple[float | None, float | None]:
        """Means over those seeds; where there are none, over those for which each side knows it."""
        sides = zip(*(self.known or self.values.values()))
        base, new = (_mean(side) for side in sides)
        return base, new

    @property
    def lost(self) -> list[int]:
        """The seeds for which only ``new`` does not know it, for lateness."""
        return self.seeds(None, Unknown.LATE)

    @property
    def gained(self) -> list[int]:
        """The seeds for which only the base does not know it, for lateness."""
        return self.seeds(Unknown.LATE, None)

    @property
    def knowers(self) -> tuple[bool, bool]:
        """Whether base and new know it under any seed."""
        base, new = zip(*self.values.values())
        return any(map(_is_known, base)), any(map(_is_known, new))

    @property
    def is_blank(self) -> bool:
        """Whether there was nothing to measure, on either side, under any seed."""
        return all(value is Unknown.NONE for pair in self.values.values() for value in pair)

    @property
    def is_foreign(self) -> bool:
        """Whether one side knows it and the other never had anything to measure."""
        never = [
            all(value is Unknown.NONE for value in side) for side in zip(*self.values.values())
        ]
        return any(never) and any(self.knowers)

    @property
    def broken(self) -> tuple[list[int], list[int]]:
        """The seeds for which base, and new, have something that is no number."""
        base, new = (
            [seed for seed, pair in self.values.items() if pair[at] is Unknown.BROKEN]
            for at in (0, 1)
        )
        return base, new

    def seeds(self, base: Unknown | None, new: Unknown | None) -> list[int]:
        """The seeds with these values; ``None`` is any that is known."""
        return [
            seed for seed, pair in self.values.items() if _is(pair[0], base) and _is(pair[1], new)
        ]


def observed(key: str, runs: Runs) -> Observed:
    """The values of a figure under each seed."""
    olds, youngs = [old.summary for old, _ in runs], [young.summary for _, young in runs]
    return Observed(
        {old.seed: _both(key, old.summary, young.summary) for old, young in runs},
        (left_out(key, olds), left_out(key, youngs)),
    )


def missing_from(key: str, summaries: Iterable[Mapping[str, float | None]]) -> bool:
    """Whether no summary has the figure at all; one of a family is never missing, but 0."""
    return not metric(key).is_family and not any(key in summary for summary in summaries)


def _is_known(value: Value) -> bool:
    return not isinstance(value, Unknown)


def _mean(values: Iterable[Value]) -> float | None:
    known = [value for value in values if not isinstance(value, Unknown)]
    return math.fsum(known) / len(known) if known else None


def _is(value: Value, wanted: Unknown | None) -> bool:
    return _is_known(value) if wanted is None else value is wanted


def _both(
    key: str, old: Mapping[str, float | None], young: Mapping[str, float | None]
) -> tuple[Value, Value]:
    """The values of both; of one side alone that served too few for it, it is late.

    Else whoever refuses most would be the fastest. Where both served too few, it
    is that of those served on both sides.
    """
    base, new = _value(key, old), _value(key, young)
    few, fewer = _of_too_few(key, old), _of_too_few(key, young)
    if few == fewer:
        return base, new
    return (Unknown.LATE, new) if few else (base, Unknown.LATE)


def _of_too_few(key: str, summary: Mapping[str, float | None]) -> bool:
    found = behind(key, summary)
    return found is not None and found.hides(key.rpartition(".")[2])


def _value(key: str, summary: Mapping[str, float | None]) -> Value:
    value = figure_value(key, summary)
    if value is None:
        return Unknown.LATE if is_late(key, summary) else Unknown.NONE
    # A summary from a file may hold anything, and a comparison with NaN is never true.
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= LARGEST:
        return Unknown.BROKEN
    return float(value)
