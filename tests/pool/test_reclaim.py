"""The default comes back: which idleness counts, sampled and exact."""

import pytest

from sim.core.request import PoolError
from tests.pool.harness import Desk

PAIR = {"d": (30.0, 0.0), "b": (30.0, 0.0)}


def desk(initial: str = "b", **options: object) -> Desk:
    """A pool that gives its slot back to D after 60 s."""
    settings = {"swapPolicy": "reclaim", "default": "d", "reclaimAfter": 60} | options
    return Desk(PAIR, initial=initial, **settings)  # type: ignore[arg-type]


def test_an_idle_member_gives_way() -> None:
    """The member that was used last would stay, or a requester be needed."""
    pool = desk()
    pool.run(1000)
    assert pool.swaps == [(60, "b", "d", 90, "completed")]
    assert pool.rows("swap")[0].cause == "reclaim"


def test_the_clock_starts_anew_with_each_request() -> None:
    """Idle spells would add up."""
    pool = desk()
    pool.ask(50, "b", service_s=5)
    pool.ask(100, "b", service_s=5)
    pool.run(1000)
    assert pool.swaps == [(165, "b", "d", 195, "completed")]


def test_direct_traffic_counts_in_the_slot() -> None:
    """A member would be reclaimed under traffic that the router cannot see, or just after it."""
    pool = desk()
    direct = pool.direct(50, "b", 100)
    pool.run(1000)
    assert direct.result == "ok"
    assert pool.swaps == [(210, "b", "d", 240, "completed")]


def test_short_direct_traffic_counts_too() -> None:
    """A request that comes and goes while the clock runs would not be seen."""
    pool = desk()
    pool.direct(50, "b", 1)
    pool.run(1000)
    assert pool.swaps == [(111, "b", "d", 141, "completed")]


def test_direct_traffic_beside_the_routers() -> None:
    """The clock would start with the end of the routed request."""
    pool = desk()
    pool.ask(10, "b", service_s=5)
    pool.direct(12, "b", 20)
    pool.run(1000)
    assert pool.swaps == [(92, "b", "d", 122, "completed")]


def test_nobody_is_reclaimed_twice() -> None:
    """The default itself would be swapped for the default."""
    pool = desk(initial="d")
    pool.run(1000)
    assert pool.swaps == []


def test_requests_are_held_while_the_default_comes_back() -> None:
    """B, which is being unloaded, would be asked to serve."""
    pool = desk()
    own, default = pool.ask(70, "b"), pool.ask(80, "d")
    pool.run(200)
    assert default.log == [("d", "granted", 90)]
    assert own.log == [("b", "granted", 122)]


def test_a_reclaim_is_not_cancelled_by_who_leaves() -> None:
    """A client that waited for the default and left would take the swap with it."""
    pool = desk()
    pool.ask(70, "d", leaves_s=75)
    pool.run(1000)
    assert pool.swaps == [(60, "b", "d", 90, "completed")]


def test_a_reclaim_that_fails_counts() -> None:
    """Its failure would be lost, or the pool be stuck in it."""
    pool = desk()
    pool.pool.fail_loads("d", 10, 1)
    waiting = pool.ask(65, "d")
    later = pool.ask(80, "b", service_s=0)
    pool.run(1000)
    assert pool.swaps[0] == (60, "b", "d", 70, "error")
    assert waiting.told == (PoolError.SWAP_FAILED, 70)
    assert later.told == ("served", 110)


def test_a_lost_member_is_not_reclaimed() -> None:
    """A failed look resets the clock: the slot is cold, and a request decides."""
    for poll_s in (0, 30):
        pool = desk(reclaimPoll=poll_s)
        pool.lose(50, "b")
        pool.run(1000)
        assert pool.swaps == []


def test_samples_do_not_see_what_is_between_them() -> None:
    """reclaimPoll: a busy spell between two looks would reset the clock."""
    pool = desk(reclaimPoll=30)
    pool.ask(31, "b", service_s=28)
    pool.run(1000)
    assert pool.swaps == [(60, "b", "d", 90, "completed")]


def test_a_busy_sample_resets_the_clock() -> None:
    """reclaimPoll: the member would be reclaimed at the first look after the busy one."""
    pool = desk(reclaimPoll=30)
    pool.direct(29, "b", 2)
    pool.run(1000)
    assert pool.swaps == [(120, "b", "d", 150, "completed")]


def test_samples_of_different_members_do_not_add_up() -> None:
    """C would be reclaimed for the time for which B was idle."""
    pool = Desk(
        {"d": (30, 0), "b": (1, 0), "c": (1, 0)},
        initial="b",
        default="d",
        swapPolicy="reclaim",
        reclaimAfter=60,
        reclaimPoll=30,
    )
    pool.ask(40, "c", service_s=1)
    pool.run(1000)
    assert pool.swaps[1][:3] == (120, "c", "d")


@pytest.mark.parametrize(("after_s", "poll_s"), [(300, 30), (10, 10)])
def test_the_poll_when_it_is_not_given(after_s: float, poll_s: float) -> None:
    """reclaimPoll: min(reclaimAfter, 30 s), from time 0."""
    pool = desk(reclaimAfter=after_s, reclaimPoll=None)
    pool.ask(1, "b", service_s=poll_s - 0.5)  # over after one look
    pool.run(1000)
    assert pool.swaps[0][0] == 2 * poll_s + after_s


def test_sums_of_floats_do_not_delay_a_reclaim() -> None:
    """0.7 + 0.1 seen before 0.8: the reclaim would come a sample late."""
    for poll_s, after_s in ((0.1, 0.3), (0.7, 2.1), (0, 0.3)):
        pool = desk(reclaimPoll=poll_s, reclaimAfter=after_s)
        pool.run(50)
        assert pool.swaps[0][0] == after_s
