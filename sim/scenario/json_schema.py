"""The JSON schema of scenario files, for editors: ``python -m sim.scenario.json_schema``.

Generated from the models and the registered specs, so that completion and
hints never say anything else than the loader, whose checks go further.
"""

import json
import sys
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from sim.core import registry as registries
from sim.core.fields import DOTTED_PATTERN, NAME_PATTERN
from sim.core.registry import Family, Registry
from sim.scenario.balancing import AFFINITY_KEYS, Balancing
from sim.scenario.schema import Scenario
from sim.scenario.validation import DEFAULT_ENGINE, DEFAULT_POOL
from sim.scenario.variants import SHARED_KEYS

Schema: TypeAlias = dict[str, Any]
_NULL: Final[Schema] = {"type": "null"}


class _WithoutTitles(GenerateJsonSchema):
    """Keys are their own titles; pydantic's would only repeat them with odd capitals."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(registry: Registry | None = None) -> Schema:
    """The schema of a whole file, draft 2020-12, with every registered kind of block."""
    registry = registry or registries.load()
    families = [*registry.policies.values(), *registry.workloads.values()]
    engines, pools = list(registry.engines.values()), list(registry.pools.values())
    models: list[type[BaseModel]] = [
        Scenario,
        Balancing,
        *(family.spec for family in (*families, *engines, *pools)),
    ]
    references, schema = models_json_schema(
        [(model, "validation") for model in models],
        by_alias=True,
        schema_generator=_WithoutTitles,
    )
    definitions: dict[str, Schema] = schema["$defs"]
    for family in (*families, *engines, *pools):
        if family.kind in (DEFAULT_ENGINE, DEFAULT_POOL):
            continue
        required = _definition(definitions, references, family.spec).setdefault("required", [])
        if "kind" not in required:
            required.insert(0, "kind")
    _complete_backend(definitions, references, registry)
    root = definitions.pop(_name(references, Scenario))
    properties = root["properties"]
    for section in ("engines", "backends", "pools", "workloads"):
        values = properties[section].pop("patternProperties")[NAME_PATTERN]
        properties[section]["propertyNames"] = {"pattern": NAME_PATTERN, "maxLength": 63}
        properties[section]["additionalProperties"] = values
    workloads = _references(registry.workloads.values(), references)
    properties["workloads"]["additionalProperties"] = {"anyOf": workloads}
    properties["pools"]["additionalProperties"] = {"anyOf": _references(pools, references)}
    some_kind = properties["engines"]["additionalProperties"].pop("$ref")
    del definitions[some_kind.rpartition("/")[2]]
    properties["engines"]["additionalProperties"]["anyOf"] = _references(engines, references)
    del properties["variant"]
    for definition in definitions.values():
        _say_of_the_kind(definition)
    properties["variants"] = _variants()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": "podsim scenario",
        "$defs": dict(sorted(definitions.items())),
    }


def _say_of_the_kind(definition: Schema) -> None:
    """The key ``kind`` says what the block is, in the first words of its class."""
    kind = definition.get("properties", {}).get("kind")
    if kind is not None and "const" in kind:
        about = definition.get("description", "").partition("\n\n")[0]
        kind["description"] = " ".join(about.split())


def _complete_backend(definitions: dict[str, Schema], references: Any, registry: Registry) -> None:
    """Fill in what the models leave open: the policies by kind, the manifest form."""
    backend = definitions["Backend"]["properties"]
    policies = _references(registry.policies.values(), references)
    backend["policy"]["anyOf"] = [*policies, _NULL]
    backend["balancing"]["anyOf"] = [references[(Balancing, "validation")], _NULL]
    if "session-table" in registry.policies:
        table = _definition(definitions, references, registry.policies["session-table"].spec)
        known = {key: table["properties"][key] for key in AFFINITY_KEYS}
        affinity = {"type": "object", "additionalProperties": False, "properties": known}
        balancing = _definition(definitions, references, Balancing)["properties"]
        balancing["sessionAffinity"]["anyOf"] = [affinity, _NULL]


def _references(families: Iterable[Family], references: Any) -> list[Schema]:
    return [references[(family.spec, "validation")] for family in families]


def _definition(definitions: dict[str, Schema], references: Any, model: type[BaseModel]) -> Schema:
    return definitions[_name(references, model)]


def _name(references: Any, model: type[BaseModel]) -> str:
    reference: str = references[(model, "validation")]["$ref"]
    return reference.rpartition("/")[2]


def _variants() -> Schema:
    return {
        "type": ["object", "null"],
        "description": "What is compared: by name, values that replace what stands at their "
        "dotted path, such as backends.qwen.policy.",
        "propertyNames": {"pattern": DOTTED_PATTERN, "maxLength": 63},
        "additionalProperties": {
            "type": ["object", "null"],
            "propertyNames": {"not": {"pattern": rf"^({'|'.join(sorted(SHARED_KEYS))})(\.|$)"}},
        },
    }


def text(schema: Schema) -> str:
    """The schema as it is stored in ``scenarios/schema.json``."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text(json_schema()))
