"""What a comparison comes to: a verdict for each metric of each variant, and one over all."""

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

Verdict: TypeAlias = Literal["identical", "better", "same", "worse", "inconclusive", "incomparable"]

SEVERITY: Final[tuple[Verdict, ...]] = (
    *("identical", "same", "better", "inconclusive", "incomparable", "worse"),
)
"""From what nobody needs to look at to what turns a check red."""


@dataclass(frozen=True)
class Judged:
    """One metric of one variant, over the seeds that both sides have.

    ``change`` is the mean difference, new - base, as a share of the base's mean
    when ``relative``, else in the metric's unit; [``low``, ``high``] is its
    interval. ``base`` and ``new`` are means over the seeds. ``seeds_needed`` is
    how many seeds would decide what is inconclusive, ``reason`` why it is what
    it is, in words.
    """

    variant: str
    key: str
    unit: str
    primary: bool
    verdict: Verdict
    n: int
    base: float | None = None
    new: float | None = None
    change: float | None = None
    low: float | None = None
    high: float | None = None
    relative: bool = True
    margin: float = 0.0
    p_value: float | None = None
    seeds_needed: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Comparison:
    """Everything that was judged, in the order of variants and of ``sim.results.metrics``.

    ``reason`` says why nothing could be judged, when that is so.
    """

    base: str
    new: str
    scenario: str
    judged: tuple[Judged, ...]
    reason: str = ""

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of a primary metric; incomparable when nothing was judged."""
        found: list[Verdict] = [each.verdict for each in self.judged if each.primary]
        return max(found, key=SEVERITY.index) if found else "incomparable"
