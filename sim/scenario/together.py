"""What must agree between blocks that are right by themselves."""

from collections.abc import Iterator

from sim.errors import Fault
from sim.scenario.checks import member_references
from sim.scenario.events import LoadFailure, PodLost, ProxyRestart
from sim.scenario.nodes import Mapping, Path, at, fault
from sim.scenario.reach import models_served
from sim.scenario.schema import Scenario
from sim.scenario.suggest import suggestion


def disagreements(scenario: Scenario, root: Mapping, names_known: bool) -> list[Fault]:
    """What is wrong with ``scenario``, where ``root`` says it.

    Blocks with faults of their own are stand-ins here, and nothing is said of
    them, nor of names that refer to nothing; while there are such, who serves
    which model is not known either (``names_known``).
    """
    found = [*_members(scenario), *_events(scenario, root)]
    if names_known:
        found += _models(scenario)
    return [fault((at(root, *path) or root).place, path, message) for path, message in found]


def _members(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """A member of a pool is one pod."""
    for pool, spec in scenario.pools.items():
        for name in spec.members if spec else ():
            backend = scenario.backends.get(name)
            if backend is None:
                continue
            path: Path = ("backends", name, "replicas")
            if backend.replicas > 1:
                message = f"must be 1: {name} is a member of pool {pool!r}; got {backend.replicas}"
                yield path, message
            ranks = getattr(scenario.engines.get(backend.engine), "data_parallel", 1)
            if ranks > 1:
                message = f"must be 1 for a member of pool {pool!r}; got {ranks}"
                yield ("engines", backend.engine, "dataParallel"), message


def _events(scenario: Scenario, root: Mapping) -> Iterator[tuple[Path, str]]:
    members = {reference.name for reference in member_references(root)}
    for index, event in enumerate(scenario.events):
        path: Path = ("events", index)
        if isinstance(event, ProxyRestart) or event.backend not in scenario.backends:
            continue
        if isinstance(event, LoadFailure) and event.backend not in members:
            yield (*path, "backend"), "must be a member of a pool: nothing else is loaded"
        if isinstance(event, PodLost):
            replicas = scenario.backends[event.backend].replicas
            if event.replica >= replicas:
                yield (*path, "replica"), f"must be below the number of replicas, {replicas}"
            if event.backend in members and event.duration is not None:
                yield (*path, "for"), "not for a member of a pool, which is loaded when wanted"


def _models(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    served = models_served(scenario)
    for name, spec in scenario.workloads.items():
        model = getattr(spec, "model", None)
        if served and model is not None and model not in served:
            message = f"no backend serves {model!r}{suggestion(model, served)}"
            yield ("workloads", name, "model"), message
