"""How a run ends: with its window, with its workload, or with a complaint."""

from typing import Any

import pytest

import sim
from sim.core.errors import InvariantError, ScenarioError
from sim.engine.pod import Pod
from tests.cluster.scenarios import ask, fleet, pooled

ROWS = [{"arrival": 0.0, "promptTokens": 1000, "outputTokens": 11}] * 4


def script(rows: list[dict[str, Any]], **window: Any) -> dict[str, Any]:
    scenario = fleet({"kind": "script", "rows": rows}, {"kind": "round-robin"}, window=window)
    scenario["router"]["proxy"] = {"responseHeaderTimeout": None}
    return scenario


def test_a_finite_workload_is_run_to_its_end() -> None:
    """Without a window every request counts, and the clock stops with the last of them."""
    run = sim.run(script(ROWS), check=True).runs[0]
    assert run.summary["requests_completed"] == 4
    assert run.facts.end_s == pytest.approx(run.requests.end_s.max())


def test_the_window_cuts_what_is_in_flight() -> None:
    """C75, half-open horizon: what has not ended is counted as censored, not dropped."""
    run = sim.run(script(ROWS, measure="150ms"), check=True).runs[0]
    assert run.facts.end_s == 0.15
    assert run.summary["requests"] == 4
    assert run.summary["requests_censored"] == 4
    assert run.summary["e2e_s"]["p50"] is None
    assert run.summary["ttft_s"]["p50"] == pytest.approx(0.11)


def test_draining_lets_the_windows_requests_finish() -> None:
    """A drained window has no censored request, though the clock runs past its end."""
    late = [*ROWS, {"arrival": 0.2, "promptTokens": 1000, "outputTokens": 11}]
    run = sim.run(script(late, measure="150ms", drain=True), check=True).runs[0]
    assert run.summary["requests"] == run.summary["requests_completed"] == 4
    assert run.facts.end_s > 0.2
    assert len(run.requests) == 5


def test_a_lost_request_is_an_error_and_not_a_quiet_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pod that forgets a request would leave the polls running for ever (cf. C31)."""
    monkeypatch.setattr(Pod, "submit", lambda self, attempt: None)
    with pytest.raises(InvariantError, match=r"nothing is left to happen.*4 requests"):
        sim.run(script(ROWS))


def test_a_lost_request_does_not_hang_a_pool_that_looks_for_idle_members(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The samples of reclaim would pass for something that is still to happen, for ever."""
    monkeypatch.setattr(Pod, "submit", lambda self, attempt: None)
    scenario = pooled({"a": 1, "b": 1}, ask("a", 0.0), swapPolicy="reclaim", default="a")
    scenario["pools"]["desk"]["reclaimPoll"] = 30
    scenario["router"]["proxy"] = {"responseHeaderTimeout": None}
    with pytest.raises(InvariantError, match=r"nothing is left to happen.*1 requests"):
        sim.run(scenario)


@pytest.mark.parametrize(("warmup_s", "tokens"), [(0.0, 3), (1.0, 1)])
def test_flow_figures_are_those_of_a_half_open_window(warmup_s: float, tokens: int) -> None:
    """Tokens at 0.25, 0.5, 0.75 and 1.0 s: the last one belongs to the window that begins there.

    Counted at the end of its instant, a border would give it to both windows or to none.
    """
    rows = [{"arrival": 0.0, "promptTokens": 10, "outputTokens": 4}]
    scenario = script(rows, warmup=warmup_s, measure=1.0)
    scenario["engines"]["e"]["stepTime"] = {"a": 250.0}
    summary = sim.run(scenario, check=True).runs[0].summary
    assert summary["output_tokens_per_s"] == tokens


def test_a_lost_request_does_not_hang_a_drained_window(monkeypatch: pytest.MonkeyPatch) -> None:
    """Draining waits for what arrived in the window, and must not wait for ever."""
    monkeypatch.setattr(Pod, "submit", lambda self, attempt: None)
    with pytest.raises(InvariantError, match=r"nothing is left to happen.*4 requests"):
        sim.run(script(ROWS, measure="1s", drain=True))


def test_a_lost_request_does_not_hang_a_run_to_the_end_of_its_workload(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without ``measure`` a run goes on until its workload has finished, and this never does."""
    monkeypatch.setattr(Pod, "submit", lambda self, attempt: None)
    with pytest.raises(InvariantError, match=r"nothing is left to happen.*4 requests"):
        sim.run(script(ROWS))


def test_a_run_without_a_window_cannot_stop_short_of_its_last_answer() -> None:
    """drain: false was taken without measure, and the run went to its end all the same."""
    with pytest.raises(ScenarioError, match="false means nothing without measure"):
        sim.run(script(ROWS, drain=False))


@pytest.mark.parametrize("engine", [{}, {"asyncScheduling": True}])
@pytest.mark.parametrize("leaves", [{"cancel": "50ms"}, {"cancel": "52ms"}, {"cancel": "60ms"}])
def test_a_run_may_end_with_a_client_that_leaves_at_the_end_of_a_step(
    engine: dict[str, Any], leaves: dict[str, Any]
) -> None:
    """The pod would not count the token of the step that ends as the last client leaves, its
    request would, and the run be refused as broken: a run that stops is not a horizon."""
    rows = [{"arrival": 0.0, "promptTokens": 16, "outputTokens": 100, **leaves}]
    scenario = script(rows)
    scenario["engines"]["e"] |= {"stepTime": {"a": 10.0}, **engine}
    run = sim.run(scenario, check=True).runs[0]
    assert run.requests.output_tokens.sum() == run.facts.closed[0].emitted_tokens >= 5
