"""YAML as a person writes it: short values in their line, and where each comes from."""

import json
from dataclasses import dataclass, field
from math import isfinite
from textwrap import wrap
from typing import Any, Final, TypeAlias

from sim.scenario.scalars import resolve

WIDTH: Final = 100
_NARROWEST: Final = 40
_INDENT: Final = "  "

# Words that YAML 1.1 takes for true and false; we do not, but others' tools might.
_OTHER_FLAGS: Final = frozenset(("y", "n", "yes", "no", "on", "off"))
_PLAIN_MARKS: Final = frozenset("-_./ ")

Plain: TypeAlias = Any
"""None, text, numbers, flags; lists, tuples and mappings of such."""


@dataclass(frozen=True)
class Remark:
    """A comment in lines of its own."""

    text: str


@dataclass(frozen=True)
class Entry:
    """A key, its value, and why it has this value."""

    key: str
    value: "Plain | Block | list[Block]"
    why: str = ""


@dataclass
class Block:
    """A mapping with comments."""

    entries: list[Entry | Remark] = field(default_factory=list)

    def add(self, key: str, value: "Plain | Block | list[Block]", why: str = "") -> None:
        """One more key, at the end."""
        self.entries.append(Entry(key, value, why))

    def remark(self, text: str) -> None:
        """A comment, at the end."""
        self.entries.append(Remark(text))

    @property
    def empty(self) -> bool:
        """Whether there is no key."""
        return not any(isinstance(each, Entry) for each in self.entries)


def document(block: Block) -> str:
    """The text of a whole file; its blocks of several lines stand apart."""
    lines: list[str] = []
    for each in block.entries:
        written = _lines(each, "")
        if lines and len(written) > 1:
            lines.append("")
        lines += written
    return "\n".join(lines) + "\n"


def _lines(each: Entry | Remark, indent: str) -> list[str]:
    if isinstance(each, Remark):
        return _comment(each.text, indent)
    key, value = _flow(each.key), each.value
    if isinstance(value, Block):
        head = f"{indent}{key}: {{}}" if value.empty else f"{indent}{key}:"
        below = [line for entry in value.entries for line in _lines(entry, indent + _INDENT)]
        return [*_comment(each.why, indent), head, *below]
    if isinstance(value, list) and value and all(isinstance(item, Block) for item in value):
        items = [line for item in value for line in _item(item, indent + _INDENT)]
        return [*_comment(each.why, indent), f"{indent}{key}:", *items]
    line = f"{indent}{key}: {_flow(value)}"
    if len(line) > WIDTH and isinstance(value, dict | list | tuple) and value:
        return [*_comment(each.why, indent), f"{indent}{key}:", *_spread(value, indent + _INDENT)]
    if not each.why:
        return [line]
    commented = f"{line}  # {_printable(each.why)}"
    return [commented] if len(commented) <= WIDTH else [*_comment(each.why, indent), line]


def _item(block: Block, indent: str) -> list[str]:
    """A mapping in a list: the hyphen stands before its first key."""
    lines = [line for entry in block.entries for line in _lines(entry, indent + _INDENT)]
    first = next(index for index, line in enumerate(lines) if not line.lstrip().startswith("#"))
    head = f"{indent}- {lines[first].removeprefix(indent + _INDENT)}"
    return [*(line.removeprefix(_INDENT) for line in lines[:first]), head, *lines[first + 1 :]]


def _spread(value: Plain, indent: str) -> list[str]:
    if isinstance(value, dict):
        return [line for key, each in value.items() for line in _lines(Entry(key, each), indent)]
    return [f"{indent}- {_flow(each)}" for each in value]


def _comment(text: str, indent: str) -> list[str]:
    room = max(WIDTH - len(indent) - 2, _NARROWEST)
    lines = wrap(_printable(text), room, break_long_words=False, break_on_hyphens=False)
    return [f"{indent}# {line}" for line in lines]


def _flow(value: Plain) -> str:
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_flow(str(k))}: {_flow(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow, value)) + "]"
    if isinstance(value, str):
        return value if _is_plain(value) else _quoted(value)
    if isinstance(value, bool) or value is None:
        return json.dumps(value)
    if isinstance(value, float) and not isfinite(value):
        return f"{value}".replace("inf", ".inf").replace("nan", ".nan")
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def seconds(duration_s: float) -> str:
    """A duration as scenarios have it: ``300s``."""
    return f"{duration_s:.9g}s"


def _is_plain(text: str) -> bool:
    """Whether the text means itself without quotes, in a line with flow mappings too."""
    return (
        text[:1].isalnum()
        and text.isascii()
        and text == text.strip()
        and all(mark.isalnum() or mark in _PLAIN_MARKS for mark in text)
        and isinstance(resolve(text), str)
        and text.lower() not in _OTHER_FLAGS
    )


def _quoted(text: str) -> str:
    written = json.dumps(text, ensure_ascii=False)
    return "".join(mark if mark.isprintable() else f"\\U{ord(mark):08x}" for mark in written)


def _printable(text: str) -> str:
    return "".join(mark if mark.isprintable() else " " for mark in text)
