"""Every row of the state machine, and what follows a swap that did not come to its end."""

import pytest

from sim.core.kernel import Order
from sim.core.request import PoolError
from tests.pool.harness import Client, Desk

TRIO = {"a": (30.0, 5.0), "b": (30.0, 5.0), "c": (30.0, 5.0)}


@pytest.mark.parametrize("if_idle", [False, True])
def test_a_cold_pool_loads_what_is_asked_for_first(if_idle: bool) -> None:
    """COLD: a request would be refused, or wait for nobody to start the load."""
    desk = Desk(TRIO)
    client = desk.ask(1, "b", if_idle=if_idle)
    desk.run(100)
    assert client.told == ("served", 33)
    assert desk.swaps == [(1, None, "b", 31, "completed")]
    (swap,) = desk.rows("swap")
    assert (swap.drain_s, swap.unload_s, swap.load_s, swap.cause) == (None, None, 30, "request")


@pytest.mark.parametrize("if_idle", [False, True])
def test_an_idle_resident_serves_or_goes(if_idle: bool) -> None:
    """IDLE: A's own request would wait, or an idle incumbent be kept from going."""
    desk = Desk(TRIO, initial="a")
    own = desk.ask(0, "a", if_idle=if_idle)
    other = desk.ask(10, "b", if_idle=if_idle)
    desk.run(100)
    assert own.log == [("a", "granted", 0)]
    assert other.log == [("b", "granted", 45)]


@pytest.mark.parametrize("if_idle", [False, True])
def test_a_busy_resident_takes_more(if_idle: bool) -> None:
    """BUSY: a request for the resident would queue behind those who wait for another member."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "a", service_s=50)
    waiting = desk.ask(10, "b")
    own = desk.ask(20, "a", if_idle=if_idle)
    desk.run(200)
    assert own.log == [("a", "granted", 20)]
    assert waiting.log == [("b", "granted", 85)]


def test_a_busy_resident_holds_or_skips() -> None:
    """BUSY: Wait would be told at once, or IfIdle be held or queue a swap."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "a", service_s=50)
    skipped = desk.ask(10, "b", if_idle=True)
    desk.run(40)
    assert skipped.told == (PoolError.INCUMBENT_BUSY, 10)
    assert desk.swaps == []
    waiting = desk.ask(40, "b")
    desk.run(200)
    assert waiting.log == [("b", "granted", 85)]
    assert [(row.kind, row.member, row.result) for row in desk.events] == [
        ("hold", "a", "granted"),
        ("skip", "b", "incumbent_busy"),
        ("hold", "b", "granted"),
        ("swap", "b", "completed"),
    ]


def test_waiters_are_woken_before_arrivals_of_the_instant() -> None:
    """BUSY: a request for A that arrives as A becomes idle would be granted before B's swap."""
    desk = Desk(TRIO, initial="a")
    arrives = desk.ask(50, "a")
    waiting = desk.ask(10, "b", service_s=0)
    desk.ask(0, "a", service_s=50)
    desk.run(200)
    assert waiting.told == ("served", 85)
    assert arrives.log == [("a", "granted", 120)]


@pytest.mark.parametrize("if_idle", [False, True])
@pytest.mark.parametrize("member", ["a", "b", "c"])
def test_a_running_swap_holds_everybody(member: str, if_idle: bool) -> None:
    """SWAPPING: A, which is unloading, would be asked to serve, or another swap begin."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "b", service_s=10)
    client = desk.ask(7, member, if_idle=if_idle, service_s=1)
    desk.run(34)
    assert client.log == []
    assert len(desk.swaps) == 1
    desk.run(200)
    if member == "b":
        assert client.log == [("b", "granted", 35)]
    elif if_idle:  # held first: the new resident is busy with who asked for it
        assert client.told == (PoolError.INCUMBENT_BUSY, 35)
        assert [(row.kind, row.result) for row in desk.events if row.member == member] == [
            ("hold", "incumbent_busy")
        ]
    else:
        assert client.log == [(member, "granted", 80)]


def test_an_if_idle_attempt_that_was_held_can_start_its_own_swap() -> None:
    """SWAPPING: it would be skipped although nobody uses the new resident."""
    desk = Desk(TRIO, initial="a")
    desk.direct(0, "a", 20)
    desk.ask(1, "b", leaves_s=10)
    held = desk.ask(5, "c", if_idle=True)
    desk.run(100)
    assert desk.swaps == [(1, "a", "b", 10, "cancelled"), (10, "a", "c", 55, "completed")]
    assert held.log == [("c", "granted", 55)]


def test_a_swap_cut_off_while_draining_leaves_the_incumbent() -> None:
    """Cancelled in drain: A would be gone, or those who wait for it not be woken."""
    desk = Desk(TRIO, initial="a")
    direct = desk.direct(0, "a", 100)
    desk.ask(10, "b", leaves_s=30)
    own = desk.ask(20, "a", service_s=1)
    desk.run(200)
    assert own.told == ("served", 31)
    assert direct.result == "ok"
    assert desk.pods["a"].log == [(0, "ready")]
    assert desk.swaps == [(10, "a", "b", 30, "cancelled")]
    assert desk.rows("swap")[0].drain_s == 20


def test_nobody_is_granted_while_the_incumbent_drains() -> None:
    """Drain: requests for A would keep it busy, and the swap never come."""
    desk = Desk(TRIO, initial="a")
    desk.direct(0, "a", 50)
    client = desk.ask(10, "b")
    own = desk.ask(20, "a")
    desk.run(300)
    assert client.log == [("b", "granted", 85)]
    assert own.log == [("a", "granted", 122)]


def test_an_unload_under_way_runs_to_its_end() -> None:
    """Cancelled in unload: A would be resident again, or B loaded beside it."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "b", leaves_s=2)
    own = desk.ask(3, "a", service_s=0)
    desk.run(100)
    assert desk.swaps == [
        (0, "a", "b", 2, "cancelled"),
        (3, None, "a", 35, "completed"),
    ]
    assert own.told == ("served", 35)
    assert desk.pods["a"].log == [(0, "ready"), (0, "stop"), (5, "load"), (35, "ready")]
    assert [row.unload_s for row in desk.rows("swap")] == [2, 2]


def test_an_aborted_load_frees_the_slot_at_once() -> None:
    """Cancelled in load: the next swap would wait for the rest of the load."""
    desk = Desk(TRIO, initial="a")
    desk.ask(0, "b", leaves_s=15)
    waiting = desk.ask(1, "c", service_s=0)
    desk.run(100)
    assert desk.pods["b"].log == [(5, "load"), (15, "stop")]
    assert waiting.told == ("served", 45)
    assert desk.swaps == [(0, "a", "b", 15, "cancelled"), (15, None, "c", 45, "completed")]
    assert desk.rows("swap")[0].load_s == 10


def test_the_oldest_who_waits_decides_what_is_loaded_next() -> None:
    """After an abandoned swap the youngest would, or the one whose member was resident."""
    desk = Desk(TRIO, initial="a", swapBudget=20)
    desk.ask(0, "b")
    first, second = desk.ask(5, "c", leaves_s=100), desk.ask(6, "a")
    desk.run(24)
    assert desk.swaps[-1] == (20, None, "c", None, None)
    assert (first.log, second.log) == ([], [])


def test_the_new_state_comes_before_the_errors() -> None:
    """A falling attempt would start its swap before one that has waited for longer."""
    desk = Desk(TRIO, initial="a", swapBudget=20)
    falling = desk.ask(0, "b", "a")
    waiting = desk.ask(5, "c")
    desk.run(20.5)
    assert falling.log == [("b", "swap_deadline_exceeded", 20)]
    assert desk.swaps[-1] == (20, None, "c", None, None)
    desk.run(100)
    assert [row.member for row in desk.rows("hold")] == ["b", "c", "a"]
    assert waiting.told == (PoolError.HOLD_BUDGET, 25)


def test_errors_are_delivered_in_joining_order() -> None:
    """Of two that fall through to idle members the second would be the first to swap."""
    desk = Desk(TRIO, initial="a", swapBudget=20)
    first, second = desk.ask(0, "b", "c"), desk.ask(1, "b", "a")
    desk.run(100)
    assert desk.swaps[:2] == [(0, "a", "b", 20, "deadline"), (20, None, "c", 40, "deadline")]
    assert first.told == (PoolError.SWAP_DEADLINE, 40)
    assert second.log[0] == ("b", "swap_deadline_exceeded", 20)


def test_an_error_never_goes_to_a_later_request() -> None:
    """The next request would be told of a swap that it did not wait for."""
    desk = Desk(TRIO, initial="a", swapBudget=40)
    desk.pool.fail_loads("b", 10, 1)
    failed = desk.ask(0, "b")
    later = desk.ask(15, "b", order=Order.OBSERVATION, service_s=0)
    desk.run(100)
    assert failed.told == (PoolError.SWAP_FAILED, 15)
    assert later.told == ("served", 45)


def test_the_error_goes_to_one_and_the_others_start_again() -> None:
    """swapErrorTo first: all would be told, or the others not go on within their own holds."""
    desk = Desk(TRIO, initial="a", swapErrorTo="first", swapBudget=60)
    desk.pool.fail_loads("b", 10, 2)
    clients = [desk.ask(at_s, "b", service_s=0) for at_s in (0.0, 1.0, 2.0)]
    desk.run(200)
    assert [client.told for client in clients] == [
        (PoolError.SWAP_FAILED, 15),
        (PoolError.SWAP_FAILED, 25),
        ("served", 55),
    ]


def test_a_fall_through_to_the_incumbent_after_a_deadline_in_drain() -> None:
    """The deadline would leave the pool cold although A never stopped."""
    desk = Desk(TRIO, initial="a", swapBudget=20)
    desk.direct(0, "a", 100)
    client = desk.ask(0, "b", "a", service_s=1)
    desk.run(200)
    assert client.log == [("b", "swap_deadline_exceeded", 20), ("a", "granted", 20)]
    assert client.told == ("served", 21)


def test_a_pod_lost_while_loading_fails_the_swap() -> None:
    """SWAPPING: those who wait would wait for ever, or the failure be called a deadline."""
    desk = Desk(TRIO, initial="a")
    client = desk.ask(0, "b")
    desk.lose(12, "b")
    again = desk.ask(20, "b", service_s=0)
    desk.run(100)
    assert client.told == (PoolError.SWAP_FAILED, 12)
    assert desk.swaps == [(0, "a", "b", 12, "error"), (20, None, "b", 50, "completed")]
    assert again.told == ("served", 50)


def test_a_pod_lost_in_drain_ends_the_drain() -> None:
    """SWAPPING in drain: the swap would wait for requests that are gone, or unload nothing."""
    desk = Desk(TRIO, initial="a")
    direct = desk.direct(0, "a", 100)
    client = desk.ask(10, "b")
    desk.lose(20, "a")
    desk.run(100)
    assert direct.result == "broken"
    assert client.log == [("b", "granted", 50)]
    (swap,) = desk.rows("swap")
    assert (swap.drain_s, swap.unload_s, swap.load_s) == (10, None, 30)


def test_a_pod_lost_in_unload_changes_nothing() -> None:
    """Unload: the slot would be free before the memory is."""
    desk = Desk(TRIO, initial="a")
    client = desk.ask(0, "b")
    desk.lose(2, "a")
    desk.run(100)
    assert client.log == [("b", "granted", 35)]


def test_a_lost_resident_is_found_out_by_a_failed_dispatch() -> None:
    """COLD once the proxy knows: it would know before, or never."""
    desk = Desk(TRIO, initial="a", beliefRecheck=1000)
    desk.lose(10, "a")
    failed, next_one = desk.ask(100, "a"), desk.ask(101, "a", service_s=0)
    desk.run(200)
    assert failed.told == ("refused", 100)
    assert next_one.told == ("served", 131)


def test_a_lost_resident_is_found_out_when_the_belief_is_old() -> None:
    """COLD once the proxy knows: an attempt after 5 s would still be sent to nobody."""
    desk = Desk(TRIO, initial="a", recheckOnError=False)
    desk.ask(2, "a", service_s=0)
    desk.lose(3, "a")
    failed, held = desk.ask(5, "a"), desk.ask(5.5, "a", service_s=0)
    desk.run(100)
    assert failed.told == ("refused", 5)
    assert held.told == ("served", 35.5)


def test_the_slot_does_not_restart_a_lost_resident() -> None:
    """A lost pod would come back although nobody has asked for it."""
    desk = Desk(TRIO, initial="a")
    desk.lose(10, "a")
    desk.run(1000)
    assert desk.pods["a"].log == [(0, "ready"), (10, "stop")]


def test_another_member_after_a_loss_that_nobody_noticed() -> None:
    """The swap would drain and unload a pod that is not there."""
    desk = Desk(TRIO, initial="a", beliefRecheck=1000)
    desk.lose(10, "a")
    client = desk.ask(20, "b", service_s=0)
    desk.run(100)
    assert client.told == ("served", 50)
    assert desk.swaps == [(20, "a", "b", 50, "completed")]


def test_in_flight_attempts_fall_through_when_their_pod_is_lost() -> None:
    """Those who wait for another member would wait for requests that are gone."""
    desk = Desk(TRIO, initial="a")
    failing = desk.ask(0, "a", service_s=100)
    waiting = desk.ask(1, "b", service_s=0)
    desk.lose(10, "a")
    desk.run(100)
    assert failing.told == ("broken", 10)
    assert waiting.told == ("served", 40)


def test_the_incumbent_is_loaded_again_after_a_failure() -> None:
    """reloadIncumbent: the slot would stay cold, or the reload be counted as a swap of somebody."""
    desk = Desk(TRIO, initial="a", reloadIncumbent=True)
    desk.pool.fail_loads("b", 10, 1)
    desk.ask(0, "b")
    own = desk.ask(20, "a", service_s=0)
    desk.run(100)
    assert own.told == ("served", 45)
    assert desk.swaps == [(0, "a", "b", 15, "error"), (15, None, "a", 45, "completed")]
    assert desk.loads("a") == 1


def test_a_request_for_another_member_aborts_the_reload() -> None:
    """reloadIncumbent: B would have to wait until A is back."""
    desk = Desk(TRIO, initial="a", reloadIncumbent=True)
    desk.pool.fail_loads("b", 10, 1)
    desk.ask(0, "b")
    again = desk.ask(20, "b", service_s=0)
    desk.run(100)
    assert again.told == ("served", 50)
    assert desk.pods["a"].log[-2:] == [(15, "load"), (20, "stop")]
    assert desk.swaps[1] == (15, None, "a", 20, "cancelled")


def test_those_who_wait_come_before_the_reload() -> None:
    """reloadIncumbent: A would begin to load and be stopped at the same instant."""
    desk = Desk(TRIO, initial="a", reloadIncumbent=True)
    desk.pool.fail_loads("b", 10, 1)
    desk.ask(0, "b")
    waiting = desk.ask(1, "c", service_s=0)
    desk.run(100)
    assert waiting.told == ("served", 45)
    assert desk.loads("a") == 0


def test_a_default_warms_a_pool_that_is_cold_at_the_start() -> None:
    """initial: the default would be ready at once although the pool is said to be cold."""
    desk = Desk(TRIO, default="a", initial="cold")
    client = desk.ask(10, "a", service_s=0)
    desk.run(100)
    assert client.told == ("served", 30)
    (swap,) = desk.rows("swap")
    assert (swap.cause, swap.start_s, swap.end_s, swap.result) == ("initial", 0, 30, "completed")


def test_another_member_is_wanted_before_the_default_is_warm() -> None:
    """initial: the first request would wait for a load that nobody wants."""
    desk = Desk(TRIO, default="a", initial="cold")
    client = desk.ask(10, "b", service_s=0)
    desk.run(100)
    assert client.told == ("served", 40)


def test_a_default_never_moves_a_warm_pool() -> None:
    """sticky: the default would come back of itself."""
    desk = Desk(TRIO, default="a", initial="b")
    desk.run(10_000)
    assert desk.pods["b"].log == [(0, "ready")]
    assert desk.pods["a"].log == []


def test_a_missing_initial_is_the_default() -> None:
    """initial: a pool with a default would start cold."""
    desk = Desk(TRIO, default="c")
    assert desk.pods["c"].ready


def test_an_answer_at_once_does_not_let_a_later_attempt_pass() -> None:
    """A granted attempt that is refused by its pod and falls through would start its swap at
    once, before one that has waited for longer is looked at.
    """
    desk = Desk(TRIO, initial="a", maxInFlight=1)
    desk.ask(0, "a", service_s=10)
    held, waiting = desk.ask(1, "a", "b"), desk.ask(2, "c", service_s=0)

    def lose_at_grant(client: Client) -> None:
        if client is held:
            desk.pods["a"].ready = False

    desk.on_grant = lose_at_grant  # type: ignore[method-assign]
    desk.run(200)
    assert held.log[0] == ("a", "granted", 10)
    assert desk.swaps[0][2] == "c"
    assert waiting.told == ("served", 40)
