"""Every figure of a pool of two members, worked out by hand from ``builders.pooled_run``."""

import pytest

from sim.core.ports import PodTotals
from sim.core.request import PoolError
from sim.results.metrics import flatten, metric
from sim.results.pools import Stay, stays
from tests.results.builders import Book, facts, pooled_facts, pooled_run

FIGURES = {
    key: value for key, value in flatten(pooled_run().summary) if key.startswith("pool.desk.")
}

# The window is [10, 110).
BY_HAND = {
    # over at 12, 50 and 86 s, after 7, 6 and 10 s
    "swaps.total": 3,
    "swaps.by_pair.b>a": 1,
    "swaps.by_pair.cold>b": 2,
    "swap_s.mean": 23 / 3,
    "swap_s.p50": 7.0,
    "swap_s.p95": 9.7,
    # 10 to 12, 44 to 50, 61 to 71, 76 to 86, 90.5 to 91.5, 95 to 110 s
    "swapping_ratio": 0.44,
    "swap_failures.deadline": 1,
    "swap_failures.error": 1,
    "swaps_cancelled": 0,
    "reclaims": 1,
    # 3, 6, 10 and 10 s are known, one is still held, one was let through at once; another one
    # began before the window
    "holds.total": 6,
    "holds.waited": 5,
    "holds.censored": 1,
    "holds.by_result.granted": 3,
    "holds.by_result.cancelled": 1,
    "holds.by_result.swap_deadline_exceeded": 1,
    "hold_s.mean": None,
    "hold_s.p50": 10.0,
    "hold_s.p95": None,
    "skips.total": 1,
    "direct_errors": 1,
    "members.a.busy_skips": 1,
    "members.a.swap_s.mean": 6.0,
    "members.a.swap_s.p50": 6.0,
    "members.a.swap_s.p95": 6.0,
    "members.a.loads": 3,
    "members.a.ready_ratio": 0.11,
    "members.a.busy_ratio": 0.10,
    "members.a.idle_ratio": 0.01,
    "members.a.loading_ratio": 0.205,
    # a load was under way when the window began
    "members.b.busy_skips": 0,
    # 7 and 10 s
    "members.b.swap_s.mean": 8.5,
    "members.b.swap_s.p50": 8.5,
    "members.b.swap_s.p95": 9.85,
    "members.b.loads": 2,
    "members.b.ready_ratio": 0.365,
    "members.b.busy_ratio": 0.32,
    "members.b.idle_ratio": 0.045,
    "members.b.loading_ratio": 0.20,
}


@pytest.mark.parametrize("key", BY_HAND)
def test_figure_is_what_a_pencil_says(key: str) -> None:
    """The figure would not be what its definition says."""
    due = BY_HAND[key]
    assert FIGURES[f"pool.desk.{key}"] == (None if due is None else pytest.approx(due, rel=1e-12))


def test_no_figure_is_left_out_of_the_hand_count() -> None:
    """A new figure would be reported that nobody has ever checked by hand."""
    assert set(FIGURES) == {f"pool.desk.{key}" for key in BY_HAND}


def test_runs_without_pools_have_no_figures_of_them() -> None:
    """Every summary would be twice as long."""
    assert "pool" not in Book().freeze(facts()).summary


def test_a_pool_of_which_nothing_was_seen_has_its_figures_all_the_same() -> None:
    """A run that ends in its warm-up would end in a traceback, or report shares of no time."""
    early = pooled_facts()
    nothing = (PodTotals(),) * 3
    summary = Book().freeze(
        facts(
            window_start_s=200.0, window_end_s=300.0, pods=early.pods, pools=early.pools,
            opened=nothing, closed=nothing,
        )
    ).summary  # fmt: skip
    assert summary["pool"]["desk"]["swapping_ratio"] is None
    assert summary["pool"]["desk"]["members"]["a"]["idle_ratio"] is None
    assert summary["pool"]["desk"]["swaps"] == {"total": 0, "by_pair": {}}


def test_an_attempt_that_is_turned_away_after_a_swap_is_a_busy_skip_too() -> None:
    """Skips of attempts that had waited for a swap would be missing among those of their member."""
    book = Book()
    request = book.request(1.0, end_s=20.0)
    book.hold(request, "a", 1.0, 9.0, PoolError.INCUMBENT_BUSY)
    book.hold(request, "b", 9.0, 9.0)
    early = pooled_facts()
    changes = {"pods": early.pods, "pools": early.pools}
    totals = {"opened": (PodTotals(),) * 3, "closed": (PodTotals(),) * 3}
    pool = book.freeze(facts(**changes, **totals)).summary["pool"]["desk"]
    assert pool["skips"] == {"total": 1}
    assert pool["members"]["a"]["busy_skips"] == 1
    assert pool["members"]["b"]["busy_skips"] == 0
    assert pool["holds"]["by_result"] == {"granted": 1, "incumbent_busy": 1}


def test_busy_skips_before_the_window_are_not_counted() -> None:
    """A member would have more of them than the pool."""
    book = Book()
    book.hold(book.request(5.0, end_s=5.0), "a", 5.0, 5.0, PoolError.INCUMBENT_BUSY)
    pool = book.freeze(pooled_facts()).summary["pool"]["desk"]
    assert pool["skips"] == {"total": 0}
    assert pool["members"]["a"]["busy_skips"] == 0


def test_who_was_resident_when() -> None:
    """A reader could not tell which model was in memory when a request came."""
    assert stays(pooled_facts(), "desk") == [
        Stay("b", 12.0, 44.0),
        Stay("a", 50.0, 61.0),
        Stay("b", 86.0, 90.5),
    ]


def test_swaps_of_one_pool_at_the_same_time_are_counted_once() -> None:
    """A pool with several places would spend more than all of its time in swaps."""
    book = Book()
    for start_s, end_s in ((5.0, 12.0), (20.0, 60.0), (30.0, 40.0), (50.0, 70.0), (105.0, None)):
        book.swap(start_s, "a", end_s=end_s)
    summary = book.freeze(pooled_facts()).summary
    assert summary["pool"]["desk"]["swapping_ratio"] == pytest.approx(0.57)


def test_swaps_to_two_members_are_not_mixed() -> None:
    """The middle of loads of 7 s and of 155 s is a time that no swap ever took."""
    book = Book()
    for start_s in (10.0, 40.0):
        book.swap(start_s, "a", "b", start_s + 4.0)
        book.swap(start_s + 10.0, "b", "a", start_s + 24.0)
    members = book.freeze(pooled_facts()).summary["pool"]["desk"]["members"]
    assert {name: its["swap_s"]["p50"] for name, its in members.items()} == {"a": 4.0, "b": 14.0}


def test_what_a_swap_took_has_no_float_noise() -> None:
    """JSON would say that a load of 7 s took 7.000000000104137 s."""
    book = Book()
    start_s = 50.412345678895816
    assert round(start_s + 7.0, 9) - start_s != 7.0
    book.swap(start_s, "a", end_s=round(start_s + 7.0, 9))
    assert book.freeze(pooled_facts()).summary["pool"]["desk"]["swap_s"]["p50"] == 7.0


def test_residents_and_swaps_may_add_up_to_more_than_all_of_the_time() -> None:
    """A reader would take 62 % resident and 40 % swapping for a fault of the count."""
    definition = metric("pool.desk.swapping_ratio").definition
    assert "at the same time counted once" in definition
    assert "add up to more than 1" in definition
