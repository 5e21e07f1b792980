"""Ollama's scheduler: memory, one load at a time, keep-alive, the queue."""

from math import inf

import pytest

from sim.core.request import PoolError
from tests.pool.harness import Client, Desk

GB = 1e9


def desk(
    times: dict[str, tuple[float, float]] | None = None,
    sizes: dict[str, float] | None = None,
    members: dict[str, dict[str, object]] | None = None,
    **options: object,
) -> Desk:
    """Three members of 10 GB that load in 10 s, in 24 GB; memory is free at once."""
    times = times or dict.fromkeys("abc", (10.0, 0.0))
    more = {
        name: {
            "memory": (sizes or {}).get(name, 10.0) * GB,
            "numCtx": 4096,
            **(members or {}).get(name, {}),
        }
        for name in times
    }
    told = {"kind": "ollama", "memory": 24 * GB, "vramRecovery": 0, **options}
    return Desk(times, members=more, **told)  # type: ignore[arg-type]


def told(clients: list[Client]) -> list[tuple[str, float]]:
    return [client.told for client in clients]


def test_what_fits_is_loaded_beside_the_others() -> None:
    """A member would be evicted though there is room, or two be loaded at a time."""
    one = desk()
    clients = [one.ask(0, "a"), one.ask(0, "b"), one.ask(11, "a")]
    one.run(100)
    assert told(clients) == [("served", 12), ("served", 22), ("served", 14)]
    assert one.swaps == [(0, None, "a", 10, "completed"), (10, None, "b", 20, "completed")]


@pytest.mark.parametrize(
    ("size", "stays"), [(7.9, True), (8.0, True), (8.1, False), (9.9, False), (24, False)]
)
def test_beside_others_a_model_may_need_four_fifths_of_what_is_free(
    size: float, stays: bool
) -> None:
    """ollama/ollama#18282: whatever fits would be loaded beside a, where Ollama unloads it.

    Of 24 GB a has 14, so 10 are free; b alone is loaded whatever it needs.
    """
    one = desk(sizes={"a": 14, "b": size}, initial=("a",))
    first, again = one.ask(0, "b"), one.ask(20, "a", service_s=0)
    one.run(100)
    assert first.told == ("served", 12)
    assert one.swaps[0] == (0, None if stays else "a", "b", 10, "completed")
    assert again.told == ("served", 20 if stays else 30)


def test_what_is_free_is_counted_anew_after_each_eviction() -> None:
    """ollama/ollama#18282: once one is gone what just fits would be loaded, or all be unloaded.

    Of 24 GB 7 are free, 16 without a, of which d needs more than four fifths, and 22 without b.
    """
    sizes = {"a": 9, "b": 6, "c": 2, "d": 13}
    one = desk(dict.fromkeys("abcd", (10.0, 0.0)), sizes=sizes, initial=("a", "b", "c"))
    one.ask(0, "d")
    one.run(50)
    assert [name for name in "abc" if one.pods[name].ready] == ["c"]


@pytest.mark.parametrize(("total", "gone"), [(10, ["a"]), (8, ["a", "c"])])
def test_keep_alive_for_ever_does_not_protect_from_eviction(total: int, gone: list[str]) -> None:
    """ollama/ollama#4681: a model of keep_alive -1 would stay though another one needs the room.

    Without a there are 8 GB or 6 free beside c, of which b needs 5: in the
    second case more than four fifths, so that c goes as well.
    """
    sizes = {"a": 5, "b": 5, "c": 2}
    one = desk(sizes=sizes, memory=total * GB, keepAlive=-1, initial=("a", "c"))
    one.ask(0, "b")
    one.run(1000)
    assert [name for name in "ac" if not one.pods[name].ready] == gone


def test_another_context_loads_a_model_again() -> None:
    """ollama/ollama#18129: the model would serve a context that it was not loaded with.

    A warm-up without num_ctx gets the default back, which costs two loads more.
    """
    one = desk({"a": (6.0, 0.0)}, members={"a": {"keepAlive": 60}}, initial=("a",))
    contexts = [4096, 8192, None, 8192, 8192, 4096, None]
    clients = [
        one.ask(10.0 * number, "a", service_s=1, num_ctx=num_ctx)
        for number, num_ctx in enumerate(contexts)
    ]
    one.run(150)
    waits = [client.end_s - 10 * number - 1 for number, client in enumerate(clients)]
    assert waits == [0, 6, 6, 6, 0, 6, 0]
    assert one.swaps[0] == (10, "a", "a", 16, "completed")
    assert one.pods["a"].log[-1] == (61 + 60, "stop")  # it is kept as long as ever


def test_those_with_the_old_context_end_before_the_reload() -> None:
    """ollama/ollama#14407: somebody would be cut off by a reload, or who comes meanwhile with the
    context that is loaded have to wait behind it, or who wants the new one not join it."""
    one = desk({"a": (6.0, 0.0)}, initial=("a",), numParallel=2)
    old = [one.ask(0, "a", service_s=5), one.ask(3, "a", service_s=5)]
    new = [one.ask(at_s, "a", service_s=2, num_ctx=8192) for at_s in (1, 2, 9)]
    back = one.ask(10, "a", service_s=1)
    one.run(100)
    assert told(old) == [("served", 5), ("served", 8)]
    assert told(new) == [("served", 16), ("served", 16), ("served", 18)]
    assert back.told == ("served", 25)
    assert [swap[:4] for swap in one.swaps] == [(1, "a", "a", 14), (14, "a", "a", 24)]


def test_who_waits_for_a_load_with_another_context_queues_again() -> None:
    """It would be served by a model with the context of somebody else, or start a second load of
    what is being loaded."""
    one = desk({"a": (6.0, 0.0), "b": (4.0, 0.0)}, sizes={"b": 20})
    first = one.ask(0, "a", service_s=1)
    other, queued = one.ask(1, "a", service_s=1, num_ctx=512), one.ask(2, "b", service_s=1)
    one.run(100)
    assert told([first, other, queued]) == [("served", 7), ("served", 19), ("served", 12)]
    assert [swap[1:3] for swap in one.swaps] == [(None, "a"), ("a", "b"), ("b", "a")]


def test_a_reload_for_a_client_that_is_gone_is_given_up() -> None:
    """The model would be loaded with a context that nobody wants, or stay for ever."""
    one = desk({"a": (6.0, 0.0)}, initial=("a",))
    one.ask(0, "a", service_s=5)
    gone = one.ask(1, "a", leaves_s=3, num_ctx=8192)
    after = one.ask(20, "a", service_s=0)
    one.run(100)
    assert (gone.told, after.told) == (("gone", 3), ("served", 26))
    assert one.pods["a"].log[:3] == [(0, "ready"), (5, "stop"), (20, "load")]


def test_a_reload_does_not_wait_for_its_own_memory_and_another_load_does() -> None:
    """Half a second would come on top of a reload of which it is a part already."""
    one = desk({"a": (6.0, 0.0), "b": (4.0, 0.0)}, sizes={"b": 20}, vramRecovery=0.5)
    clients = [one.ask(0, "a", service_s=0), one.ask(10, "a", service_s=0, num_ctx=8192)]
    clients.append(one.ask(20, "b", service_s=0))
    one.run(100)
    assert [client.end_s for client in clients] == [6, 16, 24.5]


def test_the_oldest_blocks_those_behind_it_but_not_those_for_a_loaded_member() -> None:
    """b, for which there is room, would be loaded before c, or wait for a be held up as well."""
    one = desk(sizes={"c": 20}, initial=("a",))
    busy = one.ask(0, "a", service_s=30)
    clients = [one.ask(1, "c"), one.ask(2, "b"), one.ask(3, "a")]
    one.run(200)
    assert busy.told == ("served", 30)
    assert told(clients) == [("served", 44), ("served", 56), ("served", 32)]
    assert [swap[:3] for swap in one.swaps] == [(1, "a", "c"), (42, "c", "b")]


def test_inc48_those_in_the_queue_are_not_grouped() -> None:
    """INC-48: they would be passed by those behind them, or one for a loaded member not pass."""
    one = desk(sizes=dict.fromkeys("abc", 20.0))
    clients = [one.ask(0, member, service_s=3) for member in "abcabc"]
    late = one.ask(14, "a", service_s=3)
    one.run(1000)
    assert [swap[2] for swap in one.swaps] == ["a", "b", "c", "b", "c"]
    assert [client.end_s for client in clients] == [13, 32, 45, 16, 58, 71]
    assert late.told == ("served", 19)


def test_who_waits_for_a_slot_of_a_lost_member_queues_again() -> None:
    """It would wait for ever, or be refused though a reload serves it."""
    one = desk(initial=("a",))
    first, second = one.ask(0, "a", service_s=5), one.ask(1, "a", service_s=1)
    one.lose(2, "a")
    one.run(100)
    assert told([first, second]) == [("broken", 2), ("served", 13)]


def test_a_victim_serves_until_it_has_nobody() -> None:
    """Who comes for a member that is told to end would be held, or be cut off."""
    one = desk(sizes={"b": 20}, initial=("a",), numParallel=2)
    first = one.ask(0, "a", service_s=10)
    other = one.ask(1, "b", service_s=0)
    second = one.ask(9, "a", service_s=10)
    one.run(100)
    assert told([first, second, other]) == [("served", 10), ("served", 19), ("served", 29)]


def test_inc57_the_victim_is_who_is_kept_for_the_shortest_time() -> None:
    """INC-57: the one that was used longest ago would go; of equals the first by name."""
    members = {"a": {"keepAlive": 3600}, "b": {}, "c": {}}
    sizes = dict.fromkeys("abcd", 6.0)
    one = desk(
        dict.fromkeys("abcd", (1.0, 0.0)),
        sizes=sizes,
        members=members,
        maxLoadedModels=3,
        initial=("c", "b", "a"),
    )
    for at_s, member in enumerate("acb"):  # a was used longest ago, then c
        one.ask(at_s, member, service_s=0)
    one.ask(10, "d")
    one.run(20)
    assert one.swaps == [(10, "b", "d", 11, "completed")]


def test_an_idle_victim_comes_before_one_that_is_kept_for_less_time() -> None:
    """A busy member would be waited for though another has nobody."""
    one = desk(members={"a": {"keepAlive": 10}}, initial=("a", "b"))
    one.ask(0, "a", service_s=50)
    client = one.ask(1, "c")
    one.run(40)
    assert one.swaps == [(1, "b", "c", 11, "completed")]
    assert client.told == ("served", 13)


def test_as_many_models_as_may_be() -> None:
    """A fourth small model would be loaded beside three."""
    one = desk(sizes=dict.fromkeys("abc", 1.0), maxLoadedModels=2)
    for member in "abc":
        one.ask(0, member, service_s=0)
    one.run(100)
    assert [swap[1:3] for swap in one.swaps] == [(None, "a"), (None, "b"), ("a", "c")]


@pytest.mark.parametrize(
    ("keep_alive", "log"),
    [
        (300, [(0, "load"), (10, "ready"), (312, "stop")]),
        (0, [(0, "load"), (10, "ready"), (12, "stop")]),
        (None, [(0, "load"), (10, "ready")]),
        (-1, [(0, "load"), (10, "ready")]),
        ("-1m", [(0, "load"), (10, "ready")]),
    ],
)
def test_keep_alive(keep_alive: float | str | None, log: list[tuple[float, str]]) -> None:
    """0 would keep a member, null or Ollama's own -1 unload it, or the time begin with the load."""
    one = desk(keepAlive=keep_alive)
    one.ask(0, "a")
    one.run(5000)
    assert one.pods["a"].log == log
    assert [row.cause for row in one.rows("unload")] == ["idle"] * (len(log) == 3)


@pytest.mark.parametrize("member", ["a", "b"])
def test_c55_the_queue_counts_who_waits(member: str) -> None:
    """C55: only the queue in front of a load would be limited, or the one in flight be counted."""
    one = desk(initial=("a",), maxQueue=1, sizes={"b": 20})
    clients = [one.ask(0, member) for _ in range(6)]
    one.run(200)
    refused = [client.end_s for client in clients if client.outcome == PoolError.QUEUE_FULL]
    assert refused == [0] * 4
    assert [client.outcome for client in clients[:2]] == ["served"] * 2


def test_more_than_num_parallel_wait_in_order() -> None:
    """The engine would get more than it has slots for, or the order be lost."""
    one = desk(initial=("a",), numParallel=2)
    clients = [one.ask(0, "a") for _ in range(5)]
    one.run(100)
    assert [client.end_s for client in clients] == [2, 2, 4, 4, 6]


@pytest.mark.parametrize(
    ("unload_s", "recovery_s", "loaded_s"),
    [(0, 0, 10), (0, 0.5, 10.5), (0.3, 0.5, 11), (0, 0.1, 10.25), (0, 4.9, 15), (7, 0.5, 17)],
)
def test_memory_that_was_left_is_waited_for(
    unload_s: float, recovery_s: float, loaded_s: float
) -> None:
    """The other would be loaded before the memory is back, or not at the next look, every 250 ms.

    After 5 s, and when the process has ended, it is not waited for any longer.
    """
    times = {"a": (10.0, unload_s), "b": (10.0, 0.0)}
    one = desk(times, sizes={"b": 20}, initial=("a",), vramRecovery=recovery_s)
    one.ask(0, "b")
    one.run(100)
    assert one.swaps[0][3] == loaded_s


@pytest.mark.parametrize(("recovery_s", "evicted"), [(4, ["a"]), (6, ["a", "b"])])
def test_inc58_memory_that_is_back_too_late_costs_another_member(
    recovery_s: float, evicted: list[str]
) -> None:
    """INC-58: the 5 s would have no consequence, and what is not free be given away."""
    one = desk(initial=("a", "b"), vramRecovery=recovery_s, keepAlive=None)
    one.ask(1, "c")
    one.run(100)
    assert [name for name, pod in one.pods.items() if (1, "stop") in pod.log] == ["a"]
    gone = [name for name in "ab" if one.pods[name].log[-1][1] == "stop"]
    assert gone == evicted


def test_the_requester_of_a_load_that_failed_is_told_and_the_next_one_tries() -> None:
    """All who wait would be refused, or the member be given up."""
    one = desk(failures=[("a", 4)])
    clients = [one.ask(0, "a"), one.ask(1, "a")]
    one.run(100)
    assert told(clients) == [(PoolError.SWAP_FAILED, 4), ("served", 16)]
    assert [swap[3:] for swap in one.swaps] == [(4, "error"), (14, "completed")]


def test_a_load_that_makes_no_progress_fails_one_that_takes_long_does_not() -> None:
    """OLLAMA_LOAD_TIMEOUT is about stalls: each step of progress starts its clock again.

    A load of ten minutes was cut at five although it went on all the time.
    """
    one = desk({"a": (600.0, 0.0)}, sizes={"a": 10}, failures=[("a", inf)])
    clients = [one.ask(0, "a"), one.ask(400, "a")]
    one.run(1100)
    assert told(clients) == [(PoolError.SWAP_FAILED, 300), ("served", 1002)]


def test_a_runner_that_has_loaded_and_does_not_answer_is_given_up() -> None:
    """Its last progress is the end of the load: the five minutes count from there."""
    one = desk({"a": (20.0, 0.0)}, sizes={"a": 10})
    one.pods["a"].silent_until_s["readiness"] = inf
    client = one.ask(0, "a")
    one.run(1000)
    assert client.told == (PoolError.SWAP_FAILED, 320)


def test_the_load_of_a_client_that_is_gone_is_aborted() -> None:
    """The load would go on for nobody, or the next one in the queue have to wait for it."""
    one = desk(sizes={"b": 20})
    gone = one.ask(0, "a", leaves_s=5)
    other = one.ask(1, "b")
    one.run(100)
    assert told([gone, other]) == [("gone", 5), ("served", 17)]
    assert one.swaps[0] == (0, None, "a", 5, "cancelled")


def test_a_victim_that_is_lost_has_drained_until_then() -> None:
    """The time for which it had somebody would be told as that of its unload."""
    one = desk(sizes={"b": 20}, initial=("a",), vramRecovery=0.5)
    one.ask(0, "a", service_s=10)
    one.ask(1, "b")
    one.lose(4, "a")
    one.run(100)
    (swap,) = one.rows("swap")
    assert (swap.drain_s, swap.unload_s, swap.load_s) == (3, 0.5, 10)


def test_losses_at_any_time() -> None:
    """A loss would leave somebody waiting for ever, or memory taken."""
    one = desk({"a": (10.0, 4.0), "b": (10.0, 0.0)}, sizes={"a": 20, "b": 20}, initial=("a",))
    one.ask(0, "a", service_s=5)
    loading = one.ask(0, "b")
    one.lose(3, "a")
    one.lose(9, "b")
    again = one.ask(20, "b", service_s=0)
    one.lose(31, "b")
    reloaded = one.ask(32, "a", service_s=0)
    one.run(200)
    assert one.clients[0].told == ("broken", 3)
    assert told([loading, again, reloaded]) == [
        (PoolError.SWAP_FAILED, 9),
        ("served", 30),
        ("served", 42),
    ]


def test_a_restart_of_the_router() -> None:
    """A held request would hang, or the load for it go on."""
    one = desk()
    held = one.ask(0, "a")
    one.restart(3)
    after = one.ask(5, "a", service_s=0)
    one.run(100)
    assert told([held, after]) == [(PoolError.PROXY_RESTART, 3), ("served", 15)]


def test_the_row_of_a_swap() -> None:
    """Its parts would not add up, or name another victim."""
    one = desk(
        {"a": (10.0, 1.0), "b": (10.0, 0.0)}, sizes={"b": 20}, initial=("a",), vramRecovery=1
    )
    one.ask(0, "a", service_s=5)
    one.ask(1, "b")
    one.run(100)
    (row,) = one.rows("swap")
    assert (row.start_s, row.from_member, row.cause) == (1, "a", "request")
    assert (row.drain_s, row.unload_s, row.load_s, row.end_s) == (4, 2, 10, 17)
