"""A stored run, simulated once more: what its tables do not say is in its requests."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sim.cluster.cluster import Cluster
from sim.core.errors import ScenarioError, UserError
from sim.core.request import Request
from sim.execution.repetition import Recipe, recipe
from sim.execution.runner import without_collector
from sim.results.freeze import freeze
from sim.results.result import RunResult
from sim.results.stored import StoredRun
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


def simulate(made: Recipe) -> Rerun:
    """Simulate what ``made`` says."""
    with without_collector():
        cluster = Cluster(made.scenario, made.seed, made.directory)
        facts = cluster.run()
        recorder = cluster.recorder
        result = freeze(recorder, facts)
    models = {each.request.request_id: each.model for each in recorder.retries if each.number == 1}
    return Rerun(made.scenario, tuple(recorder.requests), models, result, made.directory)


def rerun(run: StoredRun) -> Rerun:
    """Simulate a stored run again from its manifest.

    Raises ``UserError`` when that cannot be done, or does not give the tables
    of the stored run: files it read have changed, or this podsim differs.
    """
    try:
        made = recipe(run.manifest)
    except ScenarioError as error:
        raise UserError(
            f"{run.path}: its scenario cannot be simulated again, as a trace needs:\n{error}"
        ) from error
    again = simulate(made)
    if again.result.digest != run.digest:
        read = ", ".join(made.files)
        files = f", or the files that it reads have changed ({read})" if read else ""
        raise UserError(
            f"{run.path}: simulated again it gives other tables: it was made by another version "
            f"of podsim ({made.podsim}) or of its code{files}; run the scenario again"
        )
    return again
