"""llama-swap's scheduler: groups, coalescing, limits, idle members."""

from math import inf

import pytest

from sim.core.request import PoolError
from sim.desk.llama_swap_spec import Matrix
from tests.pool.harness import Client, Desk

TEN = {"a": (10.0, 0.0), "b": (10.0, 0.0), "c": (10.0, 0.0)}


def desk(**options: object) -> Desk:
    return Desk(TEN, **{"kind": "llama-swap", **options})  # type: ignore[arg-type]


def told(clients: list[Client]) -> list[tuple[str, float]]:
    return [client.told for client in clients]


def test_inc48_alternating_requests_are_grouped() -> None:
    """INC-48: five swaps after the first load and 68 s of work, not two and 38 s."""
    one = desk(parallel=1)
    clients = [one.ask(0, member, service_s=3) for member in "abcabc"]
    one.run(1000)
    assert [client.end_s for client in clients] == [13, 29, 45, 16, 32, 48]
    assert [swap[1:3] for swap in one.swaps] == [(None, "a"), ("a", "b"), ("b", "c")]
    assert max(client.end_s for client in clients) == 10 + 38
    strict = Desk(TEN, parallel=1, order="fifo", swapBudget=600)
    late = [strict.ask(0, member, service_s=3) for member in "abcabc"]
    strict.run(1000)
    assert (len(strict.swaps), max(client.end_s for client in late)) == (6, 10 + 68)


def test_c46_one_load_per_member() -> None:
    """C46: a member would be loaded again while others wait for it."""
    thirty = dict.fromkeys("abc", (30.0, 0.0))
    one = Desk(thirty, parallel=1, kind="llama-swap")
    clients = [one.ask(0, member) for member in "abaacabc"]
    one.run(1000)
    assert {client.outcome for client in clients} == {"served"}
    assert max(client.end_s for client in clients) == 106
    assert sum(client.end_s for client in clients) / 8 == 61.5


def test_c47_the_gap_of_a_closed_loop_is_enough() -> None:
    """C47: a busy member would be evicted, or a gap of 1 s not be used."""
    one = Desk({"a": (60, 0), "b": (30, 0)}, kind="llama-swap", initial=("a",))
    for start_s in (0, 11):
        one.ask(start_s, "a", service_s=10)
    job = one.ask(5.5, "b")
    one.run(100)
    assert one.swaps[0] == (10, "a", "b", 40, "completed")
    assert job.told == ("served", 42)
    one.run(200)
    assert one.clients[1].told == ("served", 112)


def test_inc49_nothing_bounds_the_wait_of_the_others() -> None:
    """INC-49: there would be a budget, or a swap although somebody is always in flight."""
    one = desk(initial=("a",))
    for number in range(900):
        one.ask(2.0 * number, "a", service_s=3)
    chat = one.ask(10, "b")
    one.run(3000)
    assert chat.told == ("served", 1801 + 10 + 2)
    assert len(one.swaps) == 1


def test_c57_work_in_flight_is_finished() -> None:
    """C57: jobs that wait within a would not keep it, or be cut off."""
    one = Desk({"a": (30, 0), "b": (30, 0)}, parallel=1, kind="llama-swap", initial=("a",))
    jobs = [one.ask(0, "a", service_s=60) for _ in range(10)]
    chat = one.ask(20, "b")
    one.run(1000)
    assert {job.outcome for job in jobs} == {"served"}
    assert chat.told == ("served", 632)


@pytest.mark.parametrize("limit", [1, 10])
def test_beyond_the_limit_is_refused_not_queued(limit: int) -> None:
    """mostlygeek/llama-swap#889: those who wait for a load would count when it is over only.

    A client was told 429 a minute after it had come, when the model was ready at last.
    """
    members = {name: {"concurrencyLimit": limit} for name in TEN}
    one = desk(members=members, initial=("a",))
    ready = [one.ask(0, "a") for _ in range(12)]
    loading = [one.ask(0, "b") for _ in range(12)]
    one.run(100)
    for clients in (ready, loading):
        refused = [each for each in clients if each.outcome == PoolError.CONCURRENCY_LIMIT]
        assert [each.end_s for each in refused] == [0] * (12 - limit)
        assert [each.outcome for each in clients[:limit]] == ["served"] * limit
    assert len(one.rows("hold")) == 2 * limit


def test_who_leaves_gives_its_place_back() -> None:
    """mostlygeek/llama-swap#889: places of clients that left would be lost, or those that are
    served keep theirs for ever."""
    one = desk(members={"a": {"concurrencyLimit": 1}})
    gone = one.ask(0, "a", leaves_s=3)
    early, late, again = (one.ask(at_s, "a") for at_s in (2, 4, 11))
    one.run(100)
    full = PoolError.CONCURRENCY_LIMIT
    assert told([gone, early, late, again]) == [("gone", 3), (full, 2), ("served", 12), (full, 11)]
    last = one.ask(101, "a")
    one.run(200)
    assert last.told == ("served", 103)


def test_each_member_has_a_limit_of_its_own() -> None:
    """Who waits for its turn behind another member would count for that one, or not at all."""
    one = desk(members={name: {"concurrencyLimit": 1} for name in TEN}, initial=("a",))
    clients = [one.ask(at_s, member) for at_s, member in enumerate("abbcc")]
    one.run(100)
    full = PoolError.CONCURRENCY_LIMIT
    ends = [("served", 2), ("served", 14), (full, 2), ("served", 26), (full, 4)]
    assert told(clients) == ends


MATRIX = {"vars": {"x": "a"}, "sets": {"pair": "(x | b) & c", "alone": "d"}}
FOUR = dict.fromkeys("abcd", (10.0, 0.0))


@pytest.mark.parametrize(
    ("costs", "evicted"), [({}, ["a"]), ({"x": 3}, ["b"]), ({"x": 3, "b": 3}, ["a"])]
)
def test_a_matrix_evicts_what_costs_least(costs: dict[str, int], evicted: list[str]) -> None:
    """The first set with the member would be taken whatever it costs, or the last of equals.

    c goes with a or with b; both are there.
    """
    sets = {"both": "a & b", "left": "b & c", "right": "x & c"}
    matrix = {"vars": {"x": "a"}, "evictCosts": costs, "sets": sets}
    one = Desk(FOUR, kind="llama-swap", initial=("a", "b"), matrix=matrix)
    one.ask(0, "c", service_s=0)
    one.run(100)
    assert [name for name in "ab" if not one.pods[name].ready] == evicted
    assert one.swaps == [(0, evicted[0], "c", 10, "completed")]


def test_a_matrix_keeps_those_together_that_may_be() -> None:
    """A companion would be unloaded with each swap beside it; who is in no set not be alone."""
    five = dict.fromkeys("abcde", (10.0, 0.0))
    one = Desk(five, kind="llama-swap", matrix=MATRIX)
    for at_s, member in ((0, "a"), (20, "c"), (40, "b"), (60, "c"), (80, "d"), (100, "e")):
        one.ask(at_s, member, service_s=0)
    one.run(200)
    assert [swap[:3] for swap in one.swaps] == [
        (0, None, "a"),
        (20, None, "c"),
        (40, "a", "b"),
        (80, "b", "d"),  # and c
        (100, "d", "e"),
    ]
    assert one.pods["c"].log == [(20, "load"), (30, "ready"), (80, "stop")]


def test_a_busy_member_of_another_set_is_waited_for() -> None:
    """A set would be changed under those that are served, or two be loaded that never go together
    because they come at the same time."""
    one = Desk(FOUR, kind="llama-swap", matrix=MATRIX, initial=("a", "c"))
    one.ask(0, "c", service_s=5)
    waits, beside, last = one.ask(1, "d"), one.ask(2, "b"), one.ask(30, "c", service_s=0)
    one.run(100)
    assert told([waits, beside, last]) == [("served", 26), ("served", 14), ("served", 40)]
    assert [swap[:3] for swap in one.swaps] == [(2, "a", "b"), (14, "b", "d"), (30, "d", "c")]


def test_the_expressions_of_a_matrix() -> None:
    """Parts would bind the wrong way round, a reference come after the set that it stands in, or
    a way to read a set twice be two."""
    sets = {"late": "+early & c", "early": "a | b & d", "again": "(a | b) & c", "same": "c & a"}
    found, problems = Matrix(sets=sets).together("abcd")
    assert ["".join(sorted(each)) for each in found] == ["a", "bd", "ac", "bcd", "bc"]
    assert not problems


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ({"sets": {"s": "a & x"}}, "sets.s: 'x' is unknown; known: a, b"),
        ({"sets": {"s": "a & "}}, "sets.s: a member is missing before 'the end'"),
        ({"sets": {"s": "a b"}}, "sets.s: 'b' is not expected there"),
        ({"sets": {"s": "(a | b"}}, "sets.s: a ')' is missing"),
        ({"sets": {"s": "a , b"}}, "sets.s: ',' means nothing there"),
        ({"sets": {"s": "a & +t"}}, "sets.s: '+t' is unknown; known: +s"),
        ({"sets": {"s": "+t", "t": "+s"}}, "sets.s: refers to itself: s -> t -> s"),
        ({"sets": {"s": "a"}, "evictCosts": {"y": 2}}, "evictCosts.y: is none of vars or members"),
        ({"sets": {"s": "a"}, "vars": {"y": "z"}}, "vars.y: must be one of the members (a, b)"),
    ],
)
def test_a_matrix_that_says_nothing(matrix: dict[str, dict[str, object]], said: str) -> None:
    """It would mean something else than what was meant, without a word."""
    problems = Matrix.model_validate(matrix).together("ab")[1]
    assert f"{problems[0][0]}: {problems[0][1]}".startswith(said)


def test_inc51_a_failed_load_is_tried_again_when_somebody_asks() -> None:
    """INC-51: a member that takes longer than the health check would stay failed for ever."""
    one = Desk({"a": (20, 0)}, kind="llama-swap", healthCheckTimeout=15)
    clients = [one.ask(at_s, "a") for at_s in (0, 5, 40)]
    one.run(100)
    assert told(clients) == [
        (PoolError.SWAP_FAILED, 15),
        (PoolError.SWAP_FAILED, 15),
        (PoolError.SWAP_FAILED, 55),
    ]
    assert one.loads("a") == 2
    patient = Desk({"a": (20, 0)}, kind="llama-swap")
    served = patient.ask(0, "a")
    patient.run(100)
    assert served.told == ("served", 22)


def test_idle_time_counts_from_the_end_of_an_answer() -> None:
    """llama-swap issue 25: a model was unloaded in the middle of, or right after, a long answer.

    By hand: an answer from 5 to 35 s; another 9 s later, without a load; unloaded at 55 s.
    """
    one = desk(initial=("a",), globalTTL=10)
    one.ask(5, "a", service_s=30)
    follows = one.ask(44, "a", service_s=1)
    late = one.ask(60, "a", service_s=1)
    one.run(100)
    assert follows.log[-1][1:] == ("granted", 44)
    assert (55, "stop") in one.pods["a"].log
    assert late.log[-1][1:] == ("granted", 70)


def test_a_load_that_hangs_fails_at_the_health_check() -> None:
    """healthCheckTimeout: its pod would be loading for ever, and all for it be held."""
    one = desk(failures=[("a", inf)], healthCheckTimeout=40)
    first, again = one.ask(0, "a"), one.ask(100, "a")
    one.run(200)
    assert first.told == (PoolError.SWAP_FAILED, 40)
    assert again.log[-1][1] == "granted"


def test_a_health_endpoint_that_does_not_answer_fails_a_load_that_is_over() -> None:
    """llama-swap pull 1131: a server that listens elsewhere never becomes ready.

    The model stays in loading until healthCheckTimeout, though it has loaded long before.
    """
    one = desk(healthCheckTimeout=40)
    one.pods["a"].silent_until_s["readiness"] = inf
    client = one.ask(0, "a")
    one.run(200)
    assert client.told == (PoolError.SWAP_FAILED, 40)


def test_inc52_a_request_while_the_member_unloads_is_served_after_a_reload() -> None:
    """INC-52: it would hang, or be sent to a process that is about to end."""
    one = Desk({"a": (10, 8)}, kind="llama-swap", initial=("a",), globalTTL=30)
    one.ask(0, "a")
    late = one.ask(32.5, "a")
    one.run(100)
    assert late.told == ("served", 40 + 10 + 2)
    unload, _ = one.rows("unload")
    assert (unload.start_s, unload.end_s, unload.unload_s) == (32, 40, 8)
    (swap,) = one.rows("swap")
    assert (swap.start_s, swap.unload_s, swap.load_s) == (32.5, 7.5, 10)
    assert one.pods["a"].log == [
        (0, "ready"),
        (32, "stop"),
        (40, "load"),
        (50, "ready"),
        (82, "stop"),
    ]


def test_idle_time_is_that_since_the_last_use() -> None:
    """A member in use would be unloaded, or one that was used again be so too early."""
    members = {"a": {"ttl": 5}, "b": {"ttl": 0}}
    one = desk(members=members, initial=("a",), globalTTL=1)
    one.ask(4, "a", service_s=10)
    one.ask(18, "a", service_s=0)
    one.run(100)
    assert one.pods["a"].log == [(0, "ready"), (23, "stop")]
    one.ask(100, "b", service_s=0)
    one.run(1000)
    assert one.pods["b"].log == [(100, "load"), (110, "ready")]


def test_an_idle_time_that_ends_as_a_request_arrives_ends_before() -> None:
    """The request would be sent to a process that ends at this instant."""
    one = desk(initial=("a",), globalTTL=5)
    client = one.ask(5, "a", service_s=1)
    one.run(100)
    assert client.told == ("served", 16)


def test_the_client_of_a_load_is_gone() -> None:
    """The load would be given up, or those who left be granted."""
    one = desk()
    gone = one.ask(0, "a", leaves_s=5)
    queued = one.ask(0, "b", leaves_s=6)
    one.run(100)
    assert told([gone, queued]) == [("gone", 5), ("gone", 6)]
    assert one.swaps == [(0, None, "a", 10, "completed")]
    assert [row.result for row in one.rows("hold")] == ["cancelled"] * 2


def test_groups_that_do_not_swap_are_together() -> None:
    """A load would evict a sibling, or another exclusive group stay."""
    pair = {"pair": {"members": ("a", "b"), "swap": False}}
    one = desk(groups=pair)
    clients = [one.ask(0, "a"), one.ask(0, "b"), one.ask(20, "c"), one.ask(21, "a")]
    one.run(100)
    assert told(clients) == [("served", at_s) for at_s in (12, 12, 32, 44)]
    assert [swap[:3] for swap in one.swaps] == [
        *((0, None, "a"), (0, None, "b"), (20, "a", "c"), (32, "c", "a")),
    ]
    assert one.pods["b"].log[-1] == (20, "stop")


def test_a_persistent_group_is_left_alone() -> None:
    """A small model that is to stay would be unloaded by an exclusive one."""
    groups = {"always": {"members": ("a",), "exclusive": False, "persistent": True}}
    one = desk(groups=groups)
    clients = [one.ask(at_s, member) for at_s, member in ((0, "a"), (15, "b"), (30, "a"))]
    one.run(100)
    assert told(clients) == [("served", at_s) for at_s in (12, 27, 32)]
    assert one.pods["a"].log == [(0, "load"), (10, "ready")]


def test_a_group_that_is_not_exclusive_leaves_an_exclusive_one() -> None:
    """Loading would unload what llama-swap leaves; the exclusive one comes back and evicts."""
    groups = {"side": {"members": ("a",), "exclusive": False}}
    one = desk(groups=groups, initial=("b",))
    one.ask(0, "a", service_s=20)
    back = one.ask(15, "b")
    one.run(100)
    assert back.told == ("served", 32)
    assert one.swaps == [(0, None, "a", 10, "completed"), (30, "a", "b", 30, "completed")]
    assert one.loads("b") == 0


def test_the_queue_is_in_order_of_priority_then_of_age() -> None:
    """c would be loaded after b, though its priority is higher."""
    members = {"c": {"priority": 1}}
    one = desk(members=members, initial=("a",))
    one.ask(0, "a", service_s=5)
    one.ask(1, "b")
    one.ask(2, "c")
    one.run(100)
    assert [swap[2] for swap in one.swaps] == ["c", "b"]


def test_what_does_not_end_is_killed() -> None:
    """DirectService traffic that llama-swap knows nothing of would keep its member for ever."""
    one = Desk({"a": (10, 8), "b": (10, 0)}, kind="llama-swap", initial=("a",))
    direct = one.direct(0, "a", 100)
    client = one.ask(5, "b", service_s=0)
    one.run(200)
    assert (direct.result, client.told) == ("broken", ("served", 25))
    quick = Desk({"a": (10, 8), "b": (10, 0)}, kind="llama-swap", initial=("a",), unloadTimeout=5)
    after = quick.ask(5, "b", service_s=0)
    quick.run(200)
    assert after.told == ("served", 20)


def test_losses_at_any_time() -> None:
    """A loss would leave somebody waiting for ever."""
    one = Desk({"a": (10, 4), "b": (10, 0)}, kind="llama-swap", initial=("a",))
    loading = one.ask(0, "b")
    one.lose(5, "a")
    one.lose(9, "b")
    again = one.ask(20, "b", service_s=0)
    one.lose(31, "b")
    reloaded = one.ask(32, "b", service_s=0)
    one.run(200)
    assert told([loading, again, reloaded]) == [
        (PoolError.SWAP_FAILED, 9),
        ("served", 30),
        ("served", 42),
    ]


def test_a_restart_of_the_router_leaves_the_swap_alone() -> None:
    """A held request would hang, or the swap be started again."""
    one = desk()
    held = one.ask(0, "a")
    one.restart(3)
    after = one.ask(5, "a", service_s=0)
    one.run(100)
    assert told([held, after]) == [(PoolError.PROXY_RESTART, 3), ("served", 10)]
    assert one.loads("a") == 1


def test_the_row_of_a_swap() -> None:
    """Its parts would not add up, or name somebody who was not evicted."""
    one = Desk({"a": (10, 3), "b": (10, 0)}, kind="llama-swap", initial=("a",))
    one.direct(0, "a", 5)
    one.ask(1, "b")
    one.run(100)
    (row,) = one.rows("swap")
    assert (row.start_s, row.from_member, row.cause) == (1, "a", "request")
    assert (row.drain_s, row.unload_s, row.load_s, row.end_s) == (4, 3, 10, 18)
