"""The JSON schema says what the loader says, and the stored one is the present one."""

from pathlib import Path
from typing import Any

import pytest

from sim.registry import Registry
from sim.scenario.json_schema import json_schema, text

STORED = Path(__file__).parents[2] / "scenarios" / "schema.json"


@pytest.fixture(scope="module")
def schema(registry: Registry) -> dict[str, Any]:
    return json_schema(registry)


def test_the_stored_schema_is_up_to_date(schema: dict[str, Any]) -> None:
    """Editors would hint at keys that are gone: python -m sim.scenario.json_schema prints it."""
    assert STORED.read_text(encoding="utf-8") == text(schema)


def test_every_kind_is_in_the_schema_and_must_be_named(
    schema: dict[str, Any], registry: Registry
) -> None:
    """A policy or a workload could not be completed, or be written without its kind."""

    def kinds(block: dict[str, Any]) -> list[str]:
        found = []
        for option in block["anyOf"]:
            if "$ref" in option:
                spec = schema["$defs"][option["$ref"].rpartition("/")[2]]
                assert "kind" in spec["required"]
                assert spec["additionalProperties"] is False
                found.append(spec["properties"]["kind"]["const"])
        return found

    backend = schema["$defs"]["Backend"]["properties"]
    assert kinds(backend["policy"]) == list(registry.policies)
    workloads = schema["properties"]["workloads"]["additionalProperties"]
    assert kinds(workloads) == list(registry.workloads)


def test_a_spec_says_the_kind_it_is_registered_under(registry: Registry) -> None:
    """A scenario would be refused by the very spec that its kind names."""
    for families in (registry.policies, registry.workloads):
        for kind, family in families.items():
            assert family.spec.model_fields["kind"].annotation.__args__ == (kind,)  # type: ignore[attr-defined]


def test_the_whole_file_is_described(schema: dict[str, Any]) -> None:
    """A key of a file would be underlined as unknown, or one that the loader sets be offered."""
    assert list(schema["properties"]) == [
        *("name", "description", "window", "seeds", "ringSalt", "engines", "backends", "router"),
        *("workloads", "slo", "variants"),
    ]
    assert schema["required"] == ["name", "engines", "backends", "router", "workloads"]
    engine = schema["$defs"]["Engine"]
    assert engine["properties"]["kvBlocks"]["anyOf"][0] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 10**9,
    }
    assert all(
        "description" in each for each in engine["properties"].values() if "$ref" not in each
    )
    affinity = schema["$defs"]["Balancing"]["properties"]["sessionAffinity"]["anyOf"][0]
    assert list(affinity["properties"]) == ["headers", "idleTimeout", "maxSessions"]


def test_defaults_that_differ_from_vllms_say_so(schema: dict[str, Any]) -> None:
    """A B200 would be simulated with half vLLM's token budget and a quarter of its sequences,
    and an editor that shows the default would not tell."""
    engine = schema["$defs"]["Engine"]["properties"]
    for key, vllm in (("maxNumBatchedTokens", "16,384"), ("maxNumSeqs", "1,024")):
        assert f"vLLM's default does ({vllm} on a B200)" in engine[key]["description"]


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
