"""The output of an import: the scenario as YAML with comments, and notes on what is not in it.

Names of models and GPUs are matched with those of the catalogue.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import isfinite, log
from textwrap import wrap
from typing import Any, Final, TypeAlias

from sim.core.document import Path, Place, fault, resolve
from sim.core.errors import Fault, ScenarioError
from sim.core.fields import MAX_NAME
from sim.hardware import catalog


class NoteKind(StrEnum):
    """What a note is about."""

    WARNING = "warning"
    """Translated, though not to what the words say."""
    NOT_MODELLED = "not modelled"
    """A field that would change a run, or that podsim does not know."""
    IGNORED = "ignored"
    """Fields that cannot change a run: one line for all of them."""
    SKIPPED = "skipped"
    """An object that is no part of the scenario."""
    TO_ADD = "to add"
    """A manifest cannot say it and the scenario needs it."""


@dataclass(frozen=True)
class Note:
    """One remark and its place in the manifests."""

    kind: NoteKind
    about: Fault

    def __str__(self) -> str:
        return f"{self.kind}: {self.about}"


@dataclass
class ImportNotes:
    """Collects notes, and the faults that make an import impossible, in any order."""

    found: list[Note] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    harmless: dict[tuple[Place, str], None] = field(default_factory=dict)
    """Fields and options without an effect, each place once."""

    def fault(self, place: Place, path: Path, message: str) -> None:
        """Something the user must mend before anything can be imported."""
        self.faults.append(fault(place, path, message))

    def add(self, kind: NoteKind, place: Place, path: Path, message: str) -> None:
        """A remark."""
        self.found.append(Note(kind, fault(place, path, message)))

    def leave_out(self, place: Place, name: str) -> None:
        """A field, or an option, that cannot change a run."""
        self.harmless[place, name] = None

    def refuse(self, sources: list[str]) -> None:
        """Raise ``ScenarioError`` with all faults, in the order of the ``sources``; none, nothing.

        A value with a fault may have been read twice, for two objects that refer to it.
        """
        if self.faults:
            faults = dict.fromkeys(self.faults)
            raise ScenarioError(sorted(faults, key=lambda each: _order(each, sources)))

    def in_order(self, sources: list[str]) -> tuple[Note, ...]:
        """The notes, once each: what to add last, since it is what remains to be done."""
        found = sorted(
            dict.fromkeys(self.found),
            key=lambda note: (note.kind == NoteKind.TO_ADD, *_order(note.about, sources)),
        )
        remain = [note for note in found if note.kind == NoteKind.TO_ADD]
        return (*found[: len(found) - len(remain)], *self._left_out(sources), *remain)

    def _left_out(self, sources: Sequence[str]) -> list[Note]:
        """One note on all fields without an effect, and how many there are of each."""
        if not self.harmless:
            return []
        counts = Counter(name for _, name in self.harmless)
        named = [f"{name} ({count})" if count > 1 else name for name, count in counts.items()]
        message = f"without an effect on a simulation: {', '.join(sorted(named))}"
        return [Note(NoteKind.IGNORED, Fault(sources[0], 0, 0, "", message))]


def _order(about: Fault, sources: list[str]) -> tuple[int, int, int]:
    position = sources.index(about.source) if about.source in sources else len(sources)
    return position, about.line, about.column


ANY_MODEL: Final = "llama-3.1-8b"
"""Assumed for a model of which nothing is known."""

_SEPARATOR: Final = "[-_. ]?"
_SIZE: Final = re.compile(r"(?<![a-z0-9.])e?([0-9]{1,4}(?:\.[0-9]+)?)b(-a[0-9.]+b)?(?![a-z0-9])")


def model_named(text: str) -> str | None:
    """The model of the catalogue whose name stands in ``text``, such as a path or a repository.

    ``Qwen/Qwen2.5-Coder-32B-Instruct-GGUF`` and ``qwen2-5-coder-32b``, as names
    of objects are written, are both ``qwen2.5-coder-32b``. The longest name counts.
    """
    found = [name for name in catalog.models() if _model_pattern(name).search(text.lower())]
    return max(found, key=len, default=None)


def _model_pattern(name: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in re.split("[-.]", name)]
    return re.compile(f"(?<![a-z0-9]){_SEPARATOR.join(parts)}(?![a-z0-9])")


def nearest_model(texts: Sequence[str], among: Collection[str]) -> str:
    """The model ``among`` some of the catalogue that comes nearest to names it does not know.

    That is one whose name begins so (``qwen3-coder``); else the one of the size
    that stands there (``3B``, ``30B-A3B``), with experts or without them; else
    the one of the size of ``ANY_MODEL``. The first text that says something decides.
    """
    known = catalog.models()
    for text in texts:
        name = text.lower().rsplit("/", 1)[-1]
        if begun := [each for each in among if len(name) > 3 and each.startswith(name)]:
            return min(begun, key=len)
    sizes = (_SIZE.search(text.lower()) for text in texts)
    size = next((each for each in sizes if each is not None and float(each[1])), None)
    published = {name: each.parameters or 1.0 for name, each in known.items()}
    billions = published[ANY_MODEL] if size is None else float(size[1])
    dense = size is None or not size[2]
    alike = [name for name in among if (known[name].experts is None) == dense]
    return min(alike or among, key=lambda name: abs(log(published[name] / billions)))


def gpu_named(label: str) -> str | None:
    """The GPU of the catalogue that a node label such as ``NVIDIA-H100-80GB-HBM3`` is about.

    The parts of the catalogue's name stand there in order, others in between.
    """
    words = re.split("[^a-z0-9]+", label.lower())
    found = [name for name in catalog.gpus() if _in_order(name.split("-"), words)]
    return max(found, key=len, default=None)


def _in_order(parts: Iterable[str], words: Iterable[str]) -> bool:
    remaining = iter(words)
    return all(part in remaining for part in parts)


def scenario_name(text: str) -> str:
    """``text`` as a name of a scenario: letters, digits and hyphens; "" if nothing is left."""
    return re.sub("[^A-Za-z0-9-]", "-", text)[:MAX_NAME].strip("-") if text.isascii() else ""


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
    value: "Plain | YamlBlock | list[YamlBlock]"
    why: str = ""


@dataclass
class YamlBlock:
    """A mapping with comments."""

    entries: list[Entry | Remark] = field(default_factory=list)

    def add(self, key: str, value: "Plain | YamlBlock | list[YamlBlock]", why: str = "") -> None:
        """One more key, at the end."""
        self.entries.append(Entry(key, value, why))

    def remark(self, text: str) -> None:
        """A comment, at the end."""
        self.entries.append(Remark(text))

    @property
    def empty(self) -> bool:
        """Whether there is no key."""
        return not any(isinstance(each, Entry) for each in self.entries)


def document(block: YamlBlock) -> str:
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
    if isinstance(value, YamlBlock):
        head = f"{indent}{key}: {{}}" if value.empty else f"{indent}{key}:"
        below = [line for entry in value.entries for line in _lines(entry, indent + _INDENT)]
        return [*_comment(each.why, indent), head, *below]
    if isinstance(value, list) and value and all(isinstance(item, YamlBlock) for item in value):
        items = [line for item in value for line in _item(item, indent + _INDENT)]
        return [*_comment(each.why, indent), f"{indent}{key}:", *items]
    line = f"{indent}{key}: {_flow(value)}"
    if len(line) > WIDTH and isinstance(value, dict | list | tuple) and value:
        return [*_comment(each.why, indent), f"{indent}{key}:", *_spread(value, indent + _INDENT)]
    if not each.why:
        return [line]
    commented = f"{line}  # {_printable(each.why)}"
    return [commented] if len(commented) <= WIDTH else [*_comment(each.why, indent), line]


def _item(block: YamlBlock, indent: str) -> list[str]:
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
