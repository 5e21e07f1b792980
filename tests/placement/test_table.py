"""The session table against the worked cases: where sessions go, and what moves them."""

from collections import Counter
from dataclasses import dataclass

import pytest

from sim.router.placement.table import SessionTable
from sim.testing import FakeFleet, FakeRouter, keys, pods, router

P, Q, OTHER = 0, 1, 2
KEY = keys(1)[0]


@dataclass
class Row:
    """A row of C03's decision table, for a session that is known on P."""

    waiting: int
    gap: int
    outcome: str
    reason: str | None = None
    fresh: bool = True
    kv_full: bool = False
    moved_ago_s: float | None = None
    p_ready: bool = True


C03 = {
    "1 nothing waits": Row(0, 20, "sticky"),
    "2 gap of 3": Row(1, 3, "sticky"),
    "3 gap of 4": Row(1, 4, "spill", "waiting"),
    "4 stale, gap of 7": Row(1, 7, "sticky", fresh=False),
    "5 stale, gap of 8": Row(1, 8, "spill", "waiting", fresh=False),
    "5b stale, nothing waited": Row(0, 8, "spill", "waiting", fresh=False),
    "6 full alone": Row(0, 0, "sticky", kv_full=True),
    "7 full and waiting": Row(2, 1, "spill", "kv_full", kv_full=True),
    "7b full, waiting, as busy": Row(2, 0, "spill", "kv_full", kv_full=True),
    "7c stale, so not full": Row(2, 1, "sticky", fresh=False, kv_full=True),
    "8 Q is busier": Row(2, -3, "sticky", kv_full=True),
    "9 moved 30 s ago": Row(5, 9, "sticky", moved_ago_s=30.0),
    "9b moved just under 60 s ago": Row(5, 9, "sticky", moved_ago_s=59.999),
    "10a moved 60 s ago": Row(5, 9, "spill", "waiting", moved_ago_s=60.0),
    "10 moved 61 s ago": Row(5, 9, "spill", "waiting", moved_ago_s=61.0),
    "11 P not ready": Row(5, 9, "migrated", "not_ready", moved_ago_s=5.0, p_ready=False),
    "11b P not ready, idle": Row(0, -9, "migrated", "not_ready", moved_ago_s=5.0, p_ready=False),
}


def bound_to_p(moved_at_s: float | None, **settings: object) -> FakeRouter:
    """A router that knows one session on P; ``moved_at_s`` says when it was moved there."""
    fleet = pods(3)
    sender = router(SessionTable, fleet, **settings)
    if moved_at_s is None:
        fleet.in_flight = [0, 1, 1]
        assert sender.decide(KEY, 0.0).pod == P
        return sender
    fleet.in_flight = [1, 1, 0]
    assert sender.decide(KEY, 0.0).pod == OTHER
    fleet.in_flight, fleet.waiting = [0, 5, 9], [0, 0, 1]
    fleet.poll(moved_at_s)
    place = sender.decide(KEY, moved_at_s)
    assert (place.pod, place.outcome, place.reason) == (P, "spill", "waiting")
    return sender


@pytest.mark.parametrize("row", C03.values(), ids=C03.keys())
def test_c03_is_the_pod_really_backed_up(row: Row) -> None:
    """C03: a session would move although its pod copes, or stay although it does not."""
    now_s = 100.3
    sender = bound_to_p(None if row.moved_ago_s is None else now_s - row.moved_ago_s)
    fleet = sender.fleet
    # The third pod is far busier, so the mean says nothing about the least-loaded one.
    fleet.in_flight = [20, 20 - row.gap, 60]
    fleet.waiting = [row.waiting, 0, 7]
    fleet.kv_usage = [0.95 if row.kv_full else 0.9499, 0.5, 0.5]
    fleet.poll(now_s)
    if not row.fresh:
        fleet.polled_s[P] = now_s - 5.001
    fleet.ready[P] = row.p_ready
    place = sender.decide(KEY, now_s)
    assert (place.outcome, place.reason) == (row.outcome, row.reason)
    assert place.pod == (P if row.outcome == "sticky" else Q)


def test_metrics_of_exactly_five_seconds_are_fresh() -> None:
    """At an age of 5 s a gap of 4 would not do, or do only when the floats round kindly."""
    assert (3.3 + 5.0) - 3.3 > 5.0
    sender = bound_to_p(None)
    sender.fleet.in_flight, sender.fleet.waiting = [8, 4, 60], [1, 0, 0]
    sender.fleet.poll(3.3)
    assert sender.decide(KEY, 3.3 + 5.001).outcome == "sticky"
    assert sender.decide(KEY, 3.3 + 5.0).outcome == "spill"


@pytest.mark.parametrize("steps", [1, 3, 7, 600])
def test_c03_exactly_sixty_seconds_after_a_move_the_next_is_allowed(steps: int) -> None:
    """C03: a clock that adds up small steps would miss the end of the cooldown by a rounding."""
    now_s = 100.1
    sender = bound_to_p(now_s)
    for _ in range(steps):
        now_s += 60.0 / steps
    sender.fleet.in_flight, sender.fleet.waiting = [9, 0, 60], [5, 0, 0]
    sender.fleet.poll(now_s)
    assert sender.decide(KEY, now_s - 0.001).outcome == "sticky"
    assert sender.decide(KEY, now_s).outcome == "spill"


def test_a_session_that_moved_stays_moved() -> None:
    """R8: a spilled session would go home on its next turn and miss the cache twice."""
    sender = bound_to_p(100.0)
    sender.fleet.in_flight, sender.fleet.waiting = [3, 0, 0], [0, 0, 0]
    for turn in range(5):
        now_s = 100.0 + 30 * turn
        sender.fleet.poll(now_s)
        place = sender.decide(KEY, now_s)
        assert (place.pod, place.outcome) == (P, "sticky")


def test_a_migration_starts_the_cooldown_too() -> None:
    """R9: a session whose pod went down would be thrown on by load at once."""
    sender = bound_to_p(None)
    fleet = sender.fleet
    fleet.ready[P] = False
    fleet.in_flight = [0, 0, 5]
    assert sender.decide(KEY, 10.0).outcome == "migrated"
    fleet.in_flight, fleet.waiting = [0, 14, 5], [0, 3, 0]
    for now_s, outcome in ((69.9, "sticky"), (70.0, "spill")):
        fleet.poll(now_s)
        assert sender.decide(KEY, now_s).outcome == outcome


def test_c03_a_single_pod_moves_nothing() -> None:
    """C03, R16: a lone pod that is full, queuing and busy would lose its sessions to itself."""
    fleet = pods(1)
    sender = router(SessionTable, fleet)
    assert sender.decide(KEY).outcome == "new"
    fleet.in_flight, fleet.waiting, fleet.kv_usage = [50], [20], [1.0]
    assert sender.decide(KEY).outcome == "sticky"
    fleet.polled_s = [-100.0]
    assert sender.decide(KEY).outcome == "sticky"


@pytest.mark.parametrize(("gap", "outcome"), [(0, "sticky"), (3, "sticky"), (4, "spill")])
def test_c03_all_full_and_queuing(gap: int, outcome: str) -> None:
    """C03: sessions would be shuffled between pods that are all full; only R4 still applies."""
    sender = bound_to_p(None)
    fleet = sender.fleet
    fleet.in_flight = [20, 20 - gap, 20]
    fleet.waiting, fleet.kv_usage = [3, 3, 3], [1.0, 1.0, 1.0]
    place = sender.decide(KEY, 1.0)
    assert (place.outcome, place.reason) == (outcome, "waiting" if outcome == "spill" else None)


def forty_eight_on_a_full_pod(loads: list[int]) -> tuple[FakeRouter, list[int]]:
    """C04: 48 sessions on P0, which is full with 2 waiting; only P1 has KV room."""
    fleet = pods(4)
    sender = router(SessionTable, fleet)
    fleet.in_flight = [0, 1, 1, 1]
    sessions = keys(48)
    assert {sender.decide(key).pod for key in sessions} == {0}
    fleet.in_flight = list(loads)
    fleet.waiting = [2, 0, 0, 0]
    fleet.kv_usage = [0.99, 0.5, 0.97, 0.95]
    fleet.poll(10.0)
    return sender, sessions


def test_c04_a_full_pod_does_not_herd_its_sessions_onto_a_busier_one() -> None:
    """C04 (i): without the floor of R6 all 48 sessions would leave for a busier pod."""
    sender, sessions = forty_eight_on_a_full_pod([10, 14, 0, 0])
    for key in sessions:
        place = sender.send(key, 10.0)
        assert (place.pod, place.outcome) == (0, "sticky")
        sender.end(place.pod)


def test_c04_turns_of_one_instant_see_the_ones_before_them() -> None:
    """C04 (ii): decisions on one snapshot would move all 48 and end at (10, 54)."""
    sender, sessions = forty_eight_on_a_full_pod([10, 6, 0, 0])
    fleet = sender.fleet
    outcomes = Counter[tuple[str, str | None]]()
    for key in sessions:
        before = list(fleet.in_flight)
        place = sender.send(key, 10.0)
        outcomes[place.outcome, place.reason] += 1
        if place.outcome == "spill":
            assert place.pod == 1
            assert before[1] <= before[0]
    assert outcomes == {("spill", "waiting"): 1, ("spill", "kv_full"): 25, ("sticky", None): 22}
    assert fleet.in_flight == [32, 32, 0, 0]


def test_c08_new_sessions_spread_exactly_when_nothing_is_in_flight() -> None:
    """C08 (iii): ties broken by anything but bound sessions would leave pods uneven."""
    sender = router(SessionTable, pods(8))
    assert Counter(sender.decide(key).pod for key in keys(384)) == dict.fromkeys(range(8), 48)


def test_ties_by_first_index_pin_a_quiet_fleet_to_pod_0() -> None:
    """The named option would not show what the default is there to prevent."""
    sender = router(SessionTable, pods(8), ties="first-index")
    assert {sender.decide(key).pod for key in keys(384)} == {0}


def test_equal_pods_are_drawn_from_the_seed() -> None:
    """The first session would always open on pod 0, or not be the same in two runs."""

    def first_pod(seed: int) -> int:
        return router(SessionTable, pods(8), seed).decide(KEY).pod

    opened = [first_pod(seed) for seed in range(40)]
    assert opened == [first_pod(seed) for seed in range(40)]
    assert len(set(opened)) > 4


def test_racing_first_requests_give_one_binding() -> None:
    """R1: two requests of a new session at one instant would be bound twice."""
    sender = router(SessionTable, pods(8))
    first, second = sender.send(KEY), sender.send(KEY)
    assert (first.outcome, second.outcome) == ("new", "sticky")
    assert first.pod == second.pod
    assert sender.policy.bindings == 1


def test_new_sessions_avoid_full_pods_unless_all_are() -> None:
    """R2: a new session would be sent where no KV block is left, although others have room."""
    fleet = pods(3)
    fleet.in_flight, fleet.kv_usage = [0, 5, 9], [0.96, 0.2, 0.2]
    sender = router(SessionTable, fleet)
    full, stale, all_full = keys(3)
    assert sender.decide(full, 1.0).pod == 1
    fleet.polled_s[0] = -10.0
    assert sender.decide(stale, 1.0).pod == 0
    fleet.poll(1.0)
    fleet.kv_usage = [0.96, 0.97, 0.98]
    assert sender.decide(all_full, 1.0).pod == 0


def test_requests_without_a_session_leave_no_entry() -> None:
    """Single-shot prompts would fill the table."""
    fleet = pods(3)
    fleet.in_flight = [4, 2, 3]
    sender = router(SessionTable, fleet)
    place = sender.decide(None)
    assert (place.pod, place.outcome) == (1, "unkeyed")
    assert sender.policy.bindings == 0


def test_c09_only_the_bound_sessions_of_the_pod_that_left_move() -> None:
    """C09: sessions of other pods would move, or those of the lost pod only after a cooldown."""
    fleet = pods(8)
    sender = router(SessionTable, fleet)
    sessions = keys(400)
    before = {key: sender.decide(key, 0.0).pod for key in sessions}
    sender.leave(3)
    for now_s, lost in ((5.0, 3), (6.0, 5)):
        fleet.ready[lost] = False
        for key in sessions:
            place = sender.decide(key, now_s)
            if before[key] == lost:
                assert (place.outcome, place.reason) == ("migrated", "not_ready")
                assert fleet.ready[place.pod]
            else:
                assert (place.pod, place.outcome) == (before[key], "sticky")
            before[key] = place.pod
    assert sender.policy.bindings == 400


def test_c10_a_new_pod_takes_new_sessions_until_it_has_its_share() -> None:
    """C10: old sessions would be dragged to a cold pod, or it would get no more than the others."""
    sender = router(SessionTable, pods(7))
    old = keys(392)
    before = {key: sender.decide(key).pod for key in old}
    joined = sender.join("qwen-7")
    assert {key: sender.decide(key).pod for key in old} == before
    placed = [sender.decide(key).pod for key in keys(70, seed=2)]
    assert placed[:56] == [joined] * 56
    assert max(Counter(placed[56:]).values()) == 2
    assert len(set(placed[56:])) == 8


def test_the_ignored_load_percent_changes_nothing() -> None:
    """R18: objects from 0.10.7 carry 125 and would behave differently for it."""

    def placed(**settings: object) -> list[tuple[int, str]]:
        fleet = FakeFleet(pods(4).names)
        sender = router(SessionTable, fleet, **settings)
        return [sender.send(key)[:2] for key in keys(60) * 2]

    assert placed() == placed(max_load_percent=100)
