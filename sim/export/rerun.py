"""A stored run, simulated once more: what its tables do not say is in its requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.cluster.cluster import Cluster
from sim.errors import ScenarioError, UserError
from sim.request import Request
from sim.results.result import RunResult
from sim.results.stored import StoredRun
from sim.scenario.load import ScenarioSet, load_dict
from sim.scenario.schema import Scenario


@dataclass(frozen=True)
class Rerun:
    """A run with its requests, what they say included, in order of arrival.

    ``models`` are those that clients asked for first which then asked for others.
    """

    scenario: Scenario
    requests: tuple[Request, ...]
    models: Mapping[int, str]
    result: RunResult
    directory: Path


def simulate(scenarios: ScenarioSet, seed: int) -> Rerun:
    """Simulate the first variant of a scenario under one seed."""
    scenario = scenarios.variants[0]
    cluster = Cluster(scenario, seed, scenarios.directory)
    facts = cluster.run()
    recorder = cluster.recorder
    result = recorder.freeze(facts)
    models = {each.request.request_id: each.model for each in recorder.retries if each.number == 1}
    return Rerun(scenario, tuple(recorder.requests), models, result, scenarios.directory)


def rerun(run: StoredRun) -> Rerun:
    """Simulate a stored run again from its manifest.

    Raises ``UserError`` when that cannot be done, or does not give the tables
    of the stored run: files it read have changed, or this podsim differs.
    """
    directory = scenario_directory(run.provenance)
    try:
        scenarios = load_dict(document(run), directory=directory)
    except ScenarioError as error:
        raise UserError(
            f"{run.path}: its scenario cannot be simulated again, as a trace needs:\n{error}"
        ) from error
    again = simulate(scenarios, run.seed)
    if again.result.digest != run.digest:
        made = run.manifest.get("podsim", "unknown")
        read = ", ".join(scenarios.file_hashes)
        files = f", or the files that it reads have changed ({read})" if read else ""
        raise UserError(
            f"{run.path}: simulated again it gives other tables: it was made by another version "
            f"of podsim ({made}) or of its code{files}; run the scenario again"
        )
    return again


def document(run: StoredRun) -> dict[str, Any]:
    """The scenario of a stored run as a file with its one variant would hold it."""
    scenario = dict(run.manifest["scenario"])
    variant = scenario.pop("variant", "")
    return {**scenario, "variants": {variant: {}}} if variant else scenario


def scenario_directory(provenance: Mapping[str, Any]) -> Path:
    """Where the file names of the scenario start, as far as the run was told of its making."""
    directory = Path(str(provenance.get("directory", ".")))
    return (directory / str(provenance.get("file", "scenario.yaml"))).parent
