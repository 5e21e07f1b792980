"""Two sides judged metric by metric: paired differences over seeds, against the margins.

- A metric is *worse* or *better* when its mean difference is significant and
  beyond its margin: a t test over the seeds, at the level that Holm's procedure
  leaves it. The primary metrics of all variants are one family, so that the
  chance of any false alarm in a comparison is at most ``LEVEL``. The other
  metrics are a family of their own; they are shown, and decide nothing.
- It is the *same* when its interval lies within the margin, or when nothing
  differs; *identical* when neither the tables nor any figure of any run do.
- Otherwise it is *inconclusive*. With one seed it always is: one difference has
  no spread; nor have two that are alike, as counts are by chance.

Times and rates are compared as ratios, new / base, by their logarithms, so that
no interval reaches below nothing. Other differences are shown as shares of the
base's mean over the seeds, which counts as a constant and of which no more than all
can be lost; in the metric's unit where that mean is zero, and of a time that is zero
under some seed. A percentile is compared run by run: its mean over seeds
is not the percentile of all requests.

A figure that is null since requests were late, or of which one side alone served
too few, is worse than any number: under so many seeds more on one side that
chance would do it in less than ``LEVEL`` of cases, it is worse, or better,
whatever the other seeds say (``lateness_p``; outside of the families). What is
better for those served only, since fewer were, is inconclusive.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from sim.comparison.judging import Question, answered, holm_levels, settled
from sim.comparison.observed import missing_from, observed
from sim.comparison.pairing import Pair, called, paired
from sim.comparison.sides import Comparison, MetricVerdict, Side
from sim.core.text import share
from sim.results.comparison import NOT_COMPARED, figure_keys
from sim.results.metrics import metric
from sim.results.survivors import REFUSED, WORTH_SAYING, left_out


class Remarks:
    """Collects figures by variant and reason; a new figure is missing from every variant alike."""

    def __init__(self) -> None:
        self._figures: dict[tuple[str, str], list[str]] = {}

    def add(self, variant: str, reason: str, key: str) -> None:
        """That ``key`` is not judged in ``variant``, for this reason."""
        self._figures.setdefault((reason, variant), []).append(key)

    def told(self, variants: Sequence[str], scenario: str) -> Iterator[str]:
        """The remarks; ``variants`` are all that were compared, of ``scenario``."""
        sharing: dict[tuple[str, str], list[str]] = {}
        for (reason, variant), keys in self._figures.items():
            sharing.setdefault((reason, ", ".join(keys)), []).append(variant)
        for (reason, figures), names in sharing.items():
            everywhere = len(names) == len(variants) > 1
            who = (
                "all variants"
                if everywhere
                else ", ".join(called(name, scenario) for name in names)
            )
            yield f"{who}: {reason}: {figures}"


LEVEL: Final = 0.05


def compare(base: Side, new: Side, *, across: bool = False, level: float = LEVEL) -> Comparison:
    """Judge ``new`` against ``base``, every metric of every variant that both have.

    ``across`` compares scenarios that differ; the caller answers for their
    having the same workload under the same seed. ``level`` is the chance of any
    false alarm among the primary metrics.
    """
    match = paired(base, new, across)
    remarks = Remarks()
    asked: list[MetricVerdict | Question] = []
    for pair in match.pairs:
        asked += _asked(pair, base.label, new.label, remarks)
    runs = [both for pair in match.pairs for both in pair.runs]
    return Comparison(
        base=base.label,
        new=new.label,
        scenario=base.scenario,
        judged=tuple(_answers(asked, level)),
        unpaired=match.unpaired,
        pairs=len(runs),
        identical=sum(old.is_identical(young) for old, young in runs),
        notes=(
            *match.notes,
            *_unserved(match.pairs, base, new),
            *remarks.told([pair.variant for pair in match.pairs], base.scenario),
        ),
    )


def _unserved(pairs: Sequence[Pair], base: Side, new: Side) -> Iterator[str]:
    """Whom times and speeds leave out, where that is more than a few on either side."""
    for pair in pairs:
        sides = zip(*((old.summary, young.summary) for old, young in pair.runs))
        old, young = (left_out("e2e_s.p95", side) for side in sides)
        if max(old, young) > WORTH_SAYING:
            yield (
                f"{called(pair.variant, base.scenario)}: times and speeds are of those served: "
                f"{share(old)} of the requests {REFUSED} in {base.label}, {share(young)} in "
                f"{new.label}"
            )


def _asked(pair: Pair, base: str, new: str, remarks: Remarks) -> Iterator[MetricVerdict | Question]:
    """What is to be judged of two variants, and what already is; ``remarks`` takes the rest."""
    olds, youngs = [old.summary for old, _ in pair.runs], [young.summary for _, young in pair.runs]
    identical = all(old.is_identical(young) for old, young in pair.runs)
    for key in _comparable_keys(pair, [*olds, *youngs], remarks):
        question = Question(pair.variant, key, metric(key), observed(key, pair.runs), base, new)
        if identical:
            yield replace(question.blank, verdict="identical", change=0.0)
        elif missing_from(key, olds):
            remarks.add(pair.variant, f"not in {base}, so not compared", key)
        elif missing_from(key, youngs):
            reason = f"{new} has no such figure"
            yield replace(question.blank, verdict="incomparable", reason=reason)
        elif question.observed.is_blank:
            continue  # nothing to measure on either side, as spills of a policy without a home
        elif pair.on_purpose and question.observed.is_foreign:
            side = base if question.observed.knowers[1] else new
            remarks.add(pair.variant, f"without a meaning in {side}", key)
        else:
            yield settled(question) or question


def _comparable_keys(
    pair: Pair, summaries: Sequence[Mapping[str, float | None]], remarks: Remarks
) -> list[str]:
    """Every figure but those that no comparison is about, in the order of the summary."""
    strange = [key for key in dict.fromkeys(k for each in summaries for k in each) if not _is(key)]
    for key in strange:
        remarks.add(pair.variant, "not known to this podsim", key)
    known = [
        {key: value for key, value in summary.items() if key not in strange}
        for summary in summaries
    ]
    return [key for key in figure_keys(known) if not key.startswith(NOT_COMPARED)]


def _is(key: str) -> bool:
    """Whether a figure is declared."""
    try:
        metric(key)
    except KeyError:
        return False
    return True


def _answers(asked: Sequence[MetricVerdict | Question], level: float) -> Iterator[MetricVerdict]:
    """The verdicts, in order; primary and other metrics are held to ``level``, each as a family."""
    levels = [level] * len(asked)
    for primary in (True, False):
        places, p_values = [], []
        for at, each in enumerate(asked):
            if isinstance(each, Question) and each.metric.primary is primary and each.may_differ:
                places.append(at)
                p_values.append(each.p_value)
        for at, own in zip(places, holm_levels(p_values, level), strict=True):
            levels[at] = own
    for each, own in zip(asked, levels, strict=True):
        yield answered(each, own, level) if isinstance(each, Question) else each
