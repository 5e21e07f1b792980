"""The hash ring and the two policies that walk on it."""

from collections import Counter
from math import ceil
from statistics import mean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.content import Node, Prompt
from sim.router.placement.hashing import HashRing
from sim.router.placement.ring import BoundedRing, ConsistentHash
from sim.router.views import PodAdded, PodRemoved
from sim.testing import FakeFleet, FakeRouter, keys, pods, request, router
from tests.placement import reference

ALL_READY = [True] * 9


def ring_of(names: list[str], virtual_nodes: int, salt: str = "1") -> HashRing:
    ring = HashRing(salt, virtual_nodes)
    for pod, name in enumerate(names):
        ring.observe(PodAdded(pod, name, 0.0))
    return ring


def key_at_home(sender: FakeRouter, pod: int) -> int:
    """Some session whose home is ``pod``, for as long as nobody is over the bound."""
    return next(key for key in keys(1000) if sender.decide(key).pod == pod)


def test_c08_the_largest_share_falls_with_the_virtual_nodes() -> None:
    """C08 (i): a weak hash or a lost wrap-around arc would change how uneven a ring is."""
    largest = {}
    for virtual_nodes in (1, 3, 10, 33, 100, 1000):
        largest[virtual_nodes] = mean(
            8
            * max(
                ring_of([f"fleet{index}-pod-{pod}" for pod in range(8)], virtual_nodes)
                .shares()
                .values()
            )
            for index in range(300)
        )
    assert largest[1] == pytest.approx(sum(1 / k for k in range(1, 9)), abs=0.15)
    assert largest[3] == pytest.approx(1.945, abs=0.07)
    assert largest[10] == pytest.approx(1.49, abs=0.04)
    assert largest[33] == pytest.approx(1.26, abs=0.04)
    assert largest[100] == pytest.approx(1.15, abs=0.04)
    assert largest[1000] == pytest.approx(1.04, abs=0.04)
    assert list(largest.values()) == sorted(largest.values(), reverse=True)


def test_shares_are_what_sessions_get() -> None:
    """The shares would describe another ring than the one that places."""
    ring = ring_of(pods(8).names, 3)
    shares = ring.shares()
    assert sum(shares.values()) == pytest.approx(1.0, abs=1e-12)
    placed = Counter(ring.first(key, ALL_READY)[0] for key in keys(20_000))
    for pod, share in shares.items():
        assert placed[pod] / 20_000 == pytest.approx(share, abs=4 * 0.0036)


def test_the_seed_salts_the_layout() -> None:
    """All seeds would replicate one lucky or unlucky layout."""
    names = pods(8).names
    assert ring_of(names, 100, "1").shares() != ring_of(names, 100, "2").shares()


def test_an_empty_ring_says_so() -> None:
    """A router without pods would loop or fail obscurely."""
    ring = HashRing("1", 100)
    assert ring.shares() == {}
    with pytest.raises(LookupError, match="no pod on the ring is eligible"):
        ring.first(1, [])


def test_c09_only_the_sessions_of_the_pod_that_left_move() -> None:
    """C09: an index of the pod in the hash, or a modulo, would move nearly everyone."""
    sessions = keys(4000)
    sender = router(ConsistentHash, pods(8))
    before = {key: sender.decide(key).pod for key in sessions}
    assert len(set(before.values())) == 8
    sender.leave(3)
    after = {key: sender.decide(key) for key in sessions}
    moved = {key for key in sessions if after[key].pod != before[key]}
    assert moved == {key for key in sessions if before[key] == 3}
    assert {place.outcome for place in after.values()} == {"home"}
    assert sender.join("qwen-3") == 8
    back = {key: sender.decide(key).pod for key in sessions}
    assert back == {key: 8 if pod == 3 else pod for key, pod in before.items()}


def test_c09_a_pod_that_is_not_ready_lends_its_sessions_out() -> None:
    """C09: sessions of a pod that is down would not be told apart from those at home."""
    sessions = keys(4000)
    sender = router(ConsistentHash, pods(8))
    before = {key: sender.decide(key).pod for key in sessions}
    sender.fleet.ready[3] = False
    for key in sessions:
        place = sender.decide(key)
        if before[key] == 3:
            assert place.pod != 3
            assert (place.outcome, place.reason) == ("migrated", "not_ready")
        else:
            assert (place.pod, place.outcome) == (before[key], "home")
    sender.fleet.ready[3] = True
    assert {key: sender.decide(key).pod for key in sessions} == before


def test_c10_a_pod_that_joins_takes_its_share_from_all() -> None:
    """C10: sessions would move between old pods, or none would come to the new one."""
    sessions = keys(4000)
    sender = router(ConsistentHash, pods(7))
    before = {key: sender.decide(key).pod for key in sessions}
    joined = sender.join("qwen-7")
    moved = [key for key in sessions if sender.decide(key).pod != before[key]]
    assert {sender.decide(key).pod for key in moved} == {joined}
    assert len(moved) == pytest.approx(500, abs=150)
    assert {before[key] for key in moved} == set(range(7))


def test_a_pod_that_leaves_before_anyone_asks_is_not_on_the_ring() -> None:
    """Changes between two requests would be lost."""
    ring = ring_of(pods(3).names, 100)
    ring.observe(PodRemoved(1, 0.0))
    assert set(ring.shares()) == {0, 2}


def test_c16_a_session_hash_does_not_look_at_the_prompt() -> None:
    """C16: one common system prompt would pull all sessions onto one pod."""
    system = Node()
    sender = router(ConsistentHash, pods(4))
    placed: dict[int, list[int]] = {}
    for key in keys(40):
        for tokens in (5_000, 9_000):
            prompt = Prompt(Node(system, 4096), tokens)
            place = sender.policy.choose(request(key, prompt), sender.fleet, 0.0)
            placed.setdefault(key, []).append(place.pod)
    assert all(first == second for first, second in placed.values())
    assert {first for first, _ in placed.values()} == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("others", "allowed"),
    [
        ([5, 5, 5, 5, 5, 5, 4], 7),  # 40 + 1 requests on 8 pods: 1.40 times the mean of 5
        ([11, 11, 11, 11, 11, 11, 9], 14),  # 88 + 1: 1.27 times the mean of 11
    ],
)
def test_the_bound_trips_a_third_above_the_mean(others: list[int], allowed: int) -> None:
    """The published deployment's spills would come at another load."""
    fleet = pods(8)
    sender = router(BoundedRing, fleet)
    key = key_at_home(sender, 0)
    total = sum(others) + allowed - 1
    fleet.in_flight = [allowed - 1, *others]
    assert total in (40, 88)
    assert sender.decide(key).outcome == "home"
    fleet.in_flight = [allowed, *others[:-1], others[-1] - 1]
    place = sender.decide(key)
    assert (place.outcome, place.reason) == ("spill", "bound")


@pytest.mark.parametrize(("loads", "outcome"), [([54, 45], "home"), ([55, 44], "spill")])
def test_the_bound_is_computed_in_integers(loads: list[int], outcome: str) -> None:
    """110 % of 100 requests on 2 pods is 55 each; in floats it rounds up to 56."""
    assert ceil(1.1 * 100 / 2) == 56
    fleet = pods(2)
    sender = router(BoundedRing, fleet, max_load_percent=110)
    key = key_at_home(sender, 0)
    fleet.in_flight = loads
    assert sender.decide(key).outcome == outcome


def test_strict_without_ceiling_and_floor() -> None:
    """``bound: strict`` and ``floor: 1`` would not be what the documentation says."""
    fleet = pods(4)
    strict = router(BoundedRing, fleet, bound="strict")
    floored = router(BoundedRing, fleet, floor=1)
    both = router(BoundedRing, fleet, bound="strict", floor=1)
    key = key_at_home(strict, 0)
    # Nothing in flight: everybody is over 1.25/4, so the session is at home.
    assert strict.decide(key).outcome == "home"
    fleet.in_flight = [1, 0, 0, 0]
    # One request in flight: 2 is more than 1.25 * 2/4, but the floor rounds 1.25 up to 2.
    assert floored.decide(key).outcome == "home"
    assert both.decide(key).outcome == "spill"
    assert router(BoundedRing, fleet).decide(key).outcome == "spill"


def test_a_spilled_session_goes_home_on_its_next_turn() -> None:
    """The ring would have a memory, and its second miss of the cache would not show."""
    fleet = pods(4)
    sender = router(BoundedRing, fleet)
    key = key_at_home(sender, 2)
    fleet.in_flight = [0, 0, 4, 0]
    assert sender.decide(key).outcome == "spill"
    fleet.in_flight = [0, 0, 0, 0]
    assert (sender.decide(key).pod, sender.decide(key).outcome) == (2, "home")


def test_requests_without_a_session_take_turns_on_the_ring_policies() -> None:
    """Keyless requests would pile up on one pod."""
    for kind in (BoundedRing, ConsistentHash):
        sender = router(kind, pods(4))
        assert [sender.decide(None).pod for _ in range(5)] == [0, 1, 2, 3, 0]
        sender.fleet.in_flight = [1, 0, 1, 1]
        assert sender.decide(None).pod == 1


loads = st.lists(st.integers(0, 12), min_size=1, max_size=6)


@given(
    loads=loads,
    ready=st.lists(st.booleans(), min_size=6, max_size=6),
    percent=st.sampled_from([100, 101, 105, 110, 125, 150, 200]),
    strict=st.booleans(),
    floor=st.integers(0, 1),
    key=st.integers(0, 2**64 - 1),
)
def test_the_bounded_ring_agrees_with_its_definition(
    loads: list[int], ready: list[bool], percent: int, strict: bool, floor: int, key: int
) -> None:
    """A shortcut of the fast ring (bisection, integers, repeated owners) would be wrong."""
    fleet = pods(len(loads))
    fleet.in_flight = loads
    if any(ready[: len(loads)]):
        fleet.ready = ready[: len(loads)]
    sender = router(
        BoundedRing,
        fleet,
        max_load_percent=percent,
        bound="strict" if strict else "default",
        floor=floor,
        virtual_nodes=5,
    )
    walk = reference.clockwise(key, "1", dict(enumerate(fleet.names)), 5)
    expected = reference.bounded_ring(walk, fleet, percent, strict, floor)
    place = sender.decide(key)
    assert (place.pod, place.outcome, place.reason) == expected


@pytest.mark.parametrize("percent", [100, 110, 125, 200])
def test_no_pod_is_ever_placed_on_above_the_bound(percent: int) -> None:
    """Bounded loads would not be bounded: max load <= ceil(c m / n) at every insertion."""
    fleet = pods(8)
    sender = router(BoundedRing, fleet, max_load_percent=percent)
    for inserted, key in enumerate(keys(2000), start=1):
        place = sender.send(key)
        assert fleet.in_flight[place.pod] <= -(-percent * inserted // 800)
    assert sum(fleet.in_flight) == 2000


def test_plain_hashing_knows_no_bound() -> None:
    """The policy to compare with would be a bounded one too."""
    fleet = pods(8)
    sender = router(ConsistentHash, fleet)
    assert {sender.send(key).outcome for key in keys(2000)} == {"home"}
    assert max(fleet.in_flight) > -(-110 * 2000 // 800)


def test_slots_do_not_matter_to_the_ring() -> None:
    """Sessions would move when pods are listed in another order."""
    names = pods(8).names
    forward = router(ConsistentHash, FakeFleet(names))
    backward = router(ConsistentHash, FakeFleet(names[::-1]))
    for key in keys(500):
        assert names[forward.decide(key).pod] == names[::-1][backward.decide(key).pod]
