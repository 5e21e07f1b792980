"""The proxy: takes requests in, tries the backends of their rule in turn, answers."""

from collections.abc import Sequence
from functools import partial
from math import inf

from sim.kernel import Kernel, Order
from sim.ports import Activation
from sim.record import Recorder
from sim.request import (
    Answer,
    Attempt,
    FailedAttempt,
    HttpStatus,
    PoolError,
    Reason,
    Request,
    RouterError,
    Status,
)
from sim.router.answers import NO_ROUTE, Refusal, answer
from sim.router.budgets import Budgets
from sim.router.deadlines import Deadlines
from sim.router.door import Door
from sim.router.routes import Routes
from sim.router.trip import Trip
from sim.router.upstream import Upstream
from sim.router.views import Hold, Place


class Proxy:
    """One replica of the router.

    A request goes to the backends of its rule in order: through the pool of one
    that has a pool, past those that are in quarantine or have no pod, until one
    gives a first token or says what is wrong with the request itself (4xx).
    What follows from the end of a response is done at ``Order.RELEASE`` of the
    same instant, when no pod is in the middle of a step.
    """

    def __init__(
        self,
        name: str,
        routes: Routes,
        upstreams: Sequence[Upstream],
        door: Door,
        kernel: Kernel,
        recorder: Recorder,
        budgets: Budgets | None = None,
        quarantine_s: float = 0.0,
    ) -> None:
        self.name = name
        self._routes = routes
        self._upstreams = upstreams
        self._door = door
        self._kernel = kernel
        self._recorder = recorder
        self._budgets = budgets
        self._quarantine_s = quarantine_s
        self._deadlines = Deadlines(kernel, self._missed)
        self._epoch = 0
        self._policy_holds: dict[Trip, None] = {}

    def start(self) -> None:
        """Tell the policies of their pods and start their ticks; called once, at time 0."""
        for upstream in self._upstreams:
            upstream.start()

    # -- clients --------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """A request arrives now, for the first time or again."""
        now_s = self._kernel.now_s
        self._door.arrives(request)
        route = self._routes.of(request)
        if route is None:
            self._refuse(request, NO_ROUTE)
            return
        request.rule = route.name
        refusal = self._budgets and self._budgets.refusal(request, route.name, now_s)
        if refusal:
            self._refuse(request, refusal)
            return
        trip = request.trip = Trip(request, route, self._epoch, now_s)
        self._go_on(trip)

    def cancel(self, request: Request) -> None:
        """The client leaves: the counts drop at once, the pod frees at the end of its step."""
        trip: Trip | None = request.trip
        if trip is None:
            self._door.leaves(request)
            return
        attempt = trip.attempt
        if attempt is not None and attempt.end_s is None:
            attempt.status = Status.CANCELLED
            attempt.end_s = self._kernel.now_s
            attempt.http_status = HttpStatus.CLIENT_CLOSED_REQUEST
            trip.upstream.pods[attempt.pod_index].cancel(attempt)
            self.ended(attempt)
            return
        self._held_until_now(trip)
        self._let_go(trip)
        self._end(trip, Status.CANCELLED, HttpStatus.CLIENT_CLOSED_REQUEST, Answer.CLIENT_CLOSED)

    def restart(self) -> None:
        """The process restarts: what it holds breaks, what it has forgotten is counted no more."""
        self._epoch += 1
        held, self._policy_holds = list(self._policy_holds), {}
        for pool in dict.fromkeys(each.pool for each in self._upstreams if each.pool is not None):
            pool.restart()
        for trip in held:
            self._end(trip, Status.FAILED, None, Answer.PROXY_RESTART)
        for upstream in self._upstreams:
            upstream.restart()

    # -- pods -----------------------------------------------------------------------------

    def first_token(self, attempt: Attempt) -> None:
        """A pod reports the first token of an attempt."""
        trip: Trip = attempt.request.trip
        if trip.epoch == self._epoch:
            trip.upstream.first_token(attempt)

    def ended(self, attempt: Attempt) -> None:
        """A pod reports the end of an attempt, however it ended."""
        trip: Trip = attempt.request.trip
        if trip.epoch == self._epoch:
            trip.upstream.ended(attempt)
        status, http_status = attempt.status, attempt.http_status
        if status in (Status.COMPLETED, Status.CANCELLED):
            gone = status == Status.CANCELLED
            reason = Answer.CLIENT_CLOSED if gone else attempt.end_reason
        elif http_status is not None and http_status < HttpStatus.SERVER_ERROR:
            reason = attempt.end_reason
        else:
            self._kernel.at(self._kernel.now_s, Order.RELEASE, partial(self._broke, trip, attempt))
            return
        if trip.activation is not None:
            self._kernel.at(self._kernel.now_s, Order.RELEASE, partial(self._let_go, trip))
        self._end(trip, status, http_status, reason)

    def _broke(self, trip: Trip, attempt: Attempt) -> None:
        """A backend has failed; others may serve unless the client has seen a token already."""
        upstream, http_status = trip.upstream, attempt.http_status
        self._let_go(trip)
        if attempt.end_reason != Reason.TIMEOUT:
            upstream.quarantine(attempt.pod_index, self._quarantine_s)
        if attempt.end_reason == Reason.CONNECTION_REFUSED and upstream.pool is not None:
            upstream.pool.unreachable(upstream.name)
        if trip.request.trip is not trip:
            return  # the client has left meanwhile
        if attempt.first_token_s is not None:
            self._end(trip, Status.FAILED, http_status, attempt.end_reason)
        elif trip.epoch != self._epoch:
            self._end(trip, Status.FAILED, None, Answer.PROXY_RESTART)
        else:
            self._passed_over(trip, attempt.end_reason or Reason.BACKEND_ERROR, attempt)

    def _let_go(self, trip: Trip) -> None:
        """Give the pool back what it holds or has granted for the present backend."""
        pool, activation = trip.upstream.pool, trip.activation
        if pool is None or activation is None or trip.epoch != self._epoch:
            return
        if trip.held:
            pool.leave(activation)
        else:
            pool.release(activation)

    def _missed(self, attempt: Attempt) -> None:
        """No first token in time: the proxy hangs up."""
        trip: Trip = attempt.request.trip
        attempt.status = Status.FAILED
        attempt.end_s = self._kernel.now_s
        attempt.end_reason = Reason.TIMEOUT
        trip.upstream.pods[attempt.pod_index].cancel(attempt)
        self.ended(attempt)

    # -- the way through a rule -----------------------------------------------------------

    def _go_on(self, trip: Trip) -> None:
        """Try the present backend, or answer when there is none left."""
        targets = trip.route.targets
        if trip.stop == len(targets):
            self._refuse(trip.request, answer(trip))
            return
        upstream = trip.upstream
        trip.request.backend = upstream.name
        if upstream.pool is None:
            self._place(trip)
        elif upstream.quarantined:
            self._passed_over(trip, RouterError.QUARANTINED)
        else:
            let_in, refused = partial(self._let_in, trip), partial(self._refused_by_pool, trip)
            trip.held = True
            trip.activation = Activation(
                trip.request, upstream.name, trip.route.if_idle, let_in, refused
            )
            upstream.pool.join(trip.activation)

    def _let_in(self, trip: Trip) -> None:
        trip.held = False
        self._place(trip)

    def _refused_by_pool(self, trip: Trip, error: str) -> None:
        self._held_until_now(trip)
        trip.held = False
        if error == PoolError.PROXY_RESTART:
            self._end(trip, Status.FAILED, None, Answer.PROXY_RESTART)
        else:
            self._passed_over(trip, error)

    def _passed_over(self, trip: Trip, error: str, attempt: Attempt | None = None) -> None:
        now_s = self._kernel.now_s
        failure = FailedAttempt(
            trip.request,
            trip.request.tries,
            trip.upstream.name,
            None if attempt is None else attempt.pod,
            trip.started_s,
            now_s,
            error,
            None if attempt is None else attempt.http_status,
        )
        self._recorder.failed_attempts.append(failure)
        trip.passed_over(error, now_s)
        self._go_on(trip)

    def _place(self, trip: Trip) -> None:
        """Ask the policy of the present backend for a pod."""
        upstream, request, now_s = trip.upstream, trip.request, self._kernel.now_s
        if not upstream.serves:
            self._passed_over(trip, RouterError.NO_READY_POD)
            return
        decision = upstream.policy.choose(request.view(), upstream.columns, now_s)
        if isinstance(decision, Place):
            self._dispatch(trip, decision, now_s)
        elif isinstance(decision, Hold):
            self._policy_holds[trip] = None
            again = partial(self._place_again, trip)
            self._kernel.at(decision.until_s, Order.HOLD_EXPIRY, again)
        else:
            self._let_go(trip)
            self._refuse(request, Refusal(decision.http_status, decision.reason))

    def _place_again(self, trip: Trip) -> None:
        if trip in self._policy_holds:
            del self._policy_holds[trip]
            self._place(trip)

    def _dispatch(self, trip: Trip, place: Place, now_s: float) -> None:
        upstream, request, pod = trip.upstream, trip.request, place.pod
        self._held_until_now(trip)
        attempt = trip.attempt = Attempt(
            request=request,
            number=len(request.attempts) + 1,
            proxy=self.name,
            backend=upstream.name,
            pod_index=pod,
            pod=upstream.columns.names[pod],
            outcome=place.outcome,
            reason=place.reason,
            decided_s=now_s,
            dispatch_s=now_s,
            listener=self,
            predicted_cached_tokens=place.predicted_cached_tokens,
        )
        request.attempts.append(attempt)
        self._recorder.dispatched(attempt)
        upstream.dispatched(attempt)
        if upstream.fault_http_status is not None:
            status, error = upstream.fault_http_status, Reason.BACKEND_ERROR
            attempt.end(Status.REJECTED, now_s, status, error)
            return
        timeout_s = trip.target.timeout_s
        if timeout_s < inf:
            self._deadlines.watch(attempt, timeout_s)
        upstream.pods[pod].submit(attempt)

    def _held_until_now(self, trip: Trip) -> None:
        trip.request.hold_s += self._kernel.now_s - trip.started_s

    # -- answers --------------------------------------------------------------------------

    def _refuse(self, request: Request, refusal: Refusal) -> None:
        http_status, reason, retry_after_s = refusal
        self._door.answers(request, Status.REJECTED, http_status, reason, retry_after_s)

    def _end(self, trip: Trip, status: str, http_status: int | None, reason: str | None) -> None:
        self._policy_holds.pop(trip, None)
        if self._budgets is not None and trip.attempt is not None:
            tokens = trip.request.prompt.tokens + trip.attempt.emitted_tokens
            self._budgets.charge(trip.request, trip.route.name, tokens, self._kernel.now_s)
        self._door.answers(trip.request, status, http_status, reason)
