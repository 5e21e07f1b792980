"""Families of engines, policies, pools and workloads, found by name through entry points.

A family ties a spec model (what may be written in a scenario) to its
implementation with one decorator, so that neither can be registered without
the other::

    @family(LeastLoadedSpec)
    class LeastLoaded: ...

and is published as an entry point in the group ``podsim.engines``,
``podsim.policies``, ``podsim.pools`` or ``podsim.workloads``; the entry point's name is the
``kind`` in the scenario.
podsim's own families and third-party ones are found in the same way.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar

from sim.errors import UserError

Implementation = TypeVar("Implementation", bound=type)


def family(spec: type) -> Callable[[Implementation], Implementation]:
    """Bind ``spec``, a frozen model, to the class that implements it."""

    def bind(implementation: Implementation) -> Implementation:
        implementation.spec_type = spec  # type: ignore[attr-defined]
        return implementation

    return bind


@dataclass(frozen=True)
class Family:
    """One registered kind: its name, its spec model and its implementation."""

    kind: str
    spec: type
    implementation: Any  # the class


class Families(Mapping[str, Family]):
    """The families of one group by kind, kinds sorted; one is imported when it is asked for.

    So a package that is broken stops only those who use it. Asking for its
    family raises ``UserError``, which names the package.
    """

    def __init__(self, entries: Iterable[EntryPoint]) -> None:
        self._entries = {entry.name: entry for entry in sorted(entries, key=lambda one: one.name)}
        self._loaded: dict[str, Family] = {}

    def __getitem__(self, kind: str) -> Family:
        if kind not in self._loaded:
            self._loaded[kind] = _imported(self._entries[kind])
        return self._loaded[kind]

    def __contains__(self, kind: object) -> bool:
        return kind in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)


@dataclass(frozen=True)
class Registry:
    """Everything a scenario may name by ``kind``; keys are sorted."""

    engines: Mapping[str, Family]
    policies: Mapping[str, Family]
    pools: Mapping[str, Family]
    workloads: Mapping[str, Family]


def load() -> Registry:
    """Find every registered family."""
    groups = ("podsim.engines", "podsim.policies", "podsim.pools", "podsim.workloads")
    installed = entry_points()  # reads the metadata of every package, so only once
    return Registry(*(Families(installed.select(group=group)) for group in groups))


def _imported(entry: EntryPoint) -> Family:
    package = entry.dist.name if entry.dist else "an unknown package"
    where = f"{package}: entry point {entry.name!r} in {entry.group}"
    try:
        implementation = entry.load()
    except Exception as error:  # whatever somebody else's module may do when it is imported
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{where}: cannot import {entry.value}: {reason}") from error
    spec = getattr(implementation, "spec_type", None)
    if spec is None:
        raise UserError(f"{where}: {entry.value} is not decorated with @sim.registry.family")
    return Family(entry.name, spec, implementation)
