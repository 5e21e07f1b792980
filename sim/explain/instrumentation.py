"""Instrumentation of a run: what steps did to each attempt, and what router and pods knew.

Sums are kept, not steps: one ``RequestTrace`` for the last attempt of each request, and three
running totals for each pod, of which a request that waits takes the difference. The view of the
router is kept only for the requests that are asked for.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol, runtime_checkable

from sim.core.kernel import BOUNDARY_TOLERANCE_S
from sim.core.ports import StepReport, peek
from sim.core.recorder import Recorder
from sim.core.request import DIRECT, Attempt, RequestView
from sim.explain.step_costs import StepCosts, shares, step_costs
from sim.hardware.engine import Engine
from sim.router.upstream import Upstream
from sim.router.views import PodView
from sim.scenario.schema import Scenario


@dataclass(frozen=True)
class PodSeen:
    """One pod of the backend: exact counts of the proxy, metrics as old as ``metrics_age_s``.

    ``held_tokens`` of the prompt were in its cache, which no router knows; None
    when its engine does not say.
    """

    pod: str
    ready: bool
    in_flight: int
    waiting: int
    running: int
    kv_usage: float
    metrics_age_s: float | None
    held_tokens: int | None


@dataclass(frozen=True)
class DecisionView:
    """What the router saw when it placed an attempt: ``home``, ``bound`` if its policy has such."""

    attempt: int
    policy: str
    home: str | None
    bound: int | None
    pods: tuple[PodSeen, ...]


@runtime_checkable
class _HasHome(Protocol):
    def home(self, request: RequestView, pods: PodView) -> int | None: ...


@runtime_checkable
class _HasBound(Protocol):
    def bound(self, pods: PodView) -> int: ...


def view(
    attempt: Attempt, upstream: Upstream, kind: str, held: Sequence[int | None]
) -> DecisionView:
    """Return what ``upstream``, with a policy of this ``kind``, knows before it counts it in."""
    columns, policy = upstream.columns, upstream.policy
    routed = attempt.proxy != DIRECT
    home = None
    if routed and isinstance(policy, _HasHome):
        home = policy.home(attempt.request.view(), columns)
    ages_s = [columns.metrics_age_s(slot, attempt.decided_s) for slot in range(len(held))]
    pods = zip(
        columns.names,
        columns.ready,
        columns.in_flight,
        columns.waiting,
        columns.running,
        columns.kv_usage,
        [age_s if age_s < float("inf") else None for age_s in ages_s],
        held,
        strict=True,
    )
    return DecisionView(
        attempt.number,
        kind if routed else DIRECT,
        home=None if home is None else columns.names[home],
        bound=policy.bound(columns) if routed and isinstance(policy, _HasBound) else None,
        pods=tuple(PodSeen(*pod) for pod in pods),
    )


NO_TIME: Final = (0.0, 0.0, 0.0)


@dataclass(slots=True, eq=False)
class RequestTrace:
    """What became of an attempt on its pod, up to its first token; times are seconds.

    The engine has it from ``ready_s`` on, at ``boundary_s`` the step ended that ran then.
    ``waited_s`` is the time in the queue for places, for tokens and for KV. Its prompt
    was first computed in the step that began at ``first_s``, and without being thrown out
    since ``restart_s``: in steps of ``stepped_s`` altogether, of which ``shares_s`` were for
    decodes, for other prompts and for other ranks. ``priced`` says whether every step cost what
    it should. ``held_here`` and ``held_elsewhere`` are tokens of its prompt in the cache of its
    pod and in that of ``best_pod``, the other pod of the backend that had most, when it was
    sent. ``ahead`` says whether its engine plans a step before the one before it ends.
    """

    attempt: Attempt
    ready_s: float
    ahead: bool
    boundary_s: float | None = None
    queued_s: tuple[float, ...] = NO_TIME  # totals of the pod when it joined the queue
    waited_s: tuple[float, ...] = NO_TIME
    first_s: float | None = None
    restart_s: float = 0.0
    thrown_out: bool = False
    next_token: int = 0
    stepped_s: float = 0.0
    shares_s: tuple[float, ...] = NO_TIME
    priced: bool = True
    held_here: int | None = None
    held_elsewhere: int | None = None
    best_pod: str | None = None

    def step(
        self, report: StepReport, start: int, tokens: int, share_s: tuple[float, ...] | None
    ) -> None:
        """Add a step that computed ``tokens`` of the prompt from token ``start`` on, if known."""
        if self.first_s is None or self.thrown_out or 0 <= start < self.next_token:
            self.restart_s = report.start_s  # from the cache on, for the first time or again
            self.thrown_out = False
            self.stepped_s, self.shares_s = 0.0, NO_TIME
            if self.first_s is None:
                self.first_s = report.start_s
        self.next_token = start + tokens
        self.stepped_s += report.end_s - report.start_s
        if share_s is None:
            self.priced = False
        else:
            self.shares_s = tuple(map(sum, zip(self.shares_s, share_s)))


@dataclass(slots=True, eq=False)
class PodTrace:
    """One pod: who waits there, and for what the queue has waited so far."""

    costs: StepCosts | None
    together: "list[PodTrace]" = field(default_factory=list)  # ranks that step together, itself too
    _numbers: "count[int]" = field(default_factory=count)
    _arriving: list[tuple[float, int, RequestTrace]] = field(default_factory=list)  # a heap
    _joining: list[RequestTrace] = field(default_factory=list)  # have met a boundary
    _totals_s: tuple[float, ...] = NO_TIME
    _before: StepReport | None = None  # not in the totals yet

    @property
    def ahead(self) -> bool:
        """Whether its engine plans a step before the one before it ends."""
        return self.costs is not None and self.costs.ahead

    def arrives(self, trace: RequestTrace) -> None:
        """Await the instant from which on the engine has it."""
        heappush(self._arriving, (trace.ready_s, next(self._numbers), trace))

    def bounds(self, start_s: float, end_s: float) -> None:
        """Note a step of this pod, or of one that steps with it."""
        while self._arriving and self._arriving[0][0] < end_s:
            trace = heappop(self._arriving)[2]
            in_flight = trace.ready_s > start_s + BOUNDARY_TOLERANCE_S
            trace.boundary_s = end_s if in_flight else trace.ready_s
            self._joining.append(trace)

    def stepped(self, report: StepReport, traces: Mapping[int, RequestTrace]) -> None:
        """Note a step of this pod that is over."""
        if self.ahead:
            self._compute(report, traces)
            if self._before is not None:
                self._count(self._before, report)
            self._join(report.start_s)
            self._before = report
        else:
            self._join(report.start_s)
            self._compute(report, traces)
            self._count(report, report)

    def _join(self, start_s: float) -> None:
        """Let all that have met a boundary by now wait in the queue."""
        waiting, self._joining = self._joining, []
        for trace in waiting:
            assert trace.boundary_s is not None
            if trace.boundary_s <= start_s + BOUNDARY_TOLERANCE_S:
                trace.queued_s = self._totals_s
            else:
                self._joining.append(trace)

    def _count(self, report: StepReport, planned: StepReport) -> None:
        """Those in the queue during ``report`` found no room in ``planned``, planned meanwhile."""
        if self.costs is None:
            return
        left = self.costs.tokens - planned.prefill_tokens - planned.decoders
        why = 2
        if report.running >= self.costs.places:
            why = 0
        elif left < self.costs.least_tokens:
            why = 1
        totals = list(self._totals_s)
        totals[why] += report.end_s - report.start_s
        self._totals_s = tuple(totals)

    def _compute(self, report: StepReport, traces: Mapping[int, RequestTrace]) -> None:
        """Note a step in the traces of those whose prompts it computed or threw out."""
        for request in report.preempted:
            if (trace := _awaiting(request, report, traces)) is not None:
                trace.thrown_out = True
        if not report.chunks:
            return
        unknown = [None] * len(report.chunks)
        shares_s = (None if self.costs is None else shares(report, self.costs)) or unknown
        starts = report.starts or (-1,) * len(report.chunks)
        for (request, tokens), start, share_s in zip(report.chunks, starts, shares_s):
            trace = _awaiting(request, report, traces)
            if trace is None:
                continue
            if trace.first_s is None:
                pairs = zip(self._totals_s, trace.queued_s)
                trace.waited_s = tuple(now - then for now, then in pairs)
            trace.step(report, start, tokens, share_s)


class Instrumentation:
    """Observes the pods of a run, and looks at them whenever a request is sent to one."""

    def __init__(self, scenario: Scenario, wanted: Collection[int] | None = None) -> None:
        """Keep the views of the ``wanted`` requests, of all when None."""
        self.traces: dict[int, RequestTrace] = {}  # of the last attempt of each request
        self.views: defaultdict[int, list[DecisionView]] = defaultdict(list)
        self._wanted = None if wanted is None else frozenset(wanted)
        self.recorder = TracingRecorder(self)
        self._scenario = scenario
        self._upstreams: Mapping[str, Upstream] = {}
        self._pods: dict[str, PodTrace] = {}

    def begin(self, upstreams: Mapping[str, Upstream]) -> None:
        """Take the backends; called once, before the run."""
        self._upstreams = upstreams
        for backend, upstream in upstreams.items():
            costs = step_costs(self._engine(backend))
            pods = [PodTrace(costs) for _ in upstream.pods]
            self._pods.update(zip((pod.name for pod in upstream.pods), pods, strict=True))
            replicas = self._scenario.backends[backend].replicas
            lockstep = costs is not None and costs.lockstep
            ranks = len(pods) // replicas if lockstep else 1
            for first in range(0, len(pods), ranks):
                for pod in pods[first : first + ranks]:
                    pod.together = pods[first : first + ranks]

    def stepped(self, report: StepReport) -> None:
        """Note a step or span that is over."""
        pod = self._pods[report.pod]
        for each in pod.together:
            each.bounds(report.start_s, report.end_s)
        pod.stepped(report, self.traces)

    def dispatched(self, attempt: Attempt) -> None:
        """Note an attempt that leaves for its pod; the counts do not have it yet."""
        request, upstream = attempt.request, self._upstreams[attempt.backend]
        takes_s = front_end_s(self._engine(attempt.backend), request.prompt.tokens)
        pod = self._pods[attempt.pod]
        trace = RequestTrace(attempt, attempt.dispatch_s + takes_s, pod.ahead)
        held = [peek(each, request.prompt) for each in upstream.pods]
        trace.held_here = held[attempt.pod_index]
        others = [
            (tokens, -slot)
            for slot, tokens in enumerate(held)
            if slot != attempt.pod_index and tokens is not None
        ]
        if others:
            trace.held_elsewhere, slot = max(others)
            trace.best_pod = upstream.columns.names[-slot]
        self.traces[request.request_id] = trace
        pod.arrives(trace)
        if self._wanted is None or request.request_id in self._wanted:
            kind = self._scenario.backends[attempt.backend].policy.kind
            self.views[request.request_id].append(view(attempt, upstream, kind, held))

    def _engine(self, backend: str) -> Engine:
        return self._scenario.engines[self._scenario.backends[backend].engine]


class TracingRecorder(Recorder):
    """A recorder whose attempts an instrumentation hears of."""

    def __init__(self, instrumentation: Instrumentation) -> None:
        super().__init__()
        self._instrumentation = instrumentation

    def dispatched(self, attempt: Attempt) -> None:
        """Record an attempt that leaves for its pod."""
        super().dispatched(attempt)
        self._instrumentation.dispatched(attempt)


def front_end_s(engine: Engine, prompt_tokens: int) -> float:
    """Return the seconds that the API server of an engine takes for a prompt."""
    if engine.front_end is None:
        return 0.0
    return engine.front_end.per_request + engine.front_end.per_prompt_token * prompt_tokens


def _awaiting(
    request: int, report: StepReport, traces: Mapping[int, RequestTrace]
) -> RequestTrace | None:
    """Return the trace of a request that is on this pod now and has no first token yet."""
    trace = traces.get(request)
    if trace is None or trace.attempt.first_token_s is not None:
        return None
    late = trace.attempt.dispatch_s > report.start_s + BOUNDARY_TOLERANCE_S
    return None if late or trace.attempt.pod != report.pod else trace
