"""One try of a client on its way through the backends of a rule."""

from dataclasses import dataclass

from sim.ports import Activation
from sim.request import Attempt, PoolError, Request
from sim.router.routes import Route, Target
from sim.router.upstream import Upstream


@dataclass(slots=True, eq=False)
class Trip:
    """What the proxy notes of a try: which backend it is at, and what the ones before said.

    ``epoch`` is the life of the proxy in which it began, ``stop`` the index of
    the present backend in the route and ``started_s`` when it came there.
    ``activation`` is that of the backend's pool, ``held`` while it is not
    granted; ``attempt`` is on its way on a pod. ``error`` is the last failed
    backend's, ``all_busy`` says that all of them were busy pools.
    """

    request: Request
    route: Route
    epoch: int
    started_s: float
    stop: int = 0
    attempt: Attempt | None = None
    activation: Activation | None = None
    held: bool = False
    error: str | None = None
    all_busy: bool = True

    @property
    def target(self) -> Target:
        """The present backend."""
        return self.route.targets[self.stop]

    @property
    def upstream(self) -> Upstream:
        """The present backend's pods."""
        return self.route.targets[self.stop].upstream

    def passed_over(self, error: str, now_s: float) -> None:
        """The present backend does not serve; the next one is due."""
        self.error = error
        self.all_busy = self.all_busy and error == PoolError.INCUMBENT_BUSY
        self.attempt = None
        self.activation = None
        self.stop += 1
        self.started_s = now_s
