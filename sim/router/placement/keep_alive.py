"""Connections that a proxy keeps open, each to the pod to which it was made."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.core.fields import Model, PositiveDuration, whole
from sim.core.registry import family
from sim.core.request import Outcome, RequestView, Status
from sim.router.placement.ties import draw, ready_pods, tie_stream
from sim.router.views import Ended, Fact, Place, PodNotReady, PodRemoved, PodView, PolicyContext


class KeepAliveSpec(Model):
    """The pod behind the idle connection used last; a new connection goes to a random ready pod.

    What a proxy does that knows the Service of its pods only: the address is
    translated once per connection. As in LLMKube's with ``resolution: service``
    (internal/router/backend.go, Go's net/http; pull request 1820).
    """

    kind: Literal["keep-alive"] = "keep-alive"
    idle_timeout: PositiveDuration = Field(
        default=90.0, description="Idle time after which a connection is closed."
    )
    max_idle: Annotated[int, whole(1, 1_000_000)] = Field(
        default=10,
        description="Idle connections that are kept; a further one is closed at once.",
    )


@family(KeepAliveSpec)
class KeepAlive:
    """Idle connections on a stack; a request takes the uppermost."""

    observes: ClassVar[frozenset[type]] = frozenset((Ended, PodNotReady, PodRemoved))
    has_home: ClassVar[bool] = False
    tick_interval_s: float | None = None

    def __init__(self, spec: KeepAliveSpec, context: PolicyContext) -> None:
        self._spec = spec
        self._stream = tie_stream(context)
        self._idle: list[tuple[int, float]] = []  # pod, since when; the last one was used last

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on the pod of the connection that was used last, or of a new one."""
        while self._idle:
            pod, since_s = self._idle.pop()
            if pods.ready[pod] and now_s - since_s < self._spec.idle_timeout:
                return Place(pod, Outcome.PLACED)
        return Place(draw(self._stream, ready_pods(pods.ready)), Outcome.PLACED)

    def observe(self, fact: Fact) -> None:
        """A response that was read to its end leaves its connection idle, any other closes it."""
        if isinstance(fact, Ended):
            room = len(self._live(fact.now_s)) < self._spec.max_idle
            if fact.status == Status.COMPLETED and room:
                self._idle.append((fact.pod, fact.now_s))
        elif isinstance(fact, PodNotReady | PodRemoved):
            self._idle = [each for each in self._idle if each[0] != fact.pod]

    def _live(self, now_s: float) -> list[tuple[int, float]]:
        """The idle connections that are open still."""
        timeout_s = self._spec.idle_timeout
        self._idle = [each for each in self._idle if now_s - each[1] < timeout_s]
        return self._idle
