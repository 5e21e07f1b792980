"""As much of JSON schema as podsim's schema uses; whatever else turns up is an error.

An editor's validator in miniature, so that what an editor underlines can be
held against what the loader refuses.
"""

import re
from typing import Any

Schema = dict[str, Any]

TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "null": (type(None),),
}
ANNOTATIONS = {"$defs", "$schema", "default", "description", "discriminator", "title"}


def fits(value: Any, schema: Schema | bool, root: Schema) -> bool:
    """Whether ``value`` is legal under ``schema``, a part of ``root``."""
    if isinstance(schema, bool):
        return schema
    return all(_keyword(value, word, schema, root) for word in schema if word not in ANNOTATIONS)


def _keyword(value: Any, word: str, schema: Schema, root: Schema) -> bool:
    said = schema[word]
    match word:
        case "$ref":
            return fits(value, root["$defs"][said.removeprefix("#/$defs/")], root)
        case "anyOf":
            return any(fits(value, each, root) for each in said)
        case "oneOf":
            return sum(fits(value, each, root) for each in said) == 1
        case "not":
            return not fits(value, said, root)
        case "const":
            return bool(value == said)
        case "enum":
            return value in said
        case "type":
            names = [said] if isinstance(said, str) else said
            return any(_is_a(value, name) for name in names)
    if isinstance(value, dict):
        return _object(value, word, schema, root)
    if isinstance(value, list):
        return _array(value, word, schema, root)
    if isinstance(value, str):
        return _string(value, word, said)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return _number(value, word, said)
    return True


def _is_a(value: Any, name: str) -> bool:
    if isinstance(value, bool):
        return name == "boolean"
    return isinstance(value, TYPES[name])


def _object(value: dict[str, Any], word: str, schema: Schema, root: Schema) -> bool:
    said = schema[word]
    match word:
        case "properties":
            return all(fits(value[key], below, root) for key, below in said.items() if key in value)
        case "additionalProperties":
            more = value.keys() - schema.get("properties", {}).keys()
            return all(fits(value[key], said, root) for key in more)
        case "propertyNames":
            return all(fits(key, said, root) for key in value)
        case "required":
            return value.keys() >= set(said)
        case "minProperties":
            return len(value) >= said
    return _of_another_type(word)


def _array(value: list[Any], word: str, schema: Schema, root: Schema) -> bool:
    said = schema[word]
    match word:
        case "items":
            return all(fits(item, said, root) for item in value)
        case "minItems":
            return len(value) >= said
        case "maxItems":
            return len(value) <= said
    return _of_another_type(word)


def _string(value: str, word: str, said: Any) -> bool:
    match word:
        case "pattern":
            return re.search(said, value) is not None
        case "minLength":
            return len(value) >= said
        case "maxLength":
            return len(value) <= said
    return _of_another_type(word)


def _number(value: float, word: str, said: Any) -> bool:
    match word:
        case "minimum":
            return bool(value >= said)
        case "maximum":
            return bool(value <= said)
        case "exclusiveMinimum":
            return bool(value > said)
    return _of_another_type(word)


def _of_another_type(word: str) -> bool:
    """A keyword says nothing about values of another type than its own."""
    known = {
        *("properties", "additionalProperties", "propertyNames", "required", "minProperties"),
        *("items", "minItems", "maxItems", "pattern", "minLength", "maxLength"),
        *("minimum", "maximum", "exclusiveMinimum"),
    }
    assert word in known, f"unknown keyword {word!r}"
    return True
