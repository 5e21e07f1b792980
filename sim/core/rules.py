"""Rules: what the values of one model must agree on, each checked and told for itself.

A value with a fault of its own cannot be held against others, and what does
not depend on it can. So a model with faults is kept with what is right of it
(``sim.scenario.salvage``), and whoever asks it for the rest stops there
(``Unusable``): what was found until then is told, what would follow from the
fault is not. Rules therefore read no more than they need, and say at once what
they have found.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, TypeAlias, TypeVar

from sim.core.errors import Fault, ScenarioError

Problem: TypeAlias = tuple[str, str]
"""The key at fault, camelCase (``rows.3.think`` below it, "" for all), and what is wrong."""

Found = TypeVar("Found")
Check = TypeVar("Check", bound=Callable[[Any], Iterator[Problem]])


class Unusable(Exception):  # noqa: N818 - no failure: the fault behind it is told
    """What was asked for has a fault, or does not follow from what has one."""


class Hole:
    """Stands in a list or a mapping for an entry of which nothing can be used."""

    def _refuse(self, *_: object) -> Any:
        raise Unusable

    __bool__ = __eq__ = __float__ = __ge__ = __getattr__ = __getitem__ = __gt__ = _refuse
    __hash__ = __int__ = __iter__ = __le__ = __len__ = __lt__ = __ne__ = __str__ = _refuse


def rule(check: Check) -> Check:
    """Make a method of a ``Model``, a generator of its ``Problem``s, one of its rules."""
    check.is_rule = True  # type: ignore[attr-defined]
    return check


def broken(model: Any) -> list[Problem]:
    """The problems of the rules of ``model``, those of its base classes first."""
    problems: list[Problem] = []
    for check in _rules(model.__class__):
        problems.extend(known(check(model)))
    return problems


def known(found: Iterable[Found]) -> Iterator[Found]:
    """What is ``found`` until something unusable is asked for."""
    try:
        yield from found
    except Unusable:
        return


def faults_of(*checks: Callable[[], object]) -> list[Fault]:
    """What ``checks``, which raise ``ScenarioError``, find wrong, each fault once."""
    faults: list[Fault] = []
    for check in checks:
        try:
            check()
        except ScenarioError as error:
            faults += error.faults
        except Unusable:
            continue
    return list(dict.fromkeys(faults))


def usable(entries: Iterable[Found]) -> Iterator[Found]:
    """The ``entries`` that are no holes."""
    return (entry for entry in entries if not isinstance(entry, Hole))


def repeated(names: Iterable[Found]) -> Iterator[Found]:
    """The ``names`` that stand there more than once, each once."""
    seen: dict[Found, int] = {}
    for name in usable(names):
        seen[name] = seen.get(name, 0) + 1
        if seen[name] == 2:
            yield name


@cache
def _rules(model: type) -> tuple[Callable[[Any], Iterator[Problem]], ...]:
    members = {
        name: value for each in reversed(model.__mro__) for name, value in vars(each).items()
    }
    return tuple(value for value in members.values() if hasattr(value, "is_rule"))
