"""Whether today's code still gives what the baselines hold."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from sim.baseline.folders import USUAL, Folders
from sim.baseline.kept import Baseline
from sim.baseline.making import measured
from sim.comparison.paired import compare
from sim.comparison.report import Report
from sim.comparison.verdict import Comparison, Unpaired
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
