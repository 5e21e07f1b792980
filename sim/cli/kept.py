"""Stored runs of one scenario as what ``podsim run`` had in hand when it made them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.core.errors import UserError

if TYPE_CHECKING:
    from sim.results.result import RunResult
    from sim.results.stored import StoredRun


@dataclass(frozen=True)
class KeptScenario:
    """What manifests say of the scenario."""

    name: str
    description: str
    warnings: tuple[str, ...]
    settings: tuple[str, ...]


@dataclass(frozen=True)
class KeptRuns:
    """Runs of one scenario, their tables left on the disk (``sim.cli.table.Runs``)."""

    scenario: KeptScenario
    runs: "tuple[RunResult, ...]"

    @property
    def comparison(self) -> dict[str, Any]:
        """Means over seeds and 95 % t intervals, by metric and variant."""
        from sim.results.comparison import compare_variants

        return compare_variants(self.runs)


def kept(name: str, stored: "Sequence[StoredRun]") -> KeptRuns:
    """The figures of stored runs, which ``name`` stands for.

    Raises ``UserError`` when they are of several scenarios, when one of them is
    there twice, or when its summary cannot be read.
    """
    _one_scenario(name, stored)
    manifest = stored[0].manifest
    scenario = KeptScenario(
        stored[0].scenario,
        str(manifest["scenario"].get("description") or ""),
        tuple(dict.fromkeys(said for run in stored for said in _file_warnings(run))),
        tuple(dict.fromkeys(setting for run in stored for setting in run.settings)),
    )
    return KeptRuns(scenario, tuple(run.outline() for run in stored))


def _file_warnings(run: "StoredRun") -> list[str]:
    return [str(warning) for warning in run.manifest.get("scenario_warnings", [])]


def _one_scenario(name: str, stored: "Sequence[StoredRun]") -> None:
    places: dict[tuple[str, str], Path] = {}
    for run in stored:
        places.setdefault((run.scenario, run.scenario_hash), scenario_place(run))
    if len(places) > 1:
        named = ", ".join(str(place) for place in list(places.values())[:5])
        more = f" and {len(places) - 5} more" if len(places) > 5 else ""
        raise UserError(f"{name} holds runs of {len(places)} scenarios; name one: {named}{more}")
    first: dict[tuple[str, int], StoredRun] = {}
    for run in stored:
        other = first.setdefault((run.variant, run.seed), run)
        if other is not run:
            raise UserError(
                f"{name} holds the same run twice, {other.path} and {run.path}; name one of them"
            )


def scenario_place(run: "StoredRun") -> Path:
    """The folder of all runs of its scenario, or its own where it has been moved out of that."""
    from sim.results.stored import run_path

    place = run_path(run.scenario, run.scenario_hash, run.variant, run.seed)
    in_place = run.path.parts[-len(place.parts) :] == place.parts
    return run.path.parents[1] if in_place else run.path
