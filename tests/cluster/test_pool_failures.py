"""Worked cases of model pools through whole runs: pods that are lost, loads that fail."""

from typing import Any

import pytest

from tests.cluster.scenarios import Ran, ask, pooled, retry_after_s, ttft_s

PAIR = {"a": 30, "b": 30}


def evicted(at_s: float = 100.0, **pool: Any) -> Ran:
    """C53: a request per second of half a second, and A's pod is evicted."""
    return Ran(
        pooled(
            PAIR,
            *(ask("a", second, 1) for second in range(140)),
            engine={"stepTime": {"a": 500}},
            events=({"at": at_s, "kind": "pod-lost", "backend": "a"},),
            initial="a",
            **pool,
        )
    )


def failed(ran: Ran) -> list[float]:
    """When the requests came that were not served; all of them were told so at once."""
    unserved = [row for row in ran.requests if row["http_status"] != 200]
    for row in unserved:
        assert (row["http_status"], row["reason"]) == (502, "all_backends_failed")
        assert row["end_s"] == row["arrival_s"]
    return [row["arrival_s"] for row in unserved]


def test_c53_the_resident_is_evicted() -> None:
    """C53: residency would only change by swaps, and all later requests fail."""
    ran = evicted()
    assert failed(ran) == [100]
    assert {row["dispatch_s"] for row in ran.requests[101:132]} == {131}
    assert [ttft_s(row) for row in ran.requests[132:]] == [0.5] * 8
    assert ran.swaps == [(None, "a", 101, 131, "completed")]
    assert [row["error"] for row in ran.failed_attempts] == ["connection_refused"]


@pytest.mark.parametrize("at_s", [100, 100.75, 101.75, 102.75, 103.75, 104.75])
def test_c53_without_the_trigger_at_most_five_fail(at_s: float) -> None:
    """C53: the proxy would believe for longer than 5 s what is not true any more."""
    ran = evicted(at_s, recheckOnError=False)
    assert len(failed(ran)) <= 5
    assert len(ran.swaps) == 1
    assert ran.requests[-1]["http_status"] == 200


def test_c53_quarantine_as_in_the_source() -> None:
    """C53: a pooled member would be avoided for 15 s, or not be when that is asked for."""
    assert failed(evicted(quarantinePooled=True)) == list(range(100, 115))


def test_c53_requests_in_the_pod_break_off() -> None:
    """C53: one that has got no token yet would not go to the next backend, one that has would."""
    ran = Ran(
        pooled(
            PAIR,
            ask("a", 0, 100),
            ask("a", 9.5, 100),
            rules={"a": ["a", "x"]},
            others=("x",),
            events=({"at": 10, "kind": "pod-lost", "backend": "a"},),
            initial="a",
        )
    )
    begun, waiting = ran.requests
    assert (begun["status"], begun["reason"], begun["end_s"]) == ("failed", "connection_lost", 10)
    assert begun["http_status"] is None
    assert (waiting["backend"], waiting["dispatch_s"], waiting["http_status"]) == ("x", 10, 200)


def test_c53_one_held_attempt_finds_out_that_the_pod_is_gone() -> None:
    """C53: after a failed dispatch another attempt would be granted, and fail, before the proxy
    has checked its belief."""
    ran = Ran(
        pooled(
            PAIR,
            *(ask("a", second, 10) for second in range(4)),
            events=({"at": 5, "kind": "pod-lost", "backend": "a"},),
            initial="a",
            maxInFlight=1,
        )
    )
    assert [row["http_status"] for row in ran.requests] == [None, 502, 200, 200]
    assert [row["error"] for row in ran.failed_attempts] == ["connection_refused"]
    assert ran.swaps == [(None, "a", 5, 35, "completed")]


def failing_twice(*rows: dict[str, Any], **pool: Any) -> dict[str, Any]:
    """C54: B's loads fail after 20 s, twice."""
    return pooled(
        PAIR,
        *rows,
        events=({"at": 0, "kind": "load-failure", "backend": "b", "after": 20, "loads": 2},),
        initial="a",
        **pool,
    )


@pytest.mark.parametrize("reload", [False, True])
def test_c54_failure_to_load(reload: bool) -> None:
    """C54: a failed member would stay failed, or be tried again and again at one instant."""
    scenario = failing_twice(*(ask("b", at_s) for at_s in (0, 40, 80)), reloadIncumbent=reload)
    ran = Ran(scenario)
    assert ran.answers == [
        (502, "all_backends_failed", 20),
        (502, "all_backends_failed", 60),
        (200, None, 112),
    ]
    assert ran.requests[2]["dispatch_s"] == 110
    assert retry_after_s(scenario) == [None] * 3
    assert [row["error"] for row in ran.failed_attempts] == ["swap_failed"] * 2
    to_b = [swap for swap in ran.swaps if swap[1] == "b"]
    assert [(start_s, end_s, result) for _, _, start_s, end_s, result in to_b] == [
        (0, 20, "error"),
        (40, 60, "error"),
        (80, 110, "completed"),
    ]
    to_a = [swap[2:] for swap in ran.swaps if swap[1] == "a"]
    assert to_a == [(20, 40, "cancelled")] * reload


@pytest.mark.parametrize("reload", [False, True])
def test_c54_another_member_after_a_failure(reload: bool) -> None:
    """C54: the pool would be stuck in its failure."""
    ran = Ran(failing_twice(ask("b", 0), ask("a", 25), ask("b", 80), reloadIncumbent=reload))
    error = "all_backends_failed"
    # What is loaded again of itself has been loading since 20 s.
    served_s = 52 if reload else 57
    assert ran.answers == [(502, error, 20), (200, None, served_s), (502, error, 100)]


def test_c54_the_only_client_leaves() -> None:
    """C54: the load would go on for nobody, count as a failure, or leave the pool occupied."""
    ran = Ran(failing_twice(ask("b", 0, cancel=5), ask("a", 50)))
    assert ran.answers == [(499, "client_closed", 5), (200, None, 82)]
    assert ran.swaps == [("a", "b", 0, 5, "cancelled"), (None, "a", 50, 80, "completed")]
    assert [row["result"] for row in ran.rows("hold")] == ["cancelled", "granted"]


def test_c54_another_one_waits() -> None:
    """C54: the first of two clients would take the load with it."""
    ran = Ran(pooled(PAIR, ask("b", 0, cancel=5), ask("b", 3), initial="a"))
    assert ran.answers == [(499, "client_closed", 5), (200, None, 32)]
    assert ran.swaps == [("a", "b", 0, 30, "completed")]


def test_c54_a_load_above_its_limit() -> None:
    """C54: the load would succeed, or be tried again without anybody asking for it."""
    ran = Ran(
        pooled(
            {"a": 16, "b": {"load": 16, "loadLimit": 15}},
            ask("b", 0),
            ask("b", 100),
            ask("a", 200),
            initial="a",
        )
    )
    assert ran.answers == [
        (502, "all_backends_failed", 15),
        (502, "all_backends_failed", 115),
        (200, None, 218),
    ]
    assert [swap[4] for swap in ran.swaps] == ["error", "error", "completed"]


def test_what_happens_to_a_backend_that_nothing_leads_to() -> None:
    """A variant with other rules and the same events would end in a traceback."""
    events = (
        {"at": 1, "kind": "backend-errors", "backend": "x", "for": 1},
        {"at": 1, "kind": "pod-lost", "backend": "x", "for": 1},
    )
    scenario = pooled(PAIR, ask("a", 0, 5), others=("x",), events=events, initial="a")
    assert Ran(scenario).answers == [(200, None, 5)]


@pytest.mark.parametrize(
    ("first", "more"),
    [
        (ask("a", 0), {"events": [{"at": 0, "kind": "backend-errors", "backend": "a"}]}),
        (
            ask("a", 0),
            {
                "events": [
                    {"at": 0, "kind": "backend-errors", "backend": "a", "httpStatus": 404},
                ]
            },
        ),
        (ask("a", 0), {"router": {"proxy": {"responseHeaderTimeout": 0.5}}}),
        (ask("a", 0, 10, cancel=0.5), {}),
    ],
)
def test_a_member_whose_requests_have_failed_is_idle(
    first: dict[str, Any], more: dict[str, Any]
) -> None:
    """It would be busy for ever with what is over, and never be swapped out."""
    ran = Ran(
        pooled(
            PAIR,
            first,
            ask("b", 2),
            rules={"a": ["a"], "b": {"backends": ["b"], "poolActivation": "IfIdle"}},
            initial="a",
            **more,
        )
    )
    assert ran.requests[0]["http_status"] != 200
    assert ran.rows("skip") == []
    assert ran.swaps == [("a", "b", 2, 32, "completed")]


# -- what never ends -----------------------------------------------------------------------


def asked_twice(*events: dict[str, Any], measure: float | None = 600, **pool: Any) -> Ran:
    """A is there; B is asked for at 20 and at 400 s."""
    scenario = pooled(
        {"a": 10, "b": 10},
        ask("b", 20, 1),
        ask("b", 400, 1),
        events=events,
        window={} if measure is None else {"measure": measure},
        initial="a",
        **pool,
    )
    return Ran(scenario)


def told(ran: Ran) -> list[tuple[float, int | None]]:
    """When each request was over and how; infinite while it is held."""
    return [(row["end_s"], row["http_status"]) for row in ran.requests]


IDLE_NEVER: dict[str, Any] = {"at": 0, "kind": "probe-failure", "backend": "a", "probe": "idle"}
HANGS: dict[str, Any] = {"at": 0, "kind": "load-failure", "backend": "b", "after": None}


def test_an_idle_probe_that_never_answers() -> None:
    """LLMKube pull 1485: the request is held for exactly 300 s and gets 503, A stays.

    The second one is held when the run ends, which nobody would be told of.
    """
    ran = asked_twice(IDLE_NEVER, swapBudget=300)
    assert told(ran)[0] == (320, 503)
    assert ran.requests[1]["status"] == "in_flight"
    assert [swap[4] for swap in ran.swaps] == ["deadline", None]
    assert (
        "pool desk: the swap to b that began at 400 s had not ended when the run did, at 600 s; "
        "1 attempts were held for it"
    ) in ran.result.warnings


def test_an_idle_probe_that_answers_after_a_while() -> None:
    """The spell would last for ever, or not at all."""
    ran = asked_twice({**IDLE_NEVER, "for": 100}, swapBudget=300)
    assert ran.requests[0]["dispatch_s"] == 110


def test_a_run_to_its_end_ends_though_a_load_hangs() -> None:
    """Without measure and without a budget the run would go on for ever, or end as a bug."""
    router = {"proxy": {"responseHeaderTimeout": None}}
    ran = asked_twice({**HANGS, "loads": 2}, measure=None, swapBudget=None, router=router)
    assert told(ran) == [(260, 503), (640, 503)]


def test_a_load_that_hangs_once_is_followed_by_one_that_does_not() -> None:
    """All loads of the member would hang."""
    ran = asked_twice(HANGS, swapBudget=100)
    assert told(ran)[0] == (120, 503)
    assert ran.requests[1]["dispatch_s"] == 410


def test_a_run_says_what_was_to_happen_and_did_not() -> None:
    """The run ends with its workload: an event after that, and failures that no load came to."""
    ran = asked_twice(
        {"at": 0, "kind": "load-failure", "backend": "b", "after": 1, "loads": 5},
        {"at": 500, "kind": "proxy-restart"},
        measure=None,
    )
    assert [told for told in ran.result.warnings if "load-failure" in told or "proxy" in told] == [
        "proxy-restart at 500 s did not happen: the run ended at 401 s",
        "load-failure of b at 0 s: 2 of the 5 loads that were to fail began",
    ]


def test_all_loads_fail_that_follow() -> None:
    """loads: null would be one, or be told as loads that did not come."""
    ran = asked_twice({**HANGS, "after": 1, "loads": None})
    assert told(ran) == [(21, 502), (401, 502)]
    assert not [said for said in ran.result.warnings if "load-failure" in said]
