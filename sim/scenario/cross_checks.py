"""What must agree between blocks: names that refer to entries of others, and valid blocks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from sim.core.document import Finding, Path, at, entries, fault, place_of, placed
from sim.core.errors import Fault
from sim.core.messages import key_names
from sim.core.rules import Problem, faults_of, repeated
from sim.core.suggest import meant, suggestion
from sim.hardware.engine import Engine
from sim.hardware.loading import swap_times
from sim.scenario.events import Event, LoadFailureEvent, PodLost, ProbeFailure, ProxyRestart
from sim.scenario.pool import Pool
from sim.scenario.routing import Rule
from sim.scenario.schema import Backend, Scenario, Window


def disagreements(scenario: Scenario, root: Any, served: Sequence[str]) -> Iterator[Finding]:
    """Yield what is wrong between the blocks of ``scenario``, which ``root`` says.

    Blocks with faults of their own are left out, and nothing is said that
    depends on them, nor of names that refer to nothing. ``served`` are the
    models that requests may ask for; none while that is not known, or any will do.
    """
    found = (
        *_members(scenario),
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
    for_ever = [name for name, spec in workloads.items() if _never_ends(spec)]
    if for_ever:
        place = place_of(root, ("workloads",) if "window" not in root else ("window",))
        message = (
            f"missing key 'measure': workload {for_ever[0]!r} never ends, "
            "so say how long to measure, e.g. 15m"
        )
        yield fault(place, ("window",), message)


def _never_ends(spec: Any) -> bool:
    """Whether a workload says so; of another package it may say something that is no flag."""
    return getattr(spec, "finite", True) is False


class _Seat(NamedTuple):
    """A member of a pool; ``engine`` is None where the backend or its engine has faults."""

    pool: str
    spec: Pool
    name: str
    backend: Backend | None
    engine: Engine | None


def _seats(scenario: Scenario) -> Iterator[_Seat]:
    """Each member of each pool, in the pool that names it first."""
    homes: dict[str, str] = {}
    for pool, spec in scenario.pools.items():
        for name in spec.members:
            if homes.setdefault(name, pool) == pool:  # else a fault of its own
                backend = scenario.backends.get(name)
                yield _Seat(pool, spec, name, backend, _engine(scenario, name))


def _engine(scenario: Scenario, backend: str) -> Engine | None:
    found = scenario.backends.get(backend)
    return None if found is None else scenario.engines.get(found.engine)


def _members(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """A member of a pool is one pod, and it is known how long it takes to load."""
    for pool, spec, name, backend, engine in _seats(scenario):
        if backend is not None and backend.replicas > 1:
            message = f"must be 1: {name} is a member of pool {pool!r}; got {backend.replicas}"
            yield ("backends", name, "replicas"), message
        ranks = getattr(engine, "data_parallel", 1)
        if backend is not None and ranks > 1:
            message = f"must be 1 for a member of pool {pool!r}; got {ranks}"
            yield ("engines", backend.engine, "dataParallel"), message
        if engine is not None:
            for each in faults_of(partial(swap_times, spec.members[name], engine)):
                yield ("pools", pool, "members", name, *each.path.split(".")), each.message


def _memory(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Members that share memory fit into it."""
    for pool, spec in scenario.pools.items():
        known = {name: _engine(scenario, name) for name in spec.members}
        engines = {name: engine for name, engine in known.items() if engine is not None}
        if len(engines) == len(known):
            for each in faults_of(partial(spec.resident_bytes, engines)):
                yield ("pools", pool, *each.path.split(".")), each.message


def _rules(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """A backend with other pods is tried again; a pool that knows no skipping not asked for it."""
    skipless = {seat.name: seat for seat in _seats(scenario) if not seat.spec.knows_if_idle}
    for index, rule in enumerate(scenario.router.rules):
        for message in _fails_twice(scenario, rule):
            yield ("router", "rules", index, "backends"), message
        holds = next((skipless[name] for name in rule.backends if name in skipless), None)
        if rule.pool_activation == "IfIdle" and holds is not None:
            message = (
                f"must be Wait: {holds.name} is a member of pool {holds.pool!r} of kind "
                f"{holds.spec.kind}, which holds whoever cannot be served at once"
            )
            yield ("router", "rules", index, "poolActivation"), message


def _fails_twice(scenario: Scenario, rule: Rule) -> Iterator[str]:
    for name in repeated(rule.backends):
        engine, times = _engine(scenario, name), rule.backends.count(name)
        if engine is None:
            continue
        pods = scenario.backends[name].replicas * getattr(engine, "data_parallel", 1)
        if times > pods:
            often = "twice" if times == 2 else f"{times} times"
            have = "one pod: it would fail twice" if pods == 1 else f"{pods} pods to try"
            yield f"names {name!r} {often}, which has {have}"


def _events(scenario: Scenario, root: Any) -> Iterator[tuple[Path, str]]:
    members = {reference.name for reference in member_references(root)}
    for index, event in enumerate(scenario.events):
        for key, message in _of_event(event, scenario, members):
            yield ("events", index, key), message


def _of_event(event: Event, scenario: Scenario, members: Collection[str]) -> Iterator[Problem]:
    backend = None if isinstance(event, ProxyRestart) else event.backend
    if backend not in scenario.backends:
        return
    if isinstance(event, LoadFailureEvent | ProbeFailure) and backend not in members:
        yield "backend", "must be a member of a pool: nothing else is loaded"
    if isinstance(event, PodLost):
        replicas = scenario.backends[event.backend].replicas
        if event.replica >= replicas:
            yield "replica", f"must be below the number of replicas, {replicas}"
        if backend in members and event.duration is not None:
            yield "for", "not for a member of a pool, which is loaded when wanted"
    if isinstance(event, ProbeFailure) and event.probe == "idle":
        for seat in _seats(scenario):
            if seat.name == backend and not seat.spec.probes_idle:
                message = f"pool {seat.pool!r} does not ask its members whether they are idle"
                yield "probe", message


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


# -- names that refer to entries of other blocks, in plain values: the blocks may have faults --


class Reference(NamedTuple):
    """A name at ``path`` that means an entry of another block; a key, or a value."""

    path: Path
    name: str
    at_key: bool = False


def engine_references(root: Any) -> Iterator[Reference]:
    """Yield where backends name their engines."""
    for name in entries(at(root, "backends")):
        yield from _value(root, ("backends", name, "engine"))


def backend_references(root: Any) -> Iterator[Reference]:
    """Yield where rules, pools, workloads and events name backends."""
    for index, rule in enumerate(_items(at(root, "router", "rules"))):
        for place, _ in enumerate(_items(at(rule, "backends"))):
            yield from _value(root, ("router", "rules", index, "backends", place))
    yield from _value(root, ("router", "defaultRoute"))
    yield from member_references(root)
    for name in entries(at(root, "workloads")):
        yield from _value(root, ("workloads", name, "direct"))
    for index, _ in enumerate(_items(at(root, "events"))):
        yield from _value(root, ("events", index, "backend"))


def member_references(root: Any) -> Iterator[Reference]:
    """Yield where pools name the backends that are their members."""
    for pool in entries(at(root, "pools")):
        for name in entries(at(root, "pools", pool, "members")):
            yield Reference(("pools", pool, "members", name), name, at_key=True)


def unknown_names(root: Any) -> Iterator[Finding]:
    """Yield references to engines and backends that are not defined.

    None if the block that would define them is missing, which is a fault of its own.
    """
    yield from _unknown("engine", engine_references(root), at(root, "engines"))
    yield from _unknown("backend", backend_references(root), at(root, "backends"))


def unused_names(roots: Iterable[Any]) -> list[Fault]:
    """Return a warning for each engine and backend that none of the variants uses.

    A variant may well choose between two of them, so one variant alone says nothing.
    """
    defined: dict[Path, Fault] = {}
    used: set[Path] = set()
    for root in roots:
        used.update(("engines", each.name) for each in engine_references(root))
        used.update(("backends", each.name) for each in backend_references(root))
        if at(root, "router", "defaultRouteStrategy") == "BackendNameMatch":
            used.update(("backends", name) for name in entries(at(root, "backends")))
        for section, user in (("engines", "backend"), ("backends", "rule")):
            for name in entries(at(root, section)):
                unused = Finding((section, name), f"unused: no {user} names it", at_key=True)
                defined.setdefault(unused.path, placed(unused, root))
    return [warning for path, warning in defined.items() if path not in used]


def twice_in_pools(root: Any) -> Iterator[Finding]:
    """Yield members that belong to a pool already."""
    homes: dict[str, str] = {}
    for path, name, _ in member_references(root):
        home = homes.setdefault(name, str(path[1]))
        if home != path[1]:
            yield Finding(path, f"{name!r} is a member of pool {home!r} already", at_key=True)


def _items(value: Any) -> tuple[Any, ...]:
    return value if isinstance(value, tuple) else ()


def _value(root: Any, path: Path) -> Iterator[Reference]:
    name = at(root, *path)
    if isinstance(name, str):
        yield Reference(path, name)


def _unknown(what: str, references: Iterable[Reference], block: Any) -> Iterator[Finding]:
    if isinstance(block, dict):
        for path, name, at_key in references:
            if name not in block:
                yield Finding(path, f"unknown {what} {name!r}{suggestion(name, block)}", at_key)
