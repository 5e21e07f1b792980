"""What must agree across the blocks of a scenario: names that refer to names."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from sim.core.errors import Fault
from sim.core.suggest import suggestion
from sim.scenario.nodes import Mapping, Node, Path, Place, Sequence, at, entries, fault, text_of


class Reference(NamedTuple):
    """A name that stands somewhere and means an entry of another block."""

    path: Path
    place: Place
    name: str


def engine_references(root: Node) -> Iterator[Reference]:
    """Where backends name their engines."""
    for name in entries(at(root, "backends")):
        yield from _value(root, ("backends", name, "engine"))


def backend_references(root: Node) -> Iterator[Reference]:
    """Where rules, pools, workloads and events name backends."""
    for index, rule in enumerate(_items(at(root, "router", "rules"))):
        for place, _ in enumerate(_items(at(rule, "backends"))):
            yield from _value(root, ("router", "rules", index, "backends", place))
    yield from _value(root, ("router", "defaultRoute"))
    yield from member_references(root)
    for name in entries(at(root, "workloads")):
        yield from _value(root, ("workloads", name, "direct"))
    for index, _ in enumerate(_items(at(root, "events"))):
        yield from _value(root, ("events", index, "backend"))


def member_references(root: Node) -> Iterator[Reference]:
    """Where pools name the backends that are their members."""
    for pool in entries(at(root, "pools")):
        members = at(root, "pools", pool, "members")
        for name, place in members.keys.items() if isinstance(members, Mapping) else ():
            yield Reference(("pools", pool, "members", name), place, name)


def unknown_names(root: Node) -> list[Fault]:
    """References to engines and backends that are not defined.

    None if the block that would define them is missing, which is a fault of its own.
    """
    return [
        *_unknown("engine", engine_references(root), at(root, "engines")),
        *_unknown("backend", backend_references(root), at(root, "backends")),
    ]


def unused_names(roots: Iterable[Node]) -> list[Fault]:
    """Engines and backends that none of the variants uses; each is a warning.

    A variant may well choose between two of them, so one variant alone says nothing.
    """
    defined: dict[Path, Fault] = {}
    used: set[Path] = set()
    for root in roots:
        used.update(("engines", each.name) for each in engine_references(root))
        used.update(("backends", each.name) for each in backend_references(root))
        if text_of(at(root, "router", "defaultRouteStrategy")) == "BackendNameMatch":
            used.update(("backends", name) for name in entries(at(root, "backends")))
        for section, user in (("engines", "backend"), ("backends", "rule")):
            block = at(root, section)
            for name, place in block.keys.items() if isinstance(block, Mapping) else ():
                path = (section, name)
                defined.setdefault(path, fault(place, path, f"unused: no {user} names it"))
    return [warning for path, warning in defined.items() if path not in used]


def twice_in_pools(root: Node) -> list[Fault]:
    """Members that belong to a pool already."""
    homes: dict[str, str] = {}
    faults = []
    for path, place, name in member_references(root):
        pool = str(path[1])
        if name in homes:
            message = f"{name!r} is a member of pool {homes[name]!r} already"
            faults.append(fault(place, path, message))
        homes.setdefault(name, pool)
    return faults


def _items(node: Node | None) -> tuple[Node, ...]:
    return tuple(node.items) if isinstance(node, Sequence) else ()


def _value(root: Node, path: Path) -> Iterator[Reference]:
    node = at(root, *path)
    name = text_of(node)
    if node is not None and name is not None:
        yield Reference(path, node.place, name)


def _unknown(what: str, references: Iterable[Reference], block: Node | None) -> Iterator[Fault]:
    if not isinstance(block, Mapping):
        return
    for path, place, name in references:
        if name not in block.values:
            message = f"unknown {what} {name!r}{suggestion(name, block.values)}"
            yield fault(place, path, message)
