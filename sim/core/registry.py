"""Families of engines, policies, pools and workloads, found by name through entry points.

A family ties a spec model (what may be written in a scenario) to its
implementation with one decorator, so that neither can be registered without
the other::

    @family(LeastLoadedSpec)
    class LeastLoaded: ...

and is published as an entry point in the group ``podsim.engines``,
``podsim.policies``, ``podsim.pools`` or ``podsim.workloads``; the entry point's name is the
``kind`` in the scenario.
podsim's own families and third-party ones are found in the same way, and looked at in the same
way when they are imported: what a protocol asks of a class is missed before anything runs.
"""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any, Final, NamedTuple, TypeVar, cast, get_args

from sim.core.errors import PackageError

Implementation = TypeVar("Implementation", bound=type)

OWN: Final = "sim"
"""The package whose families are podsim's own."""


class Terms(NamedTuple):
    """What a group asks of a class: its protocol, the base of its spec, what both must have.

    ``noun`` is what one of the group is called.
    """

    noun: str
    protocol: str
    spec: str
    calls: Mapping[str, tuple[str, ...]]  # methods, and what each is called with
    spec_has: tuple[str, ...] = ()


GROUPS: Final[Mapping[str, Terms]] = {
    "podsim.engines": Terms(
        "engine",
        "sim.hardware.engine.Engine",
        "sim.hardware.engine.Engine",
        {"replica": ("name", "spec", "kernel")},
    ),
    "podsim.policies": Terms(
        "policy",
        "sim.router.views.Policy",
        "sim.core.fields.Model",
        {
            "__init__": ("spec", "context"),
            "choose": ("request", "pods", "now_s"),
            "observe": ("fact",),
        },
    ),
    "podsim.pools": Terms(
        "pool",
        "sim.core.ports.PoolPort",
        "sim.scenario.pool.Pool",
        {
            "__init__": ("name", "spec", "context"),
            "start": (),
            "join": ("activation",),
            "leave": ("activation",),
            "release": ("activation",),
            "unreachable": ("member",),
            "restart": (),
            "fail_loads": ("member", "after_s", "loads"),
            "lost": ("member",),
        },
    ),
    "podsim.workloads": Terms(
        "workload",
        "sim.core.ports.Workload",
        "sim.core.fields.Model",
        {"__init__": ("spec", "context"), "start": (), "counts": ()},
        ("finite", "agents_total"),
    ),
}


def family(spec: type) -> Callable[[Implementation], Implementation]:
    """Bind ``spec``, a frozen model, to the class that implements it."""

    def bind(implementation: Implementation) -> Implementation:
        implementation.spec_type = spec  # type: ignore[attr-defined]
        return implementation

    return bind


@dataclass(frozen=True)
class Family:
    """One registered kind: its name, its spec model, its implementation and where it is from."""

    kind: str
    spec: Any  # the class
    implementation: Any  # the class
    entry: EntryPoint

    @property
    def group(self) -> str:
        """The group of entry points in which it is published."""
        return self.entry.group

    @property
    def foreign(self) -> bool:
        """Whether it is somebody else's."""
        return module_root(self.implementation.__module__) != OWN

    def __str__(self) -> str:
        """``my-router: policy 'sticky' (my_router.policy.Sticky)``."""
        implementation = self.implementation
        named = f"{implementation.__module__}.{implementation.__qualname__}"
        return f"{_package(self.entry)}: {GROUPS[self.group].noun} {self.kind!r} ({named})"


def module_root(module: str) -> str:
    """The package in which a module lies: ``my_router`` of ``my_router.policy``."""
    return module.partition(".")[0]


class Families(Mapping[str, Family]):
    """The families of one group by kind, kinds sorted; one is imported when it is asked for.

    So a package that is broken stops only those who use it. Asking for its
    family raises ``PackageError``, which names the package.
    """

    def __init__(self, entries: Iterable[EntryPoint]) -> None:
        self._entries: dict[str, list[EntryPoint]] = {}
        for entry in sorted(entries, key=lambda one: (one.name, one.value)):
            self._entries.setdefault(entry.name, []).append(entry)
        self._loaded: dict[str, Family] = {}

    def __getitem__(self, kind: str) -> Family:
        if kind not in self._loaded:
            self._loaded[kind] = _imported(*self._entries[kind])
        return self._loaded[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def foreign(self) -> list[Family]:
        """Those of other packages that have been asked for."""
        return [each for each in self._loaded.values() if each.foreign]


@dataclass(frozen=True)
class Registry:
    """Everything a scenario may name by ``kind``, in the order of ``GROUPS``; keys are sorted."""

    engines: Families
    policies: Families
    pools: Families
    workloads: Families

    @property
    def foreign(self) -> list[Family]:
        """Families of other packages that have been asked for."""
        groups = (self.policies, self.workloads, self.pools, self.engines)
        return [each for families in groups for each in families.foreign]


def load() -> Registry:
    """Find every registered family."""
    installed = entry_points()  # reads the metadata of every package, so only once
    return Registry(*(Families(installed.select(group=group)) for group in GROUPS))


def plugin(group: str, name: str) -> Any:
    """Load what is published under ``name`` in a group of entry points beside those of families.

    Raises ``PackageError`` when there is none, or when it cannot be imported.
    """
    found = entry_points(group=group, name=name)
    if not found:
        raise PackageError(f"no entry point {name!r} in {group}: install podsim again")
    entry = next(iter(found))
    try:
        return entry.load()
    except ImportError as error:
        raise _wrong(entry, f"cannot import {entry.value}: {error}") from error


def _imported(entry: EntryPoint, *rivals: EntryPoint) -> Family:
    if rivals:
        others = " and ".join(_package(rival) for rival in rivals)
        raise _wrong(entry, f"{others} has one of the same name; rename one of them")
    try:
        implementation = entry.load()
    except Exception as error:  # whatever somebody else's module may do when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise _wrong(entry, f"cannot import {entry.value}: {reason}") from error
    spec = getattr(implementation, "spec_type", None)
    if spec is None:
        raise _wrong(entry, f"{entry.value} is not decorated with @sim.core.registry.family")
    found = Family(entry.name, spec, implementation, entry)
    for wrong in _broken_terms(found):
        raise _wrong(entry, wrong)
    return found


def _wrong(entry: EntryPoint, what: str) -> PackageError:
    return PackageError(f"{_package(entry)}: entry point {entry.name!r} in {entry.group}: {what}")


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist else "an unknown package"


# -- what a class must have -------------------------------------------------------------------


def _broken_terms(found: Family) -> Iterator[str]:
    """What is wrong with the class and its spec, the most important first."""
    terms, implementation, spec = GROUPS[found.group], found.implementation, found.spec
    if not isinstance(implementation, type):
        yield f"{implementation!r} is no class"
        return
    named = f"the spec {getattr(spec, '__name__', repr(spec))} of {implementation.__name__}"
    bases = {f"{base.__module__}.{base.__name__}" for base in getattr(spec, "__mro__", ())}
    if terms.spec not in bases:
        yield f"{named} is no subclass of {terms.spec}"
        return
    kind = spec.model_fields.get("kind")
    if kind is None or (kind.annotation is not str and found.kind not in get_args(kind.annotation)):
        yield f"{named} needs the field kind: Literal[{found.kind!r}], as the entry point is called"
    for name in terms.spec_has:
        if not hasattr(spec, name) and name not in spec.model_fields:
            yield f"{named} has no {name}, which that of a {terms.noun} needs"
    for name, arguments in terms.calls.items():
        called = f"{name}({', '.join(arguments)})"
        if not callable(getattr(implementation, name, None)):
            yield f"{implementation.__name__} has no method {called}: see {terms.protocol}"
        elif not _takes(found, name, len(arguments)):
            yield f"{implementation.__name__} cannot be called as {called}: see {terms.protocol}"
    if found.foreign:  # podsim's own are under test, and this takes milliseconds
        yield from (f"{named}: {wrong}" for wrong in _bad_fields(spec))


def _takes(found: Family, name: str, count: int) -> bool:
    """Whether the method can be called with so many arguments; true when nobody knows."""
    method = inspect.getattr_static(found.implementation, name)
    bound = getattr(found.implementation, name)
    of_class = found.group == "podsim.engines"  # there is no instance of an engine's
    with_self = inspect.isfunction(method) and not of_class
    try:
        inspect.signature(bound).bind(*range(count + with_self))
    except TypeError:
        return False
    except ValueError:  # of a built-in function, or object's own __init__
        return name != "__init__"
    return True


def _bad_fields(spec: Any) -> Iterator[str]:
    """Defaults that would be refused if they were written out, types that no YAML can hold."""
    from pydantic import TypeAdapter, ValidationError

    for name, field in spec.model_fields.items():
        if field.is_required() or field.default_factory is not None:
            continue
        kind = (
            Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
        )
        try:
            meant = TypeAdapter(cast(Any, kind)).validate_python(field.default)
        except ValidationError as error:
            yield f"the default of {name} {error.errors()[0]['msg']}"
            continue
        if isinstance(field.default, str) and not isinstance(meant, str):
            yield f"the default of {name} must be {meant!r}, as it is read; got {field.default!r}"
    try:
        spec.model_json_schema()
    except Exception as error:  # whatever a type of somebody else's may do
        yield f"a field has a type that no scenario can hold: {error}"
