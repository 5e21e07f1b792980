"""The requests of a run that has been exported, sent once more.

A request with an arrival is sent then. One that waits for others is sent when
they are over and its user has thought, so that a slower cluster gets the next
turn later, as its users would send it. Who waits for a turn that is not
completed is not sent, nor who waits for that one; ``rows_not_sent`` counts
them. An agent goes on with its next session all the same, not before
``PAUSE_S`` after the turn that ended the last one if that was not completed,
as in ``sim.workload.agents``.

A trace holds what was sent: agents that get further than they did in the run
that was recorded have nothing more to say.
"""

from collections.abc import Iterator
from functools import partial
from math import inf
from pathlib import Path
from typing import Literal, TypeAlias

from pydantic import Field

from sim.core.content import Node, Prompt
from sim.core.errors import Fault, ScenarioError
from sim.core.fields import Text, count
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import NO_WAIT, Request, Status, Wait
from sim.core.rules import Problem
from sim.scenario.inputs import Inputs
from sim.workload.agenda import Agenda
from sim.workload.agents import PAUSE_S
from sim.workload.client import Clients, ClientSpec, share_beyond
from sim.workload.trace_file import RequestLine, TraceFile, read_trace

AgentCount: TypeAlias = count(0, 10**6)  # type: ignore[valid-type]


class TraceSpec(ClientSpec):
    """The requests of a run, as ``podsim export --trace`` has written them."""

    kind: Literal["trace"]
    file: Text = Field(description="JSON lines, plain or gzipped; sim/workload/trace_file.py.")
    workload: Text | None = Field(
        default=None, description="Only the requests of this workload of the file; all if missing."
    )
    agents: AgentCount = Field(
        default=0, description="Closed-loop agents that they are of, for figures per agent."
    )

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself: always."""
        return True

    @property
    def agents_total(self) -> int:
        """Closed-loop agents."""
        return int(self.agents)

    def files(self) -> tuple[str, ...]:
        """Files that the workload reads, relative to the scenario."""
        return (self.file,)

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The prompts of the run."""
        lines = self.chosen(inputs.once(read_trace, self.file), inputs.directory)
        mine = [line.prompt_tokens for line in lines if (line.model or self.model or "") == model]
        for said in share_beyond(mine, tokens):
            yield "file", said

    def check(self, inputs: Inputs) -> None:
        """Raise ``ScenarioError`` with what is wrong in the file, and models nobody serves."""
        trace = inputs.once(read_trace, self.file)
        source = str(inputs.directory / self.file)
        faults = [
            Fault(source, trace.places[line.request], 1, "model", _nobody(line, inputs.models))
            for line in self.chosen(trace, inputs.directory)
            if inputs.models and line.model and line.model not in inputs.models
        ]
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


def _nobody(line: RequestLine, models: tuple[str, ...]) -> str:
    return f"no backend serves {line.model!r}; served: {', '.join(models)}"


class Sending:
    """One request of the trace, and who waits for its end."""

    __slots__ = (
        "after_error",
        "dropped",
        "followers",
        "index",
        "line",
        "missing",
        "request",
        "wait",
    )

    def __init__(self, index: int, line: RequestLine) -> None:
        self.index = index
        self.line = line
        self.missing = len(line.awaits)
        self.dropped = False
        self.after_error = False
        self.followers: list[Sending] = []
        self.request: Request | None = None
        self.wait = NO_WAIT


@family(TraceSpec)
class Trace:
    """Sends the requests of a trace.

    Those that are due at one instant go in the order of the file, whether they
    arrive then or have waited until then; one that becomes due by what those
    before it have brought about goes after them.
    """

    finite = True

    def __init__(self, spec: TraceSpec, context: WorkloadContext) -> None:
        self._context = context
        self._clients = Clients(spec, context)
        trace = read_trace(context.directory / spec.file)
        self._texts = trace.texts
        lines = spec.chosen(trace, context.directory)
        sendings = [Sending(index, line) for index, line in enumerate(lines)]
        self._by_number = by_number = {sending.line.request: sending for sending in sendings}
        for sending in sendings:
            for number in sending.line.awaits:
                by_number[number].followers.append(sending)
        arriving = [each for each in sendings if each.line.arrival_s is not None]
        arrivals = [(each.line.arrival_s or 0.0, each.index, each) for each in arriving]
        self._agenda = Agenda(context.kernel, arrivals, self._send)
        self._open = len(sendings)
        self._not_sent = 0

    def start(self) -> None:
        """Schedule the first arrival."""
        self._agenda.start()
        if not self._open:
            self._context.finished()

    def counts(self) -> dict[str, int]:
        """Requests that were not sent because one that they wait for was not completed, and those
        whose time had not come when the run ended.
        """
        return {"rows_not_sent": self._not_sent, **self._agenda.counts()}

    def _send(self, sending: Sending) -> None:
        line = sending.line
        prompt, answer = self._said(line)
        request = Request(
            session_id=line.session,
            agent_id=line.agent,
            turn=line.turn,
            session_key=line.session_key,
            prompt=prompt,
            answer=answer,
            output_tokens=line.output_tokens,
            on_end=partial(self._ended, sending),
            workload=self._context.name,
            model=line.model,
            max_output_tokens=line.max_output_tokens,
            closes_session=line.closes_session,
            num_ctx=line.num_ctx,
            wait=sending.wait,
        )
        sending.request = request
        patience_s = inf if line.patience_s is None else line.patience_s
        self._clients.send(request, line.priority, patience_s)

    def _said(self, line: RequestLine) -> tuple[Prompt, Node]:
        text = self._texts[line.text]
        answer = text if line.answer is None else self._texts[line.answer]
        return Prompt(text, line.prompt_tokens), answer

    def _ended(self, sending: Sending, request: Request) -> None:
        self._over(sending, request.status)
        if self._open == 0:
            self._context.finished()

    def _over(self, sending: Sending, status: str) -> None:
        """One is over; those who wait for it are scheduled, or are over as well."""
        over = [(sending, status)]
        while over:
            ended, fate = over.pop()
            self._open -= 1
            for follower in ended.followers:
                if self._is_free(follower, ended.line.request, fate):
                    if follower.dropped:
                        self._not_sent += 1
                        over.append((follower, Status.REJECTED))
                    else:
                        self._schedule(follower)

    def _is_free(self, follower: Sending, number: int, fate: str) -> bool:
        """Note the end of one that ``follower`` waits for; whether it was the last of them."""
        line = follower.line
        if fate != Status.COMPLETED:
            follower.after_error |= number in line.behind[:1]
            left = fate == Status.CANCELLED and line.or_cancelled
            if number in line.after and not left:
                follower.dropped = True
        follower.missing -= 1
        return follower.missing == 0

    def _sent(self, numbers: tuple[int, ...]) -> tuple[Request, ...]:
        sent = [self._by_number[number].request for number in numbers]
        return tuple(request for request in sent if request is not None)

    def _schedule(self, sending: Sending) -> None:
        line = sending.line
        assert line.think_s is not None
        # Who waits for nobody's completion opens a session.
        pause_s = PAUSE_S if sending.after_error and not line.after else 0.0
        think_s = max(line.think_s, pause_s)
        after, behind = self._sent(line.after), self._sent(line.behind)
        sending.wait = Wait(after, behind, think_s, line.or_cancelled)
        due_s = self._context.kernel.now_s + think_s
        self._agenda.add(due_s, sending.index, sending)
