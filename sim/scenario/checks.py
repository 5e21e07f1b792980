"""What must agree across the blocks of a scenario: names that refer to names, ends of runs."""

from collections.abc import Iterable, Iterator

from sim.errors import Fault
from sim.scenario.nodes import Mapping, Node, Path, Sequence, at, entries, fault, text_of
from sim.scenario.suggest import suggestion


def engine_references(root: Node) -> Iterator[tuple[Path, Node]]:
    """Where backends name their engines."""
    for name in entries(at(root, "backends")):
        path = ("backends", name, "engine")
        if (node := at(root, *path)) is not None:
            yield path, node


def backend_references(root: Node) -> Iterator[tuple[Path, Node]]:
    """Where rules name their backends."""
    rules = at(root, "router", "rules")
    for index, rule in enumerate(rules.items if isinstance(rules, Sequence) else ()):
        names = at(rule, "backends")
        for place, node in enumerate(names.items if isinstance(names, Sequence) else ()):
            yield ("router", "rules", index, "backends", place), node


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
        used.update(("engines", str(text_of(node))) for _, node in engine_references(root))
        used.update(("backends", str(text_of(node))) for _, node in backend_references(root))
        for section, user in (("engines", "backend"), ("backends", "rule")):
            block = at(root, section)
            for name, place in block.keys.items() if isinstance(block, Mapping) else ():
                path = (section, name)
                defined.setdefault(path, fault(place, path, f"unused: no {user} names it"))
    return [warning for path, warning in defined.items() if path not in used]


def _unknown(
    what: str, references: Iterable[tuple[Path, Node]], block: Node | None
) -> Iterator[Fault]:
    if not isinstance(block, Mapping):
        return
    known = block.values
    for path, node in references:
        name = text_of(node)
        if name is not None and name not in known:
            yield fault(node.place, path, f"unknown {what} {name!r}{suggestion(name, known)}")
