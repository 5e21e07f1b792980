"""The nodes of a scenario file: plain values that remember where they were written.

A tree of nodes is never changed once it is built; a variant shares with its
base every node that it leaves alone, so what was checked once is known to be
good (or bad) wherever the same node appears.
"""

import numbers
from collections.abc import Iterable, Iterator
from collections.abc import Mapping as AnyMapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from sim.core.errors import Fault, ScenarioError

MAX_DEPTH: Final = 64


class Place(NamedTuple):
    """Where something is written; ``line`` and ``column`` count from 1, 0 is unknown."""

    source: str
    line: int = 0
    column: int = 0


class _Unread:
    """What stands in the place of a value that cannot be read, which is told by itself."""


UNREAD: Final[Any] = _Unread()
"""The value of a ``Scalar`` that cannot be read; of no type that a scenario may have."""


@dataclass(slots=True, eq=False)
class Scalar:
    """Text, a number, true, false or null; or ``UNREAD``."""

    value: str | int | float | bool | None
    place: Place


@dataclass(slots=True, eq=False)
class Sequence:
    """A list."""

    items: list["Node"]
    place: Place


@dataclass(slots=True, eq=False)
class Mapping:
    """Values by key, in the order of the file, with the place of each key."""

    values: dict[str, "Node"]
    keys: dict[str, Place]
    place: Place


Node: TypeAlias = Scalar | Sequence | Mapping
Path: TypeAlias = tuple[str | int, ...]


def dotted(path: Path) -> str:
    """A path as users write it: ``router.rules.0.name``."""
    return ".".join(str(segment) for segment in path)


def fault(place: Place, path: Path, message: str) -> Fault:
    """Something is wrong at ``place``, which belongs to ``path``."""
    return Fault(place.source, place.line, place.column, dotted(path), message)


def child(node: Node | None, segment: str | int) -> Node | None:
    """What stands one step below ``node``; None where nothing does."""
    if isinstance(node, Mapping):
        return node.values.get(str(segment))
    if isinstance(node, Sequence):
        index = int(segment) if str(segment).isdecimal() else len(node.items)
        return node.items[index] if index < len(node.items) else None
    return None


def at(node: Node | None, *path: str | int) -> Node | None:
    """What stands at ``path`` below ``node``; None where nothing does."""
    for segment in path:
        node = child(node, segment)
    return node


def nearest(root: Node, path: Path) -> Node:
    """What stands at ``path``, or at the longest part of it where something does."""
    found = at(root, *path)
    return nearest(root, path[:-1]) if found is None else found


def entries(node: Node | None) -> dict[str, Node]:
    """Values by key; empty for what is not a mapping."""
    return node.values if isinstance(node, Mapping) else {}


def beside(node: Node | None, key: str) -> list[str]:
    """The keys that are written in one block with ``key``, on its line or below each other.

    One that a variant or a setting puts in stands elsewhere and may mean one that is there.
    """
    places = node.keys if isinstance(node, Mapping) else {}
    own = places.get(key)
    return [
        name
        for name, place in places.items()
        if own is not None
        and place.source == own.source
        and (place.line == own.line or place.column == own.column)
    ]


def is_null(node: Node | None) -> bool:
    """Absent, or written as ``null``: both mean the default."""
    return node is None or (isinstance(node, Scalar) and node.value is None)


def unread(node: Node, path: Path = ()) -> Iterator[Path]:
    """Where something below ``node`` could not be read; the places begin with ``path``."""
    if isinstance(node, Scalar):
        if node.value is UNREAD:
            yield path
        return
    steps: Iterable[tuple[str | int, Node]] = (
        node.values.items() if isinstance(node, Mapping) else enumerate(node.items)
    )
    for step, below in steps:
        yield from unread(below, (*path, step))


def text_of(node: Node | None) -> str | None:
    """The text of a scalar; None for everything else."""
    return node.value if isinstance(node, Scalar) and isinstance(node.value, str) else None


def find_text(node: Node, text: str) -> tuple[Place, Path]:
    """Where ``text`` stands as a value below ``node``; ``node`` itself if nowhere."""
    steps: list[tuple[str | int, Node]] = []
    if isinstance(node, Mapping):
        steps.extend(node.values.items())
    elif isinstance(node, Sequence):
        steps.extend(enumerate(node.items))
    for step, below in steps:
        if text_of(below) == text:
            return below.place, (step,)
        place, path = find_text(below, text)
        if path:
            return place, (step, *path)
    return node.place, ()


def plain(node: Node) -> Any:
    """``node`` without its places: dicts, tuples and scalars."""
    if isinstance(node, Mapping):
        return {key: plain(value) for key, value in node.values.items()}
    if isinstance(node, Sequence):
        return tuple([plain(item) for item in node.items])
    return node.value


def with_value(node: Node | None, path: Path, value: Node, place: Place) -> Node:
    """A copy of ``node`` in which ``value`` stands at ``path``; the rest is shared.

    Missing mappings on the way are made; their keys stand at ``place``.
    Raises ``LookupError`` when the path leads through a scalar or past the end
    of a list; its ``args[0]`` is the part of the path that cannot be entered.
    """
    if not path:
        return value
    segment, rest = path[0], path[1:]
    below = child(node, segment)
    try:
        new = with_value(below, rest, value, place)
    except LookupError as error:
        raise LookupError((segment, *error.args[0])) from None
    if isinstance(node, Sequence):
        if below is None:
            raise LookupError((segment,))
        items = list(node.items)
        items[int(segment)] = new
        return Sequence(items, node.place)
    if not is_null(node) and not isinstance(node, Mapping):
        raise LookupError(())
    base = node if isinstance(node, Mapping) else Mapping({}, {}, place)
    key = str(segment)
    keys = base.keys if key in base.keys and rest else {**base.keys, key: place}
    return Mapping({**base.values, key: new}, keys, base.place)


def from_python(value: Any, source: str) -> Node:
    """The nodes of a plain Python value, for scenarios that are not read from a file.

    Mappings need text keys; lists, tuples and NumPy scalars are understood.
    Raises ``ScenarioError`` for anything else.
    """
    faults: list[Fault] = []
    node = read_python(value, source, faults)
    if faults:
        raise ScenarioError(faults)
    return node


def read_python(value: Any, source: str, faults: list[Fault]) -> Node:
    """As ``from_python``, which raises the ``faults``: ``UNREAD`` stands in their place."""
    return _from_python(value, Place(source), (), faults)


def _from_python(value: Any, place: Place, path: Path, faults: list[Fault]) -> Node:
    if len(path) > MAX_DEPTH:
        faults.append(fault(place, path[:4], f"nested deeper than {MAX_DEPTH} levels"))
        return Scalar(UNREAD, place)
    if isinstance(value, AnyMapping):
        values = {}
        for key, item in value.items():
            if not isinstance(key, str):
                faults.append(fault(place, path, f"keys must be text; got {key!r}"))
            values[str(key)] = _from_python(item, place, (*path, str(key)), faults)
        return Mapping(values, dict.fromkeys(values, place), place)
    if isinstance(value, list | tuple):
        entries = enumerate(value)
        items = [_from_python(item, place, (*path, index), faults) for index, item in entries]
        return Sequence(items, place)
    if value is None or isinstance(value, str | bool):
        return Scalar(value, place)
    if isinstance(value, numbers.Integral):
        return Scalar(int(value), place)
    if isinstance(value, numbers.Real):
        return Scalar(float(value), place)
    message = f"must be text, a number, a list or a mapping; got {type(value).__name__}"
    faults.append(fault(place, path, message))
    return Scalar(UNREAD, place)
