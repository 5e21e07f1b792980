"""A model pool with priorities, a least residency, and a least share."""

import pytest

from sim.core.request import PoolError
from tests.pool.harness import Client, Desk

TEN = {"a": (10.0, 0.0), "b": (10.0, 0.0), "c": (10.0, 0.0)}


def desk(**options: object) -> Desk:
    return Desk(TEN, **{"kind": "fair", "initial": "a", **options})  # type: ignore[arg-type]


def told(clients: list[Client]) -> list[tuple[str, float]]:
    return [client.told for client in clients]


def test_without_its_settings_it_is_a_model_pool() -> None:
    """The kinds would not be comparable: C46's makespan and order would differ."""
    for kind in ("fair", "model-pool"):
        one = Desk(TEN, parallel=1, kind=kind, swapBudget=600)
        clients = [one.ask(0, member) for member in "abaacabc"]
        one.run(1000)
        assert [client.end_s for client in clients] == [12, 30, 14, 16, 44, 18, 32, 46]


@pytest.mark.parametrize(("joined_s", "swap_s"), [(5, 60), (60, 60), (70, 70)])
def test_an_idle_member_stays_for_its_least_residency(joined_s: float, swap_s: float) -> None:
    """An idle member would be swapped out early, or nobody look when its time is over."""
    one = desk(minResidency=60)
    client = one.ask(joined_s, "b")
    one.run(200)
    assert one.swaps[0] == (swap_s, "a", "b", swap_s + 10, "completed")
    assert client.told == ("served", swap_s + 12)


def test_the_least_residency_begins_when_a_member_is_ready() -> None:
    """It would count from the start of the swap, or of the run."""
    one = desk(minResidency=60)
    one.ask(70, "b")
    one.ask(75, "a")
    one.run(300)
    assert [swap[0] for swap in one.swaps] == [70, 140]


def test_if_idle_is_skipped_while_the_resident_stays() -> None:
    """It would be held though the member cannot be swapped in."""
    one = desk(minResidency=60)
    skipped = one.ask(5, "b", if_idle=True)
    later = one.ask(60, "b", if_idle=True)
    one.run(200)
    assert told([skipped, later]) == [(PoolError.INCUMBENT_BUSY, 5), ("served", 72)]


def closed_loop(one: Desk, member: str, offset_s: float) -> None:
    """A client that is never without a request of 10 s."""

    def send() -> None:
        client = one.ask_now(member, service_s=10)
        client.on_end = lambda: one.kernel.at(one.kernel.now_s, 10, send)

    one.kernel.at(offset_s, 10, send)


def test_a_higher_priority_drains_a_busy_resident() -> None:
    """It would be starved as in C50, or cut somebody off."""
    one = desk(members={"b": {"priority": 1}})
    for offset_s in (0, 5):
        closed_loop(one, "a", offset_s)
    client = one.ask(20, "b")
    one.run(35)
    assert one.swaps[0][:3] == (25, "a", "b")
    one.run(100)
    assert client.told == ("served", 37)
    assert "broken" not in {each.outcome for each in one.clients}


def test_a_lower_priority_does_not() -> None:
    """Priorities would be all the same, or the other way round."""
    one = desk(members={"a": {"priority": 1}}, swapBudget=100)
    for offset_s in (0, 5):
        closed_loop(one, "a", offset_s)
    client = one.ask(20, "b")
    one.run(500)
    assert client.told == (PoolError.HOLD_BUDGET, 120)


def test_higher_priorities_come_first_and_then_age() -> None:
    """The oldest would start the next swap."""
    one = desk(members={"c": {"priority": 1}})
    one.ask(0, "a", service_s=5)
    clients = [one.ask(1, "b"), one.ask(2, "c"), one.ask(3, "a")]
    one.run(100)
    assert [swap[2] for swap in one.swaps] == ["c", "b", "a"]
    assert told(clients) == [("served", 29), ("served", 17), ("served", 41)]


def test_a_member_that_was_loaded_serves_at_least_one() -> None:
    """b would be loaded for nothing when c is asked for meanwhile; its second one waits."""
    one = desk(members={"c": {"priority": 1}})
    clients = [one.ask(0, "b"), one.ask(1, "b"), one.ask(5, "c")]
    one.run(100)
    assert told(clients) == [("served", 12), ("served", 36), ("served", 24)]


def test_a_least_share_before_priority() -> None:
    """Three would be one, or hold for an idle resident as well."""
    one = desk(members={"b": {"priority": 1}}, minServed=3)
    for at_s in range(6):
        one.ask(at_s, "a", service_s=3)
    client = one.ask(0.5, "b")
    one.run(100)
    assert [each.log[0][2] for each in one.clients[:3]] == [0, 1, 2]
    assert one.swaps[0][:3] == (5, "a", "b")
    assert client.told == ("served", 17)
    idle = desk(minServed=3)
    idle.ask(0, "a", service_s=1)
    idle.ask(5, "b")
    idle.run(100)
    assert idle.swaps[0][0] == 5


@pytest.mark.parametrize("limit", [{"maxWait": 1}, {"members": {"b": {"priority": 1}}}])
def test_a_least_share_one_by_one(limit: dict[str, object]) -> None:
    """With maxInFlight 1 the share would be over with the first answer: the resident has nobody in
    flight for an instant, though others are held for it."""
    one = desk(minServed=3, maxInFlight=1, **limit)
    one.ask(0, "a", service_s=3)
    client = one.ask(0.5, "b")
    for _ in range(4):
        one.ask(1, "a", service_s=3)
    one.run(100)
    assert [each.log[0][2] for each in one.clients[:1] + one.clients[2:4]] == [0, 3, 6]
    assert one.swaps[0][:3] == (9, "a", "b")
    assert client.told == ("served", 21)


def test_a_least_share_ends_when_nobody_asks_for_more() -> None:
    """b would wait for ever for an a that has served too few, and whose last client has left."""
    one = desk(minServed=3, maxInFlight=1, maxWait=1)
    one.ask(0, "a", service_s=3)
    client = one.ask(0.5, "b")
    one.ask(1, "a", service_s=3, leaves_s=2)
    one.run(100)
    assert one.swaps[0][:3] == (3, "a", "b")
    assert client.told == ("served", 15)


def test_the_least_residency_before_priority() -> None:
    """A resident would be drained before its time, or grant beyond it."""
    one = desk(members={"b": {"priority": 1}}, minResidency=20)
    for at_s in range(30):
        one.ask(at_s, "a", service_s=1.5)
    client = one.ask(0.5, "b")
    one.run(100)
    assert one.swaps[0][:3] == (20.5, "a", "b")
    assert client.told == ("served", 32.5)


def test_who_has_waited_long_comes_before_a_higher_priority() -> None:
    """maxWait would bound nothing for a low priority, or both stand in each other's way."""
    one = desk(members={"c": {"priority": 1}, "a": {"priority": 2}}, maxWait=40, swapBudget=None)
    for offset_s in (0, 5):
        closed_loop(one, "a", offset_s)
    closed_loop(one, "c", 1)
    low = one.ask(2, "b")
    one.run(1000)
    assert low.outcome == "served"


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"order": "fifo"}, "order: fifo leaves no choice to priorities; use kind model-pool"),
        (
            {"swapPolicy": "reclaim", "default": "a", "reclaimAfter": 5, "minResidency": 9},
            "reclaimAfter: must be minResidency, 9s, or longer",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(keys: dict[str, object], said: str) -> None:
    """A setting would be without effect and the user not learn why."""
    with pytest.raises(ValueError, match=said):
        desk(**keys)


@pytest.mark.parametrize("budget_s", [600, 5])
def test_others_are_served_when_one_of_a_higher_priority_leaves(budget_s: float) -> None:
    """They would wait for somebody who is gone: whose client has left, or whose hold is over."""
    one = desk(members={"b": {"priority": 1}}, swapBudget=budget_s)
    one.ask(0, "a", service_s=50)
    one.ask(1, "b", leaves_s=6)
    outranked = one.ask(2, "a")
    one.run(100)
    assert outranked.told == ("served", 8)
