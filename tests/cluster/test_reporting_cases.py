"""Worked cases from public reports about what a figure says, in whole runs."""

from statistics import variance
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.stats import arrival_average, step_average, time_average
from sim.results import arrow
from sim.results.result import RunResult
from tests.cluster.scenarios import A_SECOND_PER_TOKEN, agents, fleet, script
from tests.router.scenarios import column, site

US = 1e-6


def run(scenario: dict[str, Any], seed: int = 1) -> RunResult:
    (result,) = sim.run(scenario, seeds=(seed,), check=True).runs
    return result


# ------------------------------------------------------------------ C61 (ii): drain


def sessions_of_48(drained: bool) -> dict[str, Any]:
    """Sessions of 20 turns with pauses of 2 to 6 s; drained, what they ask next after some 60 s is
    held back until nobody is served any more, and comes at once at 80 s.
    """
    rows: list[dict[str, Any]] = []
    for session in range(48):
        for turn in range(20):
            when: dict[str, Any] = {"think": 2.0 + (session * 7 + turn * 3) % 5}
            if turn == 0:
                when = {"arrival": session * 0.25}
            elif turn == 11 and drained:
                when = {"arrival": 80.0}
            tokens = 2000 * (turn + 1)
            rows.append({"session": session, "promptTokens": tokens, "outputTokens": 100, **when})
    window = {"warmup": "80s", "measure": "30s"}
    return fleet(script(*rows), {"kind": "session-table"}, window=window)


def test_c61_draining_before_the_measurement_brings_the_first_burst_back() -> None:
    """C61 (ii): a pause between warm-up and measurement would pass for a steady state."""
    steady, drained = run(sessions_of_48(drained=False)), run(sessions_of_48(drained=True))
    assert drained.summary["ttft_s"]["p99"] > 1.5 * steady.summary["ttft_s"]["p99"]
    for result in (steady, drained):
        arrivals_s = arrow.numbers(result.tables.requests, "arrival_s")
        outside = np.count_nonzero((arrivals_s < 80.0) | (arrivals_s >= 110.0))
        assert result.summary["requests_outside_window"] == outside > 0


# ------------------------------------------------------------------ C62: intended arrivals


def test_c62_latency_counts_from_the_intended_arrival() -> None:
    """C62: a server that does one at a time would look as if it answered all within 0.5 s."""
    workload = {
        "kind": "requests",
        "arrivals": {"kind": "constant", "rate": 10},
        "count": 8,
        "promptTokens": 1,
        "outputTokens": 1,
    }
    result = run(
        fleet(
            workload,
            {"kind": "round-robin"},
            replicas=1,
            maxNumSeqs=1,
            stepTime={"a": 500.0},
        )
    )
    requests = result.requests
    expected_s = [0.5, 0.9, 1.3, 1.7, 2.1, 2.5, 2.9, 3.3]
    assert (requests.end_s - requests.arrival_s).tolist() == pytest.approx(expected_s)
    assert result.summary["e2e_s"]["mean"] == pytest.approx(1.9)
    assert result.summary["e2e_s"]["p95"] == pytest.approx(3.16)
    # Waiting and serving are apart, and so are what was asked for and what was achieved.
    assert (requests.end_s - requests.scheduled_s).tolist() == pytest.approx([0.5] * 8)
    waits_s = (requests.scheduled_s - requests.arrival_s).tolist()
    assert waits_s == pytest.approx([each - 0.5 for each in expected_s])
    assert result.summary["queue_s"]["p95"] == pytest.approx(3.16 - 0.5)
    assert result.summary["offered_requests_per_s"] == pytest.approx(10.0)
    assert result.summary["completed_requests_per_s"] == pytest.approx(2.0)


# ------------------------------------------------------------------ C63: closed loop or stamps


def turns(*whens: dict[str, Any]) -> RunResult:
    """A session of three turns of 10 s each, on a pod that could serve them side by side."""
    rows = [
        {"session": "s", "promptTokens": 8 + 20 * turn, "outputTokens": 10, **when}
        for turn, when in enumerate(whens)
    ]
    scenario = fleet(script(*rows), {"kind": "session-table"}, replicas=1, **A_SECOND_PER_TOKEN)
    return run(scenario)


def test_c63_a_closed_loop_waits_and_stamps_do_not() -> None:
    """C63: a slow pod would see turns overlap that no user sends, or a trace would lose its times
    without a word, and its prompts would find answers that are not there yet.
    """
    closed = turns({"arrival": 0}, {"think": 5}, {"think": 5}).requests
    assert closed.arrival_s.tolist() == [0.0, 15.0, 30.0]
    assert (closed.end_s - closed.arrival_s).tolist() == [10.0] * 3
    stamped = turns({"arrival": 0}, {"arrival": 7}, {"arrival": 14})
    assert stamped.requests.arrival_s.tolist() == [0.0, 7.0, 14.0]
    assert stamped.requests.end_s.tolist()[0] > 7.0
    # 8 tokens of prompt and the first 8 of the answer are a block, which is there after 8 s.
    assert closed.cached_tokens.tolist()[1] == 16
    assert stamped.requests.cached_tokens.tolist()[1] == 0
    assert stamped.facts.workload_counts["w"]["turns_at_fixed_times"] == 2


# ------------------------------------------------------------------ C65: which average


def test_c65_three_averages_of_one_run_are_three_numbers() -> None:
    """C65: "8 running" and "10 % busy" are the same run; an unlabelled mean would be either."""
    rows = [{"arrival": 0, "promptTokens": 1, "outputTokens": 10}] * 8
    scenario = fleet(
        script(*rows),
        {"kind": "round-robin"},
        replicas=1,
        window={"measure": "100s"},
        **A_SECOND_PER_TOKEN,
    )
    scenario["router"]["metrics"] = {"pollInterval": "15s"}
    result = run(scenario)
    requests = result.tables.requests
    starts_s, ends_s = (arrow.numbers(requests, name) for name in ("scheduled_s", "end_s"))
    assert time_average(starts_s, ends_s, 0.0, 100.0) == pytest.approx(0.8)
    assert arrival_average(arrow.numbers(requests, "arrival_s"), ends_s) == 3.5
    closed = result.facts.closed[0]
    assert closed.steps == 10
    assert step_average(starts_s, ends_s, np.arange(closed.steps, dtype=float)) == 8.0
    assert closed.busy_s / 100.0 == pytest.approx(0.1)
    # The router's polls come before the arrivals of their instant, and see none of it.
    assert column(result.tables.pods, "time_s", "running") == [
        (15.0 * poll, 0) for poll in range(7)
    ]


# ------------------------------------------------------------------ C66: the same workload


@pytest.mark.parametrize("workload", ["requests", "agents"])
def test_c66_differences_in_pairs_vary_less_than_unpaired_ones(workload: str) -> None:
    """C66: shared seeds would be of no use, and a comparison need a hundred times the runs."""
    kinds = {
        "requests": {
            "kind": "requests",
            "arrivals": {"kind": "poisson", "rate": 8},
            "count": 300,
            "promptTokens": {"uniform": {"min": 500, "max": 4000}},
            "outputTokens": 50,
        },
        "agents": agents(),
    }
    window = {"measure": "90s"} if workload == "agents" else None
    ttfts_s = {
        policy: [
            run.summary["ttft_s"]["mean"]
            for run in sim.run(
                fleet(kinds[workload], {"kind": policy}, window=window), seeds=range(1, 7)
            ).runs
        ]
        for policy in ("round-robin", "least-loaded")
    }
    one, other = ttfts_s.values()
    assert len(set(one)) == len(one)
    in_pairs = variance(a - b for a, b in zip(one, other, strict=True))
    assert in_pairs < 0.5 * (variance(one) + variance(other))


# ------------------------------------------------------------------ C68: one instant


def at_ten(shift_s: float, lost: int = 1, workloads: tuple[str, ...] = ("w",)) -> RunResult:
    """At 10 s one pod ends a request, the other is ready again, both are polled, two requests come.

    ``lost`` is the pod that was away. The two requests come from one workload or from two.
    """
    begins_s = 0.0 if lost == 1 else 0.5
    rows = [{"arrival": begins_s, "outputTokens": 80 if lost == 1 else 76}]
    pair = [
        {"arrival": 10.0 + shift_s, "promptTokens": tokens, "outputTokens": 8}
        for tokens in (100, 200)
    ]
    away = {"kind": "pod-lost", "at": 0, "backend": "a", "replica": lost, "for": "10s"}
    scenario = site(
        "a",
        rows=rows,
        settings={"a": {"replicas": 2, "policy": {"kind": "least-loaded"}}},
        events=[away],
        window={"measure": "20s"},
    )
    scenario["router"]["metrics"] = {"pollInterval": "5s"}
    if len(workloads) == 1:
        scenario["workloads"]["w"]["rows"] += pair
    else:
        for name, row in zip(sorted(workloads), pair, strict=True):
            scenario["workloads"][name] = script(row)
        scenario["workloads"] = {name: scenario["workloads"][name] for name in ("w", *workloads)}
    return run(scenario)


def seen(result: RunResult) -> list[tuple[float, float, float]]:
    """Prompt, arrival and time to the first token of the two that came at 10 s."""
    rows = column(result.tables.requests, "prompt_tokens", "arrival_s", "first_token_s")[1:]
    return sorted((tokens, came_s, first_s - came_s) for tokens, came_s, first_s in rows)


@pytest.mark.parametrize("lost", [0, 1])
def test_c68_what_happens_at_one_instant_has_one_order(lost: int) -> None:
    """C68: arrivals would miss the pod that ends or comes back at their instant, or the poll
    would count them, depending on which process was made first.
    """
    result = at_ten(0.0, lost)
    assert sorted(column(result.tables.placements, "pod")[1:]) == ["a-0", "a-1"]
    assert seen(result) == [(100, 10.0, 0.125), (200, 10.0, 0.125)]
    polled = column(result.tables.pods, "time_s", "in_flight")
    assert [in_flight for time_s, in_flight in polled if time_s == 10.0] == [0, 0]


@pytest.mark.parametrize("lost", [0, 1])
def test_c68_a_microsecond_changes_only_what_the_order_says(lost: int) -> None:
    """C68: a tie that is broken by luck would move whole tables with the last digit of a time."""
    before, after = at_ten(-US, lost), at_ten(US, lost)
    # Just before it, one pod is away and the other one busy: both wait for its step to end.
    busy = f"a-{1 - lost}"
    assert column(before.tables.placements, "pod")[1:] == [busy, busy]
    for _, came_s, ttft_s in seen(before):
        assert came_s + ttft_s == 10.125
    # Just after it, all is as at that instant, and as much later.
    assert column(after.tables.placements, "pod") == column(
        at_ten(0.0, lost).tables.placements, "pod"
    )
    assert [ttft_s for *_, ttft_s in seen(after)] == pytest.approx([0.125, 0.125])


def test_c68_workloads_may_stand_in_any_order() -> None:
    """C68: which of two workloads was built first would decide how long users wait."""
    orders = [at_ten(0.0, workloads=names) for names in (("u", "v"), ("v", "u"))]
    assert seen(orders[0]) == seen(orders[1]) == seen(at_ten(0.0))
