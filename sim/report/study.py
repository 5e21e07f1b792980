"""Which stored runs a report is about, read whole: grouped by what was simulated."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from sim.core.errors import UserError
from sim.plots.catalogue import Material
from sim.results.comparison import compare_variants
from sim.results.report_rows import ReportRow, report_rows
from sim.results.result import RunResult
from sim.results.stored import StoredRun

Fact = tuple[str, str]
"""What a line is about, and what it says of it."""


@dataclass(frozen=True, eq=False)
class Study:
    """The runs of one scenario, variants in file order, then seeds.

    ``stored`` and ``results`` are the same runs in the same order; the results
    have no tables, ``material`` reads those from disk.
    """

    stored: tuple[StoredRun, ...]
    results: tuple[RunResult, ...]

    @property
    def name(self) -> str:
        """Name of the scenario."""
        return self.stored[0].scenario

    @property
    def description(self) -> str:
        """What the scenario is for, in one line; empty when it does not say."""
        return " ".join(str(self.stored[0].manifest["scenario"].get("description", "")).split())

    @cached_property
    def seeds(self) -> dict[str, tuple[int, ...]]:
        """The seeds of each variant."""
        names = dict.fromkeys(run.variant for run in self.stored)
        return {
            name: tuple(run.seed for run in self.stored if run.variant == name) for name in names
        }

    @property
    def variants(self) -> tuple[str, ...]:
        """Names of the variants; one that is empty for a scenario without."""
        return tuple(self.seeds)

    @cached_property
    def scenarios(self) -> dict[str, Mapping[str, Any]]:
        """The resolved scenario of each variant, as JSON has it."""
        return {run.variant: run.manifest["scenario"] for run in self.material.firsts}

    @cached_property
    def material(self) -> Material:
        """What its figures are made of."""
        return Material(self.stored)

    @cached_property
    def comparison(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Means over seeds and 95 % t intervals, by metric and variant."""
        return compare_variants(self.results)

    @cached_property
    def rows(self) -> list[ReportRow]:
        """The rows of the terminal's table."""
        return report_rows(self.comparison)

    def value(self, key: str, variant: str) -> float | None:
        """The mean of a metric; None where not all runs of the variant know it."""
        figure = self.comparison[key][variant]
        return figure["mean"] if figure["n"] == len(self.seeds[variant]) else None

    def called(self, variant: str) -> str:
        """What a variant is called; the scenario's name where there are none."""
        return variant or self.name

    def noted(self, key: str) -> str:
        """What the runs noted of how they were made: each value once."""
        values = dict.fromkeys(str(run.provenance.get(key, "not noted")) for run in self.stored)
        return "; ".join(values)


def studies(runs: Sequence[StoredRun]) -> tuple[Study, ...]:
    """Read the runs, one study per scenario in the order in which they are first named.

    A run that is given twice counts once. Raises ``UserError`` for a run that
    cannot be read or whose tables are not those of its digest, and for two of
    one variant and seed that differ.
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
    for run in runs:
        run.read()  # raises where tables are not those of the digest
    return Study(tuple(runs), tuple(run.outline() for run in runs))
