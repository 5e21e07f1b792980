"""All scenarios of two sets of runs: the comparison of each, and what they come to together."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sim.comparison.exact import ExactComparison, compare_exactly
from sim.comparison.paired import compare
from sim.comparison.sides import SEVERITY, Comparison, Side, Verdict

One: TypeAlias = Comparison | ExactComparison


@dataclass(frozen=True)
class Report:
    """The comparison of every scenario of the base; ``notes`` names those that only ``new`` has.

    ``title`` is the command that asked.
    """

    base: str
    new: str
    comparisons: tuple[One, ...]
    notes: tuple[str, ...] = ()
    title: str = "podsim compare"

    @property
    def verdict(self) -> Verdict:
        """The most severe verdict of all scenarios; incomparable when there is none."""
        found: list[Verdict] = [each.verdict for each in self.comparisons] or ["incomparable"]
        return max(found, key=SEVERITY.index)


def report(
    base: str,
    new: str,
    bases: Sequence[Side],
    news: Sequence[Side],
    *,
    exact: bool = False,
    across: bool = False,
) -> Report:
    """Compare two sets of sides scenario by scenario, paired by name.

    The only scenario of each set is paired with the other's whatever they are
    called. A scenario that the base has and ``new`` has not is incomparable.
    """
    judge: Callable[..., One] = compare_exactly if exact else compare
    partners = {side.scenario: side for side in news}
    if len(bases) == len(news) == 1:
        partners = {bases[0].scenario: news[0]}
    comparisons: list[One] = []
    for side in bases:
        partner = partners.pop(side.scenario, None)
        if partner is None:
            reason = f"{new} has no runs of it"
            kind = ExactComparison if exact else Comparison
            comparisons.append(kind(base, new, side.scenario, (), reason=reason))
        else:
            comparisons.append(judge(side, partner, across=across))
    notes = tuple(f"{name} is only in {new}: nothing to compare it with" for name in partners)
    return Report(base, new, tuple(comparisons), notes)


def variants_report(
    label: str, sides: Sequence[Side], *, exact: bool = False, across: bool = False
) -> Report:
    """Compare the variants of each scenario with its first one.

    A scenario with a single variant is incomparable: there is nothing beside it.
    """
    judge: Callable[..., One] = compare_exactly if exact else compare
    comparisons: list[One] = []
    for side in sides:
        first, *others = (
            Side(variant, side.scenario, tuple(side.of(variant).values()))
            for variant in side.variants
        )
        comparisons += [judge(first, other, across=across) for other in others]
        if not others:
            kind = ExactComparison if exact else Comparison
            reason = "it has one variant only; name a second set of runs to compare with"
            comparisons.append(kind(label, label, side.scenario, (), reason=reason))
    return Report(label, label, tuple(comparisons))
