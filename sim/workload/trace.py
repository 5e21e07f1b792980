"""The requests of a run that has been exported, sent once more.

``podsim export --trace`` writes them, one JSON object per line. The first line
says what the file is: ``podsim_trace``, the version of the format;
``workloads``, those of its run, of which some may have sent nothing; and
whatever else is worth knowing. Then come requests, in the order in which they
reached the cluster, and texts:

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

A request that waits for others is sent when they are over and its user has thought, so that a
slower cluster gets the next turn later, as its users would send it. Who comes after a turn that is
not completed is not sent, nor who comes after that one; ``rows_not_sent`` counts them. An agent
goes on with its next session all the same. A trace holds what was sent: agents that get further
than they did in the run that was recorded have nothing more to say.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, Strict, model_validator

from sim.core.content import Node, Prompt
from sim.core.errors import Fault, ScenarioError
from sim.core.fields import MAX_DURATION_S, MAX_TOKENS, Text, count, refuse
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import Request
from sim.core.rules import Problem
from sim.scenario.inputs import Inputs
from sim.workload.clients import Clients, ClientSpec, share_beyond
from sim.workload.files import JsonLines
from sim.workload.replay import Replay, ReplayItem

VERSION: Final = 1
MAGIC: Final = "podsim_trace"
WORKLOADS: Final = "workloads"

Number: TypeAlias = Annotated[int, Field(ge=0)]
Tokens: TypeAlias = Annotated[int, Field(ge=0, le=MAX_TOKENS)]
PositiveTokens: TypeAlias = Annotated[int, Field(ge=1, le=MAX_TOKENS)]
Seconds: TypeAlias = Annotated[float, Field(ge=0.0, le=MAX_DURATION_S, allow_inf_nan=False)]
Branch: TypeAlias = Annotated[tuple[Number, Tokens], Strict(False)]  # JSON has lists
Numbers: TypeAlias = Annotated[tuple[Number, ...], Strict(False)]


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
    after: Numbers = ()
    behind: Numbers = ()
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
            said = "a request has an arrival_s, or waits for others: after, behind"
            refuse([("arrival_s", said)])
        if waits != (self.think_s is not None):
            refuse([("think_s", "goes with after or behind, and only with them")])
        return self

    @property
    def session_key(self) -> int | None:
        """The 64-bit value that routers hash."""
        return None if self.key is None else int(self.key, 16)


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


class _Reader(JsonLines):
    """Reads one file line by line."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._texts: dict[int, Node] = {}
        self._owners: dict[int, str] = {}  # the workload of each request that has been read

    def read(self) -> TraceFile:
        """Return what the lines hold; raises ``ScenarioError`` with all faults."""
        head: Mapping[str, Any] = {}
        requests: list[RequestLine] = []
        places: dict[int, int] = {}
        for number, found in self.objects():
            if not head:
                head = found
                if not self._is_ours(number, found):
                    break
            elif "request" in found:
                request = self.row(number, found, RequestLine)
                if request is not None and self._fits(number, request):
                    self._owners[request.request] = request.workload
                    places[request.request] = number
                    requests.append(request)
            else:
                text = self.row(number, found, TextLine)
                if text is not None:
                    self._begin(number, text.text, text.of)
        if not self.faults and not requests:
            self.fault(0, "", "holds no request; one per line is needed")
        self.refuse_faults()
        return TraceFile(head, tuple(requests), self._texts, places)

    def _is_ours(self, number: int, head: Mapping[str, Any]) -> bool:
        version = head.get(MAGIC)
        if type(version) is int and 1 <= version <= VERSION:
            return True
        if type(version) is int and version > VERSION:
            message = f"is of a newer podsim; this one reads traces up to version {VERSION}"
        else:
            message = f"must be the version, {VERSION}: the first line says what the file is"
        self.fault(number, MAGIC, message)
        return False

    def _fits(self, number: int, request: RequestLine) -> bool:
        """Whether it agrees with the lines before it."""
        before = len(self.faults)
        if request.request in self._owners:
            self.fault(number, "request", f"{request.request} stands above already")
        for key, awaited in (("after", request.after), ("behind", request.behind)):
            for other in awaited:
                if self._owners.get(other) != request.workload:
                    said = f"{other} is no request of {request.workload!r} further up"
                    self.fault(number, key, said)
        if request.of is not None or request.text not in self._texts:
            self._begin(number, request.text, request.of)
        if request.answer is not None and request.answer not in self._texts:
            self.fault(number, "answer", f"text {request.answer} does not stand further up")
        return len(self.faults) == before

    def _begin(self, number: int, text: int, of: Branch | None) -> None:
        if text in self._texts:
            self.fault(number, "text", f"text {text} stands above already")
        elif of is None:
            self._texts[text] = Node()
        elif of[0] not in self._texts:
            self.fault(number, "of", f"text {of[0]} does not stand further up")
        else:
            self._texts[text] = Node(self._texts[of[0]], of[1])


def read_trace(path: Path) -> TraceFile:
    """Return the requests of a file; raises ``ScenarioError`` with all its faults."""
    return _Reader(path).read()


AgentCount: TypeAlias = count(0, 10**6)  # type: ignore[valid-type]


class TraceSpec(ClientSpec):
    """The requests of a run, as ``podsim export --trace`` has written them."""

    kind: Literal["trace"]
    file: Text = Field(description="JSON lines, plain or gzipped; sim/workload/trace.py.")
    workload: Text | None = Field(
        default=None, description="Only the requests of this workload of the file; all if missing."
    )
    agents: AgentCount = Field(
        default=0, description="Closed-loop agents that they are of, for figures per agent."
    )

    @property
    def agents_total(self) -> int:
        """Closed-loop agents."""
        return int(self.agents)

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The prompts of the run."""
        lines = self.chosen(inputs.once(read_trace, self.file), inputs.directory)
        mine = [line.prompt_tokens for line in lines if (line.model or self.model or "") == model]
        for said in share_beyond(mine, tokens):
            yield "file", said

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file, and models nobody serves."""
        trace = inputs.once(read_trace, self.file)
        source, served = str(inputs.directory / self.file), ", ".join(inputs.models)
        faults = []
        for line in self.chosen(trace, inputs.directory):
            if inputs.models and line.model and line.model not in inputs.models:
                said = f"no backend serves {line.model!r}; served: {served}"
                faults.append(Fault(source, trace.places[line.request], 1, "model", said))
        if faults:
            raise ScenarioError(faults)

    def chosen(self, trace: TraceFile, directory: Path) -> list[RequestLine]:
        """The requests of ``workload``, or all; raises ``ScenarioError`` when it is not there."""
        if self.workload is None:
            return list(trace.requests)
        if self.workload not in trace.workloads:
            named = ", ".join(trace.workloads)
            message = f"knows no workload {self.workload!r}; there are {named}"
            raise ScenarioError([Fault(str(directory / self.file), 0, 0, "", message)])
        return [line for line in trace.requests if line.workload == self.workload]


@family(TraceSpec)
class Trace:
    """Sends the requests of a trace; those that are due at one instant in the order of the file."""

    finite = True

    def __init__(self, spec: TraceSpec, context: WorkloadContext) -> None:
        self._context = context
        self._replay = Replay(context.kernel, Clients(spec, context))
        trace = read_trace(context.directory / spec.file)
        self._texts = trace.texts
        self._items: dict[int, ReplayItem] = {}  # by the number of the request
        for index, line in enumerate(spec.chosen(trace, context.directory)):
            self._items[line.request] = ReplayItem(
                partial(self._request, line),
                index,
                line.arrival_s,
                line.think_s or 0.0,
                after=[self._items[number] for number in line.after],
                behind=[self._items[number] for number in line.behind],
                or_cancelled=line.or_cancelled,
                priority=line.priority,
                patience_s=inf if line.patience_s is None else line.patience_s,
            )

    def start(self) -> None:
        """Schedule the first arrival."""
        self._replay.play(list(self._items.values()), self._context.finished)

    def counts(self) -> dict[str, int]:
        """Requests that were not sent because one that they wait for was not completed, and those
        whose time had not come when the run ended.
        """
        return self._replay.counts()

    def _request(self, line: RequestLine) -> Request:
        text = self._texts[line.text]
        return Request(
            session_id=line.session,
            agent_id=line.agent,
            turn=line.turn,
            session_key=line.session_key,
            prompt=Prompt(text, line.prompt_tokens),
            answer=text if line.answer is None else self._texts[line.answer],
            output_tokens=line.output_tokens,
            workload=self._context.name,
            model=line.model,
            max_output_tokens=line.max_output_tokens,
            closes_session=line.closes_session,
            num_ctx=line.num_ctx,
        )
