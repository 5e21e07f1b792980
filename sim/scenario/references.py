"""Names that refer to entries of other blocks, in plain values: the blocks may have faults."""

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from sim.core.document import Finding, Path, at, entries, placed
from sim.core.errors import Fault
from sim.core.suggest import suggestion


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
