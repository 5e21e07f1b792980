"""What clients are told when a pool or a rule does not serve them: the table of answers."""

from typing import Any

import pytest

from tests.cluster.scenarios import Ran, Row, ask, pooled, retry_after_s, script

PAIR = {"a": 30, "b": 30}
ERRORS = ({"at": 0, "kind": "backend-errors", "backend": "x"},)

Answer = tuple[int | None, str | None, float | None, float | None]

BUSY = "pool_incumbent_busy"
FAILED = "all_backends_failed"
FAIL_CLOSED = "fail_closed_runtime"
TIMEOUT = "pool_activation_timeout"


def told(scenario: dict[str, Any], request: int = -1) -> Answer:
    """HTTP status, reason, Retry-After and time of the answer to a request, the last by default."""
    ran = Ran(scenario)
    status, reason, end_s = ran.answers[request]
    return status, reason, retry_after_s(scenario)[request], end_s


def chat(
    *backends: str, rule: dict[str, Any] | None = None, before: tuple[Row, ...] = (), **more: Any
) -> dict[str, Any]:
    """A request at 1 s with a rule of these backends, where b is there and x answers 500."""
    rules = {"chat": {"backends": list(backends), **(rule or {})}, "b": ["b"], "y": ["y"]}
    return pooled(
        {"a": 30, "b": 30},
        *before,
        ask("chat", 1),
        rules=rules,
        others=("x", "y"),
        **{"events": ERRORS, "initial": "b", **more},
    )


IF_IDLE = {"poolActivation": "IfIdle"}
LONG = (ask("b", 0, 100),)
"""Keeps b busy until 100 s."""


@pytest.mark.parametrize("fail_closed", [False, True])
def test_a_hold_that_ends(fail_closed: bool) -> None:
    """A client would not be asked to come back to a pool that was busy for too long."""
    rule = {"failClosed": fail_closed}
    assert told(chat("a", rule=rule, before=LONG, swapBudget=50)) == (503, TIMEOUT, 5, 51)


@pytest.mark.parametrize("fail_closed", [False, True])
def test_a_hold_without_a_budget_is_the_header_timeout(fail_closed: bool) -> None:
    """Without a budget a client would wait for ever, or for as long as a swap may take."""
    scenario = chat("a", rule={"failClosed": fail_closed}, swapBudget=None)
    scenario["pools"]["desk"]["members"]["a"]["load"] = 500
    assert told(scenario) == (503, TIMEOUT, 5, 121)
    scenario["router"]["proxy"] = {"responseHeaderTimeout": 300}
    assert told(scenario) == (503, TIMEOUT, 5, 241)


@pytest.mark.parametrize("fail_closed", [False, True])
def test_a_swap_that_is_abandoned(fail_closed: bool) -> None:
    """The first request that waits would be told otherwise than those that came later."""
    scenario = chat("a", rule={"failClosed": fail_closed}, swapBudget=20)
    scenario["workloads"]["w"]["rows"].append(ask("chat", 11))
    assert [told(scenario, request) for request in (0, 1)] == [(503, TIMEOUT, 5, 21)] * 2
    assert Ran(scenario).swaps == [("b", "a", 1, 21, "deadline")]


@pytest.mark.parametrize("fail_closed", [False, True])
def test_all_backends_busy(fail_closed: bool) -> None:
    """A busy pool would look like an outage."""
    rule = {**IF_IDLE, "failClosed": fail_closed}
    assert told(chat("a", rule=rule, before=LONG)) == (503, BUSY, 5, 1)


@pytest.mark.parametrize(
    ("backends", "more"),
    [
        (("a", "x"), {}),
        (("x", "a"), {}),
        (("y", "a"), {"events": ({"at": 0, "kind": "pod-lost", "backend": "y"},)}),
        (
            ("y", "a"),
            {
                "before": (ask("y", 0.5), *LONG),
                "events": ({"at": 0, "kind": "pod-lost", "backend": "y"},),
            },
        ),
    ],
)
def test_a_busy_pool_and_a_broken_backend(backends: tuple[str, str], more: dict[str, Any]) -> None:
    """The 503 of a pool would hide that a backend is broken, before or after it."""
    status, reason, wait_s, end_s = told(chat(*backends, rule=IF_IDLE, **{"before": LONG, **more}))
    assert (status, reason, wait_s, end_s) == (502, FAILED, None, 1)


def test_a_backend_that_times_out_before_a_busy_pool() -> None:
    """A pool that is busy would hide that a backend has not answered."""
    scenario = chat("y", "a", rule={**IF_IDLE, "timeout": 0.5}, before=LONG)
    assert told(scenario) == (502, FAILED, None, 1.5)
    assert [row["error"] for row in Ran(scenario).failed_attempts] == ["timeout", "incumbent_busy"]


def test_a_quarantined_member_and_a_busy_pool() -> None:
    """A member that is avoided would count as busy."""
    scenario = pooled(
        {"a": 30, "b": 30},
        ask("c", 0),
        ask("chat", 1),
        ask("b", 0, 100),
        rules={"chat": {"backends": ["c", "a"], **IF_IDLE}, "b": ["b"], "c": ["c"]},
        initial="b",
        others=("c",),
        events=({"at": 0, "kind": "backend-errors", "backend": "c", "for": 0.5},),
    )
    scenario["pools"]["other"] = {
        "members": {"c": {"load": 1}},
        "quarantinePooled": True,
        "initial": "c",
    }
    assert told(scenario) == (502, FAILED, None, 1)
    assert Ran(scenario).failed_attempts[-2]["error"] == "quarantined"


@pytest.mark.parametrize(
    ("backends", "answer"),
    [
        (("a", "x"), (502, FAILED, None, 51)),
        (("x", "a"), (503, TIMEOUT, 5, 51)),
    ],
)
def test_the_last_backend_is_the_one_that_is_reported(
    backends: tuple[str, str], answer: Answer
) -> None:
    """A hold that ended before another backend failed would be what the client is told."""
    assert told(chat(*backends, before=LONG, swapBudget=50)) == answer


def test_a_rule_with_two_members_of_one_pool_can_hold_twice() -> None:
    """A client would be told after one hold, although the second one has just begun."""
    scenario = pooled(
        {"a": 30, "b": 30, "c": 30},
        ask("b", 0, 200),
        ask("chat", 1),
        rules={"chat": ["a", "c"], "b": ["b"]},
        initial="b",
        swapBudget=50,
    )
    assert told(scenario) == (503, TIMEOUT, 5, 101)
    assert Ran(scenario).requests[1]["hold_s"] == 100


@pytest.mark.parametrize("fail_closed", [False, True])
def test_a_full_queue(fail_closed: bool) -> None:
    """A client that may come back at once would be told of an outage."""
    rows = tuple(ask("chat", 0) for _ in range(2))
    rule = {"failClosed": fail_closed}
    scenario = chat("a", rule=rule, before=rows, maxInFlight=1, maxHeld=1)
    assert told(scenario) == (503, "pool_queue_full", 5, 1)


@pytest.mark.parametrize(
    ("fail_closed", "status", "reason"), [(False, 502, FAILED), (True, 503, FAIL_CLOSED)]
)
@pytest.mark.parametrize(
    ("backends", "more", "end_s"),
    [
        (("x",), {}, 1),
        (("a",), {"events": ({"at": 0, "kind": "load-failure", "backend": "a", "after": 20},)}, 21),
        (("y",), {"router": {"proxy": {"responseHeaderTimeout": 0.5}}}, 1.5),
    ],
)
def test_a_failure_is_another_answer_with_fail_closed(
    backends: tuple[str, ...],
    more: dict[str, Any],
    end_s: float,
    fail_closed: bool,
    status: int,
    reason: str,
) -> None:
    """A rule that must not leave its backends would answer as any other."""
    scenario = chat(*backends, rule={"failClosed": fail_closed}, **more)
    assert told(scenario) == (status, reason, None, end_s)


def test_fail_closed_does_not_leave_its_rule() -> None:
    """What must not leave its backends would end at the default route."""
    scenario = chat("x", rule={"failClosed": True}, router={"defaultRoute": "y"})
    assert told(scenario) == (503, FAIL_CLOSED, None, 1)
    assert Ran(scenario).requests[0]["backend"] == "x"


def test_no_route() -> None:
    """A request that no rule takes would wait, or be served by anybody."""
    scenario = chat("a")
    scenario["workloads"]["w"]["rows"][0]["model"] = "unheard of"
    assert told(scenario) == (503, "no_route", None, 1)


@pytest.mark.parametrize(
    ("second_s", "wait_s", "served"), [(50, 13.0, False), (62.5, 1.0, False), (63, None, True)]
)
def test_a_budget_that_is_used_up(second_s: float, wait_s: float | None, served: bool) -> None:
    """What an answer cost would count before it is over, never, or for ever."""
    # 3 tokens are spent at 3 s.
    budget = {"name": "cap", "scope": "router", "maxTokens": 3, "windowSeconds": 60}
    scenario = chat("b", router={"policy": {"budgets": [budget]}})
    scenario["workloads"]["w"]["rows"].append(ask("chat", second_s))
    status, reason = (200, None) if served else (429, "budget_exceeded")
    end_s = second_s + 2 if served else second_s
    assert told(scenario) == (status, reason, wait_s, end_s)


@pytest.mark.parametrize(("cancel_s", "before"), [(10, LONG), (10, ()), (31, ()), (0.5, LONG)])
def test_a_client_that_leaves(cancel_s: float, before: tuple[Row, ...]) -> None:
    """One that is gone would be counted as refused or failed, wherever it waited."""
    scenario = chat("a", before=before)
    scenario["workloads"]["w"]["rows"][-1]["cancel"] = cancel_s
    assert told(scenario) == (499, "client_closed", None, 1 + cancel_s)


@pytest.mark.parametrize(("restart_s", "end_s"), [(10, 10), (31.5, 31.5)])
def test_a_proxy_that_restarts(restart_s: float, end_s: float) -> None:
    """What it held would get an answer that nobody is left to give."""
    scenario = chat("a", events=({"at": restart_s, "kind": "proxy-restart"},))
    expected = (200, None, None, 33) if restart_s > 31 else (None, "proxy_restart", None, end_s)
    assert told(scenario) == expected


@pytest.mark.parametrize("fail_closed", [False, True])
@pytest.mark.parametrize(
    ("compat", "swap_result", "answer"),
    [
        ({}, "deadline", (503, TIMEOUT, 5)),
        ({"tieOrder": "hold-first"}, "cancelled", (503, TIMEOUT, 5)),
        ({"swapDeadlineStatus": 502}, "deadline", (502, FAILED, None)),
        (
            {"swapDeadlineStatus": 502, "tieOrder": "hold-first"},
            "cancelled",
            (503, TIMEOUT, 5),
        ),
    ],
)
def test_a_swap_deadline_before_and_after_the_fix(
    compat: dict[str, Any], swap_result: str, answer: Any, fail_closed: bool
) -> None:
    """The status would depend on which timer fires first, though it was mended; or would not
    without the mending.
    """
    scenario = chat("a", rule={"failClosed": fail_closed}, swapBudget=20, compat=compat)
    if fail_closed and answer[0] == 502:
        answer = (503, FAIL_CLOSED, None)
    assert told(scenario) == (*answer, 21)
    assert [swap[4] for swap in Ran(scenario).swaps] == [swap_result]


def test_a_random_order_of_timers_before_the_fix() -> None:
    """The flaky status of the source could not be shown, or would differ after the fix."""
    scenario = chat("a", swapBudget=20, compat={"tieOrder": "random"})
    rows = scenario["workloads"]["w"]["rows"]
    rows += [ask("chat", 100.0 * number) for number in range(1, 20)]
    assert {row["http_status"] for row in Ran(scenario).requests} == {503}
    scenario["pools"]["desk"]["compat"]["swapDeadlineStatus"] = 502
    statuses = [row["http_status"] for row in Ran(scenario).requests]
    assert set(statuses) == {502, 503}
    assert statuses == [row["http_status"] for row in Ran(scenario).requests]
    assert statuses != [row["http_status"] for row in Ran(scenario, seed=2).requests]


@pytest.mark.parametrize("fail_closed", [False, True])
def test_all_busy_before_the_fix(fail_closed: bool) -> None:
    """What was answered before could not be compared with what is answered now."""
    rule = {**IF_IDLE, "failClosed": fail_closed}
    scenario = chat("a", rule=rule, before=LONG, compat={"allBusyStatus": 502})
    expected = (503, FAIL_CLOSED, None, 1) if fail_closed else (502, FAILED, None, 1)
    assert told(scenario) == expected


def test_direct_traffic_to_a_member_that_is_not_there() -> None:
    """It would be served by a pod that does not exist, or be an answer of the router."""
    workloads = {"direct": script(ask("a", 1), direct="a")}
    ran = Ran(pooled(PAIR, ask("b", 0), workloads=workloads, initial="b"))
    (row,) = [row for row in ran.requests if row["workload"] == "direct"]
    assert (row["status"], row["http_status"], row["reason"], row["end_s"]) == (
        "failed",
        None,
        "connection_refused",
        1,
    )
    assert [row["request_id"] for row in ran.rows("hold")] == [0]


def test_who_is_held_when_the_run_ends_has_been_held_until_then() -> None:
    """A request that waits for its member to the end would look as if it had never waited."""
    window = {"measure": 20.0, "drain": False}
    ran = Ran(pooled({"a": 5, "b": 60}, ask("b", 3.0), initial="a", window=window))
    (row,) = ran.requests
    assert (row["status"], row["hold_s"]) == ("in_flight", 17.0)
