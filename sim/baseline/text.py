"""A check for a terminal: a line for each variant, and one for each metric that got worse."""

from collections.abc import Iterator
from dataclasses import replace

from sim.baseline.folders import USUAL, Folders
from sim.comparison import wording
from sim.comparison.pairing import called
from sim.comparison.report import Report
from sim.comparison.verdict import SEVERITY, Comparison, Judged, Verdict


def render(report: Report, folders: Folders = USUAL) -> str:
    """The check, scenario by scenario in the order of the report; then what to do about it."""
    comparisons = [each for each in report.comparisons if isinstance(each, Comparison)]
    lines = [line for each in comparisons for line in _scenario(each)]
    return "\n".join([*lines, *_advice(comparisons, folders)])


def _scenario(comparison: Comparison) -> Iterator[str]:
    yield f"{comparison.scenario}: {wording.headline(comparison)}"
    for fault in comparison.unpaired:
        yield f"  {called(fault.variant, comparison.scenario)}: not comparable: {fault.reason}"
    if comparison.verdict == "identical":
        return
    for variant in dict.fromkeys(each.variant for each in comparison.judged):
        primary = [each for each in comparison.judged if each.primary and each.variant == variant]
        yield f"  {called(variant, comparison.scenario)}: {_counted(primary)}"
        for each in primary:
            if each.verdict in ("worse", "incomparable"):
                yield f"    {_sentence(each)}"
        yield from _asides(comparison, variant)
    yield from (f"  note: {note}" for note in comparison.notes)


def _asides(comparison: Comparison, variant: str) -> Iterator[str]:
    """What else moved: a rule may be broken with no primary metric the worse for it."""
    moved = [
        each
        for each in comparison.judged
        if each.variant == variant and not each.primary and each.verdict not in wording.QUIET
    ]
    moved.sort(key=lambda each: 0.0 if each.p_value is None else each.p_value)  # the surest first
    if moved:
        yield f"    decides nothing: {wording.few([wording.aside(each) for each in moved])}"


def _counted(primary: list[Judged]) -> str:
    """The verdict on a variant, and on how many of its metrics that rests."""
    found: list[Verdict] = [each.verdict for each in primary]
    worst: Verdict = max(found, key=SEVERITY.index, default="identical")
    if set(found) <= {worst}:
        return wording.told(worst)
    return f"{wording.told(worst)} in {found.count(worst)} of {len(found)} primary metrics"


def _sentence(judged: Judged) -> str:
    """What became of a metric, by how much, how sure that is and how much would not count."""
    said = wording.sentence(replace(judged, variant=""))  # named in the line above
    return f"{said}; margin {wording.margin(judged)}" if wording.margin(judged) else said


def _advice(comparisons: list[Comparison], folders: Folders) -> Iterator[str]:
    """What to do when something got worse on purpose."""
    names = [each.scenario for each in comparisons if each.verdict == "worse"]
    if names:
        yield f"If it is meant to be worse, keep it and say why: {folders.update(*names)}"
