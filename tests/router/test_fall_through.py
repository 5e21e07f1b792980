"""From one backend of a rule to the next: what makes a request go on, and what it is told."""

from typing import Any

import pytest

from sim.core.errors import ScenarioError
from tests.router.scenarios import column, ends, failures, pods, run, site

OUTAGE: dict[str, Any] = {"kind": "backend-errors", "at": 0}


def test_errors_of_a_backend_lead_to_the_next_in_order() -> None:
    """The request would be answered 500, tried on a sibling of the failed pod, or skip one."""
    events = [{**OUTAGE, "backend": "a"}, {**OUTAGE, "backend": "b", "httpStatus": 503}]
    rows = [{"arrival": 1.0}]
    result = run(site("a", "b", "c", rows=rows, settings={"a": {"replicas": 3}}, events=events))
    assert ends(result) == [("completed", 200, None, 2.0)]
    assert pods(result) == [(0, "a-0"), (0, "b-0"), (0, "c-0")]
    assert failures(result) == [
        (0, "a", "backend_error", 500, 1.0, 1.0),
        (0, "b", "backend_error", 503, 1.0, 1.0),
    ]
    assert column(result.tables.requests, "rule", "backend", "pod", "attempts", "tries") == [
        ("all", "c", "c-0", 3, 1)
    ]
    assert column(result.tables.placements, "status", "http_status", "error") == [
        ("rejected", 500, "backend_error"),
        ("rejected", 503, "backend_error"),
        ("completed", 200, None),
    ]


@pytest.mark.parametrize(
    ("fail_closed", "answer"),
    [(False, (502, "all_backends_failed")), (True, (503, "fail_closed_runtime"))],
)
def test_without_another_backend_it_is_an_outage(
    fail_closed: bool, answer: tuple[int, str]
) -> None:
    """The client would see the last backend's own status; or a rule that fails closed would not
    say so, or leave its backends for the default route."""
    rule = {"name": "all", "backends": ["a", "b"], "failClosed": fail_closed}
    events = [{**OUTAGE, "backend": name} for name in ("a", "b")]
    scenario = site("a", "b", "c", rows=[{"arrival": 1.0}], events=events)
    scenario["router"] = {"rules": [rule], "defaultRoute": "c"}
    result = run(scenario)
    assert ends(result) == [("rejected", *answer, 1.0)]
    assert [backend for _, backend, *_ in failures(result)] == ["a", "b"]


@pytest.mark.parametrize("http_status", [400, 404, 429, 499])
def test_what_is_wrong_with_the_request_is_returned(http_status: int) -> None:
    """A bad request would be sent to every backend and be called an outage in the end."""
    events = [{**OUTAGE, "backend": "a", "httpStatus": http_status}]
    result = run(site("a", "b", rows=[{"arrival": 1}, {"arrival": 2}], events=events))
    assert ends(result) == [("rejected", http_status, "backend_error", at_s) for at_s in (1, 2)]
    assert pods(result) == [(0, "a-0"), (1, "a-0")]
    assert not failures(result)


def test_a_prompt_that_is_too_long_is_the_clients_fault() -> None:
    """It is the engine's own 400: other backends would get what none of them can hold."""
    result = run(site("a", "b", rows=[{"arrival": 1, "promptTokens": 900_000}]))
    assert ends(result) == [("rejected", 400, "prompt_too_long", 1.0)]
    assert not failures(result)


def test_faults_end_when_they_are_said_to() -> None:
    """A backend would be down for the rest of the run; the end is a fault, before arrivals."""
    events = [{**OUTAGE, "backend": "a", "at": 1, "for": "1s"}]
    rows = [{"arrival": at_s} for at_s in (0.5, 1.0, 1.875, 2.0)]
    scenario = site("a", rows=rows, events=events, router={"proxy": {"quarantineDuration": 0}})
    statuses = column(run(scenario).tables.requests, "http_status")
    assert statuses == [200, 502, 502, 200]


def test_errors_that_overlap_end_each_at_its_own_time() -> None:
    """The end of the first spell would end the second one, or bring back what that had replaced."""
    events = [
        {**OUTAGE, "backend": "a", "at": 1, "for": "2s"},
        {**OUTAGE, "backend": "a", "at": 2, "for": "4s", "httpStatus": 404},
        {**OUTAGE, "backend": "a", "at": 4, "for": "1s"},
    ]
    rows = [{"arrival": at_s} for at_s in (1.5, 2.5, 3.5, 4.5, 5.5, 6.5)]
    scenario = site("a", rows=rows, events=events, router={"proxy": {"quarantineDuration": 0}})
    statuses = column(run(scenario).tables.requests, "http_status")
    assert statuses == [502, 404, 404, 502, 404, 200]


def test_errors_of_pods_are_those_of_direct_traffic_too() -> None:
    """Pods that answer every request with an error would serve whoever comes past the router."""
    events = [{**OUTAGE, "backend": "a", "at": 1, "for": "1s"}]
    rows = [{"arrival": at_s} for at_s in (0.5, 1.5, 2.5)]
    scenario = site("a", rows=rows, events=events, clients={"direct": "a"})
    statuses = column(run(scenario).tables.requests, "http_status")
    assert statuses == [200, 500, 200]


def test_a_broken_connection_leads_on_only_before_the_first_token() -> None:
    """A client that has seen tokens would get a second answer behind them; one that has not would
    be told of a pod that it need not know."""
    events = [{"kind": "pod-lost", "at": 0.3, "backend": "a"}]
    rows = [{"arrival": 0.0}, {"arrival": 0.2, "outputTokens": 4}]
    result = run(site("a", "b", rows=rows, events=events))
    assert ends(result) == [
        ("failed", None, "connection_lost", 0.3),
        ("completed", 200, None, 0.8),
    ]
    assert failures(result) == [(1, "a", "connection_lost", None, 0.2, 0.3)]
    assert column(result.tables.placements, "request_id", "status", "error") == [
        (0, "failed", "connection_lost"),
        (1, "failed", "connection_lost"),
        (1, "completed", None),
    ]


def test_a_backend_without_pods_is_passed_over_without_an_attempt() -> None:
    """A dead pod would be dispatched to, and the failure look like the pod's."""
    events = [{"kind": "pod-lost", "at": 0.5, "backend": "a"}]
    result = run(site("a", "b", rows=[{"arrival": 1.0}], events=events))
    assert ends(result) == [("completed", 200, None, 2.0)]
    assert failures(result) == [(0, "a", "no_ready_pod", None, 1.0, 1.0)]
    assert pods(result) == [(0, "b-0")]
    alone = run(site("a", rows=[{"arrival": 1.0}], events=events))
    assert ends(alone) == [("rejected", 502, "all_backends_failed", 1.0)]


def test_nowhere_to_go_is_an_answer_of_its_own() -> None:
    """A model that no rule takes would be counted as an outage of some backend."""
    scenario = site("a", rows=[{"arrival": 1, "model": "x"}, {"arrival": 2, "model": "m"}])
    scenario["router"] = {"rules": [{"name": "m", "match": {"models": ["m"]}, "backends": ["a"]}]}
    result = run(scenario)
    assert [each[:3] for each in ends(result)] == [
        ("rejected", 503, "no_route"),
        ("completed", 200, None),
    ]
    assert column(result.tables.requests, "rule", "backend") == [(None, None), ("m", "a")]


def test_a_try_that_no_rule_takes_does_not_keep_the_rule_of_the_one_before() -> None:
    """A client's next model would be counted under the rule of its first."""
    scenario = site("a", rows=[{"arrival": 1}], clients={"model": "m", "fallbackModels": ["x"]})
    scenario["router"] = {"rules": [{"name": "m", "match": {"models": ["m"]}, "backends": ["a"]}]}
    scenario["events"] = [{**OUTAGE, "backend": "a"}]
    result = run(scenario)
    assert ends(result) == [("rejected", 503, "no_route", 1.0)]
    names = ("rule", "backend", "model", "tries", "attempts")
    assert column(result.tables.requests, *names) == [(None, None, "x", 2, 1)]
    assert column(result.tables.retries, "model", "http_status") == [("m", 502)]


# -- deadlines ----------------------------------------------------------------------------


def test_each_backend_has_a_deadline_of_its_own() -> None:
    """What the first backend has used up would be missing for the second; the deadline of the
    rule would not go before that of the backend; or a timeout would put the pod in quarantine."""
    rows = [{"arrival": at_s, "outputTokens": 1} for at_s in (1.0, 9.0)]
    scenario = site("a", "b", rows=rows, settings={"a": {"timeout": "2s"}, "b": {"timeout": "3s"}})
    scenario["engines"]["e"] = {"stepTime": {"a": 2500.0}, "kvBlocks": 10_000}
    assert failures(run(scenario)) == [
        (0, "a", "timeout", None, 1.0, 3.0),
        (1, "a", "timeout", None, 9.0, 11.0),
    ]
    scenario["engines"]["e"]["stepTime"]["a"] = 9000.0
    late = run(scenario)
    assert failures(late)[:2] == [
        (0, "a", "timeout", None, 1.0, 3.0),
        (0, "b", "timeout", None, 3.0, 6.0),
    ]
    assert ends(late)[0] == ("rejected", 502, "all_backends_failed", 6.0)
    scenario["router"]["rules"][0]["timeout"] = "1s"
    assert failures(run(scenario))[:2] == [
        (0, "a", "timeout", None, 1.0, 2.0),
        (0, "b", "timeout", None, 2.0, 3.0),
    ]


def test_the_general_deadline_is_two_minutes() -> None:
    """A prefill of hours would hold its client for hours; without one it must."""
    scenario = site("a", rows=[{"arrival": 1.0, "outputTokens": 1}])
    scenario["engines"]["e"]["stepTime"] = {"a": 300_000.0}
    assert ends(run(scenario)) == [("rejected", 502, "all_backends_failed", 121.0)]
    scenario["router"]["proxy"] = {"responseHeaderTimeout": None}
    assert ends(run(scenario)) == [("completed", 200, None, 301.0)]


@pytest.mark.parametrize("arrival_s", [0.0, 0.1, 0.2, 0.3, 0.7, 1.1, 2.3])
def test_a_first_token_at_the_very_deadline_is_in_time(arrival_s: float) -> None:
    """Both times are sums of floats that may differ in the last bit; step ends come first in their
    instant. A later token, or one of the next step, is not meant."""
    rows = [{"arrival": arrival_s, "promptTokens": 300}]
    scenario = site("a", rows=rows, settings={"a": {"timeout": "300ms"}})
    scenario["engines"]["e"].update(stepTime={"a": 100.0}, maxNumBatchedTokens=100)
    assert [end[:2] for end in ends(run(scenario))] == [("completed", 200)]
    scenario["backends"]["a"]["timeout"] = "299.999ms"
    assert [end[:2] for end in ends(run(scenario))] == [("rejected", 502)]


def test_only_the_first_token_has_a_deadline() -> None:
    """An answer that takes longer than the timeout would be cut off."""
    rows = [{"arrival": 0.0, "outputTokens": 800}]
    result = run(site("a", rows=rows, settings={"a": {"timeout": "200ms"}}))
    assert ends(result) == [("completed", 200, None, 100.0)]


def test_what_has_been_given_up_is_not_in_the_way() -> None:
    """The pod would go on with a prompt that nobody waits for, and the count of what is in flight
    there stay up."""
    rows = [{"arrival": 0.0, "promptTokens": 9000}, {"arrival": 5.0}]
    scenario = site("a", rows=rows, settings={"a": {"timeout": "1s"}})
    scenario["engines"]["e"].update(stepTime={"a": 250.0}, maxNumBatchedTokens=1000)
    result = run(scenario)
    assert [end[:2] for end in ends(result)] == [("rejected", 502), ("completed", 200)]
    assert ends(result)[1][3] == 7.0
    in_flight = dict(column(result.tables.pods, "time_s", "in_flight"))
    assert (in_flight[1.0], in_flight[2.0], in_flight[6.0]) == (0, 0, 1)


# -- quarantine ---------------------------------------------------------------------------


def test_a_pod_that_failed_is_avoided_for_a_while_and_then_tried_again() -> None:
    """A broken pod would get every second request; or a whole backend be avoided for one pod; or
    the pod never come back, or stay after it has failed again."""
    times_s = (1.0, 2.0, 3.0, 15.9, 16.0, 17.0, 18.0, 31.0, 32.0)
    events = [
        {"kind": "backend-errors", "at": 0.5, "for": "1s", "backend": "a"},
        {"kind": "backend-errors", "at": 15.95, "for": "0.1s", "backend": "a"},
    ]
    scenario = site(
        "a",
        "b",
        rows=[{"arrival": at_s, "outputTokens": 1} for at_s in times_s],
        settings={"a": {"replicas": 2}},
        events=events,
    )
    # Round robin: a-0 fails at 1 s; at 16 s it is due again, since a-1 had the last one.
    placed = pods(run(scenario))
    assert placed == [
        (0, "a-0"),
        (0, "b-0"),
        (1, "a-1"),
        (2, "a-1"),
        (3, "a-1"),
        (4, "a-0"),
        (4, "b-0"),
        (5, "a-1"),
        (6, "a-1"),
        (7, "a-0"),
        (8, "a-1"),
    ]


def test_a_timeout_is_no_reason_for_quarantine() -> None:
    """A busy pod would be taken for a broken one and its load fall on the others."""
    rows = [{"arrival": 0, "outputTokens": 1}, {"arrival": 1, "outputTokens": 1}]
    scenario = site("a", rows=rows, settings={"a": {"replicas": 2, "timeout": "0.1s"}})
    scenario["backends"]["a"]["policy"] = {"kind": "least-loaded", "ties": "first-index"}
    assert pods(run(scenario)) == [(0, "a-0"), (1, "a-0")]


def test_when_all_are_in_quarantine_it_does_not_count() -> None:
    """A short fault of all pods would become an outage of 15 s."""
    events = [{"kind": "backend-errors", "at": 0, "for": "1.5s", "backend": "a"}]
    rows = [{"arrival": at_s, "outputTokens": 1} for at_s in (0.5, 1.0, 2.0, 3.0)]
    result = run(site("a", rows=rows, settings={"a": {"replicas": 2}}, events=events))
    assert column(result.tables.requests, "http_status") == [502, 502, 200, 200]
    assert sorted(pod for _, pod in pods(result)) == ["a-0", "a-0", "a-1", "a-1"]


def test_the_time_of_a_quarantine_is_a_setting() -> None:
    """0 would be no quarantine, and is not 15 s."""
    events = [{"kind": "backend-errors", "at": 0, "for": "1.5s", "backend": "a"}]
    rows = [{"arrival": at_s, "outputTokens": 1} for at_s in (1.0, 2.0, 3.0)]

    def placed(**proxy: Any) -> list[str]:
        settings = {"a": {"replicas": 2}}
        scenario = site("a", rows=rows, settings=settings, events=events, router={"proxy": proxy})
        return [pod for _, pod in pods(run(scenario))]

    assert placed(quarantineDuration=0) == ["a-0", "a-1", "a-0"]
    assert placed(quarantineDuration="1s") == ["a-0", "a-1", "a-0"]
    assert placed(quarantineDuration="1.5s") == ["a-0", "a-1", "a-0"]
    assert placed(quarantineDuration="2.5s") == ["a-0", "a-1", "a-1"]


LOSES_A_POD: list[dict[str, Any]] = [{"kind": "pod-lost", "at": 5, "backend": "a", "replica": 0}]
PAIR: dict[str, Any] = {"a": {"replicas": 2}}


@pytest.mark.parametrize("how", ["named twice", "by key"])
def test_another_pod_of_the_backend_is_tried(how: str) -> None:
    """vllm-project/production-stack#382: a request whose pod broke before the first token would be
    answered 502 beside an idle pod; a backend named twice was refused as failing twice."""
    rows = [{"arrival": 4.95}, {"arrival": 4.96}]
    scenario = site("a", rows=rows, settings=PAIR, events=LOSES_A_POD)
    if how == "named twice":
        scenario["router"]["rules"] = [{"name": "all", "backends": ["a", "a"]}]
    else:
        scenario["router"]["proxy"] = {"maxInstanceFailoverRerouteAttempts": 1}
    result = run(scenario)
    assert [end[:3] for end in ends(result)] == [("completed", 200, None)] * 2
    assert pods(result) == [(0, "a-0"), (1, "a-1"), (0, "a-1")]
    assert failures(result) == [(0, "a", "connection_lost", None, 4.95, 5.0)]
    assert result.summary["placements"]["total"] == 3
    assert not result.warnings


def test_no_other_pod_is_tried_where_nobody_says_so() -> None:
    """As LLMKube's router, which goes on to the next backend of the rule, and vLLM's production
    stack, whose max-instance-failover-reroute-attempts is 0 by default."""
    result = run(site("a", rows=[{"arrival": 4.95}], settings=PAIR, events=LOSES_A_POD))
    assert ends(result) == [("rejected", 502, "all_backends_failed", 5.0)]


def test_no_pod_is_tried_twice() -> None:
    """With the quarantine off, or ignored since all are in it, a request would fail on a pod that
    has just failed it, or be counted as failed where there was nobody left to ask."""
    events = [{**OUTAGE, "backend": "a"}]
    router = {"proxy": {"quarantineDuration": 0, "maxInstanceFailoverRerouteAttempts": 7}}
    rows = [{"arrival": 1.0}]
    settings: dict[str, Any] = {"a": {"replicas": 3}}
    result = run(site("a", "b", rows=rows, settings=settings, events=events, router=router))
    assert pods(result) == [(0, "a-0"), (0, "a-1"), (0, "a-2"), (0, "b-0")]
    assert [error for _, _, error, *_ in failures(result)] == ["backend_error"] * 3
    assert ends(result) == [("completed", 200, None, 2.0)]


def test_a_backend_named_again_at_the_end_is_tried_on_its_other_pod() -> None:
    """``[a, b, a]`` would go back to the pod that failed, which no quarantine keeps away here."""
    policy = {"kind": "least-loaded", "ties": "first-index"}
    scenario = site(
        "a",
        "b",
        rows=[{"arrival": 4.95}],
        settings={"a": {"replicas": 2, "policy": policy}},
        events=[{**LOSES_A_POD[0], "for": "0.01s"}, {**OUTAGE, "backend": "b"}],
        router={"proxy": {"quarantineDuration": 0}},
    )
    scenario["router"]["rules"] = [{"name": "all", "backends": ["a", "b", "a"]}]
    result = run(scenario)
    assert pods(result) == [(0, "a-0"), (0, "b-0"), (0, "a-1")]
    assert [end[:2] for end in ends(result)] == [("completed", 200)]


def test_after_a_token_nothing_is_tried_again() -> None:
    """The client would get the beginning of an answer twice."""
    router = {"proxy": {"maxInstanceFailoverRerouteAttempts": 1}}
    rows = [{"arrival": 4.0, "outputTokens": 80}]
    result = run(site("a", rows=rows, settings=PAIR, events=LOSES_A_POD, router=router))
    assert [end[:3] for end in ends(result)] == [("failed", None, "connection_lost")]
    assert pods(result) == [(0, "a-0")]


def test_a_timeout_is_retried_on_another_pod() -> None:
    """No quarantine follows a timeout, so the policy would choose the slow pod again."""
    router = {"proxy": {"maxInstanceFailoverRerouteAttempts": 1, "responseHeaderTimeout": "1s"}}
    policy = {"kind": "least-loaded", "ties": "first-index"}
    settings = {"a": {"replicas": 2, "policy": policy}}
    engines = {"e": {"stepTime": {"a": 125.0, "b": 10_000.0}, "kvBlocks": 10_000}}
    rows = [{"arrival": 0.0, "promptTokens": 300}]
    result = run(site("a", rows=rows, settings=settings, router=router, engines=engines))
    assert pods(result) == [(0, "a-0"), (0, "a-1")]
    assert [error for _, _, error, *_ in failures(result)] == ["timeout", "timeout"]


@pytest.mark.parametrize(
    ("backends", "pooled", "said"),
    [
        (["a", "a"], False, "names 'a' twice, which has one pod: it would fail twice"),
        (["b", "b", "b"], False, "names 'b' 3 times, which has 2 pods to try"),
        (["a", "a"], True, "names 'a' twice, which has one pod: it would fail twice"),
    ],
)
def test_a_backend_without_another_pod_is_named_once(
    backends: list[str], pooled: bool, said: str
) -> None:
    """The last time would do nothing, without a word."""
    scenario = site("a", "b", rows=[{"arrival": 0}], settings={"b": {"replicas": 2}})
    scenario["router"]["rules"][0]["backends"] = backends
    if pooled:
        scenario["pools"] = {"p": {"members": {"a": {"load": "1s"}}}}
    with pytest.raises(ScenarioError) as refused:
        run(scenario)
    assert said in str(refused.value)
