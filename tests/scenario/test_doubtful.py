"""Warnings about what can be simulated and is hardly meant."""

from collections.abc import Callable
from typing import Any

import pytest

from sim.scenario.load import ScenarioSet

Loaded = Callable[..., ScenarioSet]

DESK = """\
name: desk
engines:
  small: {kvBlocks: 100, stepTime: {a: 10}}
backends:
  assistant: {engine: small}
  coder: {engine: small, capabilities: [tools]}
pools:
  desk:
    members:
      assistant: {load: 8s, unload: 1s}
      coder: {load: 38.6s, unload: 2s}
    swapBudget: 60s
router:
  rules:
    - {name: chat, match: {models: ["assistant", "chat-*"]}, backends: [assistant]}
    - {name: code, match: {models: [coder], headers: {x-team: a}}, backends: [coder]}
workloads:
  load:
    kind: script
    model: assistant
    rows: [{arrival: 0s, promptTokens: 9, outputTokens: 9}]
"""

LATE = "it can never be loaded for a request"


def warnings(loaded: Loaded, old: str = "", new: str = "") -> list[str]:
    """Of the desk with ``new`` in the place of ``old``, without the name of the file."""
    assert old in DESK
    return [each.removeprefix("f.yaml:") for each in loaded(DESK.replace(old, new, 1)).warnings]


def test_nothing_is_doubted_that_works(loaded: Loaded) -> None:
    """Each right scenario would begin with lines that nobody reads any more."""
    assert warnings(loaded) == []


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (
            "20s",
            [f"12:17: pools.desk.swapBudget: 20 s is shorter than coder's load of 38.6 s: {LATE}"],
        ),
        (
            "39.5s",
            [
                "12:17: pools.desk.swapBudget: 39.5 s is shorter than 1 s to unload assistant and "
                "38.6 s to load coder: such a swap always fails"
            ],
        ),
        ("39.6s", []),
        ("null", []),
    ],
)
def test_a_budget_below_any_swap_is_doubted(loaded: Loaded, budget: str, said: list[str]) -> None:
    """All requests for a model got 503 in a run that nothing was said to be wrong with."""
    assert warnings(loaded, "swapBudget: 60s", f"swapBudget: {budget}") == said


def test_without_a_budget_the_bound_of_swaps_is_named(loaded: Loaded) -> None:
    """A member that takes five minutes would never be loaded, and no key says why."""
    (said,) = warnings(
        loaded, "38.6s, unload: 2s}\n    swapBudget: 60s", "5m}\n    swapBudget: null"
    )
    assert f"240 s without one is shorter than coder's load of 300 s: {LATE}" in said


def test_a_doubt_names_the_variants_that_it_is_about(loaded: Loaded) -> None:
    """The reader of a file of ten variants would look for the fault in all of them."""
    text = f"{DESK}variants: {{short: {{pools.desk.swapBudget: 20s}}, long: {{}}}}\n"
    (said,) = loaded(text).warnings
    assert said.endswith(f"{LATE} (variant short)")


NO_ROUTE = "they get 503 no_route"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "model: assistant",
            "model: asistant",
            f"20:12: workloads.load.model: no rule takes requests for 'asistant': {NO_ROUTE}; "
            "did you mean 'assistant'?",
        ),
        (
            "model: assistant",
            "model: llama",
            f"20:12: workloads.load.model: no rule takes requests for 'llama': {NO_ROUTE}; rules "
            "are for assistant, coder",
        ),
        (
            "    model: assistant\n",
            "",
            f"19:5: workloads.load: no rule takes requests that name no model: {NO_ROUTE}; give "
            "model, such as assistant",
        ),
        (
            "model: assistant",
            "model: coder",
            f"20:12: workloads.load.model: no rule takes requests for 'coder': {NO_ROUTE}; rules "
            "that would take the model want other headers or capabilities",
        ),
        (
            '["assistant", "chat-*"]',
            "[assistant], requiredCapabilities: [vision]",
            f"20:12: workloads.load.model: no rule takes requests for 'assistant': {NO_ROUTE}; "
            "rules that would take the model want other headers or capabilities",
        ),
        (
            "model: assistant",
            "model: assistant\n    fallbackModels: [coder]",
            "21:21: workloads.load.fallbackModels: no rule takes requests for 'coder': "
            f"{NO_ROUTE}; rules that would take the model want other headers or capabilities",
        ),
        (
            "outputTokens: 9}",
            "outputTokens: 9, model: asistant}",
            f"19:5: workloads.load: no rule takes requests for 'asistant': {NO_ROUTE}; did you "
            "mean 'assistant'?",
        ),
    ],
)
def test_requests_that_no_rule_takes_are_doubted(
    loaded: Loaded, old: str, new: str, said: str
) -> None:
    """A slip in the name of a model was a run in which everything is answered 503."""
    assert warnings(loaded, old, new) == [said]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("model: assistant", "model: chat-large"),
        ("model: assistant", "model: coder\n    headers: {X-Team: a}"),
        ("    model: assistant\n", "    direct: assistant\n"),
        ("outputTokens: 9}]", "outputTokens: 9, model: chat-2}]\n    headers: {a: b}"),
        ("workloads:", "  defaultRoute: coder\nworkloads:"),
    ],
)
def test_requests_that_are_served_are_not_doubted(loaded: Loaded, old: str, new: str) -> None:
    """Globs, headers in capitals, direct traffic, rows or a default route would be forgotten."""
    assert warnings(loaded, old, new) == []


def test_a_backend_named_by_the_request_serves_it(loaded: Loaded) -> None:
    """BackendNameMatch would be warned about although it takes the request."""
    by_name = DESK.replace("workloads:", "  defaultRouteStrategy: BackendNameMatch\nworkloads:")
    assert loaded(by_name.replace("model: assistant", "model: coder")).warnings == ()
    (said,) = loaded(by_name.replace("model: assistant", "model: codr")).warnings
    assert said.endswith("did you mean 'coder'?")


def test_every_kind_of_requests_is_looked_at(loaded: Loaded) -> None:
    """Only scripted requests would be checked."""
    kinds: dict[str, Any] = {
        "requests": "arrivals: {kind: poisson, rate: 1}, promptTokens: 9, outputTokens: 9",
        "agents": "agents: 1",
    }
    for kind, keys in kinds.items():
        start = DESK.index("workloads:")
        text = (
            f"{DESK[:start]}window: {{measure: 1m}}\nworkloads: {{w: {{kind: {kind}, {keys}}}}}\n"
        )
        (said,) = loaded(text).warnings
        assert "no rule takes requests that name no model" in said, kind
