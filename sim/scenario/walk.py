"""One way through the models of a scenario: every value, its path, and the unit it has."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple, get_args

from pydantic import BaseModel

from sim.core.document import Path
from sim.core.fields import DURATION, RATE, SIZE, Quantity, Scale
from sim.hardware.gpu import GIB

MIB: Final = 2.0**20
MOST_LISTED: Final = 3
"""Models in a list of more are counted, not shown."""


class Value(NamedTuple):
    """A value; ``scale`` is that of a number with a unit, ``given`` whether the file has it."""

    path: Path
    value: Any
    scale: Scale | None
    given: bool = True


def values(block: Any, path: Path = ()) -> Iterator[Value]:
    """Every value given for ``block``, a spec model, by the keys of files; in their order."""
    model: type[BaseModel] = type(block)
    for name, field in model.model_fields.items():
        if name in block.model_fields_set:
            scale = _scale(model, name)
            yield from _below(getattr(block, name), (*path, field.alias or name), scale)


def _below(value: Any, path: Path, scale: Scale | None) -> Iterator[Value]:
    if isinstance(value, BaseModel):
        yield from values(value, path)
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield from _below(each, (*path, str(key)), scale)
    elif isinstance(value, tuple):
        for index, each in enumerate(value):
            yield from _below(each, (*path, index), scale)
    else:
        yield Value(path, value, scale)


def settings(block: Any, path: Path = (), given: bool = True) -> Iterator[Value]:
    """What is in effect: every setting of ``block`` that has a value, in the order of its keys.

    Distributions and lists are one value each. A key that may be missing and is
    has none, and an empty list is none. A spec that completes itself says by
    ``defaults``, values by attribute, what it takes where nothing is said.
    """
    defaults = getattr(block, "defaults", None)
    usual = {} if defaults is None else defaults()
    model: type[BaseModel] = type(block)
    for name, field in model.model_fields.items():
        value = getattr(block, name)
        said = given and name in block.model_fields_set
        said = said and not (name in usual and usual[name] == value)
        if value not in (None, (), {}) or (said and field.default != value):
            here = (*path, field.alias or name)
            yield from _in_effect(value, here, _scale(model, name), said)


def _in_effect(value: Any, path: Path, scale: Scale | None, given: bool) -> Iterator[Value]:
    if isinstance(value, Mapping):
        for key, each in value.items():
            yield from _in_effect(each, (*path, str(key)), scale, given)
    elif isinstance(value, tuple) and any(isinstance(each, BaseModel) for each in value):
        if len(value) > MOST_LISTED:
            yield Value(path, f"({len(value):,} entries)", None, given)
            return
        for index, each in enumerate(value):
            yield from _in_effect(each, (*path, index), scale, given)
    elif isinstance(value, BaseModel) and not hasattr(value, "in_words"):
        yield from settings(value, path, given)
    else:
        yield Value(path, value, scale, given)


@cache
def _scale(model: type[BaseModel], name: str) -> Scale | None:
    field = model.model_fields[name]
    return next(_scales((*field.metadata, field.annotation)), None)


def _scales(parts: Any) -> Iterator[Scale]:
    """The scales of the numbers in an annotation, the first one counts."""
    for part in parts:
        if isinstance(part, Quantity):
            yield part.scale
        elif not isinstance(part, type) or get_args(part):
            yield from _scales((*getattr(part, "__metadata__", ()), *get_args(part)))


def in_words(value: Any, scale: Scale | None = None) -> str:
    """A value as a reader takes it in: with its unit, ``4 GiB``, ``120 s``, ``6 GB/s``."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        pairs = (f"{key}: {in_words(each, scale)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(in_words(each, scale) for each in value)}]"
    if hasattr(value, "in_words"):
        return str(value.in_words())
    if not isinstance(value, int | float):
        return str(value)
    if scale is SIZE:
        return _size(value)
    if scale is RATE:
        return f"{value / 1e9:,.4g} GB/s"
    if scale is DURATION:
        return duration_in_words(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.6g}"


def duration_in_words(seconds: float) -> str:
    """Seconds, or what is easier to read far below one: ``120 s``, ``5 ms``, ``1.5 µs``."""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= size or unit == "µs":
            return f"{seconds / size:,.10g} {unit}" if seconds else "0 s"
    return "0 s"


def _size(size_bytes: float) -> str:
    """Bytes in the largest binary unit; a size that people round in GB stays in GB."""
    if size_bytes >= 1e9 and size_bytes % 1e9 == 0:
        return f"{size_bytes / 1e9:,g} GB"
    for size, unit in ((GIB, "GiB"), (MIB, "MiB")):
        if size_bytes >= size:
            return f"{size_bytes / size:,.4g} {unit}"
    return f"{size_bytes:,.6g} B"
