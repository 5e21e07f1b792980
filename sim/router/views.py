"""What a placement policy sees and what it answers: columns, facts and decisions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias, runtime_checkable

from sim.core.request import RequestView
from sim.core.rng import Streams


class PodView(Protocol):
    """The pods of one backend as one proxy sees them: columns, indexed by pod slot.

    The columns live as long as the run, are updated in place and are
    read-only for policies. A pod's slot is stable for its life; its name is
    what is hashed. ``waiting``, ``running`` and ``kv_usage`` are as old as
    ``metrics_age_s`` says (infinitely old before the first poll).
    """

    @property
    def names(self) -> Sequence[str]:
        """Names, which are what a ring hashes."""

    @property
    def ready(self) -> Sequence[bool]:
        """Whether the pod serves."""

    @property
    def in_flight(self) -> Sequence[int]:
        """Requests dispatched by this proxy whose response has not ended."""

    @property
    def waiting(self) -> Sequence[int]:
        """Length of the wait queue at the last poll."""

    @property
    def running(self) -> Sequence[int]:
        """Running requests at the last poll."""

    @property
    def kv_usage(self) -> Sequence[float]:
        """Share of KV blocks held by running requests at the last poll."""

    def metrics_age_s(self, pod: int, now_s: float) -> float:
        """Seconds since the last poll that the pod answered."""


class Place(NamedTuple):
    """Send the request to this pod now, which must be ready.

    ``outcome`` is a word of ``sim.core.request.Outcome``, ``reason`` why it is not where its
    session was: one of ``sim.router.decisions.REASONS``, or of the policy's own ``reasons``.
    """

    pod: int
    outcome: str
    reason: str | None = None
    predicted_cached_tokens: int | None = None


class Hold(NamedTuple):
    """Keep the request in the proxy and ask again at ``until_s``, later than now, within a day."""

    until_s: float


class Reject(NamedTuple):
    """Answer the client with an error, 400 to 599."""

    http_status: int
    reason: str


Decision: TypeAlias = Place | Hold | Reject


class Dispatched(NamedTuple):
    """A placed request has left for its pod; counts already include it."""

    request: RequestView
    pod: int
    now_s: float


class FirstToken(NamedTuple):
    """The first token of a request has passed through the proxy."""

    request: RequestView
    pod: int
    now_s: float


class Ended(NamedTuple):
    """A dispatched request is over, however it ended; counts no longer include it."""

    request: RequestView
    pod: int
    status: str
    now_s: float


class PodAdded(NamedTuple):
    """A pod has joined the backend; it may not be ready yet."""

    pod: int
    name: str
    now_s: float


class PodRemoved(NamedTuple):
    """A pod has left the backend for good."""

    pod: int
    now_s: float


class PodReady(NamedTuple):
    """A pod serves (again)."""

    pod: int
    now_s: float


class PodNotReady(NamedTuple):
    """A pod does not serve for now."""

    pod: int
    now_s: float


class Tick(NamedTuple):
    """Comes every ``tick_interval_s`` of the policy."""

    now_s: float


Fact: TypeAlias = (
    Dispatched | FirstToken | Ended | PodAdded | PodRemoved | PodReady | PodNotReady | Tick
)


@dataclass(frozen=True)
class PolicyContext:
    """What a policy is built with: who it works for and its random streams.

    ``proxy`` is the name of the proxy, and of its life when it has restarted.
    ``ring_salt`` goes into every hashed ring point, so that seeds replicate
    the luck of the layout. A policy names its streams
    ``policy/<proxy>/<backend>/...``.
    """

    proxy: str
    backend: str
    streams: Streams
    ring_salt: str


@runtime_checkable
class HasGauges(Protocol):
    """A policy that says numbers of itself."""

    @property
    def gauges(self) -> Mapping[str, float]:
        """Numbers by name."""


class Policy(Protocol):
    """A placement policy: one instance per proxy and backend, built as ``Kind(spec, context)``.

    ``observes`` lists the types of fact it wants; PodAdded for the first pods
    comes before any request when asked for. ``tick_interval_s`` is None or
    the period of its ticks. ``has_home`` tells whether its spills mean
    something (a policy without memory or home has no spill ratio). A class may
    have ``reasons``, a frozenset of its own words beside those that there are, and
    ``gauges``, numbers by name that are read when the window of the run ends.
    """

    observes: ClassVar[frozenset[type]]
    has_home: ClassVar[bool]
    tick_interval_s: float | None

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Decision:
        """Decide where the request goes; called with at least one pod that is ready."""

    def observe(self, fact: Any) -> None:
        """Take note of a fact of one of the types in ``observes``."""
