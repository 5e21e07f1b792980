"""C02: what a spill costs on the next turns, with and without a memory."""

import pytest

from sim.router.placement.ring import BoundedRing, ConsistentHash
from sim.router.placement.table import SessionTable
from sim.testing import FakeRouter, keys, pods, router

A, B = 0, 1
TURN_TOKENS = 1600


def session_at_a(sender: FakeRouter) -> int:
    """Some session that the policy opens on A, with B looking no better."""
    if isinstance(sender.policy, SessionTable):
        sender.fleet.in_flight = [0, 1]
        return keys(1)[0]
    return next(key for key in keys(100) if sender.decide(key).pod == A)


def play(sender: FakeRouter) -> tuple[str, int]:
    """Placement log of six turns and the prompt tokens that the pods had to compute.

    Turn k says 1600 k tokens, all of the turn before included; each pod keeps
    what it computed. At turn 3, and only then, A is queuing.
    """
    key = session_at_a(sender)
    kept = [0, 0]
    log, computed = "", 0
    for turn in range(1, 7):
        now_s = 10.0 * turn
        if turn > 1:
            sender.fleet.in_flight = [4, 0] if turn == 3 else [0, 0]
        sender.fleet.waiting = [2, 0] if turn == 3 else [0, 0]
        sender.fleet.poll(now_s)
        pod = sender.decide(key, now_s).pod
        log += "AB"[pod]
        computed += turn * TURN_TOKENS - kept[pod]
        kept[pod] = turn * TURN_TOKENS
    return log, computed


@pytest.mark.parametrize(
    ("kind", "log", "computed", "hit_percent"),
    [
        (ConsistentHash, "AAAAAA", 9_600, 71.43),
        (SessionTable, "AABBBB", 12_800, 61.90),
        (BoundedRing, "AABAAA", 14_400, 57.14),
    ],
)
def test_c02_the_ring_pays_twice_for_a_spill(
    kind: type, log: str, computed: int, hit_percent: float
) -> None:
    """C02: a ring with memory, or a table without, would hide what a spill costs."""
    assert play(router(kind, pods(2))) == (log, computed)
    assert 100 * (1 - computed / (TURN_TOKENS * 21)) == pytest.approx(hit_percent, abs=0.005)
