"""Families of policies and workloads, found by name through entry points.

A family ties a spec model (what may be written in a scenario) to its
implementation with one decorator, so that neither can be registered without
the other::

    @family(LeastLoadedSpec)
    class LeastLoaded: ...

and is published as an entry point in the group ``podsim.policies`` or
``podsim.workloads``; the entry point's name is the ``kind`` in the scenario.
podsim's own families and third-party ones are found in the same way.
"""

from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import entry_points
from typing import Any, TypeVar

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
    implementation: Callable[..., Any]


@dataclass(frozen=True)
class Registry:
    """Everything a scenario may name by ``kind``; keys are sorted."""

    policies: dict[str, Family]
    workloads: dict[str, Family]


def load() -> Registry:
    """Import every registered family.

    Raises ``TypeError`` for an entry point whose class has no spec, which is a
    mistake of the package that publishes it.
    """
    return Registry(_group("podsim.policies"), _group("podsim.workloads"))


def _group(group: str) -> dict[str, Family]:
    families = {}
    for entry in sorted(entry_points(group=group), key=lambda entry: entry.name):
        implementation = entry.load()
        spec = getattr(implementation, "spec_type", None)
        if spec is None:
            raise TypeError(f"{group}: {entry.name}: {entry.value} is not decorated with @family")
        families[entry.name] = Family(entry.name, spec, implementation)
    return families
