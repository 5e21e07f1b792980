"""Rules of a model: what its values must agree on, beyond the type of each.

A rule is a method that yields what is wrong. Pydantic calls the rules once every
field is valid, and all of them, so that what several have found is reported
together.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias, TypeVar

from sim.core.errors import Fault, ScenarioError

Problem: TypeAlias = tuple[str, str]
"""The key at fault, camelCase (``rows.3.think`` below it, "" for all), and what is wrong."""

Name = TypeVar("Name")
Check = TypeVar("Check", bound=Callable[[Any], Iterator[Problem]])


def rule(check: Check) -> Check:
    """Make a method of a ``Model``, a generator of its ``Problem``s, one of its rules."""
    check.is_rule = True  # type: ignore[attr-defined]
    return check


def broken(model: Any) -> list[Problem]:
    """Return the problems of the rules of ``model``, those of its base classes first."""
    return [problem for check in _rules(model.__class__) for problem in check(model)]


def faults_of(*checks: Callable[[], object]) -> list[Fault]:
    """Call ``checks``, which may raise ``ScenarioError``, and return each of their faults once."""
    faults: list[Fault] = []
    for check in checks:
        try:
            check()
        except ScenarioError as error:
            faults += error.faults
    return list(dict.fromkeys(faults))


def repeated(names: Iterable[Name]) -> Iterator[Name]:
    """Yield each of the ``names`` that occurs more than once, once."""
    seen: dict[Name, int] = {}
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        if seen[name] == 2:
            yield name


@cache
def _rules(model: type) -> tuple[Callable[[Any], Iterator[Problem]], ...]:
    members = {
        name: value for each in reversed(model.__mro__) for name, value in vars(each).items()
    }
    return tuple(value for value in members.values() if hasattr(value, "is_rule"))
