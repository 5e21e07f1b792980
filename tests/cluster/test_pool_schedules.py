"""Worked cases of model pools through whole runs: who is served when, and what swaps cost."""

from typing import Any

import pytest

from tests.cluster.scenarios import Ran, Row, ask, loop, pooled, rounded, ttft_s

PAIR = {"a": 60, "b": 30}
ONE_HOUR = {"measure": 3600.5, "drain": False}


def loads_s(ran: Ran) -> float:
    """Seconds spent loading."""
    return sum(row["load_s"] for row in ran.rows("swap"))


def eight_in_turn(**pool: Any) -> Ran:
    """C46: A B A A C A B C at once into a cold pool, each 2 s of service."""
    return Ran(
        pooled(
            {"a": 30, "b": 30, "c": 30},
            *(ask(member, 0) for member in "abaacabc"),
            engine={"maxNumSeqs": 1},
            initial="cold",
            swapBudget=600,
            **pool,
        )
    )


@pytest.mark.parametrize(
    ("order", "loads", "ends_s"),
    [
        ("fifo", 7, [32, 64, 96, 98, 130, 162, 194, 226]),
        ("coalesce", 3, [32, 70, 34, 36, 104, 38, 72, 106]),
    ],
)
def test_c46_thrash_in_order_of_arrival_against_coalescing(
    order: str, loads: int, ends_s: list[float]
) -> None:
    """C46: a load per request although the member is there, or members side by side."""
    ran = eight_in_turn(order=order)
    assert [row["end_s"] for row in ran.requests] == ends_s
    assert sum(ends_s) / 8 == {"fifo": 125.25, "coalesce": 61.5}[order]
    assert [row["http_status"] for row in ran.requests] == [200] * 8
    assert len(ran.swaps) == loads
    assert max(ends_s) == loads_s(ran) + 8 * 2


def test_c46_a_maximum_wait() -> None:
    """C46: an error, or as many loads as in order of arrival."""
    ran = eight_in_turn(order="coalesce", maxWait=60)
    assert [row["http_status"] for row in ran.requests] == [200] * 8
    assert len(ran.swaps) <= 5


def ping_pong(until_s: float, jobs: int, rule: Any) -> Ran:
    """C47: a loop of 10 s of service and 1 s of thought on A, now and then a job for B."""
    return Ran(
        pooled(
            PAIR,
            *loop("a", 0, 10, 1, until_s),
            *(ask("b", 5.5 + 300 * number) for number in range(jobs)),
            rules={"b": rule, "a": ["a"]},
            initial="a",
            window={"measure": until_s, "drain": False},
        )
    )


def completed(rows: list[Row]) -> list[Row]:
    return [row for row in rows if row["status"] == "completed"]


def test_c47_without_the_other_member() -> None:
    """C47: the loop itself would be slower or faster than the case says."""
    ran = ping_pong(3600.5, 0, ["b"])
    assert len(completed(ran.of("a"))) == 327
    assert ran.swaps == []


def test_c47_ping_pong() -> None:
    """C47: B's arrival would preempt A, swaps cost nothing, or the gap of 1 s be missed."""
    ran = ping_pong(3600.5, 12, ["b"])
    batch, jobs = ran.of("a"), ran.of("b")
    assert len(completed(batch)) == 228
    assert len(ran.swaps) == 24
    assert loads_s(ran) == 1080
    assert [rounded(row["hold_s"]) for row in jobs] == [34.5] * 12
    assert [row["http_status"] for row in jobs] == [200] * 12
    assert {row["status"] for row in batch} <= {"completed", "in_flight"}
    waited = [row for row in batch if row["hold_s"] > 0]
    assert [rounded(row["hold_s"]) for row in waited] == [91] * 12


def test_c47_with_if_idle() -> None:
    """C47: the job that meets A's gap would be skipped as well, or the others swap."""
    ran = ping_pong(3000, 10, {"backends": ["b", "a"], "poolActivation": "IfIdle"})
    jobs = ran.of("b")
    assert [row["backend"] for row in jobs] == ["a"] * 9 + ["b"]
    assert [rounded(row["hold_s"]) for row in jobs] == [0] * 9 + [30]
    assert jobs[9]["arrival_s"] == 2705.5
    assert (len(ran.swaps), len(ran.rows("skip"))) == (2, 9)


def never_idle(rule: Any, **pool: Any) -> Ran:
    """C50: two loops without a pause keep A busy, B is asked for every 120 s."""
    return Ran(
        pooled(
            PAIR,
            *loop("a", 0, 10, 0, 3600),
            *loop("a", 5, 10, 0, 3600),
            *(ask("b", 120 * number) for number in range(30)),
            rules={"b": rule, "a": ["a"]},
            window=ONE_HOUR,
            initial="a",
            swapBudget=600,
            **pool,
        )
    )


def test_c50_starvation_behind_a_batch_that_is_never_idle() -> None:
    """C50: a swap in a moment without length, or those still waiting missing in the report."""
    ran = never_idle(["b"])
    asked = ran.of("b")
    assert [row["http_status"] for row in asked] == [503] * 26 + [None] * 4
    assert [rounded(row["end_s"]) for row in asked[:26]] == [600 + 120 * n for n in range(26)]
    assert {row["reason"] for row in asked[:26]} == {"pool_activation_timeout"}
    assert {row["status"] for row in asked[26:]} == {"in_flight"}
    assert ran.swaps == []
    assert len(completed(ran.of("a"))) == 719
    # Beside the four, two of A's that run when the hour ends.
    assert ran.result.summary["requests_censored"] == 6


def test_c50_a_maximum_wait_bounds_it() -> None:
    """C50: B would wait for longer than limit, rest of a job and both loads."""
    ran = never_idle(["b"], maxWait=60)
    holds_s = [rounded(row["hold_s"]) for row in ran.of("b")]
    assert {row["http_status"] for row in ran.of("b")} <= {200, None}
    assert holds_s[0] == max(holds_s) == 95
    assert len(completed(ran.of("b"))) >= 29


def test_c50_if_idle_is_served_by_the_other_member() -> None:
    """C50: the report would not tell that B's model served nobody who asked for it."""
    ran = never_idle({"backends": ["b", "a"], "poolActivation": "IfIdle"})
    asked = ran.of("b")
    assert [row["http_status"] for row in asked] == [200] * 30
    assert [row["hold_s"] for row in asked] == [0] * 30
    assert [row["backend"] for row in asked] == ["a"] * 30
    assert (len(ran.rows("skip")), ran.swaps) == (30, [])


@pytest.mark.parametrize(
    ("options", "swaps", "waits_s"),
    [
        ({"reclaimAfter": 60}, 20, [30] * 10),
        ({"reclaimAfter": 900}, 2, [30] + [0] * 9),
        ({"swapPolicy": "sticky"}, 1, [30] + [0] * 9),
        ({"reclaimAfter": 900, "reclaimPoll": 30}, 6, [30, 0, 0, 0] * 2 + [30, 0]),
    ],
)
def test_c51_reclaim_for_the_default(
    options: dict[str, Any], swaps: int, waits_s: list[float]
) -> None:
    """C51: the idle clock would not be reset, a member be reclaimed that is waited for, or a busy
    spell be seen that lies between two looks.
    """
    scenario = pooled(
        {"d": 30, "b": 30},
        *(ask("b", 300 * number, 30) for number in range(10)),
        window={"measure": 4000, "drain": False},
        default="d",
        **{"swapPolicy": "reclaim", **options},
    )
    ran = Ran(scenario)
    assert [rounded(row["hold_s"]) for row in ran.requests] == waits_s
    assert [ttft_s(row) for row in ran.requests] == [wait_s + 1 for wait_s in waits_s]
    assert len(ran.swaps) == swaps
    assert {row["result"] for row in ran.rows("swap")} == {"completed"}
    reclaims = [row for row in ran.rows("swap") if row["cause"] == "reclaim"]
    began = {20: [120 + 300 * n for n in range(10)], 2: [3630], 1: [], 6: [960, 2160, 3360]}
    assert [rounded(row["start_s"]) for row in reclaims] == began[swaps]
    assert [rounded(row["end_s"]) for row in reclaims] == [each + 30 for each in began[swaps]]


@pytest.mark.parametrize(
    ("options", "answer", "last_s"),
    [
        ({"swapBudget": 600}, (503, None, 620), 600),
        ({"swapBudget": 900}, (200, 631, 632), 600),
        ({"swapBudget": 900, "order": "fifo"}, (200, 631, 632), 600),
        ({"swapBudget": 900, "maxInFlight": 1, "maxWait": 40}, (200, 91, 92), 662),
    ],
)
def test_c57_work_in_flight_is_finished(
    options: dict[str, Any], answer: tuple[int, float | None, float], last_s: float
) -> None:
    """C57: jobs that wait inside A's own queue would not keep it busy, or be aborted."""
    jobs = [ask("a", 0, 60)] * 10
    ran = Ran(
        pooled(
            {"a": 30, "b": 30},
            *jobs,
            ask("b", 20),
            engine={"maxNumSeqs": 1},
            router={"proxy": {"responseHeaderTimeout": None}},
            initial="a",
            **options,
        )
    )
    (chat,), batch = ran.of("b"), ran.of("a")
    assert (chat["http_status"], rounded(chat["first_token_s"]), rounded(chat["end_s"])) == answer
    assert [row["status"] for row in batch] == ["completed"] * 10
    assert max(row["end_s"] for row in batch) == last_s
    assert sum(row["end_s"] - row["scheduled_s"] for row in batch) == 600
