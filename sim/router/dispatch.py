"""A try of a request on its way through the backends of its rule.

``RoutingContext`` is the proxy's state of one try, ``Deadlines`` are the timeouts until the
first token, ``answer`` is the status that a client gets when no backend has served it.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

from sim.core.kernel import Kernel, Order
from sim.core.ports import Activation
from sim.core.request import (
    Answer,
    Attempt,
    AttemptListener,
    FailedAttempt,
    HttpStatus,
    PoolError,
    Request,
)
from sim.router.routes import Route
from sim.router.signals import PodColumns
from sim.router.upstream import Upstream
from sim.router.views import Place


class RoutingContext:
    """What the proxy notes of a try: which backend it is at, and what the ones before said.

    ``epoch`` is the life of the proxy in which it began, ``target_index`` the index of
    the present backend in the route, ``upstream`` that backend (the last one
    when there is none left) and ``started_s`` when it came there.
    ``activation`` is that of the backend's pool, ``held`` while it is not
    granted; ``attempt`` is on its way on a pod. ``holds`` is how often a policy has
    held it. ``error`` is the last failed backend's, ``all_busy`` says that all of
    them were busy pools, and ``failed`` are the attempts that broke: no pod is
    tried twice.
    """

    # There is one for every try, and most of them never get to change these.
    target_index: int = 0
    attempt: Attempt | None = None
    activation: Activation | None = None
    held: bool = False
    holds: int = 0
    error: str | None = None
    all_busy: bool = True
    failed: tuple[Attempt, ...] = ()

    def __init__(self, request: Request, route: Route, epoch: int, started_s: float) -> None:
        self.request = request
        self.route = route
        self.epoch = epoch
        self.started_s = started_s
        self.upstream: Upstream = route.targets[0].upstream

    @property
    def columns(self) -> PodColumns:
        """What the present backend's policy may choose from."""
        upstream = self.upstream
        if not self.failed:
            return upstream.columns
        return upstream.columns.without(
            [each.pod_index for each in self.failed if each.backend == upstream.name]
        )

    def held_until(self, now_s: float) -> None:
        """Whatever it has waited for at the present backend, it does so no longer."""
        self.request.hold_s += now_s - self.started_s

    def dispatch(
        self, place: Place, now_s: float, proxy: str, listener: AttemptListener
    ) -> Attempt:
        """The attempt that leaves for the place that the present backend's policy has chosen."""
        request, upstream, pod = self.request, self.upstream, place.pod
        request.hold_s += now_s - self.started_s
        attempt = self.attempt = Attempt(
            request,
            len(request.attempts) + 1,
            proxy,
            upstream.name,
            pod,
            upstream.columns.names[pod],
            place.outcome,
            place.reason,
            now_s,
            now_s,
            listener,
            place.predicted_cached_tokens,
        )
        request.attempts.append(attempt)
        return attempt

    def pass_over(self, error: str, now_s: float) -> FailedAttempt:
        """The present backend does not serve; the next one is due."""
        request, attempt = self.request, self.attempt
        pod = http_status = None
        if attempt is None:
            self.held_until(now_s)
        else:
            pod, http_status = attempt.pod, attempt.http_status
            self.failed += (attempt,)
        failure = FailedAttempt(
            request,
            request.tries,
            self.upstream.name,
            pod,
            self.started_s,
            now_s,
            error,
            http_status,
        )
        self.error = error
        self.all_busy = self.all_busy and error == PoolError.INCUMBENT_BUSY
        self.attempt = None
        self.activation = None
        self.started_s = now_s
        self._advance()
        return failure

    def _advance(self) -> None:
        """To the next backend; past one that comes again without a pod that was not tried."""
        self.target_index += 1
        for target in self.route.targets[self.target_index :]:
            self.upstream = target.upstream
            if not target.again or True in self.columns.ready:
                return
            self.target_index += 1


POOL_RETRY_AFTER_S: Final = 5.0
"""What LLMKube's router asks clients to wait for a pool."""

MENDED: Final = HttpStatus.UNAVAILABLE
"""What the two answers of ``sim.scenario.pool.RouterSide`` are since they were mended."""


class Refusal(NamedTuple):
    """An answer without a response: its status, its name, and how long to wait with the next."""

    http_status: int
    reason: str
    retry_after_s: float | None = None


CONCURRENCY_LIMIT: Final = Refusal(HttpStatus.TOO_MANY_REQUESTS, Answer.CONCURRENCY_LIMIT, 1.0)
"""Of llama-swap, which asks clients to wait for a second (its ``ConcurrencyLimitError``)."""

NO_ROUTE: Final = Refusal(HttpStatus.UNAVAILABLE, Answer.NO_ROUTE)


def answer(routing: RoutingContext) -> Refusal:
    """The first row of the table of answers that fits; the last backend's error decides."""
    side = routing.route.targets[-1].upstream.side
    if routing.error == PoolError.HOLD_BUDGET:
        return _unavailable(Answer.POOL_ACTIVATION_TIMEOUT)
    if routing.error == PoolError.SWAP_DEADLINE and side.swap_deadline_status == MENDED:
        return _unavailable(Answer.POOL_ACTIVATION_TIMEOUT)
    if routing.all_busy and side.all_busy_status == MENDED:
        return _unavailable(Answer.POOL_INCUMBENT_BUSY)
    if routing.error == PoolError.QUEUE_FULL:
        return _unavailable(Answer.POOL_QUEUE_FULL)
    if routing.route.fail_closed:
        return Refusal(HttpStatus.UNAVAILABLE, Answer.FAIL_CLOSED)
    return Refusal(HttpStatus.BAD_GATEWAY, Answer.ALL_BACKENDS_FAILED)


def _unavailable(reason: str) -> Refusal:
    return Refusal(HttpStatus.UNAVAILABLE, reason, POOL_RETRY_AFTER_S)


class Deadlines:
    """Tells of attempts without a first token after their timeout.

    Attempts with one timeout run out in the order of their dispatch, so each
    timeout has a queue and one event on the clock, however many are under way.
    """

    def __init__(self, kernel: Kernel, missed: Callable[[Attempt], None]) -> None:
        self._kernel = kernel
        self._missed = missed
        self._queues: dict[float, deque[Attempt]] = {}

    def watch(self, attempt: Attempt, timeout_s: float) -> None:
        """``attempt`` has been dispatched now."""
        queue = self._queues.get(timeout_s)
        if queue is None:
            queue = self._queues[timeout_s] = deque()
        if not queue:
            self._await(attempt, timeout_s)
        queue.append(attempt)

    def _await(self, attempt: Attempt, timeout_s: float) -> None:
        due_s = attempt.dispatch_s + timeout_s
        self._kernel.at_instant(due_s, Order.HOLD_EXPIRY, partial(self._due, timeout_s))

    def _due(self, timeout_s: float) -> None:
        """Answer for the first in the queue, drop those that need no deadline any more."""
        queue = self._queues[timeout_s]
        attempt = queue.popleft()
        while queue:
            following = queue[0]
            if following.first_token_s is None and following.end_s is None:
                self._await(following, timeout_s)
                break
            queue.popleft()
        if attempt.first_token_s is None and attempt.end_s is None:
            self._missed(attempt)
