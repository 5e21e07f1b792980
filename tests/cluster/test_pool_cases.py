"""Worked cases of model pools through whole runs: what one request or one swap meets."""

from typing import Any

import pytest

from tests.cluster.scenarios import Ran, ask, pooled, retry_after_s, rounded, script, ttft_s

PAIR = {"a": 30, "b": 30}


def cold_swap(*arrivals_s: float, **pool: Any) -> dict[str, Any]:
    """C43: unload 3 s, load 32 s, a first token after 0.2 s and a header timeout of 15 s."""
    return pooled(
        {"coder": {"load": 32, "unload": 3}, "longctx": {"load": 32, "unload": 3}},
        *(ask("longctx", arrival_s, 1) for arrival_s in arrivals_s),
        engine={"stepTime": {"a": 200}},
        router={"proxy": {"responseHeaderTimeout": 15}},
        initial="coder",
        **pool,
    )


def test_c43_cold_swap_in_numbers() -> None:
    """C43: the hold would end with the timeout of 15 s, the second request load once more, or a
    TTFT leave the swap out.
    """
    ran = Ran(cold_swap(0, 10, swapBudget=300))
    assert [row["http_status"] for row in ran.requests] == [200, 200]
    assert [ttft_s(row) for row in ran.requests] == [35.2, 25.2]
    assert [row["hold_s"] for row in ran.requests] == [35, 25]
    assert ran.swaps == [("coder", "longctx", 0, 35, "completed")]
    (swap,) = ran.rows("swap")
    assert (swap["drain_s"], swap["unload_s"], swap["load_s"]) == (0, 3, 32)
    assert [(row["start_s"], row["end_s"]) for row in ran.rows("hold")] == [(0, 35), (10, 35)]


def test_c43_a_budget_shorter_than_the_swap() -> None:
    """C43: the client would wait for the load, or the second one until its own budget ends."""
    scenario = cold_swap(0, 10, swapBudget=30)
    ran = Ran(scenario)
    assert ran.answers == [(503, "pool_activation_timeout", 30)] * 2
    assert retry_after_s(scenario) == [5, 5]
    assert ran.swaps == [("coder", "longctx", 0, 30, "deadline")]


def two_models(*rows: dict[str, Any], mode: str | None, **pool: Any) -> dict[str, Any]:
    """C44: small falls back to large."""
    rule: dict[str, Any] = {"backends": ["small", "large"]}
    return pooled(
        {"small": 30, "large": 30},
        *rows,
        rules={
            "small": rule if mode is None else {**rule, "poolActivation": mode},
            "large": ["large"],
        },
        **{"initial": "large", "swapBudget": 600, **pool},
    )


MODES = ("Wait", "IfIdle")


@pytest.mark.parametrize("mode", MODES)
def test_c44_a_the_other_member_is_idle(mode: str) -> None:
    """C44 (a): IfIdle would not swap although nobody needs the incumbent."""
    ran = Ran(two_models(ask("small", 0), mode=mode))
    (row,) = ran.requests
    assert (row["backend"], row["dispatch_s"], row["end_s"]) == ("small", 30, 32)
    assert ran.swaps == [("large", "small", 0, 30, "completed")]
    assert ran.rows("skip") == []


@pytest.mark.parametrize(
    ("mode", "backend", "dispatch_s", "skips", "swaps"),
    [
        ("Wait", "small", 270, [], [("large", "small", 240, 270, "completed")]),
        ("IfIdle", "large", 0, ["small"], []),
    ],
)
def test_c44_b_the_other_member_is_busy(
    mode: str, backend: str, dispatch_s: float, skips: list[str], swaps: list[Any]
) -> None:
    """C44 (b): Wait would skip, IfIdle wait for 240 s or load what nobody waits for."""
    ran = Ran(two_models(ask("large", 0, 240), ask("small", 0), mode=mode))
    row = ran.requests[1]
    assert (row["backend"], row["dispatch_s"], row["http_status"]) == (backend, dispatch_s, 200)
    assert [skip["member"] for skip in ran.rows("skip")] == skips
    assert ran.swaps == swaps
    assert ran.requests[0]["end_s"] == 240


@pytest.mark.parametrize("mode", MODES)
def test_c44_c_a_swap_is_under_way(mode: str) -> None:
    """C44 (c): IfIdle would skip an incumbent that cannot serve any more."""
    ran = Ran(two_models(ask("small", 0, 100), ask("small", 10), mode=mode))
    row = ran.requests[1]
    assert (row["backend"], row["dispatch_s"]) == ("small", 30)
    assert len(ran.swaps) == 1 and ran.rows("skip") == []


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("busy", [False, True])
def test_c44_d_the_member_itself_is_there(mode: str, busy: bool) -> None:
    """C44 (d): busy would include the request itself, or those for the same member."""
    before = [ask("small", 0, 100)] * busy
    ran = Ran(two_models(*before, ask("small", 0), mode=mode, initial="small"))
    row = ran.requests[-1]
    assert (row["backend"], row["dispatch_s"], row["hold_s"]) == ("small", 0, 0)
    assert ran.swaps == [] and ran.rows("skip") == []
    assert {hold["result"] for hold in ran.rows("hold")} == {"granted"}


@pytest.mark.parametrize("busy_s", [0, 240])
def test_the_mode_is_wait_unless_given(busy_s: int) -> None:
    """A manifest from before poolActivation would behave in another way than it did."""
    rows = [ask("large", 0, busy_s)] * bool(busy_s) + [ask("small", 0), ask("small", 300)]
    runs = [Ran(two_models(*rows, mode=mode)) for mode in (None, "Wait")]
    assert runs[0].result.digest == runs[1].result.digest
    assert runs[0].result.summary == runs[1].result.summary


def skipped_by_all(**pool: Any) -> dict[str, Any]:
    """C45: c is busy for 100 s; the second request is a retry when it has drained."""
    return pooled(
        {"a": 30, "b": 30, "c": 30},
        ask("c", 0, 100),
        ask("chat", 0),
        ask("chat", 100),
        rules={"chat": {"backends": ["a", "b"], "poolActivation": "IfIdle"}, "c": ["c"]},
        initial="c",
        **pool,
    )


def test_c45_every_backend_skipped() -> None:
    """C45: 502, a wait for the budget, or one skip for two members; or c would be blamed."""
    scenario = skipped_by_all()
    ran = Ran(scenario)
    assert ran.answers == [
        (200, None, 100),
        (503, "pool_incumbent_busy", 0),
        (200, None, 132),
    ]
    assert retry_after_s(scenario) == [None, 5, None]
    assert [(row["member"], row["start_s"]) for row in ran.rows("skip")] == [("a", 0), ("b", 0)]
    assert [row["backend"] for row in ran.failed_attempts] == ["a", "b"]
    assert {row["backend"] for row in ran.placements if row["status"] != "completed"} == set()


def test_c45_an_ordinary_backend_answers_last() -> None:
    """C45: the pool's 503 would hide that a backend is broken."""
    scenario = pooled(
        PAIR,
        ask("b", 0, 100),
        ask("chat", 0),
        rules={"chat": {"backends": ["a", "x"], "poolActivation": "IfIdle"}, "b": ["b"]},
        others=("x",),
        events=({"at": 0, "kind": "backend-errors", "backend": "x"},),
        initial="b",
    )
    ran = Ran(scenario)
    assert ran.answers[1] == (502, "all_backends_failed", 0)
    assert retry_after_s(scenario)[1] is None
    assert [row["error"] for row in ran.failed_attempts] == ["incumbent_busy", "backend_error"]


def with_direct(*rules: str, mode: str = "Wait", **pool: Any) -> dict[str, Any]:
    """C52: a request that the router does not see is in a from 0 to 100 s."""
    return pooled(
        PAIR,
        ask("b", 10),
        rules={"b": {"backends": list(rules), "poolActivation": mode}},
        workloads={"direct": script(ask("a", 0, 100), direct="a")},
        initial="a",
        **pool,
    )


@pytest.mark.parametrize(("rules", "mode"), [(("b",), "Wait"), (("b", "a"), "IfIdle")])
def test_c52_direct_traffic_that_the_router_cannot_see(rules: tuple[str, ...], mode: str) -> None:
    """C52: the drain would cut the direct request, or IfIdle know of it."""
    ran = Ran(with_direct(*rules, mode=mode, swapBudget=600))
    direct, routed = ran.requests
    assert (direct["http_status"], direct["end_s"]) == (200, 100)
    assert (routed["backend"], routed["hold_s"], ttft_s(routed)) == ("b", 120, 121)
    (swap,) = ran.rows("swap")
    assert (swap["start_s"], swap["drain_s"], swap["load_s"]) == (10, 90, 30)
    assert ran.rows("skip") == []


def test_c52_a_budget_that_ends_in_the_drain() -> None:
    """C52: a would be gone after a swap that never began to unload it."""
    scenario = with_direct("b", swapBudget=60)
    scenario["router"]["rules"].append({"name": "a", "match": {"models": ["a"]}, "backends": ["a"]})
    scenario["workloads"]["w"]["rows"].append(ask("a", 80))
    ran = Ran(scenario)
    assert ran.answers == [
        (200, None, 100),
        (503, "pool_activation_timeout", 70),
        (200, None, 82),
    ]
    assert ran.swaps == [("a", "b", 10, 70, "deadline")]
    assert ran.rows("swap")[0]["load_s"] is None


def test_c52_a_probe_that_always_says_idle() -> None:
    """C52: the direct request would end normally although its pod has been unloaded."""
    ran = Ran(with_direct("b", swapBudget=600, idleProbe="always-idle"))
    direct, routed = ran.requests
    assert (direct["status"], direct["reason"], direct["end_s"]) == (
        "failed",
        "connection_lost",
        10,
    )
    assert (routed["http_status"], routed["dispatch_s"]) == (200, 40)
    assert ran.result.summary["requests_failed"] == 1


@pytest.mark.parametrize(("member", "ends_s"), [("a", (2, 4)), ("b", (32, 34))])
def test_c55_the_queue_limit_holds_for_the_loaded_model_too(
    member: str, ends_s: tuple[float, float]
) -> None:
    """C55: only the queue in front of a swap would be limited."""
    rows = [ask(member, 0)] * 6
    scenario = pooled(PAIR, *rows, initial="a", maxInFlight=1, maxHeld=1)
    ran = Ran(scenario)
    assert [row["end_s"] for row in ran.requests if row["http_status"] == 200] == list(ends_s)
    assert ran.answers[2:] == [(503, "pool_queue_full", 0)] * 4
    assert [row["first_token_s"] for row in ran.requests[2:]] == [None] * 4
    assert retry_after_s(scenario)[2:] == [5] * 4
    assert rounded(ran.result.summary["ttft_s"]["p50"]) == sum(ends_s) / 2 - 1


@pytest.mark.parametrize(("limit", "refused"), [(1, 5), (2, 4)])
def test_c55_vllm_counts_running_ones_too(limit: int, refused: int) -> None:
    """C55: an engine's own limit would mean the same as a pool's, which counts those that wait."""
    rows = [ask("a", 0)] * 6
    scenario = pooled(PAIR, *rows, engine={"maxNumSeqs": 1, "maxNumQueuedReqs": limit}, initial="a")
    ran = Ran(scenario)
    assert len([row for row in ran.requests if row["http_status"] == 200]) == 6 - refused
