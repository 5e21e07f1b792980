"""What pydantic found wrong, in plain words and with the place in the file."""

import types
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from typing import Any, Final, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from sim.core.errors import Fault
from sim.core.fields import PATTERNS_IN_WORDS, describe
from sim.core.rules import Problem
from sim.core.suggest import meant, suggestion
from sim.scenario.nodes import (
    Mapping,
    Node,
    Path,
    Place,
    at,
    beside,
    child,
    fault,
    nearest,
    plain,
    text_of,
)

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


def translate(
    error: ValidationError, model: type[BaseModel], node: Node, path: Path
) -> list[Fault]:
    """The faults of ``node``, which stands at ``path`` and was to be a ``model``."""
    faults: list[Fault] = []
    for detail in error.errors(include_url=False):
        if not _is_consequence(detail, node):
            faults.extend(_faults(detail, model, node, path))
    return list(dict.fromkeys(faults))


def _is_consequence(detail: ErrorDetails, node: Node) -> bool:
    """Whether it only follows from another fault, which is reported itself."""
    if detail["type"] == "too_short":  # entries with faults of their own do not count as entries
        written = plain(_locate(node, detail["loc"])[1])
        return len(written) >= int(detail["ctx"]["min_length"])
    return detail["type"] == "default_factory_not_called"


def _faults(
    detail: ErrorDetails, model: type[BaseModel], node: Node, path: Path
) -> Iterator[Fault]:
    context = detail.get("ctx", {})
    location = detail["loc"]
    steps, found, key_place = _locate(node, location)
    here = (*path, *steps)
    if detail["type"] == "inconsistent":
        for problem in context["problems"]:
            yield disagreement(problem, found, here)
    elif detail["type"] in ("union_tag_invalid", "union_tag_not_found"):
        yield _wrong_kind(context, found, here)
    elif detail["type"] == "missing":
        written = found.values if isinstance(found, Mapping) else ()
        if location[-1] not in meant(written, key_names(model, steps, node)):
            yield fault(found.place, here, f"missing key {location[-1]!r}")
    elif detail["type"] == "extra_forbidden":
        key = str(location[-1])
        known = (name for name in key_names(model, steps[:-1], node) if name != key)
        hint = suggestion(key, known, present=beside(at(node, *steps[:-1]), key))
        yield fault(key_place, here, f"unknown key {key!r}{hint}")
    elif location and location[-1] == "[key]":
        yield fault(key_place, here, _in_words(detail))
    else:
        keys = key_names(model, steps) if detail["type"] == "model_type" else []
        yield fault(found.place, here, _in_words(detail, keys))


def disagreement(problem: Problem, node: Node, path: Path, location: Path = ()) -> Fault:
    """The fault of a broken rule of the model at ``location`` of ``node``, which is at ``path``."""
    key, message = problem
    steps, found, _ = _locate(node, location)
    below: Path = tuple(key.split(".")) if key else ()
    return fault(nearest(found, below).place, (*path, *steps, *below), message)


def _wrong_kind(context: dict[str, Any], node: Node, path: Path) -> Fault:
    """The fault of a block whose ``kind``, or whatever its discriminator is, names no model."""
    key = context["discriminator"].strip("'")
    written = child(node, key)
    if written is None:
        return fault(node.place, path, f"missing key {key!r}")
    known = [tag.strip(" '") for tag in context["expected_tags"].split(",")]
    message = f"unknown {key} {context['tag']!r}{suggestion(context['tag'], known, every=True)}"
    return fault(written.place, (*path, key), message)


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


def _locate(node: Node, location: tuple[int | str, ...]) -> tuple[Path, Node, Place]:
    """Follow pydantic's location as far as the file goes.

    Returns the path, what stands there and the place of its key. Labels of
    union branches, which are not in the file, are left out; so is the last
    step to a missing key.
    """
    steps: list[str | int] = []
    key_place = node.place
    for segment in location:
        below = child(node, segment)
        if below is None:
            continue
        key_place = node.keys[str(segment)] if isinstance(node, Mapping) else below.place
        steps.append(segment)
        node = below
    return tuple(steps), node, key_place


def key_names(model: Any, path: Path, node: Node | None = None) -> list[str]:
    """The keys that may stand in the mapping at ``path`` of a ``model``, in model order.

    Where ``node``, which is to be a ``model``, says a ``kind``, they are those of that kind.
    """
    candidates = [model]
    for segment in path:
        node = child(node, segment)
        candidates = [below for each in candidates for below in _below(each, str(segment))]
        kind = text_of(child(node, "kind"))
        candidates = [each for each in candidates if kind in kinds(each)] or candidates
    names = [alias for each in candidates for _, alias in _fields(each)]
    return list(dict.fromkeys(names))


def _below(model: Any, segment: str) -> Iterator[Any]:
    for field_name, alias in _fields(model):
        if alias == segment:
            yield from members(model.model_fields[field_name].annotation)
    if not isinstance(model, type):
        arguments = get_args(model)
        if get_origin(model) in (dict, AnyMapping):
            yield from members(arguments[1])
        elif get_origin(model) in (tuple, list):
            yield from members(arguments[0])


def kinds(model: Any) -> tuple[str, ...]:
    """What stands as ``kind`` in a ``model`` of some union."""
    if not (isinstance(model, type) and issubclass(model, BaseModel)):
        return ()
    kind = model.model_fields.get("kind")
    return () if kind is None else get_args(kind.annotation)


def members(annotation: Any) -> Iterator[Any]:
    """The alternatives of a type, without ``Annotated``."""
    origin = get_origin(annotation)
    if origin in (Union, types.UnionType):
        for member in get_args(annotation):
            yield from members(member)
    elif hasattr(annotation, "__metadata__"):
        yield from members(annotation.__origin__)
    else:
        yield annotation


def _fields(model: Any) -> Iterator[tuple[str, str]]:
    """Attribute and key in files of each field; nothing for what is not a model."""
    if isinstance(model, type) and issubclass(model, BaseModel):
        for name, field in model.model_fields.items():
            yield name, field.alias or name
