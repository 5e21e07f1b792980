"""Field types of scenario files: numbers with units, names, and the base model.

Every number has a stated range, so that NaN, infinity, a wrong sign or a slip
of nine zeros is refused by name before anything is built. A number in quotes
needs a unit; a bare number is seconds, bytes, bytes per second or
tokens.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final, Self, TypeAlias

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    StringConstraints,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from sim.core.rules import Problem, broken
from sim.core.units import (
    COUNT_UNITS,
    DURATION_UNITS_S,
    RATE_UNITS_BYTES_PER_S,
    SIZE_UNITS_BYTES,
    parse_duration_s,
    parse_with_unit,
)

MAX_DURATION_S: Final = 366 * 86400.0
MAX_TOKENS: Final = 10**12
MAX_BYTES: Final = 2.0**50
MAX_BYTES_PER_S: Final = 1e15
STARVED: Final = "no request could ever be served"


class Model(BaseModel):
    """Base of every scenario model: frozen, camelCase in files, unknown keys are errors.

    What its values must agree on say its methods that are each a ``sim.core.rules.rule``.
    """

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        alias_generator=to_camel,
        populate_by_name=True,
        allow_inf_nan=False,
        arbitrary_types_allowed=False,
    )

    @model_validator(mode="after")
    def _check_rules(self) -> Self:
        refuse(broken(self))
        return self


@dataclass(frozen=True, eq=False)
class Scale:
    """A way to write numbers: the units, and a compound form of several."""

    units: Mapping[str, float]
    compound: str = ""  # a further way to write it, as a regular expression

    def parse(self, text: str) -> float:
        """Read ``text``; raises ``ValueError`` or ``OverflowError`` when it is no such number."""
        return parse_duration_s(text) if self.compound else parse_with_unit(text, self.units)

    @property
    def pattern(self) -> str:
        """The regular expression of what ``parse`` reads, the sign aside: nothing is negative."""
        digits = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
        simple = rf"\s*\+?{digits}\s*({'|'.join(sorted(self.units))})\s*"
        return f"^({simple}|{self.compound})$" if self.compound else f"^{simple}$"

    def written(self, number: float) -> str:
        """``number`` in the largest unit that divides it: ``366d``, ``1024TiB``, ``1000G``."""
        for unit, size in sorted(self.units.items(), key=lambda item: -item[1]):
            whole = number % size == 0 if size >= 1 else (number / size).is_integer()
            if number >= size and whole:
                return f"{number / size:g}{unit}"
        return str(number) if isinstance(number, int) else f"{number:g}"


DURATION: Final = Scale(DURATION_UNITS_S, r"(?=[0-9])([0-9]+h)?([0-9]+m)?([0-9]+s)?")
SIZE: Final = Scale(SIZE_UNITS_BYTES)
RATE: Final = Scale(RATE_UNITS_BYTES_PER_S)
COUNT: Final = Scale(COUNT_UNITS)


@dataclass(frozen=True)
class Quantity:
    """The annotation of a number that may carry a unit, and its legal range.

    ``low`` and ``high`` are inclusive, ``low`` is not if ``low_open``; with
    ``or_zero`` 0 is legal as well, below ``low``. A value below ``low`` is
    refused with ``too_low``, if given, as the reason.
    """

    what: str
    example: str
    scale: Scale
    low: float
    high: float
    whole: bool = False
    low_open: bool = False
    or_zero: bool = False
    too_low: str = ""

    @property
    def legal(self) -> str:
        """What may be written, in words."""
        low, high = self.scale.written(self.low), self.scale.written(self.high)
        if self.low == self.high:
            return low
        bounds = f"above {low}, up to {high}" if self.low_open else f"from {low} to {high}"
        zero = "0 or " if self.or_zero else ""
        return f"{self.what} such as {self.example}, {zero}{bounds}"

    def read(self, value: Any) -> int | float:
        """The number that ``value`` stands for; raises what pydantic understands."""
        number = value
        if isinstance(value, str):
            try:
                number = self.scale.parse(value)
            except (ValueError, OverflowError):
                raise self._error(value) from None
        if isinstance(number, bool) or not isinstance(number, int | float):
            raise self._error(value)
        # Comparisons with NaN are false, so a range that is asked for both ends refuses it.
        above = self.low < number if self.low_open else self.low <= number
        zero = self.or_zero and number == 0
        if not (zero or (above and number <= self.high)):
            raise self._error(value, self.too_low if number <= self.low else "")
        if self.whole and number != int(number):
            raise self._error(value)
        return int(number) if self.whole else float(number)

    def _error(self, value: Any, reason: str = "") -> PydanticCustomError:
        found = describe(value) + (f" ({reason})" if reason else "")
        return PydanticCustomError(
            "quantity", "must be {legal}; got {found}", {"legal": self.legal, "found": found}
        )

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_before_validator_function(self.read, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        number: dict[str, Any] = {
            "type": "integer" if self.whole else "number",
            "exclusiveMinimum" if self.low_open else "minimum": self.low,
            "maximum": self.high,
        }
        zero = [{"const": 0}] if self.or_zero else []
        return {"anyOf": [*zero, number, {"type": "string", "pattern": self.scale.pattern}]}


def refuse(problems: list[Problem]) -> None:
    """Raise one error for ``problems`` of keys that do not go together; none, no error.

    The loader reports each in its own line.
    """
    if problems:
        said = "; ".join(f"{key}: {message}" if key else message for key, message in problems)
        raise PydanticCustomError("inconsistent", "{said}", {"said": said, "problems": problems})


def describe(value: Any) -> str:
    """A value as a reader recognises it: scalars as they are, the rest by kind."""
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list | tuple):
        return "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int) and value.bit_length() > 128:
        return "a whole number of more than 38 digits"
    shown = repr(value)
    return shown if len(shown) <= 80 else f"{shown[:60]}... ({len(shown)} characters)"


Duration: TypeAlias = Annotated[
    float, Quantity("a duration", "30s or 250ms", DURATION, 0.0, MAX_DURATION_S)
]
"""Seconds, zero allowed."""

PositiveDuration: TypeAlias = Annotated[
    float, Quantity("a duration", "30s or 250ms", DURATION, 0.0, MAX_DURATION_S, low_open=True)
]
"""Seconds, more than zero."""

PollInterval: TypeAlias = Annotated[
    float, Quantity("a duration", "1s or 100ms", DURATION, 0.01, MAX_DURATION_S)
]
"""Seconds from one poll of a pod to the next; at 10 ms a run does little else already."""

Tokens: TypeAlias = Annotated[
    int, Quantity("a whole number of tokens", "75k", COUNT, 0, MAX_TOKENS, whole=True)
]
"""A number of tokens, zero allowed."""

PositiveTokens: TypeAlias = Annotated[
    int, Quantity("a whole number of tokens", "75k", COUNT, 1, MAX_TOKENS, whole=True)
]
"""A number of tokens, at least one."""

Bytes: TypeAlias = Annotated[float, Quantity("a size", "64KiB or 180GB", SIZE, 0.0, MAX_BYTES)]
"""Bytes, zero allowed."""

PositiveBytes: TypeAlias = Annotated[
    float, Quantity("a size", "64KiB or 180GB", SIZE, 0.0, MAX_BYTES, low_open=True)
]
"""Bytes, more than zero."""

ByteRate: TypeAlias = Annotated[float, Quantity("a bandwidth", "6GB/s", RATE, 1e6, MAX_BYTES_PER_S)]
"""Bytes per second, at least 1 MB/s: less is a forgotten unit."""


def whole(low: int, high: int, too_low: str = "") -> Quantity:
    """Annotates a whole number from ``low`` to ``high``, both inclusive; ``75k`` is understood."""
    example = COUNT.written(max(low, 1))
    return Quantity("a whole number", example, COUNT, low, high, whole=True, too_low=too_low)


def real(low: float, high: float, low_open: bool = False, or_zero: bool = False) -> Quantity:
    """Annotates a real number from ``low`` to ``high``; ``75k`` is understood."""
    example = f"{round((low + min(high, low + 1)) / 2, 3):g}"
    return Quantity("a number", example, COUNT, low, high, low_open=low_open, or_zero=or_zero)


def count(low: int, high: int) -> Any:
    """The type ``Annotated[int, whole(low, high)]``."""
    return Annotated[int, whole(low, high)]


def number(low: float, high: float, low_open: bool = False) -> Any:
    """The type ``Annotated[float, real(low, high, low_open)]``."""
    return Annotated[float, real(low, high, low_open)]


Probability: TypeAlias = Annotated[float, real(0.0, 1.0)]
"""A number from 0 to 1."""

NAME_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9-]*$"
DOTTED_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9.-]*$"
HUB_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:/()+ -]*$"
HEADER_PATTERN: Final = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"

PATTERNS_IN_WORDS: Final[Mapping[str, str]] = {
    NAME_PATTERN: "letters, digits and hyphens, a letter or a digit first",
    DOTTED_PATTERN: "letters, digits, dots and hyphens, a letter or a digit first",
    HUB_PATTERN: "a name such as h100 or Qwen/Qwen3-8B, a letter or a digit first",
    HEADER_PATTERN: "the name of a header such as x-team, without spaces and colons",
}

MAX_NAME: Final = 63

Name: TypeAlias = Annotated[str, StringConstraints(pattern=NAME_PATTERN, max_length=MAX_NAME)]
"""Letters, digits and hyphens: the dot separates the parts of a path."""

DottedName: TypeAlias = Annotated[
    str, StringConstraints(pattern=DOTTED_PATTERN, max_length=MAX_NAME)
]
"""As ``Name``, dots allowed: for what is never part of a path, such as models and variants."""

HubName: TypeAlias = Annotated[str, StringConstraints(pattern=HUB_PATTERN, max_length=200)]
"""A GPU or a model, also as drivers and model hubs write it: ``meta-llama/Llama-3.1-8B``."""

HeaderName: TypeAlias = Annotated[str, StringConstraints(pattern=HEADER_PATTERN, max_length=200)]
"""A header of HTTP; capital letters do not count."""

Text: TypeAlias = Annotated[str, Field(max_length=10_000)]
