"""YAML text to nodes: libyaml finds the events, ``sim.scenario.scalars`` gives them values.

The events are read one by one, so tags, quotes, doubled keys and aliases are
seen before anything is expanded, nesting cannot exhaust the stack, and 7 MB
take a few seconds. Beyond the YAML 1.2 core schema one thing is understood:
the merge key ``<<`` of YAML 1.1, since templates with anchors are of little
use without it. A key is always text, whatever it looks like.
"""

from collections.abc import Callable
from typing import Any, Final, NoReturn, TypeVar

from ruamel.yaml.cyaml import CParser  # type: ignore[attr-defined]
from ruamel.yaml.error import MarkedYAMLError
from ruamel.yaml.events import (
    AliasEvent,
    DocumentStartEvent,
    MappingEndEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceEndEvent,
    SequenceStartEvent,
    StreamEndEvent,
)
from ruamel.yaml.reader import ReaderError

from sim.core.errors import Fault, ScenarioError
from sim.core.suggest import suggestion
from sim.scenario.nodes import (
    MAX_DEPTH,
    UNREAD,
    Mapping,
    Node,
    Path,
    Place,
    Scalar,
    Sequence,
    fault,
    is_null,
    unread,
)
from sim.scenario.scalars import resolve

# An honest file repeats a template some hundred times; nine levels of nine
# aliases stand for 387 million nodes.
FREE_ALIAS_NODES: Final = 100_000
ALIAS_NODES_PER_WRITTEN: Final = 10

Read = TypeVar("Read")

_CORE: Final = "tag:yaml.org,2002:"
_TAGGED_TYPES: Final[dict[str, type]] = {
    _CORE + "str": str,
    _CORE + "int": int,
    _CORE + "float": float,
    _CORE + "bool": bool,
    _CORE + "null": type(None),
    "!": str,
}


def parse(text: str, source: str) -> Node:
    """The one document in ``text``; ``source`` names its origin in the faults.

    Raises ``ScenarioError`` with every fault found; a fault of YAML syntax is
    the last one, since nothing can be read behind it.
    """
    return _read(text, source, _Reader.document)


def parse_all(text: str, source: str, faults: list[Fault]) -> Node | None:
    """As ``parse``, which raises the ``faults``: ``UNREAD`` stands in their place.

    None when there is nothing, or no end, as behind a fault of YAML syntax.
    """
    reader = _Reader(text.removeprefix("\ufeff"), source)
    found = _document_of(reader, text, source, _Reader.document)
    faults += reader.faults
    return found


def parse_documents(text: str, source: str) -> list[Node]:
    """Every document in ``text`` that holds something, in order; raises as ``parse``."""
    return _read(text, source, _Reader.documents)


def _read(text: str, source: str, read: "Callable[[_Reader], Read]") -> Read:
    reader = _Reader(text.removeprefix("\ufeff"), source)
    found = _document_of(reader, text, source, read)
    if reader.faults or found is None:
        raise ScenarioError(reader.faults)
    return found


def _document_of(
    reader: "_Reader", text: str, source: str, read: "Callable[[_Reader], Read]"
) -> Read | None:
    """What ``reader`` reads of ``text``, with its faults; None when it cannot go on."""
    try:
        return read(reader)
    except MarkedYAMLError as error:
        reader.faults.append(_syntax_fault(error, text.removeprefix("\ufeff"), source))
    except ReaderError as error:
        place = _place_of_byte(text.removeprefix("\ufeff"), error.position, source)
        message = f"character {error.character:#06x} is not allowed in YAML"
        reader.faults.append(fault(place, (), message))
    except _Stop:
        pass
    return None


class _Stop(Exception):  # noqa: N818 - not an error: the faults are in the reader
    """Reading on would cost too much or make no sense."""


class _Reader:
    """Turns events into nodes and collects faults on the way."""

    def __init__(self, text: str, source: str) -> None:
        self.source = source
        self.faults: list[Fault] = []
        self._parser = CParser(_encoded(text, source))
        # None while the anchored node is still being read; else the node and
        # how many nodes it stands for.
        self._anchors: dict[str, tuple[Node, int] | None] = {}
        self._path: list[str | int] = []
        self._written = 0
        self._expanded = 0

    def document(self) -> Node:
        """The only document of the stream."""
        self._parser.get_event()  # the start of the stream
        start = self._parser.get_event()
        if isinstance(start, StreamEndEvent):
            self._refuse(start, "the file is empty")
        node = self._content(start)
        after = self._parser.get_event()
        if not isinstance(after, StreamEndEvent):
            self._fault(after, "a second document begins here; one file holds one scenario")
        return node

    def documents(self) -> list[Node]:
        """Every document of the stream but those without content, as between two ``---``."""
        self._parser.get_event()  # the start of the stream
        found = []
        while not isinstance(start := self._parser.get_event(), StreamEndEvent):
            self._anchors.clear()  # an alias reaches no other document
            node = self._content(start)
            if not is_null(node):
                found.append(node)
        return found

    def _content(self, start: Any) -> Node:
        if isinstance(start, DocumentStartEvent) and start.version not in (None, (1, 2)):
            self._refuse(start, "podsim reads YAML 1.2; remove the %YAML line")
        node = self._node(self._parser.get_event())
        self._parser.get_event()  # the end of the document
        return node

    def _node(self, event: Any) -> Node:
        if isinstance(event, AliasEvent):
            return self._alias(event)
        before = self._expanded
        self._written += 1
        self._expanded += 1
        if event.anchor is not None:
            self._anchors[event.anchor] = None
        node: Node
        if isinstance(event, ScalarEvent):
            node = self._scalar(event)
        elif len(self._path) >= MAX_DEPTH:
            self._refuse(event, f"nested deeper than {MAX_DEPTH} levels")
        elif isinstance(event, MappingStartEvent):
            node = self._mapping(event)
        else:
            node = self._sequence(event)
        if event.anchor is not None:
            self._anchors[event.anchor] = (node, self._expanded - before)
        return node

    def _alias(self, event: AliasEvent) -> Node:
        name = event.anchor
        if name not in self._anchors:
            near = suggestion(name, sorted(self._anchors))
            self._fault(event, f"*{name} repeats nothing: no anchor &{name} stands before it{near}")
            return Scalar(UNREAD, self._place(event))
        anchored = self._anchors[name]
        if anchored is None:
            self._refuse(event, f"*{name} stands inside &{name}, the very thing it repeats")
        node, size = anchored
        self._expanded += size
        if self._expanded > FREE_ALIAS_NODES + ALIAS_NODES_PER_WRITTEN * self._written:
            self._refuse(
                event,
                f"the aliases up to here stand for {self._expanded} values, "
                f"in a file of {self._written}; write them out or use fewer",
            )
        return node

    def _scalar(self, event: ScalarEvent) -> Scalar:
        place = self._place(event)
        if event.tag is None:
            value = resolve(event.value) if event.implicit[0] else event.value
            return Scalar(value, place)
        wanted = _TAGGED_TYPES.get(event.tag)
        if wanted is str:
            return Scalar(event.value, place)
        value = resolve(event.value)
        if wanted is float and type(value) is int:
            value = float(value)
        if wanted is None:
            self._unknown_tag(event)
        elif type(value) is not wanted:
            tag = event.tag.replace(_CORE, "!!")
            self._fault(event, f"{event.value!r} is not what its tag {tag} says")
            return Scalar(UNREAD, place)
        return Scalar(value, place)

    def _sequence(self, event: SequenceStartEvent) -> Sequence:
        if event.tag not in (None, "!", _CORE + "seq"):
            self._unknown_tag(event)
        items: list[Node] = []
        while not isinstance(item := self._parser.get_event(), SequenceEndEvent):
            self._path.append(len(items))
            items.append(self._node(item))
            self._path.pop()
        return Sequence(items, self._place(event))

    def _mapping(self, event: MappingStartEvent) -> Node:
        if event.tag not in (None, "!", _CORE + "map"):
            self._unknown_tag(event)
        mapping = Mapping({}, {}, self._place(event))
        merged: list[Mapping | None] = []
        while not isinstance(key := self._parser.get_event(), MappingEndEvent):
            self._entry(key, mapping, merged)
        for template in filter(None, merged):
            for name, value in template.values.items():
                if name not in mapping.values:
                    mapping.values[name] = value
                    mapping.keys[name] = template.keys[name]
        return Scalar(UNREAD, mapping.place) if None in merged else mapping

    def _entry(self, key: Any, mapping: Mapping, merged: list[Mapping | None]) -> None:
        if not isinstance(key, ScalarEvent):
            self._fault(key, "a key must be text")
            self._path.append("?")
            self._node(key)
            self._node(self._parser.get_event())
            self._path.pop()
            return
        name = key.value
        if key.tag is not None:
            self._unknown_tag(key)
        if key.anchor is not None:
            self._anchors[key.anchor] = (Scalar(name, self._place(key)), 1)
        self._path.append(name)
        first = mapping.keys.get(name)
        if first is not None:
            where = f"line {first.line}, column {first.column}"
            self._fault(key, f"the key {name!r} stands here twice; first at {where}")
            mapping.values[name] = Scalar(UNREAD, first)  # nobody knows which one counts
        value = self._node(self._parser.get_event())
        self._path.pop()
        if name == "<<" and key.implicit[0]:
            merged.extend(self._templates(key, value))
        elif first is None:
            mapping.values[name] = value
            mapping.keys[name] = self._place(key)

    def _templates(self, key: ScalarEvent, value: Node) -> list[Mapping | None]:
        """What is taken in, None for what cannot be."""
        written = value.items if isinstance(value, Sequence) else [value]
        templates = [node if isinstance(node, Mapping) else None for node in written]
        if any(not isinstance(node, Mapping) and () not in unread(node) for node in written):
            self._fault(key, "<< takes in a mapping or a list of mappings, such as *template")
        return templates

    def _place(self, event: Any) -> Place:
        mark = event.start_mark
        return Place(self.source, mark.line + 1, mark.column + 1)

    def _fault(self, event: Any, message: str) -> None:
        self.faults.append(fault(self._place(event), tuple(self._path), message))

    def _refuse(self, event: Any, message: str) -> NoReturn:
        path: Path = tuple(self._path[:4])
        self.faults.append(fault(self._place(event), path, message))
        raise _Stop

    def _unknown_tag(self, event: Any) -> None:
        tag = event.tag.replace(_CORE, "!!")
        self._fault(event, f"unknown tag {tag}; remove it")


def _encoded(text: str, source: str) -> bytes:
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError as error:
        place = _place_of(text[: error.start], source)
        message = f"character {ord(text[error.start]):#06x} is half of a surrogate pair, not text"
        raise ScenarioError([fault(place, (), message)]) from None


def _syntax_fault(error: MarkedYAMLError, text: str, source: str) -> Fault:
    mark = error.problem_mark or error.context_mark
    place = Place(source) if mark is None else Place(source, mark.line + 1, mark.column + 1)
    said = ", ".join(part for part in (error.context, error.problem) if part)
    line = "".join(text.split("\n")[max(place.line - 1, 0) : place.line])
    if "\t" in line[: len(line) - len(line.lstrip())] or line[place.column - 1 :][:1] == "\t":
        said = "a tab stands here; indent with spaces"
    return fault(place, (), f"not YAML: {said}")


def _place_of_byte(text: str, position: int, source: str) -> Place:
    return _place_of(text.encode("utf-8")[:position].decode("utf-8", errors="ignore"), source)


def _place_of(before: str, source: str) -> Place:
    line = before.count("\n") + 1
    return Place(source, line, len(before) - (before.rfind("\n") + 1) + 1)
