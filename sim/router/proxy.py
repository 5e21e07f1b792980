"""The proxy: takes requests in, asks the policy, dispatches, and keeps exact counts."""

from collections.abc import Callable

from sim.kernel import Kernel, Order, Process
from sim.ports import PodPort
from sim.record import Recorder
from sim.request import Attempt, HttpStatus, Reason, Request, Status
from sim.router.signals import PodColumns
from sim.router.views import Dispatched, Ended, FirstToken, Hold, Place, PodAdded, Policy, Tick


class Proxy:
    """One replica of the router in front of one backend.

    The load of a pod is the number of requests that this proxy has dispatched
    to it and whose response has not ended.
    """

    def __init__(
        self,
        name: str,
        backend: str,
        pods: list[PodPort],
        columns: PodColumns,
        policy: Policy,
        kernel: Kernel,
        recorder: Recorder,
    ) -> None:
        self.name = name
        self._backend = backend
        self._pods = pods
        self._columns = columns
        self._policy = policy
        self._kernel = kernel
        self._recorder = recorder
        self._wants_dispatched = Dispatched in policy.observes
        self._wants_first_token = FirstToken in policy.observes
        self._wants_ended = Ended in policy.observes
        self.on_end: Callable[[Request], None] | None = None

    def start(self) -> None:
        """Tell the policy of its pods and start its ticks; called once, at time 0."""
        if PodAdded in self._policy.observes:
            for index, name in enumerate(self._columns.names):
                self._policy.observe(PodAdded(index, name, self._kernel.now_s))
        if self._policy.tick_interval_s is not None:
            self._kernel.spawn(self._ticks(self._policy.tick_interval_s))

    def submit(self, request: Request) -> None:
        """A request arrives now."""
        request.arrival_s = self._kernel.now_s
        request.backend = self._backend
        self._recorder.arrived(request)
        self._place(request)

    def cancel(self, request: Request) -> None:
        """The client leaves: the counts drop at once, the pod frees at the end of its step."""
        if request.status != Status.IN_FLIGHT:
            return
        now_s = self._kernel.now_s
        if request.attempts and request.attempts[-1].end_s is None:
            attempt = request.attempts[-1]
            attempt.status = Status.CANCELLED
            attempt.end_s = now_s
            attempt.http_status = HttpStatus.CLIENT_CLOSED_REQUEST
            self._pods[attempt.pod_index].cancel(attempt)
            self.ended(attempt)
        else:
            self._answer(request, Status.CANCELLED, HttpStatus.CLIENT_CLOSED_REQUEST, None)

    def first_token(self, attempt: Attempt) -> None:
        """A pod reports the first token of an attempt."""
        if self._wants_first_token:
            request = attempt.request.view()
            self._policy.observe(FirstToken(request, attempt.pod_index, self._kernel.now_s))

    def ended(self, attempt: Attempt) -> None:
        """A pod reports the end of an attempt, however it ended."""
        pod = attempt.pod_index
        self._columns.in_flight[pod] -= 1
        request = attempt.request
        if self._wants_ended:
            fact = Ended(request.view(), pod, attempt.status, self._kernel.now_s)
            self._policy.observe(fact)
        self._answer(request, attempt.status, attempt.http_status, attempt.end_reason)

    def _place(self, request: Request) -> None:
        if request.status != Status.IN_FLIGHT:
            return  # the client left while the request was held
        now_s = self._kernel.now_s
        if True not in self._columns.ready:
            self._answer(request, Status.REJECTED, HttpStatus.UNAVAILABLE, Reason.NO_READY_POD)
            return
        decision = self._policy.choose(request.view(), self._columns, now_s)
        if isinstance(decision, Place):
            self._dispatch(request, decision, now_s)
        elif isinstance(decision, Hold):
            self._kernel.at(decision.until_s, Order.HOLD_EXPIRY, lambda: self._place(request))
        else:
            self._answer(request, Status.REJECTED, decision.http_status, decision.reason)

    def _dispatch(self, request: Request, place: Place, now_s: float) -> None:
        pod = place.pod
        request.hold_s = now_s - request.arrival_s
        attempt = Attempt(
            request=request,
            number=len(request.attempts) + 1,
            proxy=self.name,
            backend=self._backend,
            pod_index=pod,
            pod=self._columns.names[pod],
            outcome=place.outcome,
            reason=place.reason,
            decided_s=now_s,
            dispatch_s=now_s,
            listener=self,
            predicted_cached_tokens=place.predicted_cached_tokens,
        )
        request.attempts.append(attempt)
        self._recorder.dispatched(attempt)
        self._columns.in_flight[pod] += 1
        if self._wants_dispatched:
            self._policy.observe(Dispatched(request.view(), pod, now_s))
        self._pods[pod].submit(attempt)

    def _answer(
        self, request: Request, status: str, http_status: int | None, reason: str | None
    ) -> None:
        request.status = status
        request.http_status = http_status
        request.reason = reason
        request.end_s = self._kernel.now_s
        if self.on_end is not None:
            self.on_end(request)
        if request.on_end is not None:
            request.on_end(request)

    def _ticks(self, interval_s: float) -> Process:
        ticks = 1
        while True:
            yield self._kernel.sleep_until(ticks * interval_s, Order.POLL)
            self._policy.observe(Tick(self._kernel.now_s))
            ticks += 1
