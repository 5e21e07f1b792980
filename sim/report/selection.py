"""Which stored runs a report is about, read whole: grouped by what was simulated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sim.core.errors import UserError
from sim.results.result import RunResult
from sim.results.stored import StoredRun


@dataclass(frozen=True)
class Study:
    """The runs of one scenario, variants in file order, then seeds.

    ``stored`` and ``results`` are the same runs in the same order. The tables of
    the results were found to be those of their digests, and are left on disk.
    """

    stored: tuple[StoredRun, ...]
    results: tuple[RunResult, ...]

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.stored[0].scenario

    @property
    def scenario_hash(self) -> str:
        """Hash of the scenario with all its variants."""
        return self.stored[0].scenario_hash

    @property
    def description(self) -> str:
        """What the scenario is for, in one line; empty when it does not say."""
        return " ".join(str(self.stored[0].manifest["scenario"].get("description", "")).split())

    @property
    def seeds(self) -> dict[str, tuple[int, ...]]:
        """The seeds of each variant."""
        seeds: dict[str, tuple[int, ...]] = {}
        for run in self.stored:
            seeds[run.variant] = (*seeds.get(run.variant, ()), run.seed)
        return seeds

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants; one that is empty for a scenario without."""
        return tuple(self.seeds)

    @property
    def scenarios(self) -> dict[str, Mapping[str, Any]]:
        """The resolved scenario of each variant, as JSON has it."""
        found: dict[str, Mapping[str, Any]] = {}
        for run in self.stored:
            found.setdefault(run.variant, run.manifest["scenario"])
        return found

    def called(self, variant: str) -> str:
        """What a variant is called; the scenario's name where there are none."""
        return variant or self.name


def studies(runs: Sequence[StoredRun]) -> tuple[Study, ...]:
    """Read the runs, one study per scenario in the order in which they are first named.

    A run that is given twice counts once. Raises ``UserError`` for a run that
    cannot be read, and for two of one variant and seed that differ.
    """
    by_scenario: dict[tuple[str, str], list[StoredRun]] = {}
    for run in runs:
        by_scenario.setdefault((run.scenario, run.scenario_hash), []).append(run)
    return tuple(_study(_distinct(group)) for group in by_scenario.values())


def _distinct(runs: Iterable[StoredRun]) -> list[StoredRun]:
    """Each variant and seed once, in file order."""
    found: dict[tuple[str, int], StoredRun] = {}
    for run in runs:
        other = found.setdefault((run.variant, run.seed), run)
        if other.digest != run.digest:
            name = f"{run.scenario} {run.variant}".rstrip()
            raise UserError(
                f"{name}, seed {run.seed}, is there twice with different results, in {other.path} "
                f"and {run.path}; give one of them"
            )
    return sorted(found.values(), key=_file_order)


def _file_order(run: StoredRun) -> tuple[int, str, int]:
    declared = list(run.manifest.get("variants", ()))
    place = declared.index(run.variant) if run.variant in declared else len(declared)
    return place, run.variant, run.seed


def _study(runs: Sequence[StoredRun]) -> Study:
    return Study(tuple(runs), tuple(_without_rows(run.read()) for run in runs))


def _without_rows(result: RunResult) -> RunResult:
    return replace(result, tables=result.tables.emptied())
