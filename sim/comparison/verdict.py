"""What a comparison comes to: a verdict for each metric of each variant, and one over all."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

if TYPE_CHECKING:
    import pandas as pd

Verdict: TypeAlias = Literal[
    "identical",
    "same",
    "changed",
    "better",
    "inconclusive",
    "incomparable",
    "different",
    "worse",
]
"""``changed`` is beyond the margin in a figure of which neither direction is better; ``different``
is what is not identical where nothing else was asked.
"""

SEVERITY: Final[tuple[Verdict, ...]] = (
    "identical",
    "same",
    "changed",
    "better",
    "inconclusive",
    "incomparable",
    "different",
    "worse",
)
"""From what nobody needs to look at to what turns a check red."""


@dataclass(frozen=True)
class Judged:
    """One metric of one variant, over the seeds that both sides have.

    ``change`` is the mean difference, new - base, as a share of the base's mean
    when ``relative``, else in the metric's unit; [``low``, ``high``] is its
    t interval, at the level that Holm's procedure leaves this metric, ``level``
    being the probability that it misses. ``margin`` is in the same measure as
    ``change``. ``base`` and ``new`` are means over the ``n`` seeds under which
    both sides know the figure, or over those under which each does when there
    are none; ``p_value`` is before Holm. ``seeds_needed`` is
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
    level: float | None = None


@dataclass(frozen=True)
class Unpaired:
    """A variant of the base that could not be compared, and why."""

    variant: str
    reason: str


@dataclass(frozen=True)
class Comparison:
    """Everything that was judged, in the order of variants and of ``sim.results.metrics``.

    ``reason`` says why nothing could be judged, when that is so. ``pairs`` counts
    the pairs of runs, ``identical`` those of them that are the same to the bit.
    ``notes`` are remarks that decide nothing.
    """

    base: str
    new: str
    scenario: str
    judged: tuple[Judged, ...]
    reason: str = ""
    unpaired: tuple[Unpaired, ...] = ()
    pairs: int = 0
    identical: int = 0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """One line: a notebook shows it."""
        return f"Comparison({self.scenario}, {self.base} → {self.new}: {self.verdict})"

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of a primary metric; what could not be compared counts too."""
        found: list[Verdict] = [each.verdict for each in self.judged if each.primary]
        if self.reason or self.unpaired or not found:
            found.append("incomparable")
        return max(found, key=SEVERITY.index)

    @property
    def table(self) -> "pd.DataFrame":
        """A row for each metric that was judged; the columns are those of ``Judged``."""
        import pandas as pd

        return pd.DataFrame([asdict(each) for each in self.judged])

    def named(self, verdict: Verdict, *, primary: bool = True) -> tuple[Judged, ...]:
        """The metrics with this verdict, either the primary ones or the others."""
        return tuple(
            each for each in self.judged if each.verdict == verdict and each.primary == primary
        )
