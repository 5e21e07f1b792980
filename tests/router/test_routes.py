"""Which rule takes a request, and how long its backends may take."""

import json
from math import inf
from types import SimpleNamespace
from typing import Any

import pytest

from sim.core.content import Node, Prompt
from sim.core.request import Request
from sim.router.routes import Routes
from sim.scenario.reachability import fits
from sim.scenario.routing import Router
from sim.scenario.schema import Backend


def routes(*rules: dict[str, Any], backends: dict[str, Any] | None = None, **router: Any) -> Routes:
    """Rules over the backends a, b and c."""
    named = [
        {"name": f"rule-{number}", "backends": ["a"], **rule} for number, rule in enumerate(rules)
    ]
    settings = {name: (backends or {}).get(name, {}) for name in "abc"}
    built = {
        name: Backend.model_construct(**{"capabilities": (), "timeout": None, **each})
        for name, each in settings.items()
    }
    upstreams: Any = {name: SimpleNamespace(name=name, pods=[name]) for name in "abc"}
    spec = Router.model_validate_json(json.dumps({"rules": named, "defaultRoute": "c", **router}))
    return Routes(spec, built, upstreams)


def request(model: str = "", **headers: str) -> Request:
    node = Node()
    written = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Request("s", "", 1, None, Prompt(node, 10), node, 1, model=model, headers=written)


def taken(routes: Routes, model: str = "", **headers: str) -> str | None:
    """The name of the rule that takes such a request."""
    route = routes.of(request(model, **headers))
    return route and route.name


@pytest.mark.parametrize(
    ("match", "fitting", "others"),
    [
        ({"models": ["qwen*", "gpt-?"]}, [{"model": "qwen3"}, {"model": "gpt-5"}], [
            {"model": "gpt-55"}, {"model": "my-qwen"}, {"model": "Qwen3"}, {}]),
        ({"headers": {"X-Team": "a"}}, [{"x_team": "a"}, {"X_TEAM": "a", "other": "b"}], [
            {"x_team": "A"}, {"x_team": "ab"}, {"other": "a"}, {}]),
        ({"headers": {"x-team": "a", "x-user": "u"}}, [{"x_user": "u", "x_team": "a"}], [
            {"x_team": "a"}, {"x_user": "u"}]),
        ({"dataClassification": ["pii", "phi"]}, [
            {"x_llmkube_classification": "phi"}, {"X_LLMKube_Classification": "PII"}], [
            {"x_llmkube_classification": "public"}, {}]),
        ({"taskComplexity": "simple"}, [
            {"x_llmkube_task_complexity": "simple"}, {"x_llmkube_task_complexity": "Simple"}], [
            {"x_llmkube_task_complexity": "complex"}, {}]),
        ({"models": ["m"], "headers": {"x-team": "a"}}, [{"model": "m", "x_team": "a"}], [
            {"model": "m"}, {"x_team": "a"}, {"model": "n", "x_team": "a"}]),
        ({}, [{}, {"model": "m"}, {"x_team": "a"}], []),
    ],
)  # fmt: skip
def test_all_that_a_match_says_must_hold(
    match: dict[str, Any], fitting: list[dict[str, str]], others: list[dict[str, str]]
) -> None:
    """Fields would be alternatives, names of headers depend on capitals, or their values not."""
    rules = routes({"match": match})
    assert {taken(rules, **each) for each in fitting} == {"rule-0"}
    assert {taken(rules, **each) for each in others} <= {"(default)"}


@pytest.mark.parametrize(
    ("model", "glob", "fitting"),
    [
        ("qwen3", "*", True),
        ("", "*", True),
        ("", "qwen*", False),
        ("qwen/qwen3", "*", False),
        ("qwen/qwen3", "qwen*", False),
        ("qwen/qwen3", "qwen/*", True),
        ("qwen3", "qwen[0-9]", True),
        ("qwen3", "qwen[^0-9]", False),
        ("qwenx", "qwen[^0-9]", True),
    ],
)
def test_globs_are_those_of_the_router(model: str, glob: str, fitting: bool) -> None:
    """A rule for * would take models with a slash in their name here, and not in the cluster."""
    assert fits(model, glob) is fitting


def test_the_first_rule_that_matches_counts() -> None:
    """The most special rule would win, or the last."""
    rules = routes({}, {"match": {"models": ["m"]}, "backends": ["b"]})
    assert taken(rules, "m") == "rule-0"
    rules = routes({"match": {"models": ["m"]}, "backends": ["b"]}, {})
    assert (taken(rules, "m"), taken(rules, "n")) == ("rule-0", "rule-1")


def test_one_backend_with_the_capabilities_is_enough() -> None:
    """A rule would match without a backend that can do it, or leave out its other backends."""
    wanted = {"match": {"requiredCapabilities": ["tools", "vision"]}, "backends": ["a", "b"]}
    able = {"b": {"capabilities": ("vision", "chat", "tools")}}
    rule = routes(wanted, backends=able).of(request())
    assert rule is not None
    assert [target.upstream.name for target in rule.targets] == ["a", "b"]
    halves = {"a": {"capabilities": ("tools",)}, "b": {"capabilities": ("vision",)}}
    assert taken(routes(wanted, backends=halves)) == "(default)"


def test_what_no_rule_takes_goes_to_the_default_route() -> None:
    """It would be refused, or go to the first backend."""
    rules = routes({"match": {"models": ["m"]}})
    route = rules.of(request("b"))
    assert route is not None
    assert [target.upstream.name for target in route.targets] == ["c"]
    assert not route.if_idle
    assert not route.fail_closed
    assert taken(routes({"match": {"models": ["m"]}}, defaultRoute=None), "b") is None


def test_the_default_may_be_the_backend_of_that_name() -> None:
    """BackendNameMatch: a model that is no backend would find nothing, or rules would not come
    first."""
    rules = routes(
        {"match": {"models": ["a"]}, "backends": ["b"]}, defaultRouteStrategy="BackendNameMatch"
    )
    named = {model: rules.of(request(model)) for model in ("a", "b", "unknown", "")}
    assert {
        model: route and [target.upstream.name for target in route.targets]
        for model, route in named.items()
    } == {"a": ["b"], "b": ["b"], "unknown": ["c"], "": ["c"]}
    nowhere = routes(
        {"match": {"models": ["m"]}}, defaultRoute=None, defaultRouteStrategy="BackendNameMatch"
    )
    assert (taken(nowhere, "b"), taken(nowhere, "x")) == ("(default)", None)


def test_equal_models_with_other_headers_are_told_apart() -> None:
    """What is remembered of one request would be taken for another's."""
    rules = routes({"match": {"headers": {"x-team": "a"}}})
    assert taken(rules, "m", x_team="a") == "rule-0"
    assert taken(rules, "m", x_team="b") == "(default)"
    assert taken(rules, "m") == "(default)"
    assert taken(rules, "m", x_team="a") == "rule-0"


def test_a_deadline_is_the_rules_else_the_backends_else_the_proxys() -> None:
    """A fast rule would wait for as long as the slowest backend may take."""
    slow = {"b": {"timeout": 60.0}}

    def timeouts_s(built: Routes) -> list[float]:
        route = built.of(request())
        assert route is not None
        return [target.timeout_s for target in route.targets]

    rule = {"backends": ["a", "b"]}
    assert timeouts_s(routes(rule, backends=slow)) == [120.0, 60.0]
    assert timeouts_s(routes({**rule, "timeout": "30s"}, backends=slow)) == [30.0, 30.0]
    assert timeouts_s(routes(rule, proxy={"responseHeaderTimeout": 5})) == [5.0, 5.0]
    assert timeouts_s(routes(rule, backends=slow, proxy={"responseHeaderTimeout": None})) == [
        inf,
        60,
    ]
    nobody = routes({"match": {"models": ["x"]}}, backends={"c": {"timeout": 7.0}})
    assert timeouts_s(nobody) == [7.0]
