"""A proxy that restarts: what it forgets, and what goes on in the slot."""

import pytest

from sim.core.request import PoolError
from tests.pool.harness import Desk

TRIO = {"a": (30.0, 5.0), "b": (30.0, 5.0), "c": (30.0, 5.0)}


def test_held_attempts_break_in_joining_order() -> None:
    """They would stay held by a proxy that does not know them."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "a", service_s=50)
    held = [desk.ask(1, "b"), desk.ask(2, "c")]
    desk.restart(10)
    desk.run(20)
    assert [client.told for client in held] == [(PoolError.PROXY_RESTART, 10)] * 2
    assert [(row.member, row.result, row.end_s) for row in desk.rows("hold")[1:]] == [
        ("b", "proxy_restart", 10),
        ("c", "proxy_restart", 10),
    ]


def test_granted_attempts_are_direct_traffic_afterwards() -> None:
    """The new proxy would count them, or their end drive its count below zero."""
    desk = Desk(TRIO, initial="a")
    old = desk.ask(0, "a", service_s=50)
    desk.restart(10)
    new = desk.ask(20, "b", if_idle=True)  # nobody is counted: not skipped
    desk.run(200)
    assert old.told == ("served", 50)
    assert new.log == [("b", "granted", 85)]
    assert desk.rows("swap")[0].drain_s == 30


def test_the_end_of_an_old_attempt_is_not_that_of_a_new_one() -> None:
    """A's new request would be uncounted by the end of the old one, and A be swapped out."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "a", service_s=20)
    desk.restart(10)
    desk.ask(15, "a", service_s=50)
    skipped = desk.ask(30, "b", if_idle=True)
    desk.run(40)
    assert skipped.told == (PoolError.INCUMBENT_BUSY, 30)


def test_a_swap_under_way_goes_on() -> None:
    """The slot would stop for a proxy that has forgotten the swap, or wait for its bound."""
    desk = Desk(TRIO, initial="a", swapBudget=40)
    desk.ask(0, "b")
    desk.restart(20)
    client = desk.ask(50, "b", service_s=0)
    desk.run(100)
    assert desk.swaps == [(0, "a", "b", 35, "completed")]
    assert client.told == ("served", 50)


def test_a_request_for_the_member_that_is_loading_joins_the_load() -> None:
    """It would start a load of its own; or be cut off by the bound of the old proxy."""
    desk = Desk(TRIO, initial="a", swapBudget=34)
    desk.ask(0, "b")
    desk.restart(20)
    client = desk.ask(21, "b", service_s=0)
    desk.run(100)
    assert client.told == ("served", 35)
    assert desk.loads("b") == 1
    assert desk.swaps == [(0, "a", "b", 35, "completed")]


def test_a_load_that_was_joined_is_cancelled_with_its_last_requester() -> None:
    """The load would go on as one of the old proxy's."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "b")
    desk.restart(20)
    desk.ask(21, "b", leaves_s=25)
    desk.run(100)
    assert desk.swaps == [(0, "a", "b", 25, "cancelled")]


def test_the_bound_counts_from_the_joining() -> None:
    """A new proxy knows nothing of when the swap began."""
    desk = Desk({"a": (1, 0), "b": (100, 0)}, initial="a", swapBudget=50)
    desk.ask(0, "b")
    desk.restart(20)
    client = desk.ask(21, "b")
    desk.run(100)
    assert client.told == (PoolError.SWAP_DEADLINE, 71)


def test_a_request_for_another_member_drops_the_load() -> None:
    """C would wait for B, or both be loaded."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "b")
    desk.restart(20)
    client = desk.ask(21, "c", service_s=0)
    desk.run(100)
    assert client.told == ("served", 51)
    assert desk.swaps == [(0, "a", "b", 21, "cancelled"), (21, None, "c", 51, "completed")]


def test_a_draining_incumbent_is_believed_and_kept_when_it_is_wanted() -> None:
    """The incumbent would be unloaded under the requests that it is granted."""
    desk = Desk(TRIO, initial="a")
    desk.direct(0, "a", 30)
    desk.ask(10, "b")
    desk.restart(20)
    own = desk.ask(25, "a", service_s=1)
    desk.run(200)
    assert own.told == ("served", 26)
    assert desk.swaps == [(10, "a", "b", 25, "cancelled")]
    assert desk.pods["a"].log == [(0, "ready")]


@pytest.mark.parametrize("member", ["b", "c"])
def test_a_drain_goes_on_for_the_new_requester(member: str) -> None:
    """The incumbent would be probed no longer, or no swap start."""
    desk = Desk(TRIO, initial="a")
    desk.direct(0, "a", 30)
    desk.ask(10, "b")
    desk.restart(20)
    client = desk.ask(25, member, service_s=0)
    desk.run(200)
    assert client.told == ("served", 65)
    assert len(desk.swaps) == (1 if member == "b" else 2)


def test_a_belief_that_the_slot_has_overtaken_is_checked() -> None:
    """The drain ends unseen: A is believed until a dispatch fails, and not for ever."""
    desk = Desk(TRIO, initial="a")
    desk.direct(0, "a", 22)
    desk.ask(10, "b")
    desk.restart(20)
    failed, next_one = desk.ask(24, "a"), desk.ask(24.5, "a", service_s=0)
    desk.run(200)
    assert failed.told == ("refused", 24)
    assert next_one.told == ("served", 57)  # what is left of the unload, and the load


def test_a_retry_at_once_meets_the_new_proxy() -> None:
    """A client that tries again as it is told would be refused with the others."""
    desk = Desk(TRIO, initial="a")
    held = desk.ask(0, "b")
    held.on_end = lambda: retries.append(desk.ask_now("b", service_s=0))
    retries: list[object] = []
    desk.restart(20)
    desk.run(100)
    assert desk.clients[1].told == ("served", 35)
    assert len(retries) == 1
    assert desk.loads("b") == 1


def test_a_reclaim_goes_on_over_a_restart() -> None:
    """The default would not come back, or come back twice."""
    desk = Desk(TRIO, initial="b", default="a", swapPolicy="reclaim", reclaimAfter=10)
    desk.restart(30)
    desk.run(1000)
    assert desk.swaps == [(10, "b", "a", 45, "completed")]


def test_a_swap_that_nobody_remembers_is_no_idle_time() -> None:
    """Its incumbent, drained but not yet probed, would be found idle and be swapped out for the
    default instead."""
    options = {"swapPolicy": "reclaim", "default": "a", "reclaimAfter": 2, "idleProbeInterval": 10}
    desk = Desk(TRIO, initial="b", **options)
    desk.direct(0, "b", service_s=3)
    desk.ask(1, "c")
    desk.restart(2)
    desk.run(50)
    assert desk.swaps[0] == (1, "b", "c", 46, "completed")
