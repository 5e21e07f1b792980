"""What pydantic found wrong, in plain words."""

import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sim.core.document import UNREAD, Finding, Path, at, beside, entries, trace
from sim.core.fields import PATTERNS_IN_WORDS, describe
from sim.core.suggest import meant, suggestion

FEW_KEYS: Final = 2
"""As many keys of a mapping are named where something else stands in its place."""

_WANTED: Final = {
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
    "dict_type": "a mapping",
    "tuple_type": "a list",
    "list_type": "a list",
    "string_type": "text",
    "bool_type": "true or false",
    "int_type": "a whole number",
    "float_type": "a number",
}


def findings(error: ValidationError, model: type[BaseModel], written: Any) -> list[Finding]:
    """Return what is wrong with ``written``, which was to be a ``model``."""
    found: list[Finding] = []
    for detail in error.errors(include_url=False):
        found.extend(_findings(detail, model, written))
    return list(dict.fromkeys(found))


def _findings(detail: ErrorDetails, model: type[BaseModel], written: Any) -> Iterator[Finding]:
    kind, context, location = detail["type"], detail.get("ctx", {}), detail["loc"]
    here, found = trace(written, location)  # without labels of union branches
    if found is UNREAD or kind == "default_factory_not_called":
        return  # follows from another fault, which is reported itself
    if kind == "too_short" and len(found) >= context["min_length"]:
        return  # entries with faults of their own do not count as entries
    if kind == "inconsistent":
        for key, message in context["problems"]:
            yield Finding((*here, *(key.split(".") if key else ())), message)
    elif kind in ("union_tag_invalid", "union_tag_not_found"):
        yield from _wrong_kind(context, found, here)
    elif kind == "missing":
        if location[-1] not in meant(entries(found), key_names(model, here, written)):
            yield Finding(here, f"missing key {location[-1]!r}")
    elif kind == "extra_forbidden":
        key, above = str(location[-1]), here[:-1]
        known = [name for name in key_names(model, above, written) if name != key]
        yield unknown_key(key, known, at(written, *above)).below(above)
    else:
        keys = key_names(model, here) if kind == "model_type" else []
        yield Finding(here, _in_words(detail, keys), at_key=location[-1:] == ("[key]",))


def unknown_key(key: str, known: Sequence[str], written: Any) -> Finding:
    """Return the finding that ``written`` has ``key``, which is none of those ``known``."""
    hint = suggestion(key, known, present=beside(written, key))
    return Finding((key,), f"unknown key {key!r}{hint}", at_key=True)


def _wrong_kind(context: dict[str, Any], written: Any, path: Path) -> Iterator[Finding]:
    """A block whose ``kind``, or whatever its discriminator is, names no model."""
    key = context["discriminator"].strip("'")
    if key not in entries(written):
        yield Finding(path, f"missing key {key!r}")
    elif written[key] is not UNREAD:
        known = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
        hint = suggestion(context["tag"], known, every=True)
        yield Finding((*path, key), f"unknown {key} {context['tag']!r}{hint}")


def _in_words(detail: ErrorDetails, keys: Sequence[str] = ()) -> str:
    """The message of one error; the found value is always part of it.

    ``keys`` are those of the mapping that was to stand there; few are named.
    """
    kind, context = detail["type"], detail.get("ctx", {})
    found = describe(detail["input"])
    if kind in _WANTED:
        few = 0 < len(keys) <= FEW_KEYS
        example = f" with {' and '.join(keys)}" if few else _example(kind, detail["input"])
        hint = _quoting_hint(kind, detail["input"])
        return f"must be {_WANTED[kind]}{example}; got {found}{hint}"
    if kind == "literal_error":
        return f"must be {context['expected']}; got {found}"
    if kind == "string_pattern_mismatch":
        pattern = context["pattern"]
        return f"must be {PATTERNS_IN_WORDS.get(pattern, f'text like {pattern}')}; got {found}"
    if kind.endswith(("too_short", "too_long")):
        return _length(context, detail["input"])
    if kind == "value_error":
        return str(context["error"])
    if detail["msg"].startswith("Input should"):
        return f"must{detail['msg'].removeprefix('Input should')}; got {found}"
    return detail["msg"]


def _length(context: dict[str, Any], value: Any) -> str:
    one, many, found = "entry", "entries", value
    if not isinstance(value, list | tuple | dict):  # text, or a bare number in place of a name
        one, many, found = "character", "characters", str(value)
    length = len(found)
    if "min_length" in context and length < context["min_length"]:
        which, limit = "at least", context["min_length"]
    else:
        which, limit = "at most", context["max_length"]
    return f"must have {which} {limit} {one if limit == 1 else many}; got {length}"


def _example(kind: str, value: Any) -> str:
    """One entry where a list of such belongs is the commonest slip."""
    if kind in ("tuple_type", "list_type") and isinstance(value, str | int | float):
        return f" such as [{describe(value)}]"
    return ""


def _quoting_hint(kind: str, value: Any) -> str:
    if kind == "string_type" and isinstance(value, int | float):
        return " (text that looks like a number or a truth value needs quotes)"
    if kind == "bool_type" and str(value).lower() in ("yes", "no", "on", "off"):
        return " (a word is text in YAML 1.2)"
    return ""


def key_names(model: Any, path: Path = (), written: Any = None) -> list[str]:
    """Return the keys that may stand in the mapping at ``path`` of a ``model``, in model order.

    Where ``written``, which is to be a ``model``, says a ``kind``, they are those of that kind.
    """
    candidates = [model]
    for step in path:
        written = at(written, step)
        candidates = [below for each in candidates for below in _below(each, str(step))]
        kind = entries(written).get("kind")
        candidates = [each for each in candidates if kind in _kinds(each)] or candidates
    return list(dict.fromkeys(key for each in candidates for key in _fields(each)))


def _below(model: Any, step: str) -> Iterator[Any]:
    if step in (fields := _fields(model)):
        yield from _members(fields[step])
    elif get_origin(model) in (dict, Mapping):
        yield from _members(get_args(model)[1])
    elif get_origin(model) in (tuple, list):
        yield from _members(get_args(model)[0])


def _kinds(model: Any) -> tuple[str, ...]:
    """What stands as ``kind`` in a ``model`` of some union."""
    return get_args(_fields(model).get("kind"))


def _members(annotation: Any) -> Iterator[Any]:
    """The alternatives of a type, without ``Annotated``."""
    if get_origin(annotation) in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from _members(member)
    elif hasattr(annotation, "__metadata__"):
        yield from _members(annotation.__origin__)
    else:
        yield annotation


def _fields(model: Any) -> dict[str, Any]:
    """Types of the fields by their keys in files; none of what is not a model."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return {}
    return {field.alias or name: field.annotation for name, field in model.model_fields.items()}
