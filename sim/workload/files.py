"""Files that workloads read: plain or gzipped text, JSON lines, and what is something else."""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from pydantic import (
    GetCoreSchemaHandler,
    TypeAdapter,
    ValidationError,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass
from pydantic_core import CoreSchema, ErrorDetails, PydanticCustomError, core_schema, from_json

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import MAX_DURATION_S, MAX_TOKENS, describe
from sim.core.textfile import decode, read_bytes

_GZIP: Final = b"\x1f\x8b"
_BINARY: Final = {
    b"PAR1": "a Parquet file: write it as CSV (pandas: read_parquet, to_csv)",
    b"PK\x03\x04": "a zip archive or a spreadsheet: unpack it, or save the sheet as CSV",
    b"\x28\xb5\x2f\xfd": "packed with zstd: unpack it, or pack it with gzip",
    b"BZh": "packed with bzip2: unpack it, or pack it with gzip",
    b"\xfd7zXZ": "packed with xz: unpack it, or pack it with gzip",
}
_JSON: Final = {
    "podsim_trace": "a trace that podsim has exported: kind: trace reads it",
    "sequence_block_runs": "a recording: kind: recording reads it",
    "input_length": "a trace of Mooncake's form. For kind: script write CSV: arrival_ms from "
    "timestamp, promptTokens from input_length, outputTokens from output_length. For kind: "
    "recording, which knows what prompts share: arrival_s, timestamp in seconds; prompt_tokens; "
    "output_tokens; sequence_block_runs, [[id, 1], ...] of the hash_ids of full blocks; and "
    "blockTokens: 512",
}
_HEADERS: Final = {
    ("timestamp", "contexttokens", "generatedtokens"): "Azure's LLM inference trace: rename "
    "TIMESTAMP, a date, to arrival_s and write it in seconds, ContextTokens to promptTokens and "
    "GeneratedTokens to outputTokens; the workload's firstArrival: 0s lets the first one come then",
    ("timestamp", "requesttokens", "responsetokens"): "BurstGPT's trace: rename Timestamp, in "
    "seconds, to arrival_s, Request tokens to promptTokens and Response tokens to outputTokens; "
    "leave out the other columns and rows of 0 response tokens, which failed; the workload's "
    "firstArrival: 0s lets the first one come then",
}
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?")
_EPOCH_S: Final = (1e9, 1e10)
"""From 2001 to 2286, in seconds since 1970."""
_FINER: Final = {"ms": 1e3, "us": 1e6, "ns": 1e9}


def not_csv(text: str) -> str | None:
    """What ``text`` is when it is JSON and not CSV."""
    first = text.lstrip().partition("\n")[0]
    if not first.startswith(("{", "[")):
        return None
    other = "JSON, not CSV: write a header with arrival_s, promptTokens and outputTokens, and a row"
    return _json(first) or f"{other} per request"


def not_json(text: str) -> str | None:
    """What ``text`` is when it is CSV, or JSON lines of another tool, and not podsim's."""
    first = text.lstrip().partition("\n")[0]
    if '"input_length"' in first:
        return _JSON["input_length"]
    if "," in first and not set(first) & set('{}[]":'):
        return public_header(first.split(",")) or "CSV, not JSON lines: kind: script reads it"
    return None


def public_header(cells: list[str]) -> str | None:
    """Which public trace has this header, and what to do; None for any other."""
    names = {cell.strip().lower().replace(" ", "").replace("_", "") for cell in cells}
    return next((said for wanted, said in _HEADERS.items() if names >= set(wanted)), None)


def stamp(cell: str, per_second: float, moved: bool) -> str | None:
    """What is wrong with an arrival that is a date or counts from 1970; None for a plain time.

    ``moved``: whether arrivals count from the first, so that they may be those
    of any clock, if only the unit is right.
    """
    what_then = "give the workload firstArrival: 0s, so that stamps count from the first one"
    if _DATE.fullmatch(cell):
        return f"is a date: write seconds, such as those since 1970, and {what_then}; got {cell!r}"
    try:
        written = float(cell)
    except ValueError:
        return None
    low, high = _EPOCH_S
    if written / per_second <= MAX_DURATION_S:
        return None
    for unit, factor in _FINER.items():
        if per_second < factor and low <= written / factor < high:
            column = f"name the column arrival_{unit}" if unit != "ns" else "divide by 1000 for us"
            return f"counts {unit} since 1970: {column}, and {what_then}; got {cell}"
    if not moved and low <= written / per_second < high:
        return f"counts from 1970: {what_then}; got {cell}"
    return None


def _json(first: str) -> str | None:
    return next((said for key, said in _JSON.items() if f'"{key}"' in first), None)


def unpacked(path: Path, foreign: Callable[[str], str | None] = not_json) -> str:
    """Return the text of a file, plain or gzipped.

    Raises ``ScenarioError`` when there is none, or it is ``foreign``, with what that says.
    """
    data = read_bytes(path)
    if data.startswith(_GZIP):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            message = f"is a damaged gzip file: {error}"
            raise ScenarioError([Fault(str(path), 0, 0, "", message)]) from None
    said = next((words for magic, words in _BINARY.items() if data.startswith(magic)), None)
    text = decode(data, str(path)) if said is None else ""
    if said := said or foreign(text):
        raise ScenarioError([Fault(str(path), 0, 0, "", f"is {said}")])
    return text


MISSING: Final = object()
"""The value of a key that is not there."""


@dataclass(frozen=True)
class Must:
    """Annotates a value of a line that must be as ``schema`` says, which ``words`` describe."""

    words: str
    schema: CoreSchema

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.custom_error_schema(
            self.schema,
            custom_error_type="must",
            custom_error_message="must be {words}",
            custom_error_context={"words": self.words},
        )


def tokens(words: str, low: int) -> Must:
    """Return the annotation of a whole number of tokens, from ``low``."""
    return Must(words, core_schema.int_schema(strict=True, ge=low, le=MAX_TOKENS))


def times(unit: str = "seconds", per_second: float = 1.0) -> Must:
    """Return the annotation of a time in a ``unit``."""
    most = MAX_DURATION_S * per_second
    schema = core_schema.float_schema(strict=True, ge=0.0, le=most, allow_inf_nan=False)
    return Must(f"{unit} from 0 to {most:g}", schema)


def or_null(must: Must) -> Must:
    """Return the annotation of what may be null as well."""
    return Must(must.words, core_schema.nullable_schema(must.schema))


def illegal(said: str) -> PydanticCustomError:
    """Return the error of a value of which ``said`` is wrong."""
    return PydanticCustomError("illegal", "{said}", {"said": said})


record = partial(pydantic_dataclass, slots=True, frozen=True, kw_only=True)
"""Makes a class of lines; a long file has many, which cost less than models do.

Further keys are of no interest.
"""


def filled(row: type[Any], found: dict[str, Any]) -> dict[str, Any]:
    """Put ``MISSING`` where a key of a record is missing, so that its type says what it must be."""
    missing = _required(cast(Any, row)) - found.keys()
    return found | dict.fromkeys(missing, MISSING) if missing else found


@cache
def _required(row: type[Any]) -> frozenset[str]:
    fields = row.__pydantic_fields__.items()
    return frozenset(field.alias or name for name, field in fields if field.is_required())


@cache
def _adapter(row: type[Any]) -> TypeAdapter[Any]:
    return TypeAdapter(row)


Line = TypeVar("Line")


class JsonLines:
    """A file of JSON objects, one per line, plain or gzipped; collects what is wrong with it."""

    def __init__(self, path: Path, what: str = "an object") -> None:
        """Read the file, whose lines are each ``what``; raises ``ScenarioError`` without one."""
        self.faults: list[Fault] = []
        self._source = str(path)
        self._what = what
        self._lines = unpacked(path).split("\n")

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield the objects with their line numbers, from 1; blank lines are nothing."""
        for number, text in enumerate(self._lines, start=1):
            if not text.strip():
                continue
            try:
                found = _parsed(text)
            except json.JSONDecodeError as error:
                self.fault(number, "", f"is not JSON: {error.msg.lower()}", error.colno)
            except (ValueError, RecursionError) as error:  # endless digits, endless brackets
                self.fault(number, "", f"is not JSON: {error}")
            else:
                if isinstance(found, dict):
                    yield number, found
                else:
                    self.fault(number, "", f"must be {self._what}; got {describe(found)}")

    def row(self, number: int, found: dict[str, Any], model: type[Line]) -> Line | None:
        """Return the object ``found`` in a line as a ``model``; None when it has faults."""
        try:
            found_row: Line = _adapter(cast(Any, model)).validate_python(found)
            return found_row
        except ValidationError as error:
            for details in error.errors(include_url=False):
                key = _key(details["loc"])
                problems = details.get("ctx", {}).get("problems", [("", _words(details))])
                for below, message in problems:
                    self.fault(number, ".".join(filter(None, (key, below))), message)
            return None

    def rows(self, model: type[Line]) -> Iterator[tuple[int, Line]]:
        """Yield the lines that are each a record without faults."""
        for number, found in self.objects():
            row = self.row(number, filled(model, found), model)
            if row is not None:
                yield number, row

    def fault(self, number: int, key: str, message: str, column: int = 1) -> None:
        """Note what is wrong with ``key`` of a line; line 0 is the file."""
        self.faults.append(Fault(self._source, number, column if number else 0, key, message))

    def refuse_faults(self) -> None:
        """Raise ``ScenarioError`` with all that is wrong, if anything."""
        if self.faults:
            raise ScenarioError(self.faults)


def _parsed(text: str) -> Any:
    try:
        return from_json(text)  # three times as fast
    except ValueError:
        return json.loads(text)  # says what is wrong in which column


def _words(details: ErrorDetails) -> str:
    """Return what is wrong with a value."""
    if details["type"] == "must":
        value = details["input"]
        got = "nothing: the key is missing" if value is MISSING else describe(value)
        return f"{details['msg']}; got {got}"
    return details["msg"] if details["type"] == "illegal" else details["msg"].lower()


def _key(place: tuple[int | str, ...]) -> str:
    """Return pydantic's ``place`` as ``requests[1].in``, without tags of unions (``<call>``)."""
    shown = ""
    for part in place:
        if isinstance(part, int):
            shown += f"[{part}]"
        elif not part.startswith("<"):
            shown += f".{part}" if shown else part
    return shown
