"""What the router saw, and what the pods held, when it sent a request to one of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sim.core.request import DIRECT, Attempt, RequestView
from sim.router.upstream import Upstream
from sim.router.views import PodView


@dataclass(frozen=True)
class PodSeen:
    """One pod of the backend: exact counts of the proxy, metrics as old as ``metrics_age_s``.

    ``held_tokens`` of the prompt were in its cache, which no router knows; None
    when its engine does not say.
    """

    pod: str
    ready: bool
    in_flight: int
    waiting: int
    running: int
    kv_usage: float
    metrics_age_s: float | None
    held_tokens: int | None


@dataclass(frozen=True)
class View:
    """The decision of one attempt: ``home`` and ``bound`` where the policy has such."""

    attempt: int
    decided_s: float
    backend: str
    pod: str
    outcome: str
    reason: str | None
    policy: str
    predicted_cached_tokens: int | None
    home: str | None
    bound: int | None
    pods: tuple[PodSeen, ...]


@runtime_checkable
class _HasHome(Protocol):
    def home(self, request: RequestView, pods: PodView) -> int | None: ...


@runtime_checkable
class _HasBound(Protocol):
    def bound(self, pods: PodView) -> int: ...


def view(attempt: Attempt, way: Upstream, kind: str, held: Sequence[int | None]) -> View:
    """What ``way``, with a policy of this ``kind``, knows before it counts ``attempt`` in."""
    columns, policy, now_s = way.columns, way.policy, attempt.decided_s
    routed = attempt.proxy != DIRECT
    home = None
    if routed and isinstance(policy, _HasHome):
        home = policy.home(attempt.request.view(), columns)
    pods = []
    for slot, name in enumerate(columns.names):
        age_s = columns.metrics_age_s(slot, now_s)
        pods.append(
            PodSeen(
                name,
                columns.ready[slot],
                columns.in_flight[slot],
                columns.waiting[slot],
                columns.running[slot],
                columns.kv_usage[slot],
                age_s if age_s < float("inf") else None,
                held[slot],
            )
        )
    return View(
        attempt=attempt.number,
        decided_s=attempt.decided_s,
        backend=attempt.backend,
        pod=attempt.pod,
        outcome=attempt.outcome,
        reason=attempt.reason,
        policy=kind if routed else DIRECT,
        predicted_cached_tokens=attempt.predicted_cached_tokens,
        home=None if home is None else columns.names[home],
        bound=policy.bound(columns) if routed and isinstance(policy, _HasBound) else None,
        pods=tuple(pods),
    )
