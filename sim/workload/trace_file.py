"""The requests of a run, one JSON object per line: what ``podsim export --trace`` writes.

The first line says what the file is: ``podsim_trace``, the version of the
format; ``workloads``, those of its run, of which some may have sent nothing; and
whatever else is worth knowing. Then come requests, in
the order in which they reached the cluster, and texts:

- ``request``: its number; ``workload``, ``session``, ``turn``, ``agent``:
  whose it is; ``key``: the session's 64 bits, in hexadecimal, without which it
  has none; ``model``, ``priority``, ``num_ctx``, ``max_output_tokens``; ``closes_session``
- ``arrival_s``: when it is sent, or
  ``after``: the requests that must be completed before, with ``or_cancelled``
  or left by their clients; ``behind``: those that must be over, in any way,
  the last turn of its agent's session before this one at first; ``think_s``:
  the time from the last end of these to when it is sent
- ``patience_s``: when its user leaves, from its arrival
- ``prompt_tokens``, ``output_tokens``
- ``text``: the number of the text of which the prompt is the beginning.
  ``of``: [text, tokens]: it is new, and follows the first tokens of another
  one; without ``of`` a new text begins anew. ``answer``: the text on which the
  answer lies, where that is not ``text``

A line without ``request`` is a text alone: ``text``, ``of``. Times are
seconds, each the shortest number that reads as the same float.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from sim.core.content import Node
from sim.core.errors import Fault, ScenarioError
from sim.core.fields import MAX_DURATION_S, MAX_TOKENS, describe, refuse
from sim.workload.recorded import unpacked

VERSION: Final = 1
MAGIC: Final = "podsim_trace"
WORKLOADS: Final = "workloads"

Number: TypeAlias = Annotated[int, Field(ge=0)]
Tokens: TypeAlias = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
PositiveTokens: TypeAlias = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Seconds: TypeAlias = Annotated[float, Field(ge=0.0, le=MAX_DURATION_S, allow_inf_nan=False)]
Branch: TypeAlias = tuple[Number, Tokens]


class Line(BaseModel):
    """Base of the lines: snake_case keys, unknown ones are errors, nothing is converted."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class TextLine(Line):
    """A text that no prompt ends in."""

    text: Number
    of: Branch | None = None


class RequestLine(Line):
    """One request; see the head of this module."""

    request: Number
    workload: str
    session: str = ""
    turn: Annotated[int, Field(ge=1)] = 1
    agent: str = ""
    key: Annotated[str, Field(pattern="^[0-9a-f]{16}$")] | None = None
    arrival_s: Seconds | None = None
    after: tuple[Number, ...] = ()
    behind: tuple[Number, ...] = ()
    or_cancelled: bool = False
    think_s: Seconds | None = None
    prompt_tokens: PositiveTokens
    output_tokens: PositiveTokens
    text: Number
    of: Branch | None = None
    answer: Number | None = None
    model: str = ""
    priority: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    max_output_tokens: PositiveTokens | None = None
    num_ctx: PositiveTokens | None = None
    patience_s: Annotated[Seconds, Field(gt=0.0)] | None = None
    closes_session: bool = False

    @model_validator(mode="after")
    def _is_sent_once(self) -> "RequestLine":
        waits = bool(self.after or self.behind)
        if waits == (self.arrival_s is not None):
            refuse(
                [("arrival_s", "a request has an arrival_s, or waits for others: after, behind")]
            )
        if waits != (self.think_s is not None):
            refuse([("think_s", "goes with after or behind, and only with them")])
        return self

    @property
    def session_key(self) -> int | None:
        """The 64-bit value that routers hash."""
        return None if self.key is None else int(self.key, 16)

    @property
    def awaits(self) -> tuple[int, ...]:
        """Numbers of the requests that must be over before it is sent."""
        return (*self.after, *self.behind)


@dataclass(frozen=True)
class TraceFile:
    """What a file holds: its first line, the requests in order, and the texts by number."""

    head: Mapping[str, Any]
    requests: tuple[RequestLine, ...]
    texts: Mapping[int, Node]
    places: Mapping[int, int]
    """The line of each request, by number."""

    @property
    def workloads(self) -> tuple[str, ...]:
        """The workloads that the first line names, else those of the requests."""
        named = self.head.get(WORKLOADS)
        if isinstance(named, list):
            return tuple(str(name) for name in named)
        return tuple(dict.fromkeys(line.workload for line in self.requests))


def read_trace(path: Path) -> TraceFile:
    """The requests of a file, plain or gzipped; raises ``ScenarioError`` with all its faults."""
    reader = _Reader(str(path))
    found = reader.read(unpacked(path).split("\n"))
    if reader.faults:
        raise ScenarioError(reader.faults)
    return found


class _Reader:
    """Reads one file and collects what is wrong with it."""

    def __init__(self, source: str) -> None:
        self.faults: list[Fault] = []
        self._source = source
        self._texts: dict[int, Node] = {}
        self._owners: dict[int, str] = {}  # the workload of each request that has been read

    def read(self, lines: Sequence[str]) -> TraceFile:
        """What the lines hold."""
        head: Mapping[str, Any] = {}
        requests: list[RequestLine] = []
        places: dict[int, int] = {}
        for number, said in self._objects(lines):
            if not head:
                head = said
                if not self._is_ours(number, said):
                    break
            elif "request" in said:
                request = self._line(number, said, RequestLine)
                if request is not None and self._fits(number, request):
                    self._owners[request.request] = request.workload
                    places[request.request] = number
                    requests.append(request)
            else:
                text = self._line(number, said, TextLine)
                if text is not None:
                    self._begin(number, text.text, text.of)
        if not self.faults and not requests:
            self._fault(0, "", "holds no request; one per line is needed")
        return TraceFile(head, tuple(requests), self._texts, places)

    def _objects(self, lines: Sequence[str]) -> Iterator[tuple[int, dict[str, Any]]]:
        for number, text in enumerate(lines, start=1):
            if not text.strip():
                continue
            try:
                said = json.loads(text)
            except (ValueError, RecursionError) as error:  # endless brackets
                self._fault(number, "", f"is not JSON: {error}")
                continue
            if isinstance(said, dict):
                yield number, said
            else:
                self._fault(number, "", f"must be an object; got {describe(said)}")

    def _is_ours(self, number: int, head: Mapping[str, Any]) -> bool:
        version = head.get(MAGIC)
        if type(version) is int and 1 <= version <= VERSION:
            return True
        if type(version) is int and version > VERSION:
            message = f"is of a newer podsim; this one reads traces up to version {VERSION}"
        else:
            message = f"must be the version, {VERSION}: the first line says what the file is"
        self._fault(number, MAGIC, message)
        return False

    def _line(self, number: int, said: dict[str, Any], kind: type[Any]) -> Any:
        try:
            # Lists are JSON's tuples; in its Python mode the model would refuse them.
            return kind.model_validate_json(json.dumps(said))
        except ValidationError as error:
            for details in error.errors():
                problems = details.get("ctx", {}).get("problems")
                key = ".".join(str(part) for part in details["loc"])
                for at, message in problems or [(key, details["msg"].lower())]:
                    self._fault(number, at, message)
            return None

    def _fits(self, number: int, request: RequestLine) -> bool:
        """Whether it agrees with the lines before it."""
        before = len(self.faults)
        if request.request in self._owners:
            self._fault(number, "request", f"{request.request} stands above already")
        for key, awaited in (("after", request.after), ("behind", request.behind)):
            for other in awaited:
                if self._owners.get(other) != request.workload:
                    said = f"{other} is no request of {request.workload!r} further up"
                    self._fault(number, key, said)
        if request.of is not None or request.text not in self._texts:
            self._begin(number, request.text, request.of)
        if request.answer is not None and request.answer not in self._texts:
            self._fault(number, "answer", f"text {request.answer} does not stand further up")
        return len(self.faults) == before

    def _begin(self, number: int, text: int, of: Branch | None) -> None:
        if text in self._texts:
            self._fault(number, "text", f"text {text} stands above already")
        elif of is None:
            self._texts[text] = Node()
        elif of[0] not in self._texts:
            self._fault(number, "of", f"text {of[0]} does not stand further up")
        else:
            self._texts[text] = Node(self._texts[of[0]], of[1])

    def _fault(self, number: int, key: str, message: str) -> None:
        self.faults.append(Fault(self._source, number, 1 if number else 0, key, message))
