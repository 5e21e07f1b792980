"""What the session table remembers and for how long: cap, idle timeout, sweep."""

import heapq
import sys
from collections import Counter
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from sim.router.placement.ring import ConsistentHash
from sim.router.placement.table import SessionTable
from sim.testing import FakeRouter, keys, pods, router

KEY = keys(1)[0]


class Clocked:
    """Sends requests at given times, sweeps in between, and watches the gauge."""

    def __init__(self, sender: FakeRouter) -> None:
        self.sender = sender
        self.next_tick_s = sender.policy.tick_interval_s
        self.largest_gauge = 0

    def at(self, now_s: float) -> None:
        while self.next_tick_s <= now_s:
            self.sender.tick(self.next_tick_s)
            self.next_tick_s += self.sender.policy.tick_interval_s

    def decide(self, key: int, now_s: float) -> tuple[int, str]:
        self.at(now_s)
        self.sender.fleet.poll(now_s)
        place = self.sender.decide(key, now_s)
        self.largest_gauge = max(self.largest_gauge, self.sender.policy.bindings)
        return place.pod, place.outcome


def test_c13_a_full_table_sends_new_sessions_to_their_ring_home() -> None:
    """C13: a flood of new sessions would evict live ones, or the table would outgrow its cap."""
    sender = router(SessionTable, pods(4), max_sessions=100)
    ring = router(ConsistentHash, pods(4))
    clock = Clocked(sender)
    sessions = keys(150)
    turns = [
        {key: clock.decide(key, 60.0 * turn + index / 10) for index, key in enumerate(sessions)}
        for turn in range(3)
    ]
    for key in sessions[:100]:
        assert [turn[key][1] for turn in turns] == ["new", "sticky", "sticky"]
        assert len({turn[key][0] for turn in turns}) == 1
    for key in sessions[100:]:
        assert {turn[key] for turn in turns} == {(ring.decide(key).pod, "home")}

    flood = [clock.decide(key, 180.0 + index / 1000) for index, key in enumerate(keys(10_000, 2))]
    assert Counter(outcome for _, outcome in flood) == {"home": 10_000}
    for key in sessions[:100]:
        assert clock.decide(key, 200.0) == (turns[0][key][0], "sticky")
    assert sender.policy.bindings == clock.largest_gauge == 100

    clock.at(200.0 + 1800.0 - 1.0)
    assert sender.policy.bindings == 100
    clock.at(200.0 + 1800.0 + 30.0)
    assert sender.policy.bindings == 0
    assert clock.decide(sessions[120], 2100.0)[1] == "new"


def test_the_ring_home_of_a_full_table_looks_at_readiness_only() -> None:
    """R12: the home would be a pod that is down, or move with load or a full KV cache."""
    fleet = pods(4)
    sender = router(SessionTable, fleet, max_sessions=1)
    sender.decide(KEY)
    overflow = keys(200, seed=3)
    before = {key: sender.decide(key).pod for key in overflow}
    fleet.in_flight, fleet.kv_usage = [90, 0, 5, 7], [1.0, 1.0, 0.0, 1.0]
    assert {key: sender.decide(key).pod for key in overflow} == before
    fleet.ready[0] = False
    after = {key: sender.decide(key) for key in overflow}
    assert {place.outcome for place in after.values()} == {"home"}
    assert 0 not in {place.pod for place in after.values()}
    stayed = {key: after[key].pod for key in overflow if before[key] != 0}
    assert stayed == {key: pod for key, pod in before.items() if pod != 0}


def test_a_full_table_makes_room_from_expired_entries_before_the_sweep() -> None:
    """R13: a new session would be turned away by an entry that is long dead."""
    sender = router(SessionTable, pods(4), max_sessions=2, idle_timeout=60.0)
    first, second, third, fourth = keys(4)
    assert sender.decide(first, 0.0).outcome == "new"
    assert sender.decide(second, 50.0).outcome == "new"
    assert sender.decide(third, 60.0).outcome == "home"
    assert sender.decide(third, 60.5).outcome == "new"
    assert sender.decide(fourth, 60.5).outcome == "home"
    assert sender.policy.bindings == 2


def lines_executed(action: Callable[[], None]) -> int:
    """Lines of Python that ``action`` runs: a cost that the machine's load does not change."""
    lines = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        action()
    finally:
        sys.settrace(before)
    return lines


def test_c13_a_flood_on_a_full_table_is_not_quadratic() -> None:
    """C13, R13: with a scan per request 10,000 new sessions on a full table would take minutes."""
    sender = router(SessionTable, pods(4))
    for key in keys(100_000):
        sender.decide(key, 0.0)
    flood = keys(10_000, seed=2)
    outcomes: set[str] = set()

    def send(first: int, last: int) -> None:
        for index in range(first, last):
            outcomes.add(sender.decide(flood[index], 1.0 + index / 1000).outcome)

    # A scan would execute at least one line per entry and request.
    assert lines_executed(lambda: send(0, 100)) < 100 * 200
    send(100, len(flood))
    assert outcomes == {"home"}
    assert sender.policy.bindings == 100_000


def outcomes_with_think_time(think_s: float) -> Counter[str]:
    """C14: 200 sessions of 10 turns on 8 pods, 2 s of service, idle timeout 60 s."""
    sender = router(SessionTable, pods(8), idle_timeout=60.0)
    clock = Clocked(sender)
    outcomes = Counter[str]()
    queue = [(index / 10, 0, key, 0) for index, key in enumerate(keys(200))]
    heapq.heapify(queue)
    ends: list[tuple[float, int]] = []
    while queue:
        now_s, _, key, turn = heapq.heappop(queue)
        while ends and ends[0][0] <= now_s:
            sender.end(heapq.heappop(ends)[1])
        pod, outcome = clock.decide(key, now_s)
        sender.fleet.in_flight[pod] += 1
        heapq.heappush(ends, (now_s + 2.0, pod))
        outcomes[outcome] += 1
        if turn < 9:
            heapq.heappush(queue, (now_s + 2.0 + think_s, len(queue), key, turn + 1))
    return outcomes


def test_c14_an_idle_timeout_longer_than_the_think_time_keeps_sessions() -> None:
    """C14: the timeout would count from the creation of the entry."""
    assert outcomes_with_think_time(30.0) == {"new": 200, "sticky": 1800}


def test_c14_an_idle_timeout_shorter_than_the_think_time_forgets_every_turn() -> None:
    """C14: an expired entry would be used until it is swept."""
    assert outcomes_with_think_time(90.0) == {"new": 2000}


def test_c14_the_idle_timeout_slides() -> None:
    """C14: a session used every 30 s would be forgotten within the hour."""
    clock = Clocked(router(SessionTable, pods(8), idle_timeout=60.0))
    outcomes = [clock.decide(KEY, 30.0 * turn)[1] for turn in range(121)]
    assert outcomes == ["new"] + ["sticky"] * 120


@pytest.mark.parametrize(("idle_s", "outcome"), [(60.0, "sticky"), (60.001, "new")])
def test_an_entry_expires_after_the_timeout_not_at_it(idle_s: float, outcome: str) -> None:
    """R11: the limit would be off by the instant itself; no sweep comes in between (R14)."""
    assert (4.4 + 60.0) - 4.4 > 60.0  # floats do not round kindly here
    sender = router(SessionTable, pods(8), idle_timeout=60.0)
    sender.decide(KEY, 4.4)
    assert sender.decide(KEY, 4.4 + idle_s).outcome == outcome
    assert sender.policy.bindings == 1


def test_an_expired_session_of_a_lost_pod_is_new_not_migrated() -> None:
    """R11 comes before R10: a forgotten session would be reported as moved."""
    fleet = pods(3)
    sender = router(SessionTable, fleet, idle_timeout=60.0)
    fleet.ready[sender.decide(KEY, 0.0).pod] = False
    place = sender.decide(KEY, 61.0)
    assert (place.outcome, place.reason) == ("new", None)
