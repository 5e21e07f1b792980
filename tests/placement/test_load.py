"""Policies without memory: ties, rotation, two choices."""

from collections import Counter
from statistics import mean

import pytest

from sim.router.placement.load import LeastLoaded, PowerOfTwo, Random, RoundRobin
from sim.testing import FakeRouter, context, pods, router


def one_at_a_time(ties: str, seed: int = 1) -> Counter[int]:
    """C07: 448 unrelated prompts, nothing in flight at any decision."""
    served = Counter[int]()
    sender = router(LeastLoaded, pods(4), seed, ties=ties)
    for _ in range(448):
        pod = sender.send(None).pod
        served[pod] += 1
        sender.end(pod)
    return served


def test_c07_first_index_sends_everything_to_pod_0() -> None:
    """C07: the option would not show the bias that it is offered for."""
    assert one_at_a_time("first-index") == {0: 448}


def test_c07_rotating_ties_share_evenly_and_are_the_default() -> None:
    """C07: a fleet under light load would use one pod's KV cache only."""
    assert one_at_a_time("rotate") == {0: 112, 1: 112, 2: 112, 3: 112}
    assert LeastLoaded.spec_type().ties == "rotate"


@pytest.mark.parametrize("seed", range(1, 6))
def test_c07_random_ties_share_evenly_within_four_sigma(seed: int) -> None:
    """C07: ties called random would have a favourite."""
    served = one_at_a_time("random", seed)
    assert all(abs(served[pod] - 112) <= 35 for pod in range(4))
    assert len(set(served.values())) > 1


def test_least_loaded_fills_the_valleys_first() -> None:
    """A busy pod would get a request while another has less to do."""
    fleet = pods(4)
    fleet.in_flight = [3, 0, 2, 1]
    sender = router(LeastLoaded, fleet)
    assert [sender.send(None).pod for _ in range(6)] == [1, 3, 1, 2, 3, 1]
    assert fleet.in_flight == [3, 3, 3, 3]


def test_rotation_goes_on_among_whoever_is_tied() -> None:
    """A change of the tied set would restart the rotation at its first pod."""
    fleet = pods(4)
    sender = router(LeastLoaded, fleet)
    assert sender.decide(None).pod == 0
    fleet.in_flight = [0, 5, 0, 0]
    assert [sender.decide(None).pod for _ in range(4)] == [2, 3, 0, 2]


def test_c15_each_backend_has_a_rotation_of_its_own() -> None:
    """C15: a counter shared by two models would send all of A to every other pod, 100 to 0."""
    a = FakeRouter(RoundRobin(RoundRobin.spec_type(), context(backend="a")), pods(2, "a"))
    b = FakeRouter(RoundRobin(RoundRobin.spec_type(), context(backend="b")), pods(1, "b"))
    served = Counter[str]()
    for _ in range(100):
        for sender in (a, b):
            served[sender.fleet.names[sender.decide(None).pod]] += 1
    assert served == {"a-0": 50, "a-1": 50, "b-0": 100}


def test_c15_round_robin_skips_who_is_not_ready_and_does_not_restart() -> None:
    """C15: an index into the list of candidates would jump when the list changes."""
    fleet = pods(4)
    sender = router(RoundRobin, fleet)
    assert [sender.decide(None).pod for _ in range(2)] == [0, 1]
    fleet.ready[0] = fleet.ready[2] = False
    assert [sender.decide(None).pod for _ in range(3)] == [3, 1, 3]
    fleet.ready[0] = fleet.ready[2] = True
    assert [sender.decide(None).pod for _ in range(3)] == [0, 1, 2]
    assert sender.join("qwen-4") == 4
    assert [sender.decide(None).pod for _ in range(4)] == [3, 4, 0, 1]


def test_power_of_two_never_takes_the_busiest_of_all() -> None:
    """Two choices that may be the same pod would be one choice."""
    fleet = pods(4)
    fleet.in_flight = [9, 3, 2, 1]
    sender = router(PowerOfTwo, fleet)
    taken = Counter(sender.decide(None).pod for _ in range(6000))
    # Of the six pairs three contain pod 3, two more pod 2, the last is (0, 1).
    assert 0 not in taken
    for pod, pairs in ((1, 1), (2, 2), (3, 3)):
        assert taken[pod] == pytest.approx(1000 * pairs, abs=5 * 39)


def test_power_of_two_breaks_ties_evenly() -> None:
    """Equal loads would favour the first or the last slot."""
    sender = router(PowerOfTwo, pods(4))
    taken = Counter(sender.decide(None).pod for _ in range(4000))
    assert all(taken[pod] == pytest.approx(1000, abs=4 * 28) for pod in range(4))


def test_c08_an_ideal_hash_is_uneven_too() -> None:
    """C08 (ii): 384 sessions on 8 pods, sd 6.48 per pod, mean of the maximum about 58."""
    squares, maxima = [], []
    for seed in range(300):
        sender = router(Random, pods(8), seed)
        served = Counter(sender.decide(None).pod for _ in range(384))
        squares.append(mean((served[pod] - 48) ** 2 for pod in range(8)))
        maxima.append(max(served.values()))
    assert mean(squares) ** 0.5 == pytest.approx(6.48, abs=0.4)
    assert mean(maxima) == pytest.approx(58, abs=1)
