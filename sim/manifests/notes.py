"""What an import has to say beside the scenario: nothing of a manifest is lost in silence."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from sim.core.errors import Fault, ScenarioError
from sim.scenario.nodes import Path, Place, fault


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
class Notes:
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
