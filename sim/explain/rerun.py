"""A stored run once more, watched: what its tables do not say.

A run is a pure function of scenario and seed, so the repetition is the run, which its
digest shows. Where it cannot be had (a file of the scenario is gone, another version of
podsim made the run) the tables alone are explained, and the reason is said.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sim.cluster.cluster import Cluster
from sim.core.errors import InvariantError, ScenarioError
from sim.execution.repetition import Recipe, recipe
from sim.execution.runner import without_collector
from sim.explain.watch import Watch
from sim.results.freeze import freeze
from sim.results.result import RunResult


@dataclass(frozen=True)
class Repetition:
    """A run that was watched. ``sent_s`` is when the last try of each request was sent."""

    result: RunResult
    watch: Watch
    sent_s: list[float]


class RepeatError(Exception):
    """``args[0]`` says why, as the end of a sentence: only what its tables tell, since ..."""


def made_like(manifest: Mapping[str, Any]) -> Recipe:
    """How a stored run was made; raises ``RepeatError``."""
    try:
        return recipe(manifest)
    except ScenarioError as error:
        first, more = error.faults[0], len(error.faults) - 1
        others = f" (and {more} more)" if more else ""
        raise RepeatError(f"its scenario cannot be read any more: {first}{others}") from error


def repeat(
    made: Recipe,
    wanted: Collection[int] | None = None,
    on_tick: Callable[[float], None] | None = None,
) -> Repetition:
    """Run it again; keep the views of the ``wanted`` requests, of all when None.

    Raises ``RepeatError``.
    """
    watch = Watch(made.scenario, wanted)
    try:
        with without_collector():
            cluster = Cluster(made.scenario, made.seed, made.directory, watch, watch.recorder)
            watch.begin(cluster.upstreams)
            facts = cluster.run(on_tick)
            result = freeze(watch.recorder, facts)
    except (ScenarioError, OSError) as error:
        raise RepeatError(f"a file of its scenario cannot be read: {error}") from error
    except InvariantError as error:
        raise RepeatError(f"it broke off: {error}") from error
    return Repetition(result, watch, [request.sent_s for request in watch.recorder.requests])


def same(repetition: Repetition, stored: RunResult) -> Repetition:
    """``repetition`` if it came to the ``stored`` result; raises ``RepeatError`` otherwise."""
    if repetition.result.digest != stored.digest:
        made_by = stored.manifest.get("podsim", "another version")
        raise RepeatError(
            f"it was made by podsim {made_by} and this one comes to another result; "
            "run the scenario again to have it explained"
        )
    return repetition
