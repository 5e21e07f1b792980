"""YAML text and Python values as plain values that remember where they were written.

libyaml finds the events, which are read one by one: tags, quotes, doubled keys and
aliases are seen before anything is expanded, nesting cannot exhaust the stack, and
7 MB take a few seconds. Scalars mean what YAML 1.2 says (section 10.3, the core
schema); beyond it the merge key ``<<`` of YAML 1.1 is understood. A key is always
text, whatever it looks like.

Values are never changed once they are read; a copy with another value somewhere
shares everything else, so that what was checked once need not be checked again.
"""

import numbers
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

from sim.core.errors import Fault, ScenarioError
from sim.core.suggest import suggestion

MAX_DEPTH: Final = 64
# An honest file repeats a template some hundred times; nine levels of nine
# aliases stand for 387 million values.
FREE_ALIAS_VALUES: Final = 100_000
ALIAS_VALUES_PER_WRITTEN: Final = 10

_CORE: Final = "tag:yaml.org,2002:"
_TAGGED_TYPES: Final[dict[str, type]] = {
    _CORE + "str": str,
    _CORE + "int": int,
    _CORE + "float": float,
    _CORE + "bool": bool,
    _CORE + "null": type(None),
    "!": str,
}
_WORDS: Final[dict[str, bool | float | None]] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **{sign + word: float("inf") for sign in ("", "+") for word in (".inf", ".Inf", ".INF")},
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}
_DECIMAL: Final = re.compile(r"[-+]?[0-9]+")
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_BASED: Final = re.compile(r"0o[0-7]+|0x[0-9a-fA-F]+")
_MAX_DIGITS: Final = 1000  # no legal number is near; Python refuses to read far longer ones

Path: TypeAlias = tuple[str | int, ...]


class Place(NamedTuple):
    """Where something is written; ``line`` and ``column`` count from 1, 0 is unknown."""

    source: str
    line: int = 0
    column: int = 0


class _Unread:
    """Stands for a value that cannot be read, of which a fault tells."""


UNREAD: Final[Any] = _Unread()
"""In the place of a value that cannot be read; of no type that a scenario may have."""


class PlacedMap(dict[str, Any]):
    """A mapping, and where it, its keys and its values are written."""

    __slots__ = ("keys_at", "place", "values_at")

    def __init__(self, place: Place) -> None:
        super().__init__()
        self.place = place
        self.keys_at: dict[str, Place] = {}
        self.values_at: dict[str, Place] = {}

    def put(self, key: str, value: Any, key_at: Place, value_at: Place) -> None:
        """Set the value of ``key``."""
        self[key] = value
        self.keys_at[key] = key_at
        self.values_at[key] = value_at

    def copied(self) -> "PlacedMap":
        """Return a map of the same values at the same places."""
        copy = PlacedMap(self.place)
        copy.update(self)
        copy.keys_at, copy.values_at = dict(self.keys_at), dict(self.values_at)
        return copy


class PlacedList(tuple[Any, ...]):
    """A list, and where it and its items are written."""

    place: Place
    values_at: list[Place]


def placed_list(items: list[Any], place: Place, values_at: list[Place]) -> PlacedList:
    """Return ``items`` as a list that was written at ``place``."""
    found = PlacedList(items)
    found.place, found.values_at = place, values_at
    return found


class Finding(NamedTuple):
    """Something that is wrong, or odd, at ``path``; with ``at_key`` it is about the key there."""

    path: Path
    message: str
    at_key: bool = False

    def below(self, path: Path) -> "Finding":
        """Return the finding of a block that is at ``path``."""
        return self._replace(path=(*path, *self.path))


def dotted(path: Path) -> str:
    """Return a path as users write it: ``router.rules.0.name``."""
    return ".".join(str(step) for step in path)


def fault(place: Place, path: Path, message: str) -> Fault:
    """Return the fault that something is wrong at ``place``, which belongs to ``path``."""
    return Fault(place.source, place.line, place.column, dotted(path), message)


def step_below(value: Any, step: str | int) -> str | int | None:
    """Return the key or index below ``value`` that ``step`` names; None where nothing is."""
    if isinstance(value, dict):
        return str(step) if str(step) in value else None
    if isinstance(value, tuple) and str(step).isdecimal() and int(step) < len(value):
        return int(step)
    return None


def trace(value: Any, path: Path) -> tuple[Path, Any]:
    """Follow ``path`` below ``value``, leaving out steps that are not there."""
    steps: list[str | int] = []
    for each in path:
        step = step_below(value, each)
        if step is not None:
            steps.append(step)
            value = value[step]
    return tuple(steps), value


def at(value: Any, *path: str | int) -> Any:
    """Return what is at ``path`` below ``value``; None where nothing is."""
    steps, found = trace(value, path)
    return found if len(steps) == len(path) else None


def entries(value: Any) -> dict[str, Any]:
    """Return ``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, dict) else {}


def place_of(root: Any, path: Path = (), at_key: bool = False) -> Place:
    """Return where ``path`` is written, as far as it goes; or, ``at_key``, its last key."""
    place: Place = root.place
    for each in path:
        step = step_below(root, each)
        if step is None:
            return place
        last = each is path[-1] and isinstance(root, PlacedMap)
        places = root.keys_at if at_key and last else root.values_at
        place, root = places[step], root[step]
    return place


def placed(found: Finding, root: Any) -> Fault:
    """Return the fault of what was found in ``root``."""
    return fault(place_of(root, found.path, found.at_key), found.path, found.message)


def beside(value: Any, key: str) -> list[str]:
    """Return the keys that are written in one block with ``key``: on its line, or in its column.

    One that a variant or a setting puts in stands elsewhere and may mean one that is there.
    """
    places: dict[str, Place] = getattr(value, "keys_at", {})
    own = places.get(key)
    return [
        name
        for name, place in places.items()
        if own is not None
        and place.source == own.source
        and (place.line == own.line or place.column == own.column)
    ]


def path_to(value: Any, text: str) -> Path:
    """Return the path below ``value`` at which ``text`` is a value; empty if there is none."""
    below = value.items() if isinstance(value, dict) else enumerate(value)
    for step, each in below:
        if each == text:
            return (step,)
        if isinstance(each, dict | tuple) and (path := path_to(each, text)):
            return (step, *path)
    return ()


def with_value(root: Any, path: Path, value: Any, key_at: Place, value_at: Place) -> Any:
    """Return a copy of ``root`` in which ``value`` stands at ``path``; the rest is shared.

    Missing mappings on the way are made; their keys stand at ``key_at``. Raises
    ``LookupError`` when the path leads through a scalar or past the end of a
    list; its ``args[0]`` is the part of the path that cannot be entered.
    """
    if not path:
        return value
    if not (root is None or isinstance(root, dict | tuple)):
        raise LookupError(())
    step, rest = step_below(root, path[0]), path[1:]
    if step is None and isinstance(root, tuple):
        raise LookupError((path[0],))
    try:
        new = with_value(at(root, path[0]), rest, value, key_at, value_at)
    except LookupError as error:
        raise LookupError((path[0], *error.args[0])) from None
    if isinstance(root, PlacedList):
        assert isinstance(step, int)
        items, places = list(root), list(root.values_at)
        items[step], places[step] = new, places[step] if rest else value_at
        return placed_list(items, root.place, places)
    copy = root.copied() if isinstance(root, PlacedMap) else PlacedMap(key_at)
    if step is not None and rest:
        copy[str(step)] = new
    else:
        copy.put(str(path[0]), new, key_at, key_at if rest else value_at)
    return copy


# -- Python values ----------------------------------------------------------------------------


def read_python(value: Any, source: str, faults: list[Fault]) -> Any:
    """Return a Python value as if it were read from ``source``.

    Mappings need text keys; lists, tuples and NumPy scalars are understood. In the
    place of anything else, which goes to ``faults``, stands ``UNREAD``.
    """
    return _from_python(value, Place(source), (), faults)


def _from_python(value: Any, place: Place, path: Path, faults: list[Fault]) -> Any:
    if len(path) > MAX_DEPTH:
        faults.append(fault(place, path[:4], f"nested deeper than {MAX_DEPTH} levels"))
        return UNREAD
    if isinstance(value, Mapping):
        found = PlacedMap(place)
        for key, item in value.items():
            if not isinstance(key, str):
                faults.append(fault(place, path, f"keys must be text; got {key!r}"))
            name = str(key)
            found.put(name, _from_python(item, place, (*path, name), faults), place, place)
        return found
    if isinstance(value, list | tuple):
        pairs = enumerate(value)
        items = [_from_python(item, place, (*path, index), faults) for index, item in pairs]
        return placed_list(items, place, [place] * len(items))
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, numbers.Real):
        return int(value) if isinstance(value, numbers.Integral) else float(value)
    message = f"must be text, a number, a list or a mapping; got {type(value).__name__}"
    faults.append(fault(place, path, message))
    return UNREAD


# -- YAML -------------------------------------------------------------------------------------


def resolve(text: str) -> str | int | float | bool | None:
    """Return what an unquoted scalar means in the core schema of YAML 1.2."""
    if text in _WORDS:
        return _WORDS[text]
    if _DECIMAL.fullmatch(text):
        return int(text) if len(text) <= _MAX_DIGITS else float(text)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _BASED.fullmatch(text):
        return int(text, 0) if len(text) <= _MAX_DIGITS else float("inf")
    return text


def parse(text: str, source: str) -> Any:
    """Read the one document in ``text``; ``source`` names its origin in the faults.

    Raises ``ScenarioError`` with every fault found; a fault of YAML syntax is
    the last one, since nothing can be read behind it.
    """
    faults: list[Fault] = []
    found = parse_all(text, source, faults)
    if faults:
        raise ScenarioError(faults)
    return found


def parse_all(text: str, source: str, faults: list[Fault]) -> Any:
    """As ``parse``, which raises the ``faults``: ``UNREAD`` stands in their place.

    All is ``UNREAD`` when there is nothing, or no end, as behind a fault of YAML syntax.
    """
    return _read(text, source, faults, _Reader.document)


def parse_documents(text: str, source: str) -> list[tuple[Any, Place]]:
    """Read every document in ``text`` that holds something, and its place; raises as ``parse``."""
    faults: list[Fault] = []
    found: list[tuple[Any, Place]] = _read(text, source, faults, _Reader.documents)
    if faults:
        raise ScenarioError(faults)
    return found


def _read(text: str, source: str, faults: list[Fault], read: "Callable[[_Reader], Any]") -> Any:
    text = text.removeprefix("\ufeff")
    try:
        return read(_Reader(text.encode("utf-8"), source, faults))
    except MarkedYAMLError as error:
        faults.append(_syntax_fault(error, text, source))
    except ReaderError as error:
        before = text.encode("utf-8")[: error.position].decode("utf-8", errors="ignore")
        message = f"character {error.character:#06x} is not allowed in YAML"
        faults.append(fault(_end_of(before, source), (), message))
    except UnicodeEncodeError as error:
        found = f"character {ord(text[error.start]):#06x}"
        message = f"{found} is half of a surrogate pair, not text"
        faults.append(fault(_end_of(text[: error.start], source), (), message))
    except _Stop:
        pass
    return UNREAD


class _Stop(Exception):  # noqa: N818 - not an error: the faults are in the reader
    """Reading on would cost too much or make no sense."""


class _Reader:
    """Turns events into values and collects faults on the way."""

    def __init__(self, text: bytes, source: str, faults: list[Fault]) -> None:
        self._source = source
        self._faults = faults
        self._parser = CParser(text)
        # None while the anchored value is still being read; else the value, its place
        # and how many values it stands for.
        self._anchors: dict[str, tuple[Any, Place, int] | None] = {}
        self._path: list[str | int] = []
        self._written = 0
        self._expanded = 0

    def document(self) -> Any:
        """Read the only document of the stream."""
        self._parser.get_event()  # the start of the stream
        start = self._parser.get_event()
        if isinstance(start, StreamEndEvent):
            self._refuse(start, "the file is empty")
        found, _ = self._content(start)
        after = self._parser.get_event()
        if not isinstance(after, StreamEndEvent):
            self._fault(after, "a second document begins here; one file holds one scenario")
        return found

    def documents(self) -> list[tuple[Any, Place]]:
        """Read every document of the stream but those without content, as between two ``---``."""
        self._parser.get_event()  # the start of the stream
        found = []
        while not isinstance(start := self._parser.get_event(), StreamEndEvent):
            self._anchors.clear()  # an alias reaches no other document
            found.append(self._content(start))
        return [each for each in found if each[0] is not None]

    def _content(self, start: Any) -> tuple[Any, Place]:
        if isinstance(start, DocumentStartEvent) and start.version not in (None, (1, 2)):
            self._refuse(start, "podsim reads YAML 1.2; remove the %YAML line")
        found = self._value(self._parser.get_event())
        self._parser.get_event()  # the end of the document
        return found

    def _value(self, event: Any) -> tuple[Any, Place]:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        before = self._expanded
        self._written += 1
        self._expanded += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        place = self._place(event)
        if isinstance(event, ScalarEvent):
            value = self._scalar(event)
        elif len(self._path) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, MappingStartEvent):
            value = self._mapping(event, place)
        else:
            value = self._sequence(event, place)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, place, self._expanded - before)
        return value, place

    def _alias(self, event: AliasEvent) -> tuple[Any, Place]:
        name = event.anchor
        if name not in self._anchors:
            near = suggestion(name, sorted(self._anchors))
            self._fault(event, f"*{name} repeats nothing: no anchor &{name} stands before it{near}")
            return UNREAD, self._place(event)
        anchored = self._anchors[name]
        if anchored is None:
            self._refuse(event, f"*{name} stands inside &{name}, the very thing it repeats")
        value, place, size = anchored
        self._expanded += size
        if self._expanded > FREE_ALIAS_VALUES + ALIAS_VALUES_PER_WRITTEN * self._written:
            self._refuse(
                event,
                f"the aliases up to here stand for {self._expanded} values, "
                f"in a file of {self._written}; write them out or use fewer",
            )
        return value, place

    def _scalar(self, event: ScalarEvent) -> Any:
        if event.tag is None:
            return resolve(event.value) if event.implicit[0] else event.value
        wanted = _TAGGED_TYPES.get(event.tag)
        if wanted is str:
            return event.value
        value = resolve(event.value)
        if wanted is None:
            self._check_tag(event, ())
        elif wanted is float and type(value) is int:
            return float(value)
        elif type(value) is not wanted:
            tag = event.tag.replace(_CORE, "!!")
            self._fault(event, f"{event.value!r} is not what its tag {tag} says")
            return UNREAD
        return value

    def _sequence(self, event: Any, place: Place) -> PlacedList:
        self._check_tag(event, (None, "!", _CORE + "seq"))
        found: list[tuple[Any, Place]] = []
        while not isinstance(item := self._parser.get_event(), SequenceEndEvent):
            self._path.append(len(found))
            found.append(self._value(item))
            self._path.pop()
        return placed_list([each for each, _ in found], place, [each for _, each in found])

    def _mapping(self, event: Any, place: Place) -> Any:
        self._check_tag(event, (None, "!", _CORE + "map"))
        found = PlacedMap(place)
        merged: list[Any] = []
        while not isinstance(key := self._parser.get_event(), MappingEndEvent):
            self._entry(key, found, merged)
        for template in merged:
            if not isinstance(template, PlacedMap):
                return UNREAD
            for name in template:
                if name not in found:
                    at_places = template.keys_at[name], template.values_at[name]
                    found.put(name, template[name], *at_places)
        return found

    def _entry(self, key: Any, found: PlacedMap, merged: list[Any]) -> None:
        if not isinstance(key, ScalarEvent):
            self._fault(key, "a key must be text")
            self._path.append("?")
            self._value(key)
            self._value(self._parser.get_event())
            self._path.pop()
            return
        name, place = key.value, self._place(key)
        self._check_tag(key, (None,))
        if key.anchor is not None:
            self._anchors[key.anchor] = (name, place, 1)
        self._path.append(name)
        first = found.keys_at.get(name)
        if first is not None:
            where = f"line {first.line}, column {first.column}"
            self._fault(key, f"the key {name!r} stands here twice; first at {where}")
        value, value_at = self._value(self._parser.get_event())
        self._path.pop()
        if name == "<<" and key.implicit[0]:
            merged.extend(self._templates(key, value))
        elif first is None:
            found.put(name, value, place, value_at)
        else:
            found.put(name, UNREAD, first, first)  # nobody knows which one counts

    def _templates(self, key: ScalarEvent, value: Any) -> list[Any]:
        """The mappings that are taken in."""
        templates = list(value) if isinstance(value, tuple) else [value]
        if any(not isinstance(each, PlacedMap) and each is not UNREAD for each in templates):
            self._fault(key, "<< takes in a mapping or a list of mappings, such as *template")
        return templates

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self._source, mark.line + 1, mark.column + 1)

    def _fault(self, event: Any, message: str) -> None:
        self._faults.append(fault(self._place(event), tuple(self._path), message))

    def _refuse(self, event: Any, message: str) -> NoReturn:
        self._faults.append(fault(self._place(event), tuple(self._path[:4]), message))
        raise _Stop

    def _check_tag(self, event: Any, known: tuple[str | None, ...]) -> None:
        if event.tag not in known:
            tag = event.tag.replace(_CORE, "!!")
            self._fault(event, f"unknown tag {tag}; remove it")


def _syntax_fault(error: MarkedYAMLError, text: str, source: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    place = Place(source) if mark is None else Place(source, mark.line + 1, mark.column + 1)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    line = "".join(text.split("\n")[max(place.line - 1, 0) : place.line])
    if "\t" in line[: len(line) - len(line.lstrip())] or line[place.column - 1 :][:1] == "\t":
        said = "a tab stands here; indent with spaces"
    return fault(place, (), f"not YAML: {said}")


def _end_of(before: str, source: str) -> Place:
    """The place behind the text ``before``."""
    return Place(source, before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)
