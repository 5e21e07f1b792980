"""Token budgets: accounts by the second, and what a client is told when one is used up."""

import pytest

from sim.router.budgets import Account
from sim.scenario.routing import Budget
from tests.router.scenarios import column, ends, run, site

OK = ("completed", 200, None)
REFUSED = ("rejected", 429, "budget_exceeded")


def account(most: int, window_s: int = 10) -> Account:
    return Account(Budget(name="b", scope="router", max_tokens=most, window_seconds=window_s))


def test_a_window_rolls_by_whole_seconds() -> None:
    """What was used at 3.9 s counts as used at 3 s: it would be kept for longer than the window,
    or leave it with the fraction of the second."""
    used = account(100)
    used.charge(60, 3.9)
    assert used.blocked_until_s(4.0) is None
    used.charge(40, 5.5)
    assert used.blocked_until_s(5.5) == 13
    assert used.blocked_until_s(12.999) == 13
    assert used.blocked_until_s(13.0) is None
    used.charge(60, 13.5)
    assert used.blocked_until_s(14.999) == 15
    assert used.blocked_until_s(15.0) is None


def test_the_oldest_use_says_when_to_come_back_even_if_that_is_not_enough() -> None:
    """A client is told what LLMKube tells it, and is refused again; the kind answer would make
    retries look better than they are."""
    used = account(100)
    used.charge(1, 2.0)
    used.charge(500, 4.0)
    assert used.blocked_until_s(6.0) == 12
    assert used.blocked_until_s(12.0) == 14
    assert used.blocked_until_s(14.0) is None


@pytest.mark.parametrize("now_s", [0.1 + 0.2 + 0.7, 0.7 + 0.2 + 0.1, sum([0.1] * 10)])
def test_a_second_that_is_a_sum_of_floats_is_that_second(now_s: float) -> None:
    """1 s would be 0.9999999999999999 s, and a budget end a second early."""
    used = account(1)
    used.charge(1, now_s)
    assert used.blocked_until_s(10.5) == 11
    assert used.blocked_until_s(10.0 + now_s) is None


def test_a_budget_is_paid_for_by_answers_that_are_complete() -> None:
    """It is post-paid: the request that exceeds it would be refused; those that run at the same
    time would be; or a prompt, or what has been refused, would not or would count."""
    budgets = [{"name": "all", "scope": "router", "maxTokens": 200, "windowSeconds": 20}]
    arrivals_s = (0, 0.5, 0.9, 1.2, 1.5, 2.0, 21.9, 22.0)
    rows = [{"arrival": arrival_s} for arrival_s in arrivals_s]
    result = run(site("a", rows=rows, router={"policy": {"budgets": budgets}}))
    # 108 tokens each, and the answers come at 1, 1.5, 2 and 2.25 s: from 1.5 s on 200 are used,
    # and at 21 s, when the first two leave the window, the other two are still too many.
    assert [each[:3] for each in ends(result)] == [OK, OK, OK, OK, REFUSED, REFUSED, REFUSED, OK]


def test_what_breaks_off_or_is_refused_is_not_charged() -> None:
    """A provider reports the usage of an answer at its end; without it nothing is charged."""
    budgets = [{"name": "all", "scope": "router", "maxTokens": 1, "windowSeconds": 20}]
    rows = [
        {"arrival": 0, "cancel": "0.6s"},
        {"arrival": 2, "promptTokens": 900_000},
        {"arrival": 4},
        {"arrival": 7},
    ]
    result = run(site("a", rows=rows, router={"policy": {"budgets": budgets}}))
    statuses = column(result.tables.requests, "http_status")
    assert statuses == [499, 400, 200, 429]


def test_budgets_of_rules_and_teams_have_accounts_of_their_own() -> None:
    """One team would pay for another, or those without a team for all."""
    rows = [{"arrival": 0, "promptTokens": 100, "outputTokens": 8}]
    again = [*rows, {"arrival": 5, "promptTokens": 100, "outputTokens": 8}]
    scenario = site(
        "a",
        router={
            "rules": [
                {"name": "big", "match": {"models": ["big"]}, "backends": ["a"]},
                {"name": "rest", "backends": ["a"]},
            ],
            "policy": {
                "budgets": [
                    {"name": "teams", "scope": "team", "maxTokens": 100, "headerKey": "X-Team"},
                    {"name": "big", "scope": "rule", "ruleName": "big", "maxTokens": 100},
                ]
            },
        },
    )
    scenario["workloads"] = {
        "red": {"kind": "script", "rows": again, "headers": {"x-team": "red"}},
        "blue": {"kind": "script", "rows": rows, "headers": {"x-team": "blue"}},
        "nobody": {"kind": "script", "rows": again},
        "big": {"kind": "script", "rows": again, "model": "big"},
    }
    requests = run(scenario).tables.requests
    told = sorted(column(requests, "workload", "arrival_s", "http_status"))
    assert told == [
        ("big", 0, 200),
        ("big", 5, 429),
        ("blue", 0, 200),
        ("nobody", 0, 200),
        ("nobody", 5, 200),
        ("red", 0, 200),
        ("red", 5, 429),
    ]


def test_clients_come_back_when_the_window_has_rolled() -> None:
    """Retry-After would be less than a second, or not be what the client waits for."""
    budgets = [{"name": "all", "scope": "router", "maxTokens": 100, "windowSeconds": 5}]
    result = run(
        site(
            "a",
            rows=[{"arrival": 0}, {"arrival": 2.5}, {"arrival": 5.9}],
            router={"policy": {"budgets": budgets}},
            clients={"retry": {"on": [429], "backoff": {"initial": "0.1s"}}},
        )
    )
    retries = column(result.tables.retries, "request_id", "try", "end_s", "retry_after_s", "reason")
    # The first answer, at 1 s, leaves the window at 6 s: 3.5 s and 0.1 s later, in whole seconds.
    assert retries == [
        (1, 1, 2.5, 4.0, "budget_exceeded"),
        (2, 1, 5.9, 1.0, "budget_exceeded"),
    ]
    assert [end[:1] + end[3:] for end in ends(result)] == [
        ("completed", 1.0),
        ("completed", 7.5),
        ("completed", 8.0),
    ]


def test_a_restarted_proxy_has_forgotten_what_was_used() -> None:
    """Budgets are counted in the memory of the proxy."""
    budgets = [{"name": "all", "scope": "router", "maxTokens": 100}]
    rows = [{"arrival": 0}, {"arrival": 3}, {"arrival": 6}]
    result = run(
        site(
            "a",
            rows=rows,
            router={"policy": {"budgets": budgets}},
            events=[{"kind": "proxy-restart", "at": 5}],
        )
    )
    assert column(result.tables.requests, "http_status") == [200, 429, 200]


def test_a_restarted_proxy_does_not_charge_what_the_one_before_has_sent() -> None:
    """An answer that ends after the restart would use up a budget that has begun anew: the new
    proxy knows nothing of that request."""
    budgets = [{"name": "all", "scope": "router", "maxTokens": 100}]
    result = run(
        site(
            "a",
            rows=[{"arrival": 4.5}, {"arrival": 8}],
            router={"policy": {"budgets": budgets}},
            events=[{"kind": "proxy-restart", "at": 5}],
        )
    )
    assert column(result.tables.requests, "http_status") == [200, 200]


def test_a_rule_called_default_is_not_the_default_route() -> None:
    """Requests that no rule takes would count for a rule that somebody has called ``default``: in
    its figures, and against its budget."""
    scenario = site(
        "a",
        "b",
        rows=[{"arrival": 0, "model": "m"}, {"arrival": 3, "model": "n"}],
        router={
            "rules": [{"name": "default", "match": {"models": ["m"]}, "backends": ["a"]}],
            "defaultRoute": "b",
            "policy": {
                "budgets": [
                    {"name": "m", "scope": "rule", "ruleName": "default", "maxTokens": 1},
                ]
            },
        },
    )
    result = run(scenario)
    assert column(result.tables.requests, "http_status") == [200, 200]
    assert column(result.tables.requests, "rule") == ["default", "(default)"]
    assert result.summary["rules"]["default"]["requests"] == 1
