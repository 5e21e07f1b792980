"""The session table of LLMKube's LoadAware: a session stays where it was placed until it hurts.

Candidates are the ready pods with KV room, without any of those all ready pods;
loads are counted before the request itself is added. With the default numbers:

R1   A new session goes to the least-loaded candidate, remembered at the decision.
R2   New sessions avoid KV-full pods.
R3   A known session stays unless its pod is backed up.
R4   It moves to the least-loaded candidate if its pod has requests waiting and
     carries 4 more than that one (``waiting``).
R5   Without fresh metrics of its pod a gap of 8 decides alone (``waiting``).
R6   It leaves a KV-full pod with requests waiting for the least-loaded pod with
     KV room that is no busier (``kv_full``).
R7   A full KV cache alone never moves a session.
R8   A session that moved stays moved.
R9   After any move R4-R6 rest for 60 s.
R10  It leaves a pod that is not ready at once, placed like a new session (``migrated``).
R11  An entry expires when it has not been used for more than ``idleTimeout``.
R12  A full table sends a new session to its ring home and does not remember it.
R13  A full table does not scan for expired entries at every request.
R14  Expired entries are dropped every 30 s and never used before that.
R15  Only the 64-bit hash of a session's name is kept, per proxy, in memory.
R16  With a single pod nothing moves.
"""

from typing import Annotated, ClassVar, Literal, TypeAlias

from pydantic import Field

from sim.core.fields import DURATION, Duration, Model, PositiveDuration, Quantity, real, whole
from sim.core.registry import family
from sim.core.request import Outcome, Reason, RequestView
from sim.router.placement.bindings import SAME_INSTANT_S, Binding, Bindings
from sim.router.placement.hashing import HashRing, SessionHeaders, VirtualNodes, session_key
from sim.router.placement.ties import draw, least_loaded, ready_pods, tie_stream
from sim.router.views import Place, PodAdded, PodRemoved, PodView, PolicyContext, Tick

IdleTimeout: TypeAlias = Annotated[float, Quantity("a duration", "30m", DURATION, 60.0, 86_400.0)]
SweepInterval: TypeAlias = Annotated[float, Quantity("a duration", "30s", DURATION, 1.0, 86_400.0)]


class SessionTableSpec(Model):
    """LoadAware with session affinity, as of the table that replaced the bounded ring."""

    kind: Literal["session-table"] = "session-table"
    headers: SessionHeaders = ()
    idle_timeout: IdleTimeout = Field(
        default=1800.0,
        description="A session not used for longer than this is forgotten, 1m to 24h (R11).",
    )
    max_sessions: Annotated[int, whole(1, 10_000_000)] = Field(
        default=100_000,
        description="Most sessions remembered per backend, 1 to 10M; new ones beyond it go to "
        "their ring home (R12).",
    )
    fresh_for: PositiveDuration = Field(
        default=5.0, description="How long polled engine metrics count as fresh, above 0."
    )
    kv_full_at: Annotated[float, real(0.0, 1.0, low_open=True)] = Field(
        default=0.95,
        description="Share of the KV blocks held by running requests from which a pod is "
        "KV-full, above 0 to 1.",
    )
    waiting_gap: Annotated[int, whole(1, 1_000_000)] = Field(
        default=4,
        description="Requests by which a pod that has requests waiting must exceed the least "
        "loaded one to lose a session (R4).",
    )
    stale_gap: Annotated[int, whole(1, 1_000_000)] = Field(
        default=8, description="The same without fresh metrics, when the gap decides alone (R5)."
    )
    cooldown: Duration = Field(
        default=60.0, description="No move by load for this long after any move, from 0 (R9)."
    )
    sweep_interval: SweepInterval = Field(
        default=30.0, description="How often expired sessions are dropped, 1s to 24h (R14)."
    )
    ties: Literal["fewest-bindings", "first-index"] = Field(
        default="fewest-bindings",
        description="Who is taken of several least-loaded pods: the one with the fewest bound "
        "sessions, then a seeded random one; or the first, which sends everything to pod 0 "
        "under light load.",
    )
    virtual_nodes: VirtualNodes = 100
    max_load_percent: Annotated[int, whole(100, 100_000)] | None = Field(
        default=None,
        description="Accepted and ignored (R18): objects made for the bounded ring carry it.",
    )


@family(SessionTableSpec)
class SessionTable:
    """Rules R1-R16; a bound session is tested by R11, R10, R9, R4/R5, R6, in this order.

    R16 needs no test: no pod is less loaded than the only one, and no other
    has KV room.
    """

    observes: ClassVar[frozenset[type]] = frozenset({PodAdded, PodRemoved, Tick})
    has_home: ClassVar[bool] = True

    def __init__(self, spec: SessionTableSpec, context: PolicyContext) -> None:
        self.tick_interval_s: float | None = spec.sweep_interval
        self._headers = spec.headers
        self._fresh_for_s = spec.fresh_for + SAME_INSTANT_S
        self._kv_full_at = spec.kv_full_at
        self._waiting_gap = spec.waiting_gap
        self._stale_gap = spec.stale_gap
        self._cooldown_s = spec.cooldown
        self._spread_ties = spec.ties == "fewest-bindings"
        self._stream = tie_stream(context)
        self._bindings = Bindings(spec.idle_timeout, spec.max_sessions)
        self._ring = HashRing(context.ring_salt, spec.virtual_nodes)

    @property
    def bindings(self) -> int:
        """Entries in the table, expired ones included until they are dropped."""
        return len(self._bindings)

    @property
    def gauges(self) -> dict[str, float]:
        """What LLMKube's router says of its table."""
        return {"session_bindings": float(self.bindings)}

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Place:
        """Keep a known session where it is unless its pod is gone or backed up."""
        key = session_key(request, self._headers)
        if key is None:
            return Place(self._break_tie(self._least_loaded(pods, now_s)), Outcome.UNKEYED)
        entry = self._bindings.renew(key, now_s)
        if entry is None:
            return self._place_new(key, pods, now_s)
        if not pods.ready[entry.pod]:  # R10
            pod = self._break_tie(self._least_loaded(pods, now_s))
            return self._move(entry, pod, Outcome.MIGRATED, Reason.NOT_READY, now_s)
        if now_s + SAME_INSTANT_S >= entry.movable_s:  # R9
            relief = self._relief(entry.pod, pods, now_s)
            if relief is not None:
                pod, reason = relief
                return self._move(entry, pod, Outcome.SPILL, reason, now_s)
        return Place(entry.pod, Outcome.STICKY)

    def observe(self, fact: PodAdded | PodRemoved | Tick) -> None:
        """Sweep on every tick; follow the membership of the backend."""
        if isinstance(fact, Tick):
            self._bindings.sweep(fact.now_s)
        else:
            self._ring.observe(fact)

    def _place_new(self, key: int, pods: PodView, now_s: float) -> Place:
        if not self._bindings.has_room(now_s):  # R12
            _, home = self._ring.first(key, pods.ready)
            return Place(home, Outcome.HOME)
        pod = self._break_tie(self._least_loaded(pods, now_s))  # R1
        self._bindings.bind(key, pod, now_s)
        return Place(pod, Outcome.NEW)

    def _move(self, entry: Binding, pod: int, outcome: str, reason: str, now_s: float) -> Place:
        self._bindings.rebind(entry, pod, now_s + self._cooldown_s)
        return Place(pod, outcome, reason)

    def _relief(self, own: int, pods: PodView, now_s: float) -> tuple[int, str] | None:
        """Where load moves a session of pod ``own`` and why, None to stay (R3-R7)."""
        fresh = pods.metrics_age_s(own, now_s) <= self._fresh_for_s
        if fresh and pods.waiting[own] == 0:
            return None
        best = self._least_loaded(pods, now_s)
        gap = pods.in_flight[own] - pods.in_flight[best[0]]
        if gap >= (self._waiting_gap if fresh else self._stale_gap):  # R4, R5
            return self._break_tie(best), Reason.WAITING
        # Candidates are KV-full only when every ready pod is, so one speaks for all.
        has_room = not self._is_kv_full(best[0], pods, now_s)
        if gap >= 0 and has_room and self._is_kv_full(own, pods, now_s):  # R6
            return self._break_tie(best), Reason.KV_FULL
        return None

    def _least_loaded(self, pods: PodView, now_s: float) -> list[int]:
        """The least-loaded candidates: ready pods with KV room, without any all ready pods (R2)."""
        ready = ready_pods(pods.ready)
        roomy = [pod for pod in ready if not self._is_kv_full(pod, pods, now_s)]
        return least_loaded(pods.in_flight, roomy or ready)

    def _is_kv_full(self, pod: int, pods: PodView, now_s: float) -> bool:
        return (
            pods.kv_usage[pod] >= self._kv_full_at
            and pods.metrics_age_s(pod, now_s) <= self._fresh_for_s
        )

    def _break_tie(self, tied: list[int]) -> int:
        if not self._spread_ties or len(tied) == 1:
            return tied[0]
        on_pod = self._bindings.on_pod
        fewest = min([on_pod(pod) for pod in tied])
        return draw(self._stream, [pod for pod in tied if on_pod(pod) == fewest])
