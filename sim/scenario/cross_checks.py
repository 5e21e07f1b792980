"""What must agree between blocks that are right by themselves."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sim.core.document import Finding, Path, entries, fault, place_of
from sim.core.errors import Fault
from sim.core.messages import key_names
from sim.core.rules import Problem, faults_of, repeated
from sim.core.suggest import meant, suggestion
from sim.hardware.engine import Engine
from sim.hardware.loading import swap_times
from sim.scenario.events import Event, LoadFailureEvent, PodLost, ProbeFailure, ProxyRestart
from sim.scenario.pool import Pool
from sim.scenario.references import member_references
from sim.scenario.routing import Rule
from sim.scenario.schema import Scenario, Window


def disagreements(scenario: Scenario, root: Any, served: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong between the blocks of ``scenario``, which ``root`` says.

    Blocks with faults of their own are left out, and nothing is said that
    depends on them, nor of names that refer to nothing. ``served`` are the
    models that requests may ask for; none while that is not known, or any will do.
    """
    found = (
        *_members(scenario),
        *_loads(scenario),
        *_memory(scenario),
        *_rules(scenario),
        *_events(scenario, root),
        *_models(scenario, served),
    )
    return (Finding(path, message) for path, message in found)


def endless(root: Any, workloads: Mapping[str, Any]) -> Iterator[Fault]:
    """Yield the fault of a run that would never end."""
    window = entries(root).get("window")
    if entries(window).get("measure") is not None:
        return
    if "measure" in meant(entries(window), key_names(Window)):
        return
    for_ever = [name for name, spec in workloads.items() if not getattr(spec, "finite", True)]
    if for_ever:
        place = place_of(root, ("workloads",) if "window" not in root else ("window",))
        message = (
            f"missing key 'measure': workload {for_ever[0]!r} never ends, "
            "so say how long to measure, e.g. 15m"
        )
        yield fault(place, ("window",), message)


def _members(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """A member of a pool is one pod."""
    homes: dict[str, str] = {}
    for pool, name in _pooled(scenario):
        if name in homes:
            continue  # which is a fault of its own
        homes[name] = pool
        yield from _more_replicas(scenario, pool, name)
        yield from _more_ranks(scenario, pool, name)


def _more_replicas(scenario: Scenario, pool: str, name: str) -> Iterator[tuple[Path, str]]:
    replicas = scenario.backends[name].replicas if name in scenario.backends else 1
    if replicas > 1:
        message = f"must be 1: {name} is a member of pool {pool!r}; got {replicas}"
        yield ("backends", name, "replicas"), message


def _more_ranks(scenario: Scenario, pool: str, name: str) -> Iterator[tuple[Path, str]]:
    for engine, spec in _engine(scenario, name):
        ranks = getattr(spec, "data_parallel", 1)
        if ranks > 1:
            message = f"must be 1 for a member of pool {pool!r}; got {ranks}"
            yield ("engines", engine, "dataParallel"), message


def _loads(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """How long members take to load must be known."""
    for pool, name in _pooled(scenario):
        path: Path = ("pools", pool, "members", name)
        yield from _unknown_load(scenario, scenario.pools[pool], name, path)


def _unknown_load(
    scenario: Scenario, pool: Pool, name: str, path: Path
) -> Iterator[tuple[Path, str]]:
    for _, engine in _engine(scenario, name):
        for each in faults_of(partial(swap_times, pool.members[name], engine)):
            yield (*path, *each.path.split(".")), each.message


def _memory(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Members that share memory fit into it."""
    for pool, spec in scenario.pools.items():
        yield from _too_large(scenario, pool, spec)


def _too_large(scenario: Scenario, pool: str, spec: Pool) -> Iterator[tuple[Path, str]]:
    engines = {name: each for name in spec.members for _, each in _engine(scenario, name)}
    if len(engines) < len(spec.members):
        return
    for each in faults_of(partial(spec.resident_bytes, engines)):
        yield ("pools", pool, *each.path.split(".")), each.message


def _rules(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """A backend with other pods is tried again; a pool that knows no skipping not asked for it."""
    skipless: dict[str, str] = {}
    for index, each in enumerate(scenario.router.rules):
        for message in _fails_twice(scenario, each):
            yield ("router", "rules", index, "backends"), message
    for pool, name in _pooled(scenario):
        spec = scenario.pools[pool]
        if not spec.knows_if_idle:
            skipless[name] = f"pool {pool!r} of kind {spec.kind}"
    for index, each in enumerate(scenario.router.rules):
        for message in _cannot_skip(each, skipless):
            yield ("router", "rules", index, "poolActivation"), message


def _fails_twice(scenario: Scenario, rule: Rule) -> Iterator[str]:
    for name in repeated(rule.backends):
        for _, engine in _engine(scenario, name):
            pods = scenario.backends[name].replicas * getattr(engine, "data_parallel", 1)
            times = rule.backends.count(name)
            if times > pods:
                often = "twice" if times == 2 else f"{times} times"
                have = "one pod: it would fail twice" if pods == 1 else f"{pods} pods to try"
                yield f"names {name!r} {often}, which has {have}"


def _cannot_skip(rule: Rule, skipless: Mapping[str, str]) -> Iterator[str]:
    if rule.pool_activation != "IfIdle":
        return
    for name in rule.backends:
        if name in skipless:
            yield (
                f"must be Wait: {name} is a member of {skipless[name]}, which holds "
                "whoever cannot be served at once"
            )
            return


def _events(scenario: Scenario, root: Any) -> Iterator[tuple[Path, str]]:
    members = {reference.name for reference in member_references(root)}
    for index, event in enumerate(scenario.events):
        if isinstance(event, ProxyRestart):
            continue
        path: Path = ("events", index)
        for check in (_loads_nothing, _loses_nothing, _is_lost_for_a_time, _is_not_asked):
            for key, message in check(event, scenario, members):
                yield (*path, key), message


def _loads_nothing(event: Event, scenario: Scenario, members: Collection[str]) -> Iterator[Problem]:
    known_others = scenario.backends.keys() - members
    if isinstance(event, LoadFailureEvent | ProbeFailure) and event.backend in known_others:
        yield "backend", "must be a member of a pool: nothing else is loaded"


def _loses_nothing(event: Event, scenario: Scenario, members: Collection[str]) -> Iterator[Problem]:
    if isinstance(event, PodLost) and event.backend in scenario.backends:
        replicas = scenario.backends[event.backend].replicas
        if event.replica >= replicas:
            yield "replica", f"must be below the number of replicas, {replicas}"


def _is_lost_for_a_time(
    event: Event, scenario: Scenario, members: Collection[str]
) -> Iterator[Problem]:
    if isinstance(event, PodLost) and event.backend in members and event.duration is not None:
        yield "for", "not for a member of a pool, which is loaded when wanted"


def _is_not_asked(event: Event, scenario: Scenario, members: Collection[str]) -> Iterator[Problem]:
    if not isinstance(event, ProbeFailure) or event.probe != "idle":
        return
    for pool, name in _pooled(scenario):
        if name == event.backend and not scenario.pools[pool].probes_idle:
            yield "probe", f"pool {pool!r} does not ask its members whether they are idle"


def _models(scenario: Scenario, served: Sequence[str]) -> Iterator[tuple[Path, str]]:
    for name, spec in scenario.workloads.items() if served else ():
        for path, model in _asked(spec):
            if model not in served:
                message = f"no backend serves {model!r}{suggestion(model, served)}"
                yield ("workloads", name, *path), message


def _asked(workload: Any) -> Iterator[tuple[Path, str]]:
    model = getattr(workload, "model", None)
    if model is not None:
        yield ("model",), model
    for index, each in enumerate(getattr(workload, "fallback_models", ())):
        yield ("fallbackModels", index), each


def _pooled(scenario: Scenario) -> Iterator[tuple[str, str]]:
    """Each pool with each of its members."""
    for pool, spec in scenario.pools.items():
        for name in spec.members:
            yield pool, name


def _engine(scenario: Scenario, backend: str) -> Iterator[tuple[str, Engine]]:
    """The engine of a backend and its name, if both are there."""
    if backend in scenario.backends:
        name = scenario.backends[backend].engine
        if name in scenario.engines:
            yield name, scenario.engines[name]
