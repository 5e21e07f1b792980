"""Budgets, limits, orders and polls of a pool."""

from math import inf

import pytest

from sim.core.kernel import Order
from sim.core.request import PoolError
from tests.pool.harness import Desk

PAIR = {"a": (30.0, 0.0), "b": (30.0, 0.0)}
TRIO = PAIR | {"c": (30.0, 0.0)}


def test_without_a_budget_the_hold_ends_first() -> None:
    """swapBudget null: the swap would end at the header timeout, or the hold at 240 s."""
    desk = Desk({"a": (0, 0), "b": (500, 0)}, initial="a", swapBudget=None, header_timeout_s=120)
    first, second = desk.ask(0, "b"), desk.ask(100, "b")
    third = desk.ask(150, "b")
    desk.run(600)
    assert first.told == (PoolError.HOLD_BUDGET, 120)
    assert second.told == (PoolError.HOLD_BUDGET, 220)
    assert third.told == (PoolError.SWAP_DEADLINE, 240)
    assert desk.swaps == [(0, "a", "b", 240, "deadline")]


def test_without_a_budget_and_a_timeout_nobody_is_told_of_a_hold() -> None:
    """A hold without an end would end at once, or break the clock."""
    desk = Desk({"a": (0, 0), "b": (5, 0)}, initial="a", swapBudget=None, header_timeout_s=inf)
    desk.ask(0, "a", service_s=10_000)
    held = desk.ask(0, "b", service_s=0)
    desk.run(20_000)
    assert held.told == ("served", 10_005)


def test_a_missing_budget_is_300_s() -> None:
    """swapBudget: a pool without the key would have none."""
    desk = Desk({"a": (0, 0), "b": (500, 0)}, initial="a")
    client = desk.ask(0, "b")
    desk.run(600)
    assert client.told == (PoolError.SWAP_DEADLINE, 300)


def test_drain_and_unload_count_in_the_swap_bound() -> None:
    """The bound would start with the load."""
    desk = Desk({"a": (0, 20), "b": (30, 0)}, initial="a", swapBudget=100)
    desk.direct(0, "a", 60)
    client = desk.ask(0, "b")
    desk.run(300)
    assert client.told == (PoolError.SWAP_DEADLINE, 100)


def test_a_rule_with_two_members_can_hold_twice() -> None:
    """The second attempt would be held for what is left of the first hold."""
    desk = Desk({"a": (0, 0), "b": (500, 0), "c": (500, 0)}, initial="a", swapBudget=50)
    client = desk.ask(0, "b", "c")
    desk.run(300)
    assert client.told == (PoolError.SWAP_DEADLINE, 100)


def test_a_hold_goes_on_through_swaps() -> None:
    """3: the hold would start anew when a swap ends."""
    desk = Desk(TRIO, initial="a", swapBudget=50)
    desk.ask(0, "b", service_s=100)
    held = desk.ask(10, "c")
    desk.run(100)
    assert held.told == (PoolError.HOLD_BUDGET, 60)


def test_requesters_are_granted_before_others_are_looked_at() -> None:
    """grantTargetWaitersFirst: B would be swapped out before anybody was served."""
    for first, swaps in ((True, ["b", "c"]), (False, ["b", "c", "b"])):
        desk = Desk(TRIO, initial="a", grantTargetWaitersFirst=first)
        direct = desk.direct(0, "a", 10)
        gone = desk.ask(1, "b", leaves_s=5)
        desk.ask(2, "c")
        desk.ask(3, "b")
        desk.lose(500, "a")
        desk.run(4)
        assert (direct.result, gone.outcome) == ("", "")
        desk.run(300)
        # The swap to B goes on for its second requester, who is younger than C's.
        assert [swap[2] for swap in desk.swaps] == swaps


def test_in_order_of_arrival_the_oldest_blocks_the_others() -> None:
    """fifo: the resident would serve those who came after somebody for another member."""
    desk = Desk(PAIR, initial="a", order="fifo")
    desk.ask(0, "a", service_s=10)
    other = desk.ask(1, "b", service_s=5)
    late = desk.ask(2, "a", service_s=1)
    desk.run(200)
    assert other.log == [("b", "granted", 40)]
    assert late.log == [("a", "granted", 75)]


def test_in_order_of_arrival_if_idle_is_still_told_at_once() -> None:
    """fifo: a skip would wait for its turn."""
    desk = Desk(TRIO, initial="a", order="fifo")
    desk.ask(0, "a", service_s=10)
    desk.ask(1, "b")
    skipped = desk.ask(2, "c", if_idle=True)
    desk.run(20)
    assert skipped.told == (PoolError.INCUMBENT_BUSY, 2)


def test_in_order_of_arrival_the_next_is_looked_at_when_the_oldest_leaves() -> None:
    """fifo: nobody would be woken by the end of a hold."""
    desk = Desk(PAIR, initial="a", order="fifo", swapBudget=20)
    desk.ask(0, "a", service_s=100)
    desk.ask(1, "b")
    late = desk.ask(2, "a", service_s=0)
    desk.run(200)
    assert late.told == ("served", 21)


def test_in_order_of_arrival_a_skip_makes_room_for_the_next() -> None:
    """fifo: who stood behind an attempt that was skipped would wait for another change."""
    desk = Desk(TRIO, initial="a", order="fifo")
    first = desk.ask(0, "c", service_s=50)
    skipped = desk.ask(1, "b", if_idle=True)
    behind = desk.ask(2, "c")
    desk.run(40)
    assert skipped.told == (PoolError.INCUMBENT_BUSY, 30)
    assert (first.log, behind.log) == ([("c", "granted", 30)], [("c", "granted", 30)])


def test_more_than_may_be_in_flight_are_held() -> None:
    """maxInFlight: the third would be sent to the pod, or a skip be made of it."""
    desk = Desk(PAIR, initial="a", maxInFlight=2)
    clients = [desk.ask(0, "a", if_idle=True, service_s=10 + number) for number in range(4)]
    desk.run(100)
    assert [client.log[0] for client in clients] == [
        ("a", "granted", 0),
        ("a", "granted", 0),
        ("a", "granted", 10),
        ("a", "granted", 11),
    ]


def test_held_and_in_flight_attempts_fill_the_queue() -> None:
    """maxHeld: those of another member would count, or those in flight not."""
    desk = Desk(PAIR, initial="a", maxInFlight=1, maxHeld=1)
    fine = [desk.ask(0, "a"), desk.ask(0, "a"), desk.ask(0, "b"), desk.ask(0, "b")]
    refused = [desk.ask(0, "a"), desk.ask(0, "b")]
    desk.run(300)
    assert [client.outcome for client in fine] == ["served"] * 4
    assert [client.told for client in refused] == [(PoolError.QUEUE_FULL, 0)] * 2


def test_a_full_queue_is_told_before_a_busy_incumbent() -> None:
    """maxHeld: a skip would be counted for an attempt that the queue has no room for."""
    desk = Desk(PAIR, initial="a", maxInFlight=1, maxHeld=0)
    desk.ask(0, "a", service_s=50)
    desk.ask(0, "b")
    full = desk.ask(0, "b", if_idle=True)
    desk.run(10)
    assert full.told == (PoolError.QUEUE_FULL, 0)
    assert desk.rows("skip") == []


def test_the_maximum_wait_ends_when_its_attempt_is_gone() -> None:
    """maxWait: the resident would serve nobody for the sake of a client that has left."""
    desk = Desk(PAIR, initial="a", maxWait=10)
    desk.ask(0, "a", service_s=100)
    desk.ask(0, "b", leaves_s=30)
    before, after = desk.ask(9, "a", service_s=1), desk.ask(20, "a", service_s=1)
    desk.run(60)
    assert before.log == [("a", "granted", 9)]
    assert after.log == [("a", "granted", 30)]


def test_the_maximum_wait_starts_with_the_last_swap() -> None:
    """maxWait: of two long queues each would be swapped out as soon as it is loaded."""
    desk = Desk(PAIR, initial="a", maxWait=10, maxInFlight=1)
    clients = [desk.ask(0, member, service_s=4) for member in ("a",) * 6 + ("b",) * 6]
    desk.run(1000)
    assert {client.outcome for client in clients} == {"served"}
    served = sorted(clients, key=lambda client: client.end_s)
    # Three jobs of 4 s begin in the 10 s that B waits. A, who is older, comes back after one of B's
    # and again has three, although B has waited for longer than 10 s since it joined.
    assert "".join(client.member for client in served) == "aaabaaabbbbb"


def test_idle_probes_see_the_end_of_a_drain_late() -> None:
    """idleProbeInterval: the drain would end when A is idle, or probes not start with the swap."""
    desk = Desk(PAIR, initial="a", idleProbeInterval=3)
    desk.direct(0, "a", 10.5)
    desk.direct(11, "a", 2.5)
    client = desk.ask(1, "b")
    desk.run(100)
    # Probes at 1, 4, 7, 10 and 13 find somebody.
    assert client.log == [("b", "granted", 46)]


def test_an_idle_incumbent_is_seen_by_the_first_probe() -> None:
    """idleProbeInterval: a swap that begins as the last answer ends would wait for 3 s."""
    desk = Desk(PAIR, initial="a", idleProbeInterval=3)
    desk.ask(0, "a", service_s=10)
    client = desk.ask(1, "b")
    desk.run(100)
    assert client.log == [("b", "granted", 40)]


@pytest.mark.parametrize(("load_s", "seen_s"), [(30.0, 30), (30.2, 32), (0.5, 2), (0, 2)])
def test_readiness_is_seen_at_a_poll(load_s: float, seen_s: float) -> None:
    """readyPollInterval: it would be seen at the end of the load, or polls not begin with it."""
    desk = Desk({"a": (30, 0), "b": (load_s, 0)}, initial="a", readyPollInterval=2)
    client = desk.ask(0.25, "b")
    desk.run(100)
    assert client.log == [("b", "granted", 0.25 + seen_s)]
    assert desk.pods["b"].log[-1] == (0.25 + load_s, "ready")


def test_a_failed_load_is_seen_at_a_poll() -> None:
    """readyPollInterval: a failure would be known earlier than a success."""
    desk = Desk(PAIR, readyPollInterval=2)
    desk.pool.fail_loads("b", 20.5, 1)
    client = desk.ask(0, "b")
    desk.run(100)
    assert client.told == (PoolError.SWAP_FAILED, 22)
    assert desk.pods["b"].log == [(0, "load"), (20.5, "stop")]


def test_a_load_that_is_ready_but_unseen_is_stopped_at_the_bound() -> None:
    """The member would stay ready beside the next one."""
    desk = Desk(PAIR, readyPollInterval=20, swapBudget=35)
    client = desk.ask(0, "b")
    desk.run(100)
    assert client.told == (PoolError.SWAP_DEADLINE, 35)
    assert desk.pods["b"].log == [(0, "load"), (30, "ready"), (35, "stop")]


def test_loads_fail_by_chance() -> None:
    """loadFailure: every load would fail, or none; or their share not be that of the draws."""
    failure = {"probability": 0.5, "after": 10}
    desk = Desk({"a": (0, 0), "b": (30, 0)}, members={"b": {"loadFailure": failure}})
    clients = [desk.ask(100.0 * number, "b", "a", service_s=0) for number in range(40)]
    for number in range(40):
        desk.ask(100.0 * number + 50, "a")
    desk.run(5000)
    failed = [client for client in clients if client.log[0][1] == PoolError.SWAP_FAILED]
    assert 10 < len(failed) < 30
    assert all(client.log[0][2] % 100 == 10 for client in failed)


def test_a_load_that_is_to_fail_later_than_it_lasts_is_not_ready_until_then() -> None:
    """A load that hung for 50 s and crashed was cut to its usual 30 s without a word."""
    desk = Desk(PAIR)
    desk.pool.fail_loads("b", 50, 1)
    client = desk.ask(0, "b")
    desk.run(100)
    assert client.told == (PoolError.SWAP_FAILED, 50)


def hanging(loads: int = 1, **options: object) -> Desk:
    """A pool whose next loads of b never come to an end."""
    desk = Desk(PAIR, **options)  # type: ignore[arg-type]
    desk.pool.fail_loads("b", inf, loads)
    return desk


def test_a_load_that_hangs_is_ended_by_the_swap_budget() -> None:
    """LLMKube issue 1837: without a deadline the pool stays in its swap until the proxy restarts.

    Who asks for the former resident is held as long, and then has it loaded again.
    """
    desk = hanging(swapBudget=100)
    first, other = desk.ask(0, "b"), desk.ask(60, "a")
    desk.run(300)
    assert first.told == (PoolError.SWAP_DEADLINE, 100)
    assert other.log[-1][1] == "granted"
    assert desk.pods["b"].log == [(0, "load"), (100, "stop")]


def test_a_load_that_hangs_is_ended_without_a_budget_too() -> None:
    """swapBudget null: the hold ends at the timeout to response headers, and with it the swap.

    Without that timeout the bound of swaps remains, 240 s: nobody is held for ever.
    """
    held = hanging(swapBudget=None)
    client = held.ask(0, "b")
    held.run(1000)
    assert client.told == (PoolError.HOLD_BUDGET, 120)
    unheld = hanging(swapBudget=None, header_timeout_s=inf)
    client = unheld.ask(0, "b")
    unheld.run(1000)
    assert client.told == (PoolError.SWAP_DEADLINE, 240)


def test_a_load_that_hangs_ends_with_its_last_client() -> None:
    """A client with a timeout of 20 s would leave the slot to a load that nobody waits for."""
    desk = hanging()
    desk.ask(0, "b", leaves_s=20)
    again = desk.ask(50, "b")
    desk.run(200)
    assert desk.pods["b"].log[:3] == [(0, "load"), (20, "stop"), (50, "load")]
    assert again.log[-1][1:] == ("granted", 80)


def test_the_limit_of_a_health_check_ends_a_load_that_hangs() -> None:
    """loadLimit: only loads known to take longer would fail at it."""
    desk = Desk(PAIR, members={"b": {"loadLimit": 45}})
    desk.pool.fail_loads("b", inf, 1)
    client = desk.ask(0, "b")
    desk.run(100)
    assert client.told == (PoolError.SWAP_FAILED, 45)


# -- the first unload of a process ---------------------------------------------------------


@pytest.mark.parametrize("kind", ["model-pool", "llama-swap"])
def test_only_the_first_unload_of_a_process_takes_longer(kind: str) -> None:
    """Each sleep of level 1 would pin its memory again, or none.

    B is asleep at the start, so it has slept before. A's process dies at 500 s: the one
    that follows sleeps for the first time again.
    """
    times = {"a": (1.0, 2.0), "b": (1.0, 3.0)}
    initial = "a" if kind == "model-pool" else ("a",)
    pinning_s = {"a": 5.0, "b": 6.0}
    desk = Desk(times, kind=kind, pinning_s=pinning_s, initial=initial)
    for at_s, member in [(100, "b"), (200, "a"), (300, "b"), (400, "a"), (600, "a"), (700, "b")]:
        desk.ask(at_s, member)
    desk.lose(500, "a")
    desk.run(900)
    unloads_s = [(event.start_s, event.unload_s) for event in desk.events if event.kind == "swap"]
    assert [(at, seconds) for at, seconds in unloads_s if seconds is not None] == [
        (100, 7.0),
        (200, 3.0),
        (300, 2.0),
        (400, 3.0),
        (700, 7.0),
    ]


# -- probes that do not answer ---------------------------------------------------------------


def silent(desk: Desk, probe: str, from_s: float, until_s: float) -> None:
    """The probe of a (idle) or b (readiness) does not answer from then until then."""
    pod = desk.pods["a" if probe == "idle" else "b"]

    def begin() -> None:
        pod.silent_until_s[probe] = until_s

    desk.kernel.at(from_s, Order.FAULT, begin)


@pytest.mark.parametrize(("until_s", "ready_s"), [(10.0, 30), (44.0, 44), (200.0, 200)])
def test_a_load_is_over_when_the_readiness_probe_answers(until_s: float, ready_s: float) -> None:
    """A pod that has loaded and whose probe says nothing would be sent requests."""
    desk = Desk(PAIR)
    silent(desk, "readiness", 5.0, until_s)
    client = desk.ask(0, "b")
    desk.run(300)
    assert client.log[-1][1:] == ("granted", ready_s)


def test_a_readiness_probe_that_never_answers_is_ended_by_limits() -> None:
    """The pool would wait for ever, or take the end of the load for readiness all the same."""
    desk = Desk(PAIR, swapBudget=100)
    silent(desk, "readiness", 5.0, inf)
    client = desk.ask(0, "b")
    limited = Desk(PAIR, members={"b": {"loadLimit": 45}})
    silent(limited, "readiness", 5.0, inf)
    refused = limited.ask(0, "b")
    desk.run(300)
    limited.run(300)
    assert client.told == (PoolError.SWAP_DEADLINE, 100)
    assert refused.told == (PoolError.SWAP_FAILED, 45)


@pytest.mark.parametrize("interval_s", [0, 3])
def test_an_idle_probe_that_never_answers_holds_for_the_whole_budget(interval_s: float) -> None:
    """LLMKube pull 1485: every request for the other member is held for 300 s and gets 503.

    The incumbent goes on serving, as soon as nobody wants to swap it out.
    """
    desk = Desk(PAIR, initial="a", idleProbeInterval=interval_s)
    silent(desk, "idle", 0.0, inf)
    held, served = desk.ask(20, "b"), desk.ask(400, "a")
    desk.run(500)
    assert held.told == (PoolError.SWAP_DEADLINE, 320)
    assert served.log[-1][1:] == ("granted", 400)
    assert desk.pods["b"].log == []


@pytest.mark.parametrize(("interval_s", "drained_s"), [(0, 50), (3, 50), (7, 55)])
def test_an_idle_probe_that_answers_again_lets_the_swap_go_on(
    interval_s: float, drained_s: float
) -> None:
    """The drain would end at once, or never: probes at 20, 27, 34, 41, 48 and 55 s."""
    desk = Desk(PAIR, initial="a", idleProbeInterval=interval_s)
    silent(desk, "idle", 10.0, 50.0)
    client = desk.ask(20, "b")
    desk.run(300)
    assert client.log[-1][1] == "granted"
    assert desk.pods["b"].log[0] == (drained_s, "load")


@pytest.mark.parametrize("poll_s", [0, 5])
def test_a_member_whose_idle_probe_is_silent_is_not_reclaimed(poll_s: float) -> None:
    """A look that fails would count as one that finds it idle."""
    options = {"swapPolicy": "reclaim", "default": "b", "reclaimAfter": 30, "reclaimPoll": poll_s}
    desk = Desk(PAIR, initial="a", **options)  # type: ignore[arg-type]
    silent(desk, "idle", 0.0, 100.0)
    desk.run(300)
    assert desk.pods["b"].log[0] == (130, "load")


def test_a_random_order_of_waking_is_another_order() -> None:
    """wakeOrder random: those who wait would be served in the order of joining all the same."""

    def served(**options: object) -> list[str]:
        desk = Desk(PAIR, initial="a", maxInFlight=1, **options)  # type: ignore[arg-type]
        clients = [desk.ask(0, "a", service_s=1) for _ in range(8)]
        desk.run(50)
        ends = sorted(clients, key=lambda client: client.end_s)
        return [client.request.session_id for client in ends]

    joining = served()
    assert joining == [f"s{number}" for number in range(8)]
    drawn = [served(wakeOrder="random", seed=seed) for seed in range(4)]
    assert all(sorted(order) == joining for order in drawn)
    assert len({tuple(order) for order in drawn} | {tuple(joining)}) > 2
    assert drawn[0] == served(wakeOrder="random", seed=0)


SLOTS = {"memory": 8e9, "vramRecovery": 0}
A_MEMBER = {"memory": 5e9, "numCtx": 4096}


@pytest.mark.parametrize(
    ("options", "member", "error"),
    [
        ({"kind": "llama-swap"}, {"concurrencyLimit": 2}, PoolError.CONCURRENCY_LIMIT),
        # The one whose load is under way is in no queue.
        ({"kind": "ollama", "maxQueue": 1, **SLOTS}, A_MEMBER, PoolError.QUEUE_FULL),
        ({"maxInFlight": 1, "maxHeld": 1}, {}, PoolError.QUEUE_FULL),
        ({"kind": "fair", "maxInFlight": 1, "maxHeld": 1}, {}, PoolError.QUEUE_FULL),
    ],
)
def test_limits_that_refuse_are_looked_at_when_a_request_comes(
    options: dict[str, object], member: dict[str, object], error: str
) -> None:
    """mostlygeek/llama-swap#889: one too many would hear of it when the load is over, or the place
    of a client that has left stay taken."""
    desk = Desk({"a": (60.0, 0.0)}, members={"a": member}, **options)  # type: ignore[arg-type]
    desk.ask(0, "a")
    gone = desk.ask(1, "a", leaves_s=10)
    early, late, last = (desk.ask(at_s, "a") for at_s in (5, 12, 13))
    desk.run(200)
    assert (gone.told, early.told, last.told) == (("gone", 10), (error, 5), (error, 13))
    assert late.outcome == "served"


@pytest.mark.parametrize(
    ("options", "member"),
    [
        ({"kind": "ollama", "numParallel": 1, **SLOTS}, A_MEMBER),
        ({"maxInFlight": 1}, {}),
        ({"kind": "fair", "maxInFlight": 1}, {}),
    ],
)
def test_limits_that_hold_are_looked_at_when_somebody_is_let_in(
    options: dict[str, object], member: dict[str, object]
) -> None:
    """Somebody would be refused who has only to wait, or two be let in after a load."""
    desk = Desk({"a": (60.0, 0.0)}, members={"a": member}, **options)  # type: ignore[arg-type]
    clients = [desk.ask(at_s, "a") for at_s in (0, 1, 70)]
    desk.run(200)
    assert [client.told for client in clients] == [("served", 62), ("served", 64), ("served", 72)]
