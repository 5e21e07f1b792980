"""The JSON schema of scenario files, for editors: ``python -m sim.scenario.json_schema``.

Generated from the models and the registered specs, so that completion and
hints never say anything else than the loader, whose checks go further.
"""

import json
import sys
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeVar, Union

from pydantic import create_model
from pydantic.json_schema import GenerateJsonSchema

from sim.core import registry as registries
from sim.core.fields import DOTTED_PATTERN, NAME_PATTERN, Model, Name
from sim.core.registry import Family, Registry
from sim.scenario.balancing import AFFINITY_KEYS, TABLE_KIND, Balancing
from sim.scenario.schema import Backend, Scenario
from sim.scenario.validation import DEFAULT_ENGINE, DEFAULT_POOL, SECTIONS
from sim.scenario.variants import SHARED_KEYS

Schema: TypeAlias = dict[str, Any]
Filled = TypeVar("Filled", bound=Model)


class _WithoutTitles(GenerateJsonSchema):
    """Keys are their own titles; pydantic's would only repeat them with odd capitals."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def json_schema(registry: Registry | None = None) -> Schema:
    """Return the schema of a whole file, draft 2020-12, with every registered kind of block."""
    registry = registry or registries.load()
    root = _whole(registry).model_json_schema(by_alias=True, schema_generator=_WithoutTitles)
    definitions: dict[str, Schema] = root.pop("$defs")
    for definition in definitions.values():
        _say_of_the_kind(definition)
    properties = root["properties"]
    for section in SECTIONS:
        values = properties[section].pop("patternProperties")[NAME_PATTERN]
        properties[section]["propertyNames"] = {"pattern": NAME_PATTERN, "maxLength": 63}
        properties[section]["additionalProperties"] = values
    backend = definitions[_target(properties["backends"]["additionalProperties"])]["properties"]
    for key in ("policy", "balancing"):
        backend[key]["anyOf"] = backend[key].pop("anyOf")  # last, as in the other blocks
    balancing = definitions[_target(backend["balancing"]["anyOf"][0])]["properties"]
    for option in backend["policy"]["anyOf"]:
        keys = definitions[_target(option)]["properties"] if "$ref" in option else {}
        if keys and keys["kind"]["const"] == TABLE_KIND:
            known = {key: keys[key] for key in AFFINITY_KEYS}
            affinity = {"type": "object", "additionalProperties": False, "properties": known}
            balancing["sessionAffinity"]["anyOf"] = [affinity, {"type": "null"}]
    del properties["variant"]
    properties["variants"] = _variants()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **root,
        "title": "podsim scenario",
        "$defs": dict(sorted(definitions.items())),
    }


def _target(reference: Schema) -> str:
    return str(reference["$ref"]).rpartition("/")[2]


def _whole(registry: Registry) -> type[Scenario]:
    """``Scenario`` with the specs of all registered kinds where it has one of them."""
    kinds: dict[str, Any] = {
        "policy": _any_of(registry.policies) | None,
        "balancing": Balancing | None,
    }
    kinds["backends"] = _with_kinds(Backend, kinds)
    for section in ("engines", "pools", "workloads"):
        kinds[section] = _any_of(getattr(registry, section))
    named = {section: _named(kinds[section]) for section in SECTIONS}
    return _with_kinds(Scenario, named)


def _with_kinds(model: type[Filled], kinds: Mapping[str, Any]) -> type[Filled]:
    """``model`` with other types of the fields in ``kinds``."""
    fields: Any = {
        name: (kinds[name], field) for name, field in model.model_fields.items() if name in kinds
    }
    return create_model(model.__name__, __base__=model, __doc__=model.__doc__, **fields)


def _named(kind: Any) -> Any:
    return dict[Name, kind]


def _any_of(families: Mapping[str, Family]) -> Any:
    return Union[tuple(family.spec for family in families.values())]  # noqa: UP007


def _say_of_the_kind(definition: Schema) -> None:
    """Say of the key ``kind`` what the block is, in the first words of its class."""
    kind = definition.get("properties", {}).get("kind")
    if kind is None or "const" not in kind:
        return
    about = definition.get("description", "").partition("\n\n")[0]
    kind["description"] = " ".join(about.split())
    required = definition.get("required", [])
    if kind["const"] not in (DEFAULT_ENGINE, DEFAULT_POOL) and "kind" not in required:
        definition["required"] = ["kind", *required]


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
