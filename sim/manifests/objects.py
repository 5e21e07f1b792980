"""Documents to objects: what is in the manifests, and which object a name refers to."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sim.core.document import Path, Place, PlacedList, PlacedMap, at, entries, parse_documents
from sim.core.errors import ScenarioError
from sim.core.suggest import nearest, suggestion
from sim.manifests.fields import TYPO, Fields
from sim.manifests.writing import ImportNotes, NoteKind

GROUP: Final = "inference.llmkube.dev/"
ROUTER, POOL, SERVICE, MODEL = "ModelRouter", "ModelPool", "InferenceService", "Model"
TRANSLATED: Final = (ROUTER, POOL, SERVICE, MODEL)
REFERENCE: Final = {SERVICE: "modelRef", MODEL: "source"}
ASSUMED: Final = {SERVICE: "one pod of llama.cpp with the model", MODEL: "the model"}
"""What stands in for an object that is missing, and the one field that says it."""
ENVELOPE: Final = ("apiVersion", "kind", "metadata", "spec", "status")
DEFAULT_NAMESPACE: Final = "default"


class Manifest(NamedTuple):
    """The text of one file; ``source`` is its name."""

    source: str
    text: str


@dataclass(eq=False)
class Object:
    """One object of the group; ``spec`` is empty when the document has none."""

    kind: str
    name: str
    namespace: str
    place: Place
    spec: Fields

    @property
    def written_at(self) -> str:
        """File and line, for comments."""
        return f"{self.place.source}:{self.place.line}"


@dataclass
class Objects:
    """All objects of an import, by kind, in the order of the files."""

    notes: ImportNotes
    assume: bool = False
    """Whether an object that is missing is made up."""
    complete: bool = True
    """Whether every file could be read: what is missing may stand in one that could not."""
    found: dict[str, list[Object]] = field(
        default_factory=lambda: {kind: [] for kind in TRANSLATED}
    )

    def find(self, kind: str, name: str, referrer: Object) -> Object | None:
        """The object of ``kind`` with ``name`` in the namespace of ``referrer``."""
        for each in self.found[kind]:
            if (each.name, each.namespace) == (name, referrer.namespace):
                return each
        return None

    def refer(
        self, kind: str, name: str, referrer: Object, where: Fields, key: str
    ) -> Object | None:
        """As ``find``; what is not there is a fault of ``key`` in ``where``, or assumed."""
        found = self.find(kind, name, referrer)
        elsewhere = any(each.name == name for each in self.found[kind])
        if found is None and self.assume and name and not elsewhere:
            message = f"there is no {kind} {name!r}; {ASSUMED[kind]} of that name is assumed"
            where.note(NoteKind.WARNING, key, message)
            found = self._stub(kind, name, referrer)
        elif found is None:
            hint = "" if elsewhere else "; --assume makes one up"
            where.fault(key, self.missing(kind, name, referrer) + hint)
        return found

    def _stub(self, kind: str, name: str, referrer: Object) -> Object:
        place = referrer.place
        says = PlacedMap(place)
        says.put(REFERENCE[kind], name, place, place)
        spec = Fields(says, (f"{kind}/{name}", "spec"), self.notes)
        found = Object(kind, name, referrer.namespace, place, spec)
        self.found[kind].append(found)
        if kind == SERVICE and self.find(MODEL, name, found) is None:
            self._stub(MODEL, name, found)
        return found

    def missing(self, kind: str, name: str, referrer: Object) -> str:
        """What is wrong with a reference that ``find`` does not know."""
        elsewhere = [each.namespace for each in self.found[kind] if each.name == name]
        if elsewhere:
            where = f"namespace {elsewhere[0]}, not in {referrer.namespace}"
            return f"{kind} {name!r} is in {where}; references stay in their namespace"
        names = [each.name for each in self.found[kind] if each.namespace == referrer.namespace]
        hint = suggestion(name, names) if names else f"; the manifests have no {kind}"
        return f"there is no {kind} {name!r}{hint}"


def read(manifests: Iterable[Manifest], notes: ImportNotes, assume: bool = False) -> Objects:
    """The objects of all manifests; faults of files and documents go to ``notes``."""
    objects = Objects(notes, assume)
    for manifest in manifests:
        try:
            documents = parse_documents(manifest.text, manifest.source)
        except ScenarioError as error:
            notes.faults.extend(error.faults)
            objects.complete = False
            continue
        if not documents:
            notes.fault(Place(manifest.source), (), "the file has no objects")
        for document, place in documents:
            _take(document, place, objects)
    return objects


def _take(document: Any, place: Place, objects: Objects) -> None:
    kind = _text(document, "kind")
    if not isinstance(document, PlacedMap) or kind is None:
        message = "not an object of Kubernetes: it has no kind"
        if not {"apiVersion", "kind"} & entries(document).keys():  # a kustomization, a fragment
            objects.notes.add(NoteKind.SKIPPED, place, (), message)
        else:
            objects.notes.fault(place, (), message)
        return
    items = document.get("items")
    if kind.endswith("List") and isinstance(items, PlacedList):  # as kubectl get -o yaml prints
        for item, item_at in zip(items, items.values_at):
            _take(item, item_at, objects)
        return
    name = _text(document, "metadata", "name") or ""
    version = _text(document, "apiVersion") or ""
    slip = nearest(kind, TRANSLATED, TYPO) is not None and kind not in TRANSLATED
    if not version.startswith(GROUP) or (kind not in TRANSLATED and not slip):
        message = f"{kind} {name}".rstrip() + " is no part of a scenario"
        objects.notes.add(NoteKind.SKIPPED, document.place, (), message)
    elif slip:
        hint = suggestion(kind, TRANSLATED)
        objects.notes.fault(document.keys_at["kind"], ("kind",), f"unknown kind {kind!r}{hint}")
    else:
        _add(kind, name, document, objects)


def _text(document: Any, *path: str) -> str | None:
    found = at(document, *path)
    return found if isinstance(found, str) else None


def _add(kind: str, name: str, document: PlacedMap, objects: Objects) -> None:
    notes, path = objects.notes, (f"{kind}/{name}",)
    namespace = _text(document, "metadata", "namespace") or DEFAULT_NAMESPACE
    if not name:
        where = (kind, "metadata", "name")
        if objects.assume:  # nothing refers to it, and kubectl apply refuses it
            notes.add(NoteKind.WARNING, document.place, where, "is missing; it is left out")
        else:
            notes.fault(document.place, where, "is missing")
        return
    found = Object(kind, name, namespace, document.place, _spec(document, path, notes))
    for index, other in enumerate(objects.found[kind]):
        if (other.name, other.namespace) == (name, namespace):
            written = at(document, "spec")
            message = f"there are two {kind}s {name!r}; the first one is at {other.written_at}"
            if written is not None and written == other.spec.node:
                message = f"{kind} {name}: the same as at {other.written_at}"
                notes.add(NoteKind.SKIPPED, document.place, (), message)
            elif objects.assume:  # as kubectl apply leaves it
                objects.found[kind][index] = found
                notes.add(NoteKind.WARNING, document.place, path, f"{message}; this one is taken")
            else:
                notes.fault(document.place, path, message)
            return
    objects.found[kind].append(found)


def _spec(document: PlacedMap, path: Path, notes: ImportNotes) -> Fields:
    whole = Fields(document, path, notes)
    for key in document:
        if key not in ENVELOPE:
            whole.ignore(key, "no object of this group has it")
    spec = whole.child("spec")
    if spec is None and "spec" not in whole:
        notes.fault(document.place, (*path, "spec"), "is missing")
    return spec or Fields(PlacedMap(document.place), (*path, "spec"), notes)
