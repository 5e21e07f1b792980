"""Instrumentation of a run: what steps did to each attempt, and what router and pods knew.

Sums are kept, not steps: one ``RequestTrace`` for the last attempt of each request, and three
running totals for each pod, of which a request that waits takes the difference. The view of the
router is kept only for the requests that are asked for.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import Final, Protocol, runtime_checkable

from sim.core.kernel import BOUNDARY_TOLERANCE_S
from sim.core.ports import StepReport, peek
from sim.core.recorder import Recorder
from sim.core.request import DIRECT, Attempt, RequestView
from sim.explain.step_costs import Pricing, pricing, shares
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
    """The decision of one attempt: ``home`` and ``bound`` where the policy has such."""

    attempt: int
    decided_s: float
    backend: str
    pod: str
    outcome: str
    reason: str | None
    policy: str
    predicted_cached_tokens: int | None
    home: str | None
    bound: int | None
    pods: tuple[PodSeen, ...]


@runtime_checkable
class _HasHome(Protocol):
    def home(self, request: RequestView, pods: PodView) -> int | None: ...


@runtime_checkable
class _HasBound(Protocol):
    def bound(self, pods: PodView) -> int: ...


def view(attempt: Attempt, way: Upstream, kind: str, held: Sequence[int | None]) -> DecisionView:
    """What ``way``, with a policy of this ``kind``, knows before it counts ``attempt`` in."""
    columns, policy, now_s = way.columns, way.policy, attempt.decided_s
    routed = attempt.proxy != DIRECT
    home = None
    if routed and isinstance(policy, _HasHome):
        home = policy.home(attempt.request.view(), columns)
    pods = []
    for slot, name in enumerate(columns.names):
        age_s = columns.metrics_age_s(slot, now_s)
        pods.append(
            PodSeen(
                name,
                columns.ready[slot],
                columns.in_flight[slot],
                columns.waiting[slot],
                columns.running[slot],
                columns.kv_usage[slot],
                age_s if age_s < float("inf") else None,
                held[slot],
            )
        )
    return DecisionView(
        attempt=attempt.number,
        decided_s=attempt.decided_s,
        backend=attempt.backend,
        pod=attempt.pod,
        outcome=attempt.outcome,
        reason=attempt.reason,
        policy=kind if routed else DIRECT,
        predicted_cached_tokens=attempt.predicted_cached_tokens,
        home=None if home is None else columns.names[home],
        bound=policy.bound(columns) if routed and isinstance(policy, _HasBound) else None,
        pods=tuple(pods),
    )


NO_TIME: Final = (0.0, 0.0, 0.0)


class RequestTrace:
    """What became of an attempt on its pod, up to its first token; times are seconds.

    The engine has it from ``ready_s`` on, at ``boundary_s`` the step ended that ran then.
    ``waited_s`` is the time in the queue for places, for tokens and for KV. Its prompt
    was first computed in the step that began at ``first_s``, and without being thrown out
    since ``restart_s``: in steps of ``stepped_s`` altogether, of which the others are
    its share. ``priced`` says whether every step cost what it should. ``held_here``
    and ``held_elsewhere`` are tokens of its prompt in the cache of its pod and in that
    of ``best_pod``, the other pod of the backend that had most, when it was sent.
    ``ahead`` says whether its engine plans a step before the one before it ends.
    """

    __slots__ = (
        *("ahead", "attempt", "best_pod", "boundary_s", "decodes_s", "first_s", "held_elsewhere"),
        *("held_here", "next_token", "others_s", "own_s", "priced", "queued_s", "ranks_s"),
        *("ready_s", "restart_s", "stepped_s", "thrown_out", "waited_s"),
    )

    def __init__(self, attempt: Attempt, ready_s: float, ahead: bool) -> None:
        self.attempt = attempt
        self.ahead = ahead
        self.ready_s = ready_s
        self.boundary_s: float | None = None
        self.queued_s: tuple[float, ...] = NO_TIME  # totals of the pod when it joined the queue
        self.waited_s: tuple[float, ...] = NO_TIME
        self.first_s: float | None = None
        self.priced = True
        self.held_here: int | None = None
        self.held_elsewhere: int | None = None
        self.best_pod: str | None = None
        self.restart(0.0)

    def restart(self, start_s: float) -> None:
        """It computes its prompt from the cache on, for the first time or again."""
        self.restart_s = start_s
        self.thrown_out = False
        self.next_token = 0
        self.stepped_s = self.own_s = self.decodes_s = self.others_s = self.ranks_s = 0.0


class PodWatch:
    """One pod: who waits there, and for what the queue has waited so far."""

    def __init__(self, pricing: Pricing | None) -> None:
        self.pricing = pricing
        self.together: list[PodWatch] = [self]  # the ranks of its replica, if they step together
        self._numbers = count()
        self._arriving: list[tuple[float, int, RequestTrace]] = []  # a heap, by ready_s
        self._joining: list[RequestTrace] = []  # have met a boundary
        self._totals_s: tuple[float, ...] = NO_TIME
        self._before: StepReport | None = None  # not in the totals yet

    def arrives(self, course: RequestTrace) -> None:
        """It will be ready for the engine."""
        heappush(self._arriving, (course.ready_s, next(self._numbers), course))

    def bounds(self, start_s: float, end_s: float) -> None:
        """There is a step of this pod, or of one that steps with it."""
        while self._arriving and self._arriving[0][0] < end_s:
            course = heappop(self._arriving)[2]
            in_flight = course.ready_s > start_s + BOUNDARY_TOLERANCE_S
            course.boundary_s = end_s if in_flight else course.ready_s
            self._joining.append(course)

    def stepped(self, report: StepReport, courses: Mapping[int, RequestTrace]) -> None:
        """A step of this pod is over."""
        if self.pricing is not None and self.pricing.ahead:
            self._compute(report, courses)
            if self._before is not None:
                self._count(self._before, report)
            self._join(report.start_s)
            self._before = report
        else:
            self._join(report.start_s)
            self._compute(report, courses)
            self._count(report, report)

    def _join(self, start_s: float) -> None:
        """Whoever has met a boundary by now is in the queue."""
        if self._joining:
            joins = [each for each in self._joining if _by(each.boundary_s, start_s)]
            self._joining = [each for each in self._joining if not _by(each.boundary_s, start_s)]
            for course in joins:
                course.queued_s = self._totals_s

    def _count(self, report: StepReport, planned: StepReport) -> None:
        """Who waited during ``report`` found no room in ``planned``, the step planned then."""
        if self.pricing is None:
            return
        lasted_s = report.end_s - report.start_s
        left = self.pricing.tokens - planned.prefill_tokens - planned.decoders
        why = 2
        if report.running >= self.pricing.places:
            why = 0
        elif left < self.pricing.least_tokens:
            why = 1
        totals = list(self._totals_s)
        totals[why] += lasted_s
        self._totals_s = tuple(totals)

    def _compute(self, report: StepReport, courses: Mapping[int, RequestTrace]) -> None:
        """Those whose prompts it computed."""
        for request in report.preempted:
            if (course := _awaiting(request, report, courses)) is not None:
                course.thrown_out = True
        if not report.chunks:
            return
        divided = None if self.pricing is None else shares(report, self.pricing)
        divided_all = [None] * len(report.chunks) if divided is None else list(divided)
        starts = report.starts or (-1,) * len(report.chunks)
        for (request, tokens), start, share in zip(report.chunks, starts, divided_all):
            course = _awaiting(request, report, courses)
            if course is None:
                continue
            if course.first_s is None:
                course.first_s = report.start_s
                pairs = zip(self._totals_s, course.queued_s)
                course.waited_s = tuple(now - then for now, then in pairs)
                course.restart(report.start_s)
            elif course.thrown_out or 0 <= start < course.next_token:
                course.restart(report.start_s)
            course.next_token = start + tokens
            course.stepped_s += report.end_s - report.start_s
            if share is None:
                course.priced = False
                continue
            course.own_s += share.own_s
            course.decodes_s += share.decodes_s
            course.others_s += share.others_s
            course.ranks_s += share.ranks_s


class Watch:
    """Observes the pods of a run, and looks at them whenever a request is sent to one."""

    def __init__(self, scenario: Scenario, wanted: Collection[int] | None = None) -> None:
        """Keep the views of the ``wanted`` requests, of all when None."""
        self.courses: dict[int, RequestTrace] = {}  # of the last attempt of each request
        self.views: defaultdict[int, list[DecisionView]] = defaultdict(list)
        self._wanted = None if wanted is None else frozenset(wanted)
        self.recorder = WatchedRecorder(self)
        self._scenario = scenario
        self._ways: Mapping[str, Upstream] = {}
        self._pods: dict[str, PodWatch] = {}

    def begin(self, ways: Mapping[str, Upstream]) -> None:
        """These are the backends; called once, before the run."""
        self._ways = ways
        for backend, way in ways.items():
            price = pricing(self._engine(backend))
            watches = [PodWatch(price) for _ in way.pods]
            self._pods.update(zip((pod.name for pod in way.pods), watches, strict=True))
            if price is not None and price.lockstep:
                ranks = len(watches) // self._scenario.backends[backend].replicas
                for first in range(0, len(watches), ranks):
                    for watch in watches[first : first + ranks]:
                        watch.together = watches[first : first + ranks]

    def stepped(self, report: StepReport) -> None:
        """A step or span is over."""
        pod = self._pods[report.pod]
        for each in pod.together:
            each.bounds(report.start_s, report.end_s)
        pod.stepped(report, self.courses)

    def dispatched(self, attempt: Attempt) -> None:
        """An attempt leaves for its pod; the counts do not have it yet."""
        request, way = attempt.request, self._ways[attempt.backend]
        takes_s = front_end_s(self._engine(attempt.backend), request.prompt.tokens)
        pod = self._pods[attempt.pod]
        ahead = pod.pricing is not None and pod.pricing.ahead
        course = RequestTrace(attempt, attempt.dispatch_s + takes_s, ahead)
        held = [peek(pod, request.prompt) for pod in way.pods]
        course.held_here = held[attempt.pod_index]
        others = [
            (tokens, -slot)
            for slot, tokens in enumerate(held)
            if slot != attempt.pod_index and tokens is not None
        ]
        if others:
            course.held_elsewhere, slot = max(others)
            course.best_pod = way.columns.names[-slot]
        self.courses[request.request_id] = course
        pod.arrives(course)
        if self._wanted is None or request.request_id in self._wanted:
            kind = self._scenario.backends[attempt.backend].policy.kind
            self.views[request.request_id].append(view(attempt, way, kind, held))

    def _engine(self, backend: str) -> Engine:
        return self._scenario.engines[self._scenario.backends[backend].engine]


class WatchedRecorder(Recorder):
    """A recorder that tells a watch of each attempt."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def dispatched(self, attempt: Attempt) -> None:
        """An attempt leaves for its pod."""
        super().dispatched(attempt)
        self._watch.dispatched(attempt)


def front_end_s(engine: Engine, prompt_tokens: int) -> float:
    """Seconds that the API server of an engine takes for a prompt."""
    if engine.front_end is None:
        return 0.0
    return engine.front_end.per_request + engine.front_end.per_prompt_token * prompt_tokens


def _awaiting(
    request: int, report: StepReport, courses: Mapping[int, RequestTrace]
) -> RequestTrace | None:
    """The course of a request whose first token is to come from this pod, if it is on it now."""
    course = courses.get(request)
    if course is None or course.attempt.first_token_s is not None:
        return None
    attempt = course.attempt
    late = attempt.dispatch_s > report.start_s + BOUNDARY_TOLERANCE_S
    return None if late or attempt.pod != report.pod else course


def _by(boundary_s: float | None, start_s: float) -> bool:
    return boundary_s is not None and boundary_s <= start_s + BOUNDARY_TOLERANCE_S
