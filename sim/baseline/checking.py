"""Whether today's code still gives what the baselines hold, and that as text for a terminal."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sim.baseline.baseline import Baseline
from sim.baseline.files import measured
from sim.baseline.folders import USUAL, Folders
from sim.comparison import wording
from sim.comparison.paired import compare
from sim.comparison.pairing import called
from sim.comparison.report import Report
from sim.comparison.sides import SEVERITY, Comparison, MetricVerdict, Unpaired, Verdict
from sim.core.text import few
from sim.execution.runner import Progress
from sim.scenario.load import ScenarioSet

BASE: Final = "baseline"
NEW: Final = "now"


def check(
    baseline: Baseline | None,
    scenarios: ScenarioSet,
    *,
    folders: Folders = USUAL,
    jobs: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Comparison:
    """Run what of a scenario its baseline holds, and compare.

    What the baseline does not hold, or of another scenario than today's, is not
    run: it is unpaired, or the reason why nothing is compared. ``folders`` are
    where both lie. Raises ``InvariantError`` and ``WorkerError`` as
    ``sim.execution.runner.run_set``.
    """
    name = scenarios.name
    then = folders.update(name)
    if baseline is None:
        return _refused(name, f"it has no baseline yet: {then}")
    if baseline.seeds != scenarios.seeds:
        seeds = f"{_listed(scenarios.seeds)}, in the baseline {_listed(baseline.seeds)}"
        return _refused(name, f"its seeds are {seeds}: {then}")
    edited = _edited(baseline, scenarios, then)
    left_out = {each.variant for each in edited}
    same = [each.variant for each in scenarios.variants if each.variant not in left_out]
    if not same:
        return replace(_refused(name, f"every variant has changed: {then}"), unpaired=edited)
    now = measured(scenarios.variant(same), jobs=jobs, progress=progress)
    compared = compare(baseline.part(same).side(BASE), now.side(NEW))
    return replace(
        compared,
        unpaired=(*compared.unpaired, *edited),
        notes=(*compared.notes, *_out_of_date(compared, then)),
    )


def checked(comparisons: Sequence[Comparison], stale: Sequence[Path], scenarios: Path) -> Report:
    """All comparisons, and the baselines whose scenario is not in the folder any more."""
    orphans = [
        _refused(
            file.stem,
            f"{file} has no scenario {scenarios / file.stem}.yaml: delete the one or bring back "
            "the other",
        )
        for file in stale
    ]
    return Report(BASE, NEW, (*comparisons, *orphans), title="podsim baseline check")


def _refused(scenario: str, reason: str) -> Comparison:
    return Comparison(BASE, NEW, scenario, (), reason=reason)


def _out_of_date(comparison: Comparison, then: str) -> Iterator[str]:
    """A word about figures that are within the margins and yet not those of the baseline."""
    if comparison.verdict != "worse" and comparison.identical < comparison.pairs:
        yield f"the baseline is out of date; {then} keeps today's figures"


def _edited(baseline: Baseline, scenarios: ScenarioSet, then: str) -> tuple[Unpaired, ...]:
    """The variants that are not what they were when the baseline was made, why, and what then."""
    hashes = {
        each.variant: scenarios.variant_hash(at) for at, each in enumerate(scenarios.variants)
    }
    held = {each.name: each.variant_hash for each in baseline.variants}
    reasons = {
        name: "it has been edited" if name in held else "it is not in the baseline"
        for name, variant_hash in hashes.items()
        if held.get(name) != variant_hash
    }
    reasons |= {name: "it is only in the baseline" for name in held if name not in hashes}
    return tuple(Unpaired(name, f"{reason}: {then}") for name, reason in reasons.items())


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


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
        yield f"    decides nothing: {few([wording.aside(each) for each in moved])}"


def _counted(primary: list[MetricVerdict]) -> str:
    """The verdict on a variant, and on how many of its metrics that rests."""
    found: list[Verdict] = [each.verdict for each in primary]
    worst: Verdict = max(found, key=SEVERITY.index, default="identical")
    if set(found) <= {worst}:
        return wording.told(worst)
    return f"{wording.told(worst)} in {found.count(worst)} of {len(found)} primary metrics"


def _sentence(judged: MetricVerdict) -> str:
    """What became of a metric, by how much, how sure that is and how much would not count."""
    said = wording.sentence(replace(judged, variant=""))  # named in the line above
    return f"{said}; margin {wording.margin(judged)}" if wording.margin(judged) else said


def _advice(comparisons: list[Comparison], folders: Folders) -> Iterator[str]:
    """What to do when something got worse on purpose."""
    names = [each.scenario for each in comparisons if each.verdict == "worse"]
    if names:
        yield f"If it is meant to be worse, keep it and say why: {folders.update(*names)}"
