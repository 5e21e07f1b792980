"""One description of what is sent to a pod, in a form that both engines can be given.

A conversation text branches off another one at some token and is open-ended;
a call says which text it prompts with and how much of it, and on which text
its answer lies. ``Traffic.jobs`` spells texts out as token ids for the slow
engine; ``Traffic.requests`` builds the content tree for the pods of ``sim``.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate
from typing import TypeAlias

import pytest

from sim.core.content import Node, Prompt
from sim.core.kernel import Kernel, Order
from sim.core.ports import PodPort
from sim.core.request import Attempt, Request, Status
from sim.engine.llamacpp.pod import LlamaCppPod
from sim.engine.llamacpp.spec import LlamaCpp
from sim.engine.lockstep import Lockstep
from sim.engine.pod import Pod
from sim.engine.spec import Vllm
from sim.engine.vllm import VllmPod
from sim.hardware.engine import StepTime as Coefficients
from tests import oracle, slot_oracle
from tests.oracle import Job, Published, Settings, StepTime, Trace
from tests.slot_oracle import SlotSettings

T0 = StepTime(a=10.0, b=50.0, f=10.0)
"""The timing of the worked cases: 10 ms + 0.05 ms per prefill token + 0.1 ms per decode."""

AMPLE_BLOCKS = 100_000

AnySettings: TypeAlias = Settings | SlotSettings


@dataclass(frozen=True)
class Text:
    """A conversation: token ``start`` and all that follow it differ from those of ``parent``."""

    parent: int | None = None
    start: int = 0


@dataclass(frozen=True)
class Call:
    """A request of the first ``prompt_tokens`` tokens of a text.

    ``answer`` is the text on which the output lies. None: on the prompt's own
    text, so that a longer prompt of that text contains the answer. ``rank``
    serves it when there are several.
    """

    arrival_s: float
    text: int
    prompt_tokens: int
    output_tokens: int
    cancel_s: float | None = None
    answer: int | None = None
    priority: int = 0
    rank: int = 0


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
        return Job(call.arrival_s, prompt, output, call.cancel_s, call.priority, call.rank)

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
        return Request("", "", 0, None, prompt, answer, call.output_tokens, priority=call.priority)

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
class Totals:
    """A pod's counters at some time: steps that have ended, what they produced, time at work."""

    steps: int
    emitted_tokens: int
    prefill_tokens: int
    busy_s: float


@dataclass(frozen=True)
class Observation:
    """What a client, a poller and an operator see of a run, whichever engine did it.

    ``jobs`` are ``oracle.JobTrace`` or ``sim.core.request.Attempt``: they name the
    same things alike. ``polls`` and ``totals`` are in the order of the poll
    times; a pod that is down answers no poll.
    """

    jobs: Sequence[oracle.JobTrace | Attempt]
    polls: Sequence[Published | None]
    totals: list[Totals]


EngineUnderTest: TypeAlias = Callable[..., Observation]


def run_steps(
    settings: AnySettings,
    traffic: Traffic,
    polls_s: tuple[float, ...] = (),
    follow_up: FollowUp | None = None,
) -> Observation:
    """The traffic on the slow engine."""
    return observe(trace_steps(settings, traffic, follow_up), polls_s)


def observe(trace: Trace, polls_s: tuple[float, ...]) -> Observation:
    """What the run of the slow engine has shown at the poll times."""
    polls = [trace.published_at(time_s) for time_s in polls_s]
    return Observation(trace.jobs, polls, _totals(trace, polls_s))


def _totals(trace: Trace, polls_s: tuple[float, ...]) -> list[Totals]:
    steps = trace.steps
    prefilled = [0, *accumulate(step.prefill_tokens for step in steps)]
    busy_s = [0.0, *accumulate(step.end_s - step.start_s for step in steps)]
    totals = []
    for time_s in polls_s:
        ended = bisect_left(steps, time_s, key=lambda step: step.end_s)
        emitted = sum(bisect_left(job.token_s, time_s) for job in trace.jobs)
        in_flight_s = max(0.0, time_s - steps[ended].start_s) if ended < len(steps) else 0.0
        totals.append(Totals(ended, emitted, prefilled[ended], busy_s[ended] + in_flight_s))
    return totals


def trace_steps(
    settings: AnySettings, traffic: Traffic, follow_up: FollowUp | None = None
) -> Trace:
    """The traffic on the slow engine, with every step."""
    return trace_ranks(settings, 1, traffic, follow_up)[0]


def trace_ranks(
    settings: AnySettings, ranks: int, traffic: Traffic, follow_up: FollowUp | None = None
) -> list[Trace]:
    """The traffic on ranks in lockstep of the slow engine, or on one slow server; their traces."""

    def next_job(number: int, end_s: float) -> Job | None:
        call = follow_up(number, end_s) if follow_up else None
        return None if call is None else traffic.job(call)

    if isinstance(settings, SlotSettings):
        return [slot_oracle.simulate(settings, traffic.jobs(), next_job)]
    return oracle.simulate_ranks(settings, ranks, traffic.jobs(), next_job)


def run_pod(
    settings: AnySettings,
    traffic: Traffic,
    polls_s: tuple[float, ...] = (),
    follow_up: FollowUp | None = None,
) -> Observation:
    """The traffic on a pod of ``sim``, on a clock of its own."""
    return run_ranks(settings, 1, traffic, polls_s, follow_up)[0]


def run_ranks(
    settings: AnySettings,
    ranks: int,
    traffic: Traffic,
    polls_s: tuple[float, ...] = (),
    follow_up: FollowUp | None = None,
) -> list[Observation]:
    """The traffic on pods of ``sim`` in lockstep; what is seen of each."""
    kernel = Kernel()
    client = Client(kernel, pods(settings, ranks, kernel), traffic, follow_up)
    client.begin(polls_s)
    kernel.run_until(float("inf"))
    return client.observations()


class Client:
    """Of pods that are each called by their rank: submits, cancels, follows up; their listener.

    ``told`` are the attempts in the order in which it was told of their end.
    """

    def __init__(
        self,
        kernel: Kernel,
        pods: Sequence[PodPort],
        traffic: Traffic,
        follow_up: FollowUp | None = None,
    ) -> None:
        self._traffic = traffic
        self._follow_up = follow_up
        self._nodes = traffic.nodes()
        self._kernel = kernel
        self._pods = pods
        self._attempts: list[Attempt] = []
        self._polls: list[list[Published | None]] = [[] for _ in pods]
        self._totals: list[list[Totals]] = [[] for _ in pods]
        self.told: list[Attempt] = []

    def begin(self, polls_s: tuple[float, ...] = ()) -> None:
        """Put all calls and polls on the clock."""
        for time_s in polls_s:
            self._kernel.at(time_s, Order.WINDOW, self._total)
            self._kernel.at(time_s, Order.POLL, self._poll)
        for call in self._traffic.calls:
            self._add(call)

    def observations(self) -> list[Observation]:
        """What has been seen of each pod."""
        return [self._observation(rank) for rank in range(len(self._pods))]

    def _observation(self, rank: int) -> Observation:
        attempts = [attempt for attempt in self._attempts if attempt.pod_index == rank]
        return Observation(attempts, self._polls[rank], self._totals[rank])

    def first_token(self, attempt: Attempt) -> None:
        assert attempt.first_token_s == pytest.approx(self._kernel.now_s, abs=2e-9)

    def ended(self, attempt: Attempt) -> None:
        assert attempt.end_s is not None
        self.told.append(attempt)
        if self._follow_up is not None:
            following = self._follow_up(attempt.number, attempt.end_s)
            if following is not None:
                self._add(following)

    def _add(self, call: Call) -> None:
        request = self._traffic.request(call, self._nodes)
        number = len(self._attempts)
        rank = call.rank
        attempt = Attempt(request, number, "", "", rank, "", "", None, 0.0, 0.0, listener=self)
        self._attempts.append(attempt)
        self._kernel.at(call.arrival_s, Order.ARRIVAL, lambda: self._pods[rank].submit(attempt))
        if call.cancel_s is not None:
            self._kernel.at(call.cancel_s, Order.CLIENT_TIMEOUT, lambda: self._cancel(attempt))

    def _cancel(self, attempt: Attempt) -> None:
        if attempt.status == Status.IN_FLIGHT:
            attempt.status = Status.CANCELLED
            attempt.end_s = self._kernel.now_s
            self._pods[attempt.pod_index].cancel(attempt)
            self.ended(attempt)

    def _poll(self) -> None:
        for polls, pod in zip(self._polls, self._pods):
            said = pod.published(self._kernel.now_s)
            polls.append(said and Published(*said))

    def _total(self) -> None:
        for kept, pod in zip(self._totals, self._pods):
            totals = pod.totals(self._kernel.now_s)
            kept.append(
                Totals(totals.steps, totals.emitted_tokens, totals.computed_tokens, totals.busy_s)
            )


def pods(settings: AnySettings, ranks: int, kernel: Kernel) -> list[Pod]:
    """Ranks in lockstep; a llama-server has no ranks beside it."""
    if isinstance(settings, SlotSettings):
        return [LlamaCppPod("pod-0", llamacpp_spec(settings), kernel)]
    lockstep = Lockstep(kernel)
    spec = engine_spec(settings)
    return [VllmPod(f"pod-{rank}", spec, kernel, lockstep) for rank in range(ranks)]


def llamacpp_spec(settings: SlotSettings) -> LlamaCpp:
    """The settings of the slow server as the scenario's spec; a token of KV is a byte."""
    given = {name: value for name, value in vars(settings).items() if name != "step_time"}
    costs = Coefficients(**asdict(settings.step_time))
    return LlamaCpp(
        step_time=costs, kv_per_token=1.0, **(given | {"cache_ram": float(settings.cache_ram)})
    )


def engine_spec(settings: Settings) -> Vllm:
    """The settings of the slow engine as the scenario's spec of an engine."""
    return Vllm(
        step_time=Coefficients(**asdict(settings.step_time)),
        kv_blocks=settings.kv_blocks,
        block_size=settings.block_size,
        # More cannot run: each running sequence takes a token of the step.
        max_num_seqs=min(settings.max_num_seqs, settings.max_num_batched_tokens),
        max_num_batched_tokens=settings.max_num_batched_tokens,
        max_model_len=settings.max_model_len,
        reserve_full_prompt=settings.reserve_full_prompt,
        enable_prefix_caching=settings.enable_prefix_caching,
        evict_unhashed_first=settings.evict_unhashed_first,
        prefix_retention="prompt-tail" if settings.prompt_tail else "every-block",
        state_blocks=settings.state_blocks,
        long_prefill_token_threshold=settings.long_prefill_token_threshold,
        watermark=settings.watermark,
        max_num_queued_reqs=settings.max_num_queued_reqs,
        max_num_queued_tokens=settings.max_num_queued_tokens,
        scheduling_policy=settings.scheduling_policy,
        async_scheduling=settings.async_scheduling,
    )


def unrelated(*calls: Call) -> Traffic:
    """Calls that name texts with nothing in common."""
    return Traffic((Text(),) * (1 + max(call.text for call in calls)), calls)


ENGINES: dict[str, EngineUnderTest] = {"steps": run_steps, "pod": run_pod}
