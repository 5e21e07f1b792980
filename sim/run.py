"""A run is a pure function of a scenario and a seed: build, run, check, summarise."""

from collections.abc import Callable
from pathlib import Path

from sim.cluster import Cluster
from sim.results.result import RunResult
from sim.scenario.schema import Scenario


def run_one(
    scenario: Scenario,
    seed: int,
    directory: Path = Path(),
    on_tick: Callable[[float], None] | None = None,
) -> RunResult:
    """Simulate one variant under one seed.

    ``directory`` is where the file names of the scenario start; ``on_tick``
    hears the simulated time now and then.
    """
    cluster = Cluster(scenario, seed, directory)
    facts = cluster.run(on_tick)
    return cluster.recorder.freeze(facts)
