"""The proxy: takes requests in, tries the backends of their rule in turn, answers."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from math import inf

from sim.core.kernel import Kernel, Order
from sim.core.ports import Activation
from sim.core.recorder import Recorder
from sim.core.request import (
    Answer,
    Attempt,
    HttpStatus,
    PoolError,
    Reason,
    Request,
    RouterError,
    Status,
)
from sim.router.budgets import Budgets
from sim.router.decisions import end_of_hold
from sim.router.dispatch import (
    CONCURRENCY_LIMIT,
    NO_ROUTE,
    Deadlines,
    Refusal,
    RoutingContext,
    answer,
)
from sim.router.ingress import Ingress
from sim.router.routes import Routes
from sim.router.upstream import Upstream
from sim.router.views import Hold, Place


class Proxy:
    """One replica of the router.

    A request goes to the backends of its rule in order: through the pool of one
    that has a pool, past those that are in quarantine or have no pod, until one
    gives a first token or says what is wrong with the request itself (4xx). A
    backend that comes again, by its rule or by maxInstanceFailoverRerouteAttempts,
    is tried on another of its pods.
    What follows from the end of a response is done at ``Order.RELEASE`` of the
    same instant, when no pod is in the middle of a step.

    One that does not pass on that a client has left (``runs_on``) awaits the
    response all the same, as LiteLLM does (its issue 37140): to its counts and
    its pools the attempt is under way. Who is held leaves in any case: nothing
    has been sent for it.
    """

    def __init__(
        self,
        name: str,
        routes: Routes,
        upstreams: Sequence[Upstream],
        ingress: Ingress,
        kernel: Kernel,
        recorder: Recorder,
        budgets: Budgets | None = None,
        quarantine_s: float = 0.0,
        runs_on: bool = False,
    ) -> None:
        self.name = name
        self._routes = routes
        self._upstreams = upstreams
        self._ingress = ingress
        self._kernel = kernel
        self._recorder = recorder
        self._budgets = budgets
        self._quarantine_s = quarantine_s
        self._runs_on = runs_on
        self._abandoned: dict[Attempt, RoutingContext] = {}  # under way for nobody
        self._deadlines = Deadlines(kernel, self._missed)
        self._epoch = 0
        self._policy_holds: dict[RoutingContext, None] = {}

    def start(self) -> None:
        """Tell the policies of their pods and start their ticks; called once, at time 0."""
        for upstream in self._upstreams:
            upstream.start()

    # -- clients --------------------------------------------------------------------------

    def submit(self, request: Request) -> None:
        """A request arrives now, for the first time or again."""
        now_s = self._kernel.now_s
        self._ingress.arrives(request)
        route = self._routes.of(request)
        if route is None:
            self._refuse(request, NO_ROUTE)
            return
        request.rule = route.name
        refusal = self._budgets and self._budgets.refusal(request, route.name, now_s)
        if refusal:
            self._refuse(request, refusal)
            return
        routing = request.routing = RoutingContext(request, route, self._epoch, now_s)
        self._go_on(routing)

    def cancel(self, request: Request) -> None:
        """The client leaves: the counts drop at once, the pod frees at the end of its step."""
        routing: RoutingContext | None = request.routing
        if routing is None:
            self._ingress.leaves(request)
            return
        attempt = routing.attempt
        if attempt is None:
            self._let_go(routing)
        elif attempt.end_s is None and self._runs_on:
            self._abandon(routing, attempt)
        elif attempt.end_s is None:
            self._hang_up(attempt, Status.CANCELLED, HttpStatus.CLIENT_CLOSED_REQUEST)
            return
        self._end(routing, Status.CANCELLED, HttpStatus.CLIENT_CLOSED_REQUEST, Answer.CLIENT_CLOSED)

    def restart(self) -> None:
        """The process restarts: what it holds breaks, what it has forgotten is counted no more."""
        self._epoch += 1
        if self._budgets is not None:
            self._budgets.forget()
        held, self._policy_holds = list(self._policy_holds), {}
        for pool in dict.fromkeys(each.pool for each in self._upstreams if each.pool is not None):
            pool.restart()
        for routing in held:
            self._end(routing, Status.FAILED, None, Answer.PROXY_RESTART)
        for upstream in self._upstreams:
            upstream.restart()

    def report(self) -> None:
        """The run ends now: who is held has been held until here."""
        for request in self._recorder.requests:
            routing: RoutingContext | None = request.routing
            if routing is not None and routing.attempt is None:
                routing.held_until(self._kernel.now_s)
        for attempt, routing in self._abandoned.items():
            attempt.emitted_tokens = routing.upstream.pods[attempt.pod_index].given_tokens(attempt)

    # -- pods -----------------------------------------------------------------------------

    def first_token(self, attempt: Attempt) -> None:
        """A pod reports the first token of an attempt."""
        routing = self._trip_of(attempt) if self._abandoned else attempt.request.routing
        if routing.epoch == self._epoch:
            routing.upstream.first_token(attempt)

    def ended(self, attempt: Attempt) -> None:
        """A pod reports the end of an attempt, however it ended."""
        routing = self._trip_of(attempt) if self._abandoned else attempt.request.routing
        if routing.epoch == self._epoch:
            routing.upstream.ended(attempt)
        if self._abandoned and self._abandoned.pop(attempt, None) is not None:
            self._ended_for_nobody(routing, attempt)
            return
        if attempt.status != Status.COMPLETED and _may_be_served_elsewhere(attempt):
            self._at_release(partial(self._broke, routing, attempt))
            return
        if routing.activation is not None:
            self._at_release(partial(self._let_go, routing))
        left = attempt.status == Status.CANCELLED
        reason = Answer.CLIENT_CLOSED if left else attempt.end_reason
        self._end(routing, attempt.status, attempt.http_status, reason)

    def _trip_of(self, attempt: Attempt) -> RoutingContext:
        routing: RoutingContext = self._abandoned.get(attempt) or attempt.request.routing
        return routing

    def _abandon(self, routing: RoutingContext, attempt: Attempt) -> None:
        """The client leaves an attempt that goes on; its request keeps it as it stands now."""
        left = replace(
            attempt,
            status=Status.CANCELLED,
            end_s=self._kernel.now_s,
            http_status=HttpStatus.CLIENT_CLOSED_REQUEST,
            emitted_tokens=routing.upstream.pods[attempt.pod_index].given_tokens(attempt),
        )
        routing.request.attempts[-1] = left
        self._abandoned[attempt] = routing
        self._recorder.abandoned.append((attempt, left))

    def _ended_for_nobody(self, routing: RoutingContext, attempt: Attempt) -> None:
        """What an end means to pod, pool and payers; there is nobody to try again for."""
        if routing.epoch == self._epoch:
            if attempt.status != Status.COMPLETED and _may_be_served_elsewhere(attempt):
                self._blame(routing.upstream, attempt)
            if self._budgets is not None:
                self._charge(self._budgets, routing, attempt, attempt.status)
        self._at_release(partial(self._let_go, routing))

    def _at_release(self, callback: Callable[[], None]) -> None:
        self._kernel.at(self._kernel.now_s, Order.RELEASE, callback)

    def _broke(self, routing: RoutingContext, attempt: Attempt) -> None:
        """A backend has failed; others may serve unless the client has seen a token already."""
        forgotten = routing.epoch != self._epoch
        if not forgotten:
            self._blame(routing.upstream, attempt)
        self._let_go(routing)  # whom the pool grants then is not sent to a pod known to be gone
        if routing.request.routing is not routing:
            return  # the client has left meanwhile
        if attempt.first_token_s is not None:
            self._end(routing, Status.FAILED, attempt.http_status, attempt.end_reason)
        elif forgotten:
            self._end(routing, Status.FAILED, None, Answer.PROXY_RESTART)
        else:
            self._passed_over(routing, attempt.end_reason or Reason.BACKEND_ERROR)

    def _blame(self, upstream: Upstream, attempt: Attempt) -> None:
        """What a failed attempt says about the pod that it was on."""
        if attempt.end_reason != Reason.TIMEOUT:
            upstream.quarantine(attempt.pod_index, self._quarantine_s)
        if attempt.end_reason == Reason.CONNECTION_REFUSED and upstream.pool is not None:
            upstream.pool.unreachable(upstream.name)

    def _let_go(self, routing: RoutingContext) -> None:
        """Give the pool back what it holds or has granted for the present backend."""
        pool, activation = routing.upstream.pool, routing.activation
        if pool is None or activation is None or routing.epoch != self._epoch:
            return
        if routing.held:
            pool.leave(activation)
        else:
            pool.release(activation)

    def _missed(self, attempt: Attempt) -> None:
        """No first token in time."""
        self._hang_up(attempt, Status.FAILED, None, Reason.TIMEOUT)

    def _hang_up(
        self, attempt: Attempt, status: str, http_status: int | None, reason: str | None = None
    ) -> None:
        attempt.status = status
        attempt.end_s = self._kernel.now_s
        attempt.http_status = http_status
        attempt.end_reason = reason
        self._trip_of(attempt).upstream.pods[attempt.pod_index].cancel(attempt)
        self.ended(attempt)

    # -- the way through a rule -----------------------------------------------------------

    def _go_on(self, routing: RoutingContext) -> None:
        """Try the present backend, or answer when there is none left."""
        targets = routing.route.targets
        if routing.target_index == len(targets):
            self._refuse(routing.request, answer(routing))
            return
        upstream = routing.upstream
        routing.request.backend = upstream.name
        if upstream.pool is None:
            self._place(routing)
        elif upstream.quarantined:
            self._passed_over(routing, RouterError.QUARANTINED)
        else:
            let_in, refused = (
                partial(self._let_in, routing),
                partial(self._refused_by_pool, routing),
            )
            routing.held = True
            routing.activation = Activation(
                routing.request, upstream.name, routing.route.if_idle, let_in, refused
            )
            upstream.pool.join(routing.activation)

    def _let_in(self, routing: RoutingContext) -> None:
        routing.held = False
        self._place(routing)

    def _refused_by_pool(self, routing: RoutingContext, error: str) -> None:
        routing.held = False
        if error == PoolError.PROXY_RESTART:
            self._end(routing, Status.FAILED, None, Answer.PROXY_RESTART)
        elif error == PoolError.CONCURRENCY_LIMIT:
            self._refuse(routing.request, CONCURRENCY_LIMIT)
        else:
            self._passed_over(routing, error)

    def _passed_over(self, routing: RoutingContext, error: str) -> None:
        """The present backend does not serve, for ``error``; the next one is due."""
        self._recorder.failed_attempts.append(routing.pass_over(error, self._kernel.now_s))
        self._go_on(routing)

    def _place(self, routing: RoutingContext) -> None:
        """Ask the policy of the present backend for a pod."""
        upstream, request, now_s = routing.upstream, routing.request, self._kernel.now_s
        columns = routing.columns if routing.failed else upstream.columns
        if not upstream.serves or (routing.failed and True not in columns.ready):
            self._passed_over(routing, RouterError.NO_READY_POD)
            return
        decision = upstream.choose(request.view(), columns, now_s)
        if isinstance(decision, Place):
            self._dispatch(routing, decision, now_s)
        elif isinstance(decision, Hold):
            until_s = end_of_hold(
                decision, upstream.policy, now_s, routing.started_s, routing.holds
            )
            routing.holds += 1
            self._policy_holds[routing] = None
            again = partial(self._place_again, routing)
            self._kernel.at(until_s, Order.HOLD_EXPIRY, again)
        else:
            self._let_go(routing)
            self._end(routing, Status.REJECTED, decision.http_status, decision.reason)

    def _place_again(self, routing: RoutingContext) -> None:
        if routing in self._policy_holds:
            del self._policy_holds[routing]
            self._place(routing)

    def _dispatch(self, routing: RoutingContext, place: Place, now_s: float) -> None:
        upstream = routing.upstream
        attempt = routing.dispatch(place, now_s, self.name, self)
        self._recorder.dispatched(attempt)
        upstream.dispatched(attempt)
        timeout_s = routing.route.targets[routing.target_index].timeout_s
        if timeout_s < inf:
            self._deadlines.watch(attempt, timeout_s)
        upstream.send(attempt)

    # -- answers --------------------------------------------------------------------------

    def _refuse(self, request: Request, refusal: Refusal) -> None:
        http_status, reason, retry_after_s = refusal
        self._ingress.answers(request, Status.REJECTED, http_status, reason, retry_after_s)

    def _end(
        self, routing: RoutingContext, status: str, http_status: int | None, reason: str | None
    ) -> None:
        request, attempt, now_s = routing.request, routing.attempt, self._kernel.now_s
        if attempt is None:
            routing.held_until(now_s)
            self._policy_holds.pop(routing, None)
        elif self._budgets is not None:
            self._charge(self._budgets, routing, attempt, status)
        self._ingress.answers(request, status, http_status, reason)

    def _charge(
        self, budgets: Budgets, routing: RoutingContext, attempt: Attempt, status: str
    ) -> None:
        """Its payers pay for a complete answer, in the life of the proxy that sent it."""
        if status == Status.COMPLETED and routing.epoch == self._epoch:
            tokens = routing.request.prompt.tokens + attempt.emitted_tokens
            budgets.charge(routing.request, routing.route.name, tokens, self._kernel.now_s)


def _may_be_served_elsewhere(attempt: Attempt) -> bool:
    """Whether what was not completed is a failure of the backend and not of the request."""
    if attempt.status == Status.CANCELLED:
        return False
    return attempt.http_status is None or attempt.http_status >= HttpStatus.SERVER_ERROR
