"""vLLM's balancer: the score, the copy of the counts and its replacement, ties."""

from collections import Counter

import pytest

from sim.router.placement.data_parallel import VllmDp
from sim.testing import FakeRouter, pods, router


def chosen(sender: FakeRouter, count: int, now_s: float = 0.0) -> list[int]:
    return [sender.decide(None, now_s).pod for _ in range(count)]


def test_a_waiting_request_counts_as_four_running_ones() -> None:
    """Queues would be weighed like running requests, and a rank that cannot admit would go on
    to receive as many as one that can.
    """
    fleet = pods(2)
    fleet.waiting, fleet.running = [1, 0], [0, 3]
    assert router(VllmDp, fleet).decide(None).pod == 1
    fleet.running = [0, 5]
    assert router(VllmDp, fleet).decide(None).pod == 0


def test_a_choice_counts_as_one_more_waiting_until_the_next_poll() -> None:
    """All requests between two broadcasts would go to one rank."""
    fleet = pods(3)
    fleet.running = [0, 2, 9]
    sender = router(VllmDp, fleet)
    # Scores 0, 2, 9, then each choice adds 4.
    assert chosen(sender, 7) == [0, 1, 0, 1, 0, 2, 1]


def test_a_poll_replaces_the_copy_although_it_has_not_seen_the_dispatches() -> None:
    """The balancer would remember what vLLM's forgets, and be better than the real one: ten
    requests sent, a broadcast from before a step has counted them, and all is as it was.
    """
    fleet = pods(2)
    fleet.running = [0, 30]
    sender = router(VllmDp, fleet)
    assert chosen(sender, 10, 0.01) == [0] * 8 + [1, 0]
    fleet.poll(0.1)
    assert chosen(sender, 10, 0.11) == [0] * 8 + [1, 0]


def test_only_the_pod_that_answered_a_poll_is_replaced() -> None:
    """A rank that is silent for a poll would look as empty as it was when it last spoke."""
    fleet = pods(2)
    sender = router(VllmDp, fleet)
    assert chosen(sender, 4, 0.01) == [0, 1, 0, 1]
    fleet.polled_s[1] = 0.1
    assert chosen(sender, 3, 0.11) == [1, 1, 0]


def test_decisions_at_the_instant_of_a_poll_come_after_it() -> None:
    """What is chosen right after a poll would be forgotten by that same poll."""
    fleet = pods(2)
    sender = router(VllmDp, fleet)
    fleet.poll(0.3)
    assert chosen(sender, 2, 0.3) == [0, 1]
    assert chosen(sender, 1, 0.3) + chosen(sender, 1, 0.35) == [0, 1]


@pytest.mark.parametrize(("ties", "served"), [("first-index", (40, 0)), ("rotate", (20, 20))])
def test_ties_after_each_broadcast(ties: str, served: tuple[int, int]) -> None:
    """INC-31: the old bias to the first rank would be hidden, or the scan that cured it not
    work: one request per broadcast, and the counts never say that one is better.
    """
    fleet = pods(2)
    sender = router(VllmDp, fleet, ties=ties)
    counts = Counter[int]()
    for broadcast in range(40):
        fleet.poll(broadcast / 10)
        counts[sender.decide(None, broadcast / 10 + 0.05).pod] += 1
    assert (counts[0], counts[1]) == served


def test_the_rotating_scan_moves_with_every_decision_not_with_the_choice() -> None:
    """It would be a round robin: here the scan starts at 0, 1, 2, and pod 0 is always busy."""
    fleet = pods(3)
    fleet.running = [50, 0, 0]
    sender = router(VllmDp, fleet, ties="rotate")
    first = []
    for broadcast in range(6):
        fleet.poll(broadcast / 10)
        first.append(sender.decide(None, broadcast / 10 + 0.05).pod)
    assert first == [1, 1, 2, 1, 1, 2]
