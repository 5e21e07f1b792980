"""Connections of a proxy that knows a Service only: who is pinned where, and until when."""

from collections import Counter
from typing import Any

from sim.core.request import Status
from sim.router.placement.keep_alive import KeepAlive, KeepAliveSpec
from sim.router.views import Ended, PodNotReady
from sim.testing import FakeRouter, context, pods, request


def router(count: int = 4, seed: int = 1, **settings: Any) -> FakeRouter:
    return FakeRouter(KeepAlive(KeepAliveSpec(**settings), context(seed)), pods(count))


def over(at: FakeRouter, pod: int, now_s: float, status: str = Status.COMPLETED) -> None:
    at.tell(Ended(request(None), pod, status, now_s))


def test_requests_one_after_another_stay_on_one_pod() -> None:
    """One busy client keeps one pod hot while its replicas idle (LLMKube#1812)."""
    at = router()
    placed = set()
    for now_s in range(50):
        pod = at.send(None, now_s).pod
        over(at, pod, now_s + 0.5)
        placed.add(pod)
    assert len(placed) == 1


def test_requests_at_once_need_connections_of_their_own() -> None:
    """A Service would send all of them to the pod of the first."""
    at = router(seed=3)
    placed = Counter(at.send(None, 0.0).pod for _ in range(400))
    assert set(placed) == {0, 1, 2, 3}
    assert max(placed.values()) < 130  # 100 each, by chance


def test_the_connection_used_last_is_used_next() -> None:
    """Go's transport takes the uppermost of its idle connections."""
    at = router()
    for pod in (0, 1, 2):
        over(at, pod, float(pod))
    assert [at.send(None, 3.0).pod for _ in range(3)] == [2, 1, 0]


def test_idle_connections_end() -> None:
    """A pod would be pinned for ever; and more than maxIdle would be kept."""
    at = router(idle_timeout=90.0, max_idle=2)
    for pod in (3, 1, 2):
        over(at, pod, 0.0)  # the third is closed at once
    assert [at.decide(None, 89.0).pod for _ in range(2)] == [1, 3]
    old = router(seed=5)
    chosen = []
    for now_s in range(0, 9000, 90):
        over(old, 3, float(now_s))
        chosen.append(old.decide(None, now_s + 90.0).pod)
    assert len(set(chosen)) > 1


def test_a_broken_response_and_a_dead_pod_close_their_connections() -> None:
    """A request would be sent into a connection that is not there."""
    at = router()
    over(at, 2, 0.0, Status.FAILED)
    over(at, 2, 0.0, Status.CANCELLED)
    over(at, 3, 0.0)
    at.tell(PodNotReady(3, 1.0))
    assert len({at.decide(None, 2.0).pod for _ in range(60)}) == 4
