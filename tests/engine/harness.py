"""One description of what is sent to a pod, in a form that both engines can be given.

A conversation text branches off another one at some token and is open-ended;
a call says which text it prompts with and how much of it, and on which text
its answer lies. ``Traffic.jobs`` spells texts out as token ids for the slow
engine; ``Traffic.requests`` builds the content tree for the pods of ``sim``.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sim.content import Node, Prompt
from sim.request import Request
from tests import oracle
from tests.oracle import Job, Published, Settings, StepTime, Trace

T0 = StepTime(a=10.0, b=50.0, f=10.0)
"""The timing of the worked cases: 10 ms + 0.05 ms per prefill token + 0.1 ms per decode."""

AMPLE_BLOCKS = 100_000


@dataclass(frozen=True)
class Text:
    """A conversation: token ``start`` and all that follow it differ from those of ``parent``."""

    parent: int | None = None
    start: int = 0


@dataclass(frozen=True)
class Call:
    """A request of the first ``prompt_tokens`` tokens of a text.

    ``answer`` is the text on which the output lies. None: on the prompt's own
    text, so that a longer prompt of that text contains the answer.
    """

    arrival_s: float
    text: int
    prompt_tokens: int
    output_tokens: int
    cancel_s: float | None = None
    answer: int | None = None


@dataclass(frozen=True)
class Traffic:
    """Texts, each branching off an earlier one, and the calls, in input order."""

    texts: tuple[Text, ...]
    calls: tuple[Call, ...]

    def jobs(self) -> list[Job]:
        """The calls in token ids: the token at a position is the text that says it first."""
        return [self.job(call) for call in self.calls]

    def job(self, call: Call) -> Job:
        end = call.prompt_tokens + call.output_tokens
        answer = self._own(call) if call.answer is None else call.answer
        prompt = self._tokens(call.text, 0, call.prompt_tokens)
        output = self._tokens(answer, call.prompt_tokens, end)
        return Job(call.arrival_s, prompt, output, call.cancel_s)

    def requests(self) -> list[Request]:
        """The calls over one content tree."""
        nodes = self.nodes()
        return [self.request(call, nodes) for call in self.calls]

    def nodes(self) -> list[Node]:
        nodes: list[Node] = []
        for text in self.texts:
            parent = None if text.parent is None else nodes[text.parent]
            nodes.append(Node(parent, text.start))
        return nodes

    def request(self, call: Call, nodes: list[Node]) -> Request:
        prompt = Prompt(nodes[call.text], call.prompt_tokens)
        answer = prompt.node if call.answer is None else nodes[call.answer]
        return Request("", "", 0, None, prompt, answer, call.output_tokens)

    def _own(self, call: Call) -> int:
        """The text that says the last token of the prompt: what it goes on to say is the answer."""
        return self._speaker(call.text, call.prompt_tokens - 1)

    def _speaker(self, index: int, position: int) -> int:
        text = self.texts[index]
        while text.parent is not None and position < text.start:
            index = text.parent
            text = self.texts[index]
        return index

    def _tokens(self, index: int, start: int, end: int) -> tuple[int, ...]:
        """Token ids of the positions [start, end) of a text."""
        stretch = len(self.texts)
        tokens: list[int] = []
        while end > start:
            text = self.texts[index]
            first = max(start, text.start)
            tokens[:0] = [position * stretch + index for position in range(first, end)]
            end = min(end, first)
            if text.parent is None:
                break
            index = text.parent
        return tuple(tokens)


FollowUp: TypeAlias = Callable[[int, float], Call | None]
"""Closed loop: called with a call's number and its end (s); the client's next call or None."""


@dataclass(frozen=True)
class Observation:
    """What a client and a poller see of a run, whichever engine did it."""

    jobs: list[oracle.JobTrace]
    polls: list[Published]


EngineUnderTest: TypeAlias = Callable[..., Observation]


def run_steps(
    settings: Settings,
    traffic: Traffic,
    polls_s: tuple[float, ...] = (),
    follow_up: FollowUp | None = None,
) -> Observation:
    """The traffic on the slow engine."""
    trace = trace_steps(settings, traffic, follow_up)
    return Observation(trace.jobs, [trace.published_at(time_s) for time_s in polls_s])


def trace_steps(settings: Settings, traffic: Traffic, follow_up: FollowUp | None = None) -> Trace:
    """The traffic on the slow engine, with every step."""

    def next_job(number: int, end_s: float) -> Job | None:
        call = follow_up(number, end_s) if follow_up else None
        return None if call is None else traffic.job(call)

    return oracle.simulate(settings, traffic.jobs(), next_job)


def unrelated(*calls: Call) -> Traffic:
    """Calls that name texts with nothing in common."""
    return Traffic((Text(),) * (1 + max(call.text for call in calls)), calls)


ENGINES: dict[str, EngineUnderTest] = {"steps": run_steps}
