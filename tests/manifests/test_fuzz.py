"""Whatever manifests say, the answer is a scenario or a list of faults, never a traceback."""

import json
import random
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.document import Path, dotted, parse, parse_documents
from sim.core.errors import ScenarioError
from sim.manifests.objects import Manifest
from sim.manifests.translation import translate
from sim.manifests.writing import NoteKind
from tests.manifests.samples import SAMPLES, manifest

VALUES = [
    *("0", "-1", "1e309", ".nan", "'5'", "5", "null", "yes", "true", "[]", "{}", "[1, 2]", "&a x"),
    *("*a", "!t x", "{a: 1}", "75k", "1h", "- x", "x: y", "|", "'", '"', "{", "]", "#", "<<: *a"),
    *("kind: Model", "spec: []", "metadata: x", "---", "\t", "? x", "%", "@", "\x07", "é", '"\\0"'),
    *("items: [1]", "name: {}", "replicas: .inf", "backends: [[]]", "args: [{}]", "'*'", "\ud800"),
]  # fmt: skip


def accept_or_refuse(manifests: list[Manifest]) -> None:
    sources = tuple(each.source for each in manifests)
    try:
        imported = translate(manifests)
    except ScenarioError as error:
        assert error.faults
        assert all(line.startswith((*sources, "manifests")) for line in str(error).split("\n"))
        return
    assert isinstance(parse(imported.scenario, "written"), dict)
    assert all(note.about.source in sources for note in imported.notes)


@settings(max_examples=150, deadline=None)
@given(text=st.text(alphabet="ab:{}[]&*!,-?|>'\"%@# \n\t~.01<", max_size=80))
def test_random_text_is_refused_in_words(text: str):
    """A file that is no manifest would end in a traceback."""
    accept_or_refuse([Manifest("m.yaml", text)])


@pytest.mark.parametrize("sample", SAMPLES)
@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_good_manifests_with_pieces_replaced_are_accepted_or_refused(sample: str, seed: int):
    """A value of the wrong kind at some path would end in a traceback."""
    draw = random.Random(seed)
    manifests = []
    for name in SAMPLES[sample]:
        lines = manifest(name).text.split("\n")
        for _ in range(draw.randint(0, 3)):
            index = draw.randrange(len(lines))
            start = draw.randrange(len(lines[index]) + 1)
            end = draw.randrange(start, min(len(lines[index]), start + 30) + 1)
            lines[index] = lines[index][:start] + draw.choice(VALUES) + lines[index][end:]
        manifests.append(Manifest(name, "\n".join(lines)))
    accept_or_refuse(manifests)


def mappings(value: Any, path: Path = ()) -> Iterator[tuple[Path, dict[str, Any]]]:
    """Every mapping of a spec, free texts such as labels left out."""
    if isinstance(value, dict):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, below in items:
        if isinstance(below, dict | tuple) and key not in ("nodeSelector", "headers"):
            yield from mappings(below, (*path, key))


@pytest.mark.parametrize("sample", SAMPLES)
def test_a_field_that_nobody_knows_is_named_wherever_it_stands(sample: str):
    """It would be lost in silence: the one thing that an import must not do."""
    documents = [
        document
        for name in SAMPLES[sample]
        for document, _ in parse_documents(manifest(name).text, name)
    ]
    objects = [each for document in documents for each in document.get("items", (document,))]
    tried = 0
    for each in objects:
        if each["apiVersion"] != "inference.llmkube.dev/v1alpha1":
            continue
        for path, mapping in mappings(each["spec"]):
            mapping["fieldOfNobody"] = 1
            text = "\n---\n".join(map(json.dumps, objects))
            del mapping["fieldOfNobody"]
            notes = translate([Manifest("m.json", text)]).notes
            named = {note.about.path for note in notes}
            harmless = [str(note) for note in notes if note.kind == NoteKind.IGNORED]
            whole = dotted((f"{each['kind']}/{each['metadata']['name']}", "spec", *path))
            outer = [whole] + [whole.rsplit(".", steps)[0] for steps in range(1, len(path))]
            # Of what has no effect as a whole, what is in it is not named once more.
            left_out = any(f" {step}" in line for line in harmless for step in path)
            assert left_out or named & {f"{whole}.fieldOfNobody", *outer}, whole
            tried += 1
    assert tried >= len(objects)
