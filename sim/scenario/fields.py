"""Field types of scenario files: numbers with units, names, and the base model.

Every number has a stated range, so that NaN, infinity, a wrong sign or a slip
of nine zeros is refused by name before anything is built. A number in quotes
needs a unit; a bare number is seconds, bytes or tokens.
"""

import math
from collections.abc import Callable
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints
from pydantic.alias_generators import to_camel
from pydantic_core import PydanticCustomError

from sim.units import parse_count, parse_duration_s, parse_size_bytes

MAX_DURATION_S: Final = 366 * 86400.0
MAX_TOKENS: Final = 10**12
MAX_BYTES: Final = 2.0**50


class Model(BaseModel):
    """Base of every scenario model: frozen, camelCase in files, unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=False,
    )


def quantity(
    what: str,
    example: str,
    parse: Callable[[str], float],
    low: float,
    high: float,
    whole: bool,
    low_open: bool = False,
) -> BeforeValidator:
    """A validator for a number that may carry a unit.

    ``low`` and ``high`` are inclusive unless ``low_open``; the message names
    the legal range and what was found.
    """
    above = "above" if low_open else "from"
    legal = f"{what} such as {example}, {above} {low:g} to {high:g}"

    def read(value: Any) -> Any:
        if isinstance(value, str):
            try:
                number = parse(value)
            except ValueError:
                raise PydanticCustomError(
                    "quantity",
                    "must be {legal}; got {found}",
                    {"legal": legal, "found": repr(value)},
                ) from None
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise PydanticCustomError(
                "quantity",
                "must be {legal}; got {found}",
                {"legal": legal, "found": describe(value)},
            )
        else:
            number = value
        inside = low < number <= high if low_open else low <= number <= high
        if not (math.isfinite(number) and inside and (not whole or number == int(number))):
            raise PydanticCustomError(
                "quantity",
                "must be {legal}; got {found}",
                {"legal": legal, "found": describe(value)},
            )
        return int(number) if whole else float(number)

    return BeforeValidator(read, json_schema_input_type=float | str)


def describe(value: Any) -> str:
    """A value as a reader recognises it: scalars as they are, the rest by kind."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value)


def _number(text: str) -> float:
    return parse_count(text)


Duration: TypeAlias = Annotated[
    float, quantity("a duration", "30s or 250ms", parse_duration_s, 0.0, MAX_DURATION_S, False)
]
"""Seconds, zero allowed."""

PositiveDuration: TypeAlias = Annotated[
    float,
    quantity("a duration", "30s or 250ms", parse_duration_s, 0.0, MAX_DURATION_S, False, True),
]
"""Seconds, more than zero."""

Tokens: TypeAlias = Annotated[
    int, quantity("a whole number of tokens", "75k", _number, 0, MAX_TOKENS, True)
]
"""A number of tokens, zero allowed."""

PositiveTokens: TypeAlias = Annotated[
    int, quantity("a whole number of tokens", "75k", _number, 1, MAX_TOKENS, True)
]
"""A number of tokens, at least one."""

Bytes: TypeAlias = Annotated[
    float, quantity("a size", "64KiB or 180GB", parse_size_bytes, 0.0, MAX_BYTES, False)
]
"""Bytes, zero allowed."""


def count(low: int, high: int) -> Any:
    """A whole number from ``low`` to ``high``, both inclusive; ``75k`` is understood."""
    return Annotated[int, quantity("a whole number", str(max(low, 1)), _number, low, high, True)]


def number(low: float, high: float, low_open: bool = False) -> Any:
    """A real number from ``low`` to ``high``; ``75k`` is understood."""
    example = f"{(low + min(high, low + 1)) / 2:g}"
    return Annotated[float, quantity("a number", example, _number, low, high, False, low_open)]


Probability: TypeAlias = number(0.0, 1.0)  # type: ignore[valid-type]
"""A number from 0 to 1."""

Name: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*$", max_length=63)]
"""Letters, digits and hyphens: the dot separates the parts of a path."""

VariantName: TypeAlias = Annotated[
    str, StringConstraints(pattern=r"^[A-Za-z0-9][A-Za-z0-9.-]*$", max_length=63)
]
"""As ``Name``, dots allowed (a variant is never part of a path)."""

Text: TypeAlias = Annotated[str, Field(max_length=10_000)]
