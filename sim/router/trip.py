"""One try of a client on its way through the backends of a rule."""

from sim.core.ports import Activation
from sim.core.request import Attempt, AttemptListener, FailedAttempt, PoolError, Request
from sim.router.routes import Route
from sim.router.signals import PodColumns
from sim.router.upstream import Upstream
from sim.router.views import Place


class Trip:
    """What the proxy notes of a try: which backend it is at, and what the ones before said.

    ``epoch`` is the life of the proxy in which it began, ``stop`` the index of
    the present backend in the route, ``upstream`` that backend (the last one
    when there is none left) and ``started_s`` when it came there.
    ``activation`` is that of the backend's pool, ``held`` while it is not
    granted; ``attempt`` is on its way on a pod. ``holds`` is how often a policy has
    held it. ``error`` is the last failed backend's, ``all_busy`` says that all of
    them were busy pools, and ``failed`` are the attempts that broke: no pod is
    tried twice.
    """

    # There is one for every try, and most of them never get to change these.
    stop: int = 0
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
        self.stop += 1
        for target in self.route.targets[self.stop :]:
            self.upstream = target.upstream
            if not target.again or True in self.columns.ready:
                return
            self.stop += 1
