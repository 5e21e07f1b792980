"""Several things at one instant, also where the instant is the sum of different floats."""

import pytest

from sim.core.kernel import Kernel, Order, instant
from sim.core.request import PoolError
from tests.pool.harness import Desk

SUMS = [(1.0, 29.0), (0.1, 0.2), (0.7, 0.1), (1.1, 2.2), (0.3, 0.6), (10.1, 20.2)]


@pytest.mark.parametrize(("begin_s", "budget_s"), SUMS)
def test_a_bound_and_a_hold_that_end_together(begin_s: float, budget_s: float) -> None:
    """The hold would cancel the swap, so that no deadline is counted."""
    desk = Desk({"a": (0, 0), "b": (500, 0)}, initial="a", swapBudget=budget_s)
    client = desk.ask(begin_s, "b")
    desk.run(100)
    assert client.told == (PoolError.SWAP_DEADLINE, round(begin_s + budget_s, 6))
    assert [swap[4] for swap in desk.swaps] == ["deadline"]


@pytest.mark.parametrize(("begin_s", "budget_s"), SUMS)
def test_in_the_other_order_the_hold_ends_first(begin_s: float, budget_s: float) -> None:
    """tieOrder hold-first: the deadline would be counted."""
    compat = {"tieOrder": "hold-first"}
    desk = Desk({"a": (0, 0), "b": (500, 0)}, initial="a", swapBudget=budget_s, compat=compat)
    clients = [desk.ask(begin_s, "b"), desk.ask(begin_s, "b")]
    desk.run(100)
    assert [client.outcome for client in clients] == [PoolError.HOLD_BUDGET] * 2
    assert [swap[4] for swap in desk.swaps] == ["cancelled"]


def test_with_hold_first_a_younger_hold_gets_the_deadline() -> None:
    """tieOrder hold-first: holds that do not end now would end as well."""
    compat = {"tieOrder": "hold-first"}
    desk = Desk({"a": (0, 0), "b": (500, 0)}, initial="a", swapBudget=10, compat=compat)
    clients = [desk.ask(0, "b"), desk.ask(5, "b")]
    desk.run(100)
    assert [client.outcome for client in clients] == [
        PoolError.HOLD_BUDGET,
        PoolError.SWAP_DEADLINE,
    ]
    assert [swap[4] for swap in desk.swaps] == ["deadline"]


def test_a_random_order_gives_both() -> None:
    """tieOrder random: one of the answers would never be given."""
    outcomes = []
    for seed in range(20):
        compat = {"tieOrder": "random"}
        desk = Desk(
            {"a": (0, 0), "b": (500, 0)}, initial="a", swapBudget=10, compat=compat, seed=seed
        )
        client = desk.ask(0, "b")
        desk.run(100)
        outcomes.append(client.outcome)
    assert 4 < outcomes.count(PoolError.HOLD_BUDGET) < 16
    assert set(outcomes) == {PoolError.HOLD_BUDGET, PoolError.SWAP_DEADLINE}


@pytest.mark.parametrize("tie_order", ["swap-first", "hold-first"])
@pytest.mark.parametrize(("begin_s", "budget_s"), SUMS)
def test_a_member_that_is_ready_in_the_last_instant_serves(
    begin_s: float, budget_s: float, tie_order: str
) -> None:
    """The bound or the hold would win against the end of the load."""
    desk = Desk(
        {"a": (0, 0), "b": (budget_s, 0)},
        initial="a",
        swapBudget=budget_s,
        compat={"tieOrder": tie_order},
    )
    client = desk.ask(begin_s, "b")
    desk.run(100)
    assert client.log == [("b", "granted", round(begin_s + budget_s, 6))]
    assert [swap[4] for swap in desk.swaps] == ["completed"]


@pytest.mark.parametrize(("begin_s", "hold_s"), SUMS)
def test_in_its_last_instant_an_attempt_may_be_granted(begin_s: float, hold_s: float) -> None:
    """An attempt whose hold ends as the resident has room would be refused."""
    desk = Desk({"a": (0, 0)}, initial="a", maxInFlight=1, swapBudget=hold_s)
    desk.ask(0, "a", service_s=begin_s + hold_s)
    held = desk.ask(begin_s, "a", service_s=0)
    desk.run(100)
    assert held.log == [("a", "granted", round(begin_s + hold_s, 6))]


@pytest.mark.parametrize(("begin_s", "hold_s"), SUMS)
def test_in_its_last_instant_an_attempt_starts_no_swap(begin_s: float, hold_s: float) -> None:
    """A swap would begin for an attempt that is refused at the same instant."""
    desk = Desk({"a": (0, 0), "b": (1, 0)}, initial="a", swapBudget=hold_s)
    desk.ask(0, "a", service_s=begin_s + hold_s)
    held = desk.ask(begin_s, "b")
    desk.run(100)
    assert held.told == (PoolError.HOLD_BUDGET, round(begin_s + hold_s, 6))
    assert desk.swaps == []


def test_a_younger_attempt_starts_the_swap_then() -> None:
    """The one in its last instant would keep others from it."""
    desk = Desk({"a": (0, 0), "b": (1, 0)}, initial="a", swapBudget=10)
    desk.ask(0, "a", service_s=11)
    last, younger = desk.ask(1, "b"), desk.ask(2, "b")
    desk.run(100)
    assert last.told == (PoolError.HOLD_BUDGET, 11)
    assert younger.log == [("b", "granted", 12)]


@pytest.mark.parametrize("members", ["ab", "ba"])
def test_the_first_in_the_input_decides(members: str) -> None:
    """Of an IfIdle request for B and one for the idle A at one instant the order is the input's."""
    desk = Desk({"a": (0, 0), "b": (30, 0)}, initial="a")
    clients = {member: desk.ask(5, member, if_idle=member == "b") for member in members}
    desk.run(100)
    if members == "ab":
        assert clients["a"].log == [("a", "granted", 5)]
        assert clients["b"].told == (PoolError.INCUMBENT_BUSY, 5)
    else:
        assert clients["b"].log == [("b", "granted", 35)]
        assert clients["a"].log == [("a", "granted", 37)]


@pytest.mark.parametrize(("drained_s", "interval_s"), [(0.1 + 0.2, 0.3), (3 * 1.1, 3.3)])
def test_an_idle_probe_at_the_end_of_the_drain_sees_it(drained_s: float, interval_s: float) -> None:
    """A probe at 0.3 s would come before a request that ends at 0.30000000000000004 s."""
    desk = Desk({"a": (0, 0), "b": (1, 0)}, initial="a", idleProbeInterval=interval_s)
    desk.direct(0, "a", drained_s)
    client = desk.ask(0, "b")
    desk.run(100)
    assert client.log == [("b", "granted", round(interval_s + 1, 6))]


def test_a_pod_is_lost_before_it_is_probed() -> None:
    """Faults come before probes, readiness and bounds of their instant."""
    desk = Desk({"a": (0, 5), "b": (10, 0)}, initial="a", idleProbeInterval=3, swapBudget=16)
    desk.direct(0, "a", 100)
    desk.ask(0, "b")
    desk.lose(6, "a")
    desk.run(100)
    assert desk.swaps == [(0, "a", "b", 16, "completed")]  # nothing to unload


def test_a_pod_lost_as_it_is_ready() -> None:
    """A load that ends at the instant of a loss has ended: there is a resident to lose."""
    desk = Desk({"a": (0, 0), "b": (10, 0)})
    client = desk.ask(0, "b", service_s=5)
    desk.lose(10, "b")
    desk.run(100)
    assert client.log == [("b", "granted", 10)]
    assert client.told == ("broken", 10)


def test_a_client_that_leaves_at_the_instant_of_its_grant_was_granted() -> None:
    """A client's timeout would come before the end of the load."""
    desk = Desk({"a": (0, 0), "b": (10, 0)})
    client = desk.ask(0, "b", leaves_s=10)
    desk.run(100)
    assert client.log == [("b", "granted", 10)]
    assert client.told == ("gone", 10)
    assert [swap[4] for swap in desk.swaps] == ["completed"]


@pytest.mark.parametrize("limit_s", [0.2, 2.2, 0.6])
def test_a_maximum_wait_that_is_reached_at_the_instant(limit_s: float) -> None:
    """maxWait: an arrival at the instant would still be granted."""
    for begin_s, now_s in ((0.1, 0.1 + limit_s), (0.3, 0.3 + limit_s)):
        desk = Desk({"a": (0, 0), "b": (1, 0)}, initial="a", maxWait=limit_s)
        desk.ask(0, "a", service_s=50)
        desk.ask(begin_s, "b")
        early, late = desk.ask(now_s - 0.01, "a"), desk.ask(now_s, "a")
        desk.run(40)
        assert early.log and not late.log


def test_a_timer_waits_for_what_is_due_at_its_instant() -> None:
    """0.1 + 0.2 and 0.3 would be two instants, and the order of their events left to rounding."""
    kernel = Kernel()
    log: list[str] = []
    kernel.at_instant(0.1 + 0.2, Order.HOLD_EXPIRY, lambda: log.append("hold"))
    kernel.at_instant(0.3, Order.SWAP_BOUND, lambda: log.append("bound"))
    kernel.at(0.1 + 0.2, Order.STEP_END, lambda: log.append("step"))
    kernel.at(0.3, Order.ARRIVAL, lambda: log.append("arrival"))
    kernel.run_until(1)
    assert log == ["arrival", "step", "bound", "hold"]
    assert instant(0.1 + 0.2) == instant(0.3) == 0.3


def test_a_timer_does_not_wait_for_what_comes_after_its_instant() -> None:
    """Timers would be late by what a later instant has."""
    kernel = Kernel()
    log: list[str] = []
    kernel.at(0.3 + 2e-9, Order.STEP_END, lambda: log.append("step"))
    kernel.at_instant(0.3, Order.HOLD_EXPIRY, lambda: log.append("hold"))
    kernel.at(0.3 + 1e-10, Order.ARRIVAL, lambda: log.append("arrival"))
    kernel.run_until(1)
    assert log == ["hold", "arrival", "step"]


def test_a_timer_in_the_past_is_now() -> None:
    """Rounding down would let the clock go back."""
    kernel = Kernel()
    log: list[float] = []
    kernel.at(
        0.1 + 0.2,
        Order.STEP_END,
        lambda: kernel.at_instant(0.1 + 0.2, Order.READINESS, lambda: log.append(kernel.now_s)),
    )
    kernel.run_until(1)
    assert log == [0.1 + 0.2]
