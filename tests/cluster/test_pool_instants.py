"""What happens at one instant happens in the documented order, also when its times are sums of
floats; a microsecond more or less changes what that order says and nothing else."""

from typing import Any

import pytest

from tests.cluster.scenarios import Ran, Row, ask, pooled, rounded, script

TENTHS = {"stepTime": {"a": 100}}
"""A tenth of a second per token."""

US = 1e-6
BEGINS_S = (0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 1.1, 2.2, 1 / 3, 100.1)

begins = pytest.mark.parametrize("begin_s", BEGINS_S)
shifts = pytest.mark.parametrize("shift_s", [-US, 0.0, US])

IF_IDLE = {"poolActivation": "IfIdle"}


def tenths(members: dict[str, Any], *rows: Row, **more: Any) -> Ran:
    return Ran(pooled(members, *rows, engine=TENTHS, **more))


def direct(member: str, arrival_s: float, tokens: int) -> dict[str, Any]:
    """A workload beside the router, which comes before the one through it."""
    return {"direct": script(ask(member, arrival_s, tokens), direct=member)}


@begins
@shifts
def test_a_member_is_ready_in_the_last_instant_of_the_bound(begin_s: float, shift_s: float) -> None:
    """Drain, unload and load of 0.1 s each would be longer than a budget of 0.3 s."""
    scenario = pooled(
        {"a": {"load": 1, "unload": 0.1}, "b": {"load": 0.1 + shift_s}},
        engine=TENTHS,
        workloads={**direct("a", begin_s, 1), "w": script(ask("b", begin_s, 1))},
        initial="a",
        swapBudget=0.3,
    )
    ran = Ran(scenario)
    (swap,) = ran.rows("swap")
    assert rounded(swap["drain_s"]) == rounded(swap["unload_s"]) == 0.1
    routed = ran.requests[1]
    if shift_s > 0:
        assert (routed["http_status"], swap["result"]) == (503, "deadline")
        assert ran.failed_attempts[0]["error"] == "swap_deadline_exceeded"
    else:
        assert (routed["http_status"], swap["result"]) == (200, "completed")
        assert rounded(routed["hold_s"]) == rounded(0.3 + shift_s)


@begins
@shifts
def test_a_member_is_ready_in_the_last_instant_of_a_hold(begin_s: float, shift_s: float) -> None:
    """A hold would end before the load that ends with it, when the bound is still to come."""
    ran = tenths(
        {"a": 1, "b": 0.2 + shift_s},
        ask("a", begin_s, 1),
        ask("b", begin_s, 1),
        initial="a",
        swapBudget=0.3,
    )
    (swap,) = ran.rows("swap")
    assert rounded(swap["start_s"]) == rounded(begin_s + 0.1)
    if shift_s > 0:
        assert (ran.requests[1]["http_status"], swap["result"]) == (503, "cancelled")
        assert ran.failed_attempts[0]["error"] == "hold_budget_exceeded"
    else:
        assert (ran.requests[1]["http_status"], swap["result"]) == (200, "completed")


@begins
@pytest.mark.parametrize("tie_order", ["swap-first", "hold-first"])
@pytest.mark.parametrize("shift_s", [0.0, US])
def test_bound_and_hold_end_together(begin_s: float, tie_order: str, shift_s: float) -> None:
    """Rounding would decide which timer fires first: 0.1 + 0.2 and 0.3 are one instant."""
    ran = tenths(
        {"a": 1, "b": 1},
        ask("b", begin_s, 1),
        ask("b", begin_s + shift_s, 1),
        initial="a",
        swapBudget=0.1 + 0.2,
        compat={"tieOrder": tie_order},
    )
    assert [row["http_status"] for row in ran.requests] == [503, 503]
    errors = [row["error"] for row in ran.failed_attempts]
    (swap,) = ran.rows("swap")
    if tie_order == "swap-first":
        # The one that came a microsecond later waits for the swap that is abandoned.
        assert errors == ["swap_deadline_exceeded"] * 2
        assert swap["result"] == "deadline"
    else:
        # The hold of the later one, if it is later, outlives the bound.
        second = "hold_budget_exceeded" if shift_s == 0 else "swap_deadline_exceeded"
        assert errors == ["hold_budget_exceeded", second]
        assert swap["result"] == ("cancelled" if shift_s == 0 else "deadline")
    assert rounded(swap["end_s"]) == rounded(begin_s + 0.3)


@begins
@shifts
def test_the_last_request_ends_when_a_hold_does(begin_s: float, shift_s: float) -> None:
    """In its last instant a hold would start a swap that nobody waits for."""
    ran = tenths(
        {"a": 1, "b": 1},
        ask("a", begin_s, 4),
        ask("b", begin_s + 0.1 + shift_s, 1),
        initial="a",
        swapBudget=0.3,
    )
    assert [row["http_status"] for row in ran.requests] == [200, 503]
    assert [row["error"] for row in ran.failed_attempts] == ["hold_budget_exceeded"]
    assert rounded(ran.requests[1]["hold_s"]) == 0.3
    swapped = [(rounded(row["start_s"]), row["result"]) for row in ran.rows("swap")]
    assert swapped == ([(rounded(begin_s + 0.4), "cancelled")] if shift_s > 0 else [])


@begins
@shifts
def test_another_one_waits_when_a_hold_ends(begin_s: float, shift_s: float) -> None:
    """A hold in its last instant would keep others from a swap, or take it with it."""
    ran = tenths(
        {"a": 1, "b": 0.05},
        ask("a", begin_s, 4),
        ask("b", begin_s + 0.1 + shift_s, 1),
        ask("b", begin_s + 0.2, 1),
        initial="a",
        swapBudget=0.3,
    )
    assert [row["http_status"] for row in ran.requests] == [200, 503, 200]
    (swap,) = ran.rows("swap")
    assert (rounded(swap["start_s"]), swap["result"]) == (rounded(begin_s + 0.4), "completed")


@begins
@shifts
@pytest.mark.parametrize("if_idle", [False, True])
def test_the_last_request_ends_when_another_member_is_asked_for(
    begin_s: float, shift_s: float, if_idle: bool
) -> None:
    """At the instant itself the incumbent is idle; a microsecond before it is busy."""
    ran = tenths(
        {"a": 1, "b": 1},
        ask("a", begin_s, 3),
        ask("b", begin_s + 0.1 + 0.2 + shift_s, 1),
        rules={"a": ["a"], "b": {"backends": ["b", "a"], **(IF_IDLE if if_idle else {})}},
        initial="a",
    )
    first, second = ran.requests
    assert first["http_status"] == second["http_status"] == 200
    if if_idle and shift_s < 0:
        assert second["backend"] == "a" and ran.swaps == []
        assert len(ran.rows("skip")) == 1
    else:
        assert second["backend"] == "b" and ran.rows("skip") == []
        began_s = begin_s + 0.3 + max(shift_s, 0.0)
        assert rounded(ran.rows("swap")[0]["start_s"]) == rounded(began_s)


@begins
def test_who_waits_is_woken_before_those_that_arrive(begin_s: float) -> None:
    """A request for the incumbent at the instant at which it is idle would get ahead of one that
    waits for another member.
    """
    ran = tenths(
        {"a": 1, "b": 1},
        ask("a", begin_s, 3),
        ask("b", begin_s + 0.1, 1),
        ask("a", begin_s + 0.3, 1),
        initial="a",
    )
    assert [rounded(row["hold_s"]) for row in ran.requests] == [0, 1.2, 2.1]
    assert [swap[1] for swap in ran.swaps] == ["b", "a"]


@begins
@pytest.mark.parametrize("first", ["a", "b"])
@pytest.mark.parametrize("sum_first", [False, True])
def test_idle_and_if_idle_at_one_instant_go_in_the_order_of_the_input(
    begin_s: float, first: str, sum_first: bool
) -> None:
    """The order of the file would mean nothing, or that of sums of floats something."""
    models = ("a", "b") if first == "a" else ("b", "a")
    arrivals_s = [begin_s + 0.3, begin_s + 0.1 + 0.2]
    if sum_first:
        arrivals_s.reverse()
    ran = tenths(
        {"a": 1, "b": 1},
        *(ask(model, arrival_s, 1) for model, arrival_s in zip(models, arrivals_s)),
        rules={"a": ["a"], "b": {"backends": ["b", "a"], **IF_IDLE}},
        initial="a",
    )
    assert [row["model"] for row in ran.requests] == list(models)
    (for_b,), (for_a,) = ran.of("b"), ran.of("a")
    if first == "a":
        assert (for_a["hold_s"], for_b["backend"], len(ran.rows("skip"))) == (0, "a", 1)
    else:
        assert (for_b["backend"], ran.rows("skip")) == ("b", [])
        # Held by the swap, then by the request that it was for, then by the swap back.
        assert rounded(for_a["hold_s"]) == 2.1


RECLAIM = {"swapPolicy": "reclaim", "default": "d", "initial": "b", "reclaimAfter": 0.3}


@pytest.mark.parametrize("poll_s", [0, 0.1])
@shifts
def test_a_sample_at_the_end_of_a_service(poll_s: float, shift_s: float) -> None:
    """The sample would see a request that has just ended, or not one that has not."""
    ran = tenths(
        {"d": 1, "b": 1},
        ask("b", 0.2 + shift_s, 3),
        window={"measure": 3, "drain": False},
        **{**RECLAIM, "reclaimPoll": poll_s},
    )
    (swap,) = ran.rows("swap")
    looked = {-US: 0.5, 0.0: 0.5, US: 0.6}[shift_s]
    seen_s = looked if poll_s else 0.5 + shift_s
    assert rounded(swap["start_s"]) == rounded(seen_s + 0.3)
    assert swap["cause"] == "reclaim"


@pytest.mark.parametrize("tokens", [3, 6, 7, 11, 22])
@pytest.mark.parametrize("poll_s", [0, 0.1])
@pytest.mark.parametrize("shift_s", [-US, 0.0])
def test_a_request_at_the_instant_of_a_reclaim(tokens: int, poll_s: float, shift_s: float) -> None:
    """An arrival would come before the clock that has run out, or one before it not reset it."""
    ran = tenths(
        {"d": 1, "b": 1},
        ask("b", 0, tokens),
        ask("b", 0.1 * tokens + 0.1 + 0.2 + shift_s, 1),
        window={"measure": 10, "drain": False},
        **{**RECLAIM, "reclaimPoll": poll_s},
    )
    held_s = ran.requests[1]["hold_s"]
    reclaim = ran.rows("swap")[0]
    assert reclaim["cause"] == "reclaim"
    if shift_s == 0:
        assert rounded(reclaim["start_s"]) == rounded(0.1 * tokens + 0.3)
        assert rounded(held_s) == 2
    else:
        assert held_s == 0
        # One sample is a microsecond after the arrival, the next one a microsecond after the end.
        idle_s = 0.1 * tokens + 0.4 + (0.0 if poll_s else shift_s)
        assert rounded(reclaim["start_s"]) == rounded(idle_s + 0.3)


@begins
@pytest.mark.parametrize("poll_s", [0, 0.1])
@pytest.mark.parametrize("kind", ["proxy-restart", "pod-lost"])
@shifts
def test_a_fault_at_the_end_of_a_load(
    begin_s: float, poll_s: float, kind: str, shift_s: float
) -> None:
    """The load ends before the fault of its instant, and is seen at once or by a poll after it."""
    fault = {"at": begin_s + 0.1 + 0.2 + shift_s, "kind": kind}
    if kind == "pod-lost":
        fault["backend"] = "b"
    ran = tenths(
        {"a": 1, "b": 0.3},
        ask("b", begin_s, 1),
        ask("b", begin_s + 1, 1),
        initial="a",
        readyPollInterval=poll_s,
        events=(fault,),
    )
    first, second = ran.requests
    seen = shift_s >= 0 if poll_s == 0 else shift_s > 0
    if kind == "proxy-restart":
        assert first["reason"] == (None if seen else "proxy_restart")
        assert second["hold_s"] == 0  # the load has gone on
    else:
        assert first["http_status"] == 502
        errors = [row["error"] for row in ran.failed_attempts]
        if seen:  # whoever is next finds out that the pod is gone
            assert errors == ["connection_lost", "connection_refused"]
        else:
            assert errors == ["swap_failed"]
            assert rounded(second["hold_s"]) == 0.3


@begins
@shifts
def test_a_client_leaves_when_its_answer_is_complete(begin_s: float, shift_s: float) -> None:
    """A client would leave at the instant of its last token, or of the grant that it waited for."""
    ran = tenths(
        {"a": 1, "b": 1},
        ask("a", begin_s, 3, cancel=0.3 + shift_s),
        initial="a",
    )
    assert ran.requests[0]["http_status"] == (499 if shift_s < 0 else 200)


@begins
@shifts
def test_a_pod_is_lost_when_its_last_request_ends(begin_s: float, shift_s: float) -> None:
    """Rounding would break a response that is complete at the instant of the fault."""
    lost_s = round(begin_s + 0.3, 9) + shift_s
    ran = tenths(
        {"a": 1, "b": 1},
        ask("a", begin_s, 3),
        initial="a",
        events=({"at": lost_s, "kind": "pod-lost", "backend": "a"},),
    )
    assert ran.requests[0]["status"] == ("failed" if shift_s < 0 else "completed")
