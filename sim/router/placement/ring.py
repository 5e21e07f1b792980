"""Policies that hash the session key on a ring of pods: no memory, the same home for all."""

from itertools import compress
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from sim.core.fields import Model, whole
from sim.core.registry import family
from sim.core.request import Outcome, Reason, RequestView
from sim.router.placement.hashing import HashRing, SessionHeaders, VirtualNodes, session_key
from sim.router.placement.ties import Rotation, least_loaded, ready_pods
from sim.router.views import Place, PodAdded, PodRemoved, PodView, PolicyContext


class ConsistentHashSpec(Model):
    """The first ready pod clockwise of the session's hash, however busy it is."""

    kind: Literal["consistent-hash"] = "consistent-hash"
    headers: SessionHeaders = ()
    virtual_nodes: VirtualNodes = 100


class BoundedRingSpec(Model):
    """LoadAware of LLMKube 0.10.7: a ring whose pods refuse more than their share."""

    kind: Literal["bounded-ring"] = "bounded-ring"
    headers: SessionHeaders = ()
    virtual_nodes: VirtualNodes = 100
    max_load_percent: Annotated[int, whole(100, 100_000)] = Field(
        default=125,
        description="Most that a pod may carry, in percent of the mean load of the ready pods, "
        "100 to 100000.",
    )
    bound: Literal["default", "strict"] = Field(
        default="default",
        description="default rounds the bound up to a whole request, strict does not.",
    )
    floor: Annotated[int, whole(0, 1)] = Field(
        default=0,
        description="Least mean load that the bound is computed from, 0 or 1 requests.",
    )


@family(ConsistentHashSpec)
class ConsistentHash:
    """Plain consistent hashing: only a pod that is not ready sends a session elsewhere.

    A request without a session key goes to the least-loaded pod, ties in turn.
    """

    observes: ClassVar[frozenset[type]] = frozenset({PodAdded, PodRemoved})
    has_home: ClassVar[bool] = True
    tick_interval_s: float | None = None

    def __init__(self, spec: ConsistentHashSpec, context: PolicyContext) -> None:
        self._headers = spec.headers
        self._ring = HashRing(context.ring_salt, spec.virtual_nodes)
        self._rotation = Rotation()

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on the first ready pod clockwise."""
        key = session_key(request, self._headers)
        if key is None:
            return _unkeyed(pods, self._rotation)
        owner, pod = self._ring.first(key, pods.ready)
        if pod != owner:
            return Place(pod, Outcome.MIGRATED, Reason.NOT_READY)
        return Place(pod, Outcome.HOME)

    def home(self, request: RequestView, pods: PodView) -> int | None:
        """The owner of the session's place on the ring, ready or not; None without a key."""
        return _home(self._ring, session_key(request, self._headers), pods)

    def observe(self, fact: PodAdded | PodRemoved) -> None:
        """Follow the membership of the backend."""
        self._ring.observe(fact)


@family(BoundedRingSpec)
class BoundedRing:
    """Consistent hashing with bounded loads, every request placed afresh.

    Clockwise from the key, the first ready pod that stays within
    ``maxLoadPercent`` of the mean with this request counted in. There is no
    memory: a session that spilled goes home on its next turn if it fits. When
    no pod fits, which needs ``bound: strict``, the home pod is taken. A request
    without a session key goes to the least-loaded pod, ties in turn.
    """

    observes: ClassVar[frozenset[type]] = frozenset({PodAdded, PodRemoved})
    has_home: ClassVar[bool] = True
    tick_interval_s: float | None = None

    def __init__(self, spec: BoundedRingSpec, context: PolicyContext) -> None:
        self._headers = spec.headers
        self._percent: int = spec.max_load_percent
        self._floor: int = spec.floor
        self._round_up = spec.bound == "default"
        self._ring = HashRing(context.ring_salt, spec.virtual_nodes)
        self._rotation = Rotation()

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Place on the first pod clockwise that is ready and within the bound."""
        key = session_key(request, self._headers)
        if key is None:
            return _unkeyed(pods, self._rotation)
        ready = pods.ready
        bound = self.bound(pods)
        fits = [serves and load < bound for serves, load in zip(ready, pods.in_flight)]
        owner, pod = self._ring.first(key, fits if any(fits) else ready)
        if pod == owner:
            return Place(pod, Outcome.HOME)
        if ready[owner]:
            return Place(pod, Outcome.SPILL, Reason.BOUND)
        return Place(pod, Outcome.MIGRATED, Reason.NOT_READY)

    def observe(self, fact: PodAdded | PodRemoved) -> None:
        """Follow the membership of the backend."""
        self._ring.observe(fact)

    def home(self, request: RequestView, pods: PodView) -> int | None:
        """The owner of the session's place on the ring, ready or not; None without a key."""
        return _home(self._ring, session_key(request, self._headers), pods)

    def bound(self, pods: PodView) -> int:
        """Most requests that a pod may carry with the next one, given the ready pods' loads.

        ceil(percent/100 · max((total + 1)/n, floor)), in integers since floats
        give one too many for 105 or 110 percent; ``strict`` has no ceiling,
        so that every pod of a quiet fleet may be over it.
        """
        loads = list(compress(pods.in_flight, pods.ready))
        share = self._percent * max(sum(loads) + 1, self._floor * len(loads))
        parts = 100 * len(loads)
        return -(-share // parts) if self._round_up else share // parts


def _home(ring: HashRing, key: int | None, pods: PodView) -> int | None:
    return None if key is None else ring.first(key, [True] * len(pods.ready))[0]


def _unkeyed(pods: PodView, rotation: Rotation) -> Place:
    tied = least_loaded(pods.in_flight, ready_pods(pods.ready))
    return Place(rotation.take(tied), Outcome.UNKEYED)
