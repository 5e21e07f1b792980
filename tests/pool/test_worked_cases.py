"""Worked cases of model pools with fake pods: times, counts and answers of the pool alone.

Prefill takes no time here, and an error that no backend is left for stands for the HTTP status
that the proxy makes of it.
"""

from collections.abc import Iterator

import pytest

from sim.core.kernel import Order
from sim.core.request import PoolError
from tests.pool.harness import Client, Desk

PAIR = {"a": (30.0, 0.0), "b": (30.0, 0.0)}


def closed_loop(
    desk: Desk, member: str, start_s: float, service_s: float, think_s: float
) -> Iterator[Client]:
    """The requests of a client that sends the next one when the last is over; grows as it runs."""
    clients: list[Client] = []

    def send() -> None:
        client = desk.ask_now(member, service_s=service_s)
        clients.append(client)
        client.on_end = lambda: desk.kernel.at(desk.kernel.now_s + think_s, Order.ARRIVAL, send)

    desk.kernel.at(start_s, Order.ARRIVAL, send)
    desk.run(3600.5)
    return iter(clients)


def test_c43_cold_swap_in_numbers() -> None:
    """C43: the hold would be cut by the 15 s timeout, or the second request load once more."""
    desk = Desk(
        {"coder": (32, 3), "longctx": (32, 3)}, header_timeout_s=15, initial="coder", swapBudget=300
    )
    first = desk.ask(0, "longctx", service_s=0.2)
    second = desk.ask(10, "longctx", service_s=0.2)
    desk.run(100)
    assert (first.told, second.told) == (("served", 35.2), ("served", 35.2))
    assert desk.swaps == [(0, "coder", "longctx", 35, "completed")]
    (swap,) = desk.rows("swap")
    assert (swap.drain_s, swap.unload_s, swap.load_s) == (0, 3, 32)
    assert [(row.start_s, row.end_s) for row in desk.rows("hold")] == [(0, 35), (10, 35)]
    assert desk.pods["coder"].log == [(0, "ready"), (0, "stop")]
    assert desk.pods["longctx"].log == [(3, "load"), (35, "ready")]


def test_c43_a_budget_shorter_than_the_swap() -> None:
    """C43: the second request would be told at 40 s by its hold, not at 30 s by the swap."""
    desk = Desk({"coder": (32, 3), "longctx": (32, 3)}, initial="coder", swapBudget=30)
    first, second = desk.ask(0, "longctx"), desk.ask(10, "longctx")
    desk.run(100)
    assert first.told == second.told == (PoolError.SWAP_DEADLINE, 30)
    assert desk.swaps == [(0, "coder", "longctx", 30, "deadline")]


@pytest.mark.parametrize("if_idle", [False, True])
def test_c44_a_and_d(if_idle: bool) -> None:
    """C44: IfIdle would skip an idle incumbent, or count the request itself as its business."""
    desk = Desk({"small": (30, 0), "large": (30, 0)}, initial="large", swapBudget=600)
    client = desk.ask(0, "small", "large", if_idle=if_idle, service_s=100)
    late = desk.ask(40, "small", "large", if_idle=if_idle)
    desk.run(200)
    assert client.log == [("small", "granted", 30)]
    assert late.log == [("small", "granted", 40)]
    assert desk.rows("skip") == []


@pytest.mark.parametrize(
    ("if_idle", "log", "skips", "served_s"),
    [
        (False, [("small", "granted", 270.0)], 0, 272.0),
        (True, [("small", "incumbent_busy", 0.0), ("large", "granted", 0.0)], 1, 2.0),
    ],
)
def test_c44_b(
    if_idle: bool, log: list[tuple[str, str, float]], skips: int, served_s: float
) -> None:
    """C44: Wait would skip, or IfIdle wait for 240 s."""
    desk = Desk({"small": (30, 0), "large": (30, 0)}, initial="large", swapBudget=600)
    desk.ask(0, "large", service_s=240)
    client = desk.ask(0, "small", "large", if_idle=if_idle)
    desk.run(400)
    assert (client.log, client.told) == (log, ("served", served_s))
    assert [row.member for row in desk.rows("skip")] == ["small"] * skips


@pytest.mark.parametrize("if_idle", [False, True])
def test_c44_c_a_running_swap_is_waited_for(if_idle: bool) -> None:
    """C44: IfIdle would skip the incumbent that is unloading."""
    desk = Desk({"small": (30, 0), "large": (30, 0)}, initial="large", swapBudget=600)
    desk.ask(0, "small", service_s=100)
    client = desk.ask(10, "small", "large", if_idle=if_idle)
    desk.run(100)
    assert client.log == [("small", "granted", 30)]
    assert desk.rows("skip") == []


def test_c45_every_backend_skipped() -> None:
    """C45: the second skip would be missing, or the answer come at the end of a budget."""
    desk = Desk({"a": (30, 0), "b": (30, 0), "c": (30, 0)}, initial="c")
    desk.ask(0, "c", service_s=100)
    skipped = desk.ask(0, "a", "b", if_idle=True)
    retried = desk.ask(100, "a", "b", if_idle=True)
    desk.run(200)
    assert skipped.told == (PoolError.INCUMBENT_BUSY, 0)
    assert [row.member for row in desk.rows("skip")] == ["a", "b"]
    assert retried.told == ("served", 132)


@pytest.mark.parametrize(
    ("order", "loads", "ends_s", "mean_s"),
    [("fifo", 7, 226, 125.25), ("coalesce", 3, 106, 61.5)],
)
def test_c46_thrash_in_order_of_arrival_against_coalescing(
    order: str, loads: int, ends_s: float, mean_s: float
) -> None:
    """C46: a load per request, or members served side by side."""
    times = {"a": (30.0, 0.0), "b": (30.0, 0.0), "c": (30.0, 0.0)}
    desk = Desk(times, parallel=1, order=order, swapBudget=600)
    clients = [desk.ask(0, member) for member in "abaacabc"]
    desk.run(1000)
    assert {client.outcome for client in clients} == {"served"}
    assert sum(desk.loads(member) for member in times) == loads
    assert max(client.end_s for client in clients) == ends_s
    assert sum(client.end_s for client in clients) / 8 == mean_s


def test_c46_a_maximum_wait() -> None:
    """C46: an error, or as many loads as in order of arrival."""
    times = {"a": (30.0, 0.0), "b": (30.0, 0.0), "c": (30.0, 0.0)}
    desk = Desk(times, parallel=1, maxWait=60, swapBudget=600)
    clients = [desk.ask(0, member) for member in "abaacabc"]
    desk.run(1000)
    assert {client.outcome for client in clients} == {"served"}
    assert sum(desk.loads(member) for member in times) <= 5


def test_c47_ping_pong() -> None:
    """C47: a swap would cost nothing, B's arrival preempt A, or the gap of 1 s be missed."""
    desk = Desk({"a": (60, 0), "b": (30, 0)}, initial="a")
    jobs = [desk.ask(5.5 + 300 * number, "b") for number in range(12)]
    batch = list(closed_loop(desk, "a", 0, 10, 1))
    assert sum(client.outcome == "served" for client in batch if client.end_s <= 3600) == 228
    assert len(desk.swaps) == 24
    assert sum(row.load_s or 0 for row in desk.rows("swap")) == pytest.approx(1080)
    for number, job in enumerate(jobs):
        assert job.told == ("served", 5.5 + 300 * number + 36.5)
    alone = Desk({"a": (60, 0), "b": (30, 0)}, initial="a")
    assert sum(0 <= client.end_s <= 3600 for client in closed_loop(alone, "a", 0, 10, 1)) == 327


def test_c47_with_if_idle() -> None:
    """C47: the request in A's gap would be skipped as well, or others start swaps."""
    desk = Desk({"a": (60, 0), "b": (30, 0)}, initial="a")
    jobs = [desk.ask(5.5 + 300 * n, "b", "a", if_idle=True) for n in range(10)]
    batch: list[Client] = []

    def send() -> None:
        batch.append(desk.ask_now("a", service_s=10))
        batch[-1].on_end = lambda: desk.kernel.at(desk.kernel.now_s + 1, Order.ARRIVAL, send)

    desk.kernel.at(0, Order.ARRIVAL, send)
    desk.run(3000)
    assert [job.log[-1][0] for job in jobs] == ["a"] * 9 + ["b"]
    assert jobs[9].log == [("b", "granted", 2735.5)]
    assert (len(desk.swaps), len(desk.rows("skip"))) == (2, 9)


def two_loops_and_thirty(**options: object) -> tuple[Desk, list[Client], list[Client]]:
    """C50: A is never idle, B is asked for every 120 s."""
    desk = Desk({"a": (60, 0), "b": (30, 0)}, initial="a", swapBudget=600, **options)
    batch: list[Client] = []

    def send() -> None:
        batch.append(desk.ask_now("a", service_s=10))
        batch[-1].on_end = lambda: desk.kernel.at(desk.kernel.now_s, Order.ARRIVAL, send)

    for start_s in (0, 5):
        desk.kernel.at(start_s, Order.ARRIVAL, send)
    asked = [desk.ask(120.0 * number, "b") for number in range(30)]
    desk.run(3600.5)
    return desk, asked, batch


def test_c50_starvation_behind_a_batch_that_is_never_idle() -> None:
    """C50: a swap in a moment without length, or B's last requests lost."""
    desk, asked, batch = two_loops_and_thirty()
    late = [client for client in asked if not client.outcome]
    assert len(late) == 4
    for client in asked[:26]:
        assert client.outcome == PoolError.HOLD_BUDGET
    assert desk.swaps == []
    assert sum(client.outcome == "served" for client in batch) == 719


def test_c50_a_maximum_wait_bounds_it() -> None:
    """C50: B would wait for more than limit, rest of a job and both loads."""
    _, asked, _ = two_loops_and_thirty(maxWait=60)
    assert {client.outcome for client in asked} == {"served"}
    waits_s = [client.log[0][2] - 120.0 * number for number, client in enumerate(asked)]
    assert waits_s[0] == max(waits_s) == 95


@pytest.mark.parametrize(
    ("options", "swaps", "waits_s"),
    [
        ({"reclaimAfter": 60}, 20, [30] * 10),
        ({"reclaimAfter": 900}, 2, [30] + [0] * 9),
        ({"swapPolicy": "sticky"}, 1, [30] + [0] * 9),
        (
            {"reclaimAfter": 900, "reclaimPoll": 30},
            6,
            [30, 0, 0, 0, 30, 0, 0, 0, 30, 0],
        ),
    ],
)
def test_c51_reclaim_for_the_default(
    options: dict[str, object], swaps: int, waits_s: list[float]
) -> None:
    """C51: the idle clock would not be reset, or a member be reclaimed that is waited for."""
    desk = Desk({"d": (30, 0), "b": (30, 0)}, default="d", **{"swapPolicy": "reclaim"} | options)
    bursts = [desk.ask(300.0 * number, "b", service_s=30) for number in range(10)]
    desk.run(4000)
    assert len(desk.swaps) == swaps
    waited = [client.log[0][2] - 300.0 * number for number, client in enumerate(bursts)]
    assert waited == waits_s
    if swaps == 20:
        assert desk.swaps[1] == (120, "b", "d", 150, "completed")
    if swaps == 6:
        assert [swap[0] for swap in desk.swaps if swap[2] == "d"] == [960, 2160, 3360]


def test_c52_direct_traffic_that_the_router_cannot_see() -> None:
    """C52: the drain would not see the direct request, or IfIdle be skipped for it."""
    for rule, if_idle in ((("b",), False), (("b", "a"), True)):
        desk = Desk(PAIR, initial="a", swapBudget=600)
        direct = desk.direct(0, "a", 100)
        client = desk.ask(10, *rule, if_idle=if_idle)
        desk.run(200)
        assert client.log == [("b", "granted", 130)]
        assert direct.result == "ok"
        assert desk.rows("swap")[0].drain_s == 90


def test_c52_a_budget_that_ends_in_the_drain() -> None:
    """C52: A would be gone after a swap that never began to unload it."""
    desk = Desk(PAIR, initial="a", swapBudget=60)
    direct = desk.direct(0, "a", 100)
    client = desk.ask(10, "b")
    after = desk.ask(80, "a")
    desk.run(200)
    assert client.told == (PoolError.SWAP_DEADLINE, 70)
    assert direct.result == "ok"
    assert after.told == ("served", 82)
    assert desk.pods["a"].log == [(0, "ready")]
    assert desk.loads("b") == 0


def test_c52_a_probe_that_always_says_idle() -> None:
    """C52: the direct request would end normally."""
    desk = Desk(PAIR, initial="a", swapBudget=600, idleProbe="always-idle")
    direct = desk.direct(0, "a", 100)
    client = desk.ask(10, "b")
    desk.run(200)
    assert direct.result == "broken"
    assert desk.pods["a"].log[-1] == (10, "stop")
    assert client.log == [("b", "granted", 40)]


@pytest.mark.parametrize(("recheck", "failed"), [(True, [100]), (False, [100, 101])])
def test_c53_the_resident_is_evicted(recheck: bool, failed: list[float]) -> None:
    """C53: residency would only change by swaps, and every later request fail."""
    desk = Desk(PAIR, initial="a", recheckOnError=recheck)
    clients = [desk.ask(float(second), "a", service_s=0.1) for second in range(140)]
    desk.lose(100, "a")
    desk.run(200)
    assert [float(n) for n, client in enumerate(clients) if client.outcome == "refused"] == failed
    assert all(client.outcome == "served" for client in clients[102:])
    if recheck:
        assert {client.log[-1][2] for client in clients[101:131]} == {131}


@pytest.mark.parametrize("offset_s", [0.5, 1.5, 2.5, 3.5, 4.5, 5.5])
def test_c53_without_the_trigger_at_most_five_fail(offset_s: float) -> None:
    """C53: a belief would be checked less often than every 5 s."""
    desk = Desk(PAIR, initial="a", recheckOnError=False)
    clients = [desk.ask(float(second), "a", service_s=0.1) for second in range(140)]
    desk.lose(100 + offset_s, "a")
    desk.run(200)
    failed = [client for client in clients if client.outcome == "refused"]
    assert 0 < len(failed) <= 5 or offset_s == 1.5
    assert all(client.outcome == "served" for client in clients[112:])


def failing_twice(**options: object) -> Desk:
    """C54: B's loads fail after 20 s, twice."""
    desk = Desk(PAIR, initial="a", **options)
    desk.pool.fail_loads("b", 20, 2)
    return desk


@pytest.mark.parametrize("reload", [False, True])
def test_c54_failure_to_load(reload: bool) -> None:
    """C54: a failed member would stay failed, or be retried for ever."""
    desk = failing_twice(reloadIncumbent=reload)
    clients = [desk.ask(at_s, "b", service_s=0) for at_s in (0.0, 40.0, 80.0)]
    desk.run(200)
    assert [client.told for client in clients] == [
        (PoolError.SWAP_FAILED, 20),
        (PoolError.SWAP_FAILED, 60),
        ("served", 110),
    ]
    assert (desk.loads("b"), desk.loads("a")) == (3, int(reload))
    assert [swap[4] for swap in desk.swaps if swap[2] == "b"] == ["error", "error", "completed"]


def test_c54_another_member_after_a_failure() -> None:
    """C54: the pool would be stuck in its failure."""
    desk = failing_twice()
    desk.ask(0, "b")
    other = desk.ask(25, "a", service_s=0)
    desk.run(100)
    assert other.told == ("served", 55)


def test_c54_the_only_client_leaves() -> None:
    """C54: the load would go on for nobody, or count as a failure."""
    desk = failing_twice()
    alone = desk.ask(0, "b", leaves_s=5)
    desk.run(100)
    assert alone.told == ("gone", 5)
    assert desk.swaps == [(0, "a", "b", 5, "cancelled")]
    assert desk.pods["b"].log == [(0, "load"), (5, "stop")]


def test_c54_another_one_waits() -> None:
    """C54: the first of two clients would take the load with it."""
    desk = Desk(PAIR, initial="a")
    desk.ask(0, "b", leaves_s=5)
    other = desk.ask(3, "b", service_s=0)
    desk.run(100)
    assert other.told == ("served", 30)


def test_c54_a_load_above_its_limit() -> None:
    """C54: the load would succeed, or be tried again without anybody asking."""
    desk = Desk({"a": (16, 0), "b": (16, 0)}, members={"b": {"loadLimit": 15}})
    clients = [desk.ask(at_s, "b") for at_s in (0.0, 100.0)]
    desk.run(200)
    assert [client.told for client in clients] == [
        (PoolError.SWAP_FAILED, 15),
        (PoolError.SWAP_FAILED, 115),
    ]
    assert desk.loads("b") == 2


def test_c55_the_queue_limit_holds_for_the_loaded_model_too() -> None:
    """C55: only the queue in front of a swap would be limited."""
    for member in ("a", "b"):
        desk = Desk(PAIR, initial="a", maxInFlight=1, maxHeld=1, parallel=1)
        clients = [desk.ask(0, member) for _ in range(6)]
        desk.run(200)
        refused = [client for client in clients if client.outcome == PoolError.QUEUE_FULL]
        assert [client.end_s for client in refused] == [0] * 4
        assert [client.outcome for client in clients[:2]] == ["served"] * 2
        assert len(desk.rows("hold")) == 2


@pytest.mark.parametrize(
    ("options", "told", "last_s"),
    [
        ({"swapBudget": 600}, (PoolError.HOLD_BUDGET, 620), 600),
        ({"swapBudget": 900}, ("served", 632), 600),
        ({"swapBudget": 900, "order": "fifo"}, ("served", 632), 600),
        ({"swapBudget": 900, "maxInFlight": 1, "maxWait": 40}, ("served", 92), 662),
    ],
)
def test_c57_work_in_flight_is_finished(
    options: dict[str, object], told: tuple[str, float], last_s: float
) -> None:
    """C57: jobs that wait inside A's own queue would not keep it busy, or be aborted."""
    desk = Desk(PAIR, initial="a", parallel=1, **options)
    jobs = [desk.ask(0, "a", service_s=60) for _ in range(10)]
    chat = desk.ask(20, "b")
    desk.run(1000)
    assert chat.told == told
    assert [job.outcome for job in jobs] == ["served"] * 10
    assert max(job.end_s for job in jobs) == last_s
