"""The JSON schema says what the loader says, and the stored one is the present one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from sim.core.document import parse
from sim.core.errors import ScenarioError
from sim.core.fields import Bytes, Duration, Tokens
from sim.core.registry import Registry
from sim.scenario.json_schema import json_schema, text
from sim.scenario.load import ScenarioSet, load_text
from sim.scenario.validation import DEFAULT_ENGINE, DEFAULT_POOL
from tests.scenario.conftest import GOOD
from tests.scenario.schema_subset import fits

Loaded = Callable[..., ScenarioSet]

FOLDER = Path(__file__).parents[2] / "scenarios"
STORED = FOLDER / "schema.json"


@pytest.fixture(scope="module")
def schema(registry: Registry) -> dict[str, Any]:
    return json_schema(registry)


def test_the_stored_schema_is_up_to_date(schema: dict[str, Any]) -> None:
    """Editors would hint at keys that are gone: python -m sim.scenario.json_schema prints it."""
    assert STORED.read_text(encoding="utf-8") == text(schema)


def test_every_kind_is_in_the_schema_and_must_be_named(
    schema: dict[str, Any], registry: Registry
) -> None:
    """A block could not be completed, or be written without its kind."""

    def kinds(block: dict[str, Any]) -> list[str]:
        found = []
        for option in block["anyOf"]:
            if "$ref" in option:
                spec = schema["$defs"][option["$ref"].rpartition("/")[2]]
                kind = spec["properties"]["kind"]["const"]
                is_default = kind in (DEFAULT_ENGINE, DEFAULT_POOL)
                assert ("kind" in spec.get("required", [])) != is_default
                assert spec["additionalProperties"] is False
                found.append(kind)
        return found

    backend = schema["$defs"]["Backend"]["properties"]
    assert kinds(backend["policy"]) == list(registry.policies)
    workloads = schema["properties"]["workloads"]["additionalProperties"]
    assert kinds(workloads) == list(registry.workloads)
    engines = schema["properties"]["engines"]["additionalProperties"]
    assert kinds(engines) == list(registry.engines)
    pools = schema["properties"]["pools"]["additionalProperties"]
    assert kinds(pools) == list(registry.pools)


def test_a_spec_says_the_kind_it_is_registered_under(registry: Registry) -> None:
    """A scenario would be refused by the very spec that its kind names."""
    for families in (registry.engines, registry.policies, registry.pools, registry.workloads):
        for kind, family in families.items():
            assert family.spec.model_fields["kind"].annotation.__args__ == (kind,)  # type: ignore[attr-defined]


def test_the_whole_file_is_described(schema: dict[str, Any]) -> None:
    """A key of a file would be underlined as unknown, or one that the loader sets be offered."""
    assert list(schema["properties"]) == [
        *("name", "description", "window", "seeds", "ringSalt", "engines", "backends", "router"),
        *("pools", "workloads", "events", "slo", "variants"),
    ]
    assert schema["required"] == ["name", "engines", "backends", "router", "workloads"]
    engine = schema["$defs"]["Vllm"]
    assert engine["properties"]["kvBlocks"]["anyOf"][0] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10**9,
    }
    affinity = schema["$defs"]["Balancing"]["properties"]["sessionAffinity"]["anyOf"][0]
    assert list(affinity["properties"]) == ["headers", "idleTimeout", "maxSessions"]


def undescribed(node: Any, path: str) -> list[str]:
    """Keys below ``node`` that a reader is told nothing about."""
    if isinstance(node, list):
        return [each for item in node for each in undescribed(item, path)]
    if not isinstance(node, dict):
        return []
    keys = node["properties"] if isinstance(node.get("properties"), dict) else {}
    found = [f"{path}.{key}" for key, each in keys.items() if not each.get("description")]
    below = ((f"{path}.{key}", each) for key, each in {**node, **keys}.items() if key != "default")
    return found + [each for name, inner in below for each in undescribed(inner, name)]


def test_every_key_is_described(schema: dict[str, Any]) -> None:
    """106 of 410 keys said nothing: all of ``agents``, rows of scripts, every distribution."""
    assert undescribed(schema, "") == []


def test_defaults_that_depend_on_the_gpu_say_so(schema: dict[str, Any]) -> None:
    """An editor that shows the default would show one that is not in effect."""
    engine = schema["$defs"]["Vllm"]["properties"]
    for key in ("maxNumBatchedTokens", "maxNumSeqs"):
        assert "default" not in engine[key]
        assert "the default depends on gpu" in engine[key]["description"]


def test_every_reference_leads_somewhere(schema: dict[str, Any]) -> None:
    """Editors would give up on the whole schema."""
    todo: list[Any] = [schema]
    references = set()
    while todo:
        node = todo.pop()
        if isinstance(node, dict):
            if isinstance(node.get("$ref"), str):
                references.add(node["$ref"].removeprefix("#/$defs/"))
            todo.extend(node.values())
        elif isinstance(node, list):
            todo.extend(node)
    assert references <= schema["$defs"].keys()
    assert len(references) > 20


def as_json(text: str) -> Any:
    """What an editor's validator sees of a file: lists are lists."""

    def listed(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: listed(item) for key, item in value.items()}
        return [listed(item) for item in value] if isinstance(value, tuple) else value

    return listed(parse(text, "f.yaml"))


AGENTS = GOOD.split("  load:")[0] + "  load: {kind: agents, agents: 2%s}\n"


@pytest.mark.parametrize(
    "text",
    [
        GOOD,
        GOOD + "variants: {a: {}, b: {backends.pods.replicas: 3, slo.ttft: 1s}, c: null}\n",
        GOOD.replace("measure: 1m", "measure: 1h30m"),
        GOOD.replace("a: 10", "a: 0, b: 1, c: 2"),
        AGENTS % "",
        AGENTS % ", sharedPrefix: {tokens: 10}",
        AGENTS % ", compaction: {threshold: 0.5}, think: {exponential: {mean: .5 s}}",
        *(path.read_text(encoding="utf-8") for path in sorted(FOLDER.glob("*.yaml"))),
        (FOLDER / "traces" / "claude-code.yaml").read_text(encoding="utf-8"),
    ],
)
def test_what_the_loader_takes_is_not_underlined(
    schema: dict[str, Any], registry: Registry, text: str
) -> None:
    """An editor would show faults where there are none, and teach to overlook them."""
    load_text(text, "f.yaml", directory=FOLDER / "traces", registry=registry)
    assert fits(as_json(text), schema, schema)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: good", "name: go.od"),
        ("measure: 1m", "measure: -1m"),
        ("measure: 1m", "measure: x1m"),
        ("measure: 1m", "measure: ''"),
        ("measure: 1m", "mesure: 1m"),
        ("promptTokens: 1k", "promptTokens: abc2k"),
        ("rate: 5", "rate: 0"),
        ("a: 10", "a: 1.0e-7"),
        ("kind: least-loaded", "kind: most-loaded"),
        ("workloads:", "variants: {x: {seeds: [1, 2]}}\nworkloads:"),
        ("workloads:", "variants: {x: {seeds.0: 1}}\nworkloads:"),
        ("workloads:", "variants: {x: {name: y}}\nworkloads:"),
        ("workloads:", "variants: {x: 5}\nworkloads:"),
    ],
)
def test_what_the_loader_refuses_is_underlined(
    schema: dict[str, Any], loaded: Loaded, old: str, new: str
) -> None:
    """An editor would call a file right that podsim does not run."""
    assert GOOD.count(old) == 1
    text = GOOD.replace(old, new)
    with pytest.raises(ScenarioError):
        loaded(text)
    assert not fits(as_json(text), schema, schema)


@pytest.mark.parametrize("annotation", [Duration, Tokens, Bytes])
@pytest.mark.parametrize(
    "number", ["5", "0.5", ".5", "5.", "1e2", "1E+2", "+5", "x5", "-5", "", "5,"]
)
@pytest.mark.parametrize("unit", ["s", "ms", " h", "k", "G", "KiB ", "kB", "", "x", "h30m", "s5m"])
def test_a_number_with_a_unit_is_read_as_the_schema_says(
    annotation: Any, number: str, unit: str
) -> None:
    """``x5 s`` would pass in the editor and be refused by podsim, or 1h30m the other way round."""
    adapter = TypeAdapter(annotation)
    schema = adapter.json_schema()
    written = number + unit
    try:
        adapter.validate_python(written)
        legal = True
    except ValidationError:
        legal = False
    assert fits(written, schema, schema) == legal
