"""Whether today's code still gives what a baseline holds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from sim.baseline.kept import Baseline
from sim.baseline.making import measured
from sim.comparison.paired import compare
from sim.comparison.verdict import Comparison, Judged, Verdict
from sim.runner import Progress
from sim.scenario.load import ScenarioSet

BASE: Final = "baseline"
NEW: Final = "now"


@dataclass(frozen=True)
class Checked:
    """One scenario beside its baseline.

    ``comparison`` is None when nothing of it could be run. ``refused`` says, line
    by line, what of the scenario the baseline does not hold, or the other way
    round. ``changed`` are the variants of which any run is no longer the same to
    the bit.
    """

    scenario: str
    comparison: Comparison | None
    refused: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The most severe of the comparison; incomparable where anything could not be compared."""
        if self.comparison is not None and self.comparison.verdict == "worse":
            return "worse"
        if self.refused or self.comparison is None:
            return "incomparable"
        return self.comparison.verdict


def check(
    baseline: Baseline | None,
    scenarios: ScenarioSet,
    *,
    jobs: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Checked:
    """Run what of a scenario its baseline holds, and compare.

    A variant that has been edited since is not run, and neither is a seed that
    the baseline does not have: both are told in ``refused``.
    """
    if baseline is None:
        return Checked(scenarios.name, None, ("has no baseline",))
    refused = differences(baseline, scenarios)
    same = _unedited(baseline, scenarios)
    seeds = tuple(seed for seed in scenarios.seeds if seed in baseline.seeds)
    if not same or not seeds:
        return Checked(scenarios.name, None, refused)
    now = measured(scenarios.variant(same), seeds=seeds, jobs=jobs, progress=progress)
    before = baseline.part(same, seeds)
    comparison = compare(before.side(BASE), now.side(NEW))
    changed = tuple(
        old.name
        for old, new in zip(before.variants, now.variants, strict=True)
        if (old.digests, dict(old.figures)) != (new.digests, dict(new.figures))
    )
    return Checked(scenarios.name, comparison, refused, changed)


def differences(baseline: Baseline, scenarios: ScenarioSet) -> tuple[str, ...]:
    """What of the scenario the baseline does not hold, and the other way round, in words."""
    hashes = _hashes(scenarios)
    held = {variant.name: variant.variant_hash for variant in baseline.variants}
    said = [
        f"variant {name} is not in the baseline"
        if name not in held
        else f"variant {name} has been edited, or a default of its settings is another one now"
        for name in hashes
        if held.get(name) != hashes[name]
    ]
    said += [f"variant {name} is only in the baseline" for name in held if name not in hashes]
    if baseline.seeds != scenarios.seeds:
        said.append(
            f"seeds are {_listed(scenarios.seeds)} in the scenario, {_listed(baseline.seeds)} in "
            "the baseline"
        )
    return tuple(text.replace("variant  ", "the scenario ") for text in said)


def worse(comparison: Comparison) -> tuple[Judged, ...]:
    """The primary metrics that turn a check red, in order."""
    return comparison.named("worse")


def _hashes(scenarios: ScenarioSet) -> dict[str, str]:
    return {
        scenario.variant: scenarios.variant_hash(index)
        for index, scenario in enumerate(scenarios.variants)
    }


def _unedited(baseline: Baseline, scenarios: ScenarioSet) -> list[str]:
    hashes = _hashes(scenarios)
    held = {variant.name: variant.variant_hash for variant in baseline.variants}
    return [name for name in hashes if held.get(name) == hashes[name]]


def _listed(seeds: tuple[int, ...]) -> str:
    return ", ".join(map(str, seeds))
