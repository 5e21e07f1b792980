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
  team:
    kind: script
    model: coder
    headers: {x-team: a}
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
            f"{DESK[:start]}window: {{measure: 1m}}\nworkloads: {{w: {{kind: {kind}, {keys}, "
            "headers: {x-team: a}}}\n"
        )
        (said,) = loaded(text).warnings
        assert "no rule takes requests that name no model" in said, kind


FLEET = """\
name: fleet
engines: {e: {kvBlocks: 100, stepTime: {a: 10}}}
backends: {m: {engine: e, replicas: 2, policy: {kind: session-table, headers: [x-chat]}}}
router: {rules: [{name: all, backends: [m]}]}
window: {measure: 1m}
workloads:
  w: {kind: script, rows: [{session: a, arrival: 0s, promptTokens: 9, outputTokens: 9}]}
"""
KEYLESS = (
    "7:6: workloads.w: has no session key: session-table of backend m sends each of its requests "
    "to the least-loaded pod"
)


def doubts_of_fleet(loaded: Loaded, *changes: tuple[str, str]) -> list[str]:
    text = FLEET
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return [each.removeprefix("f.yaml:") for each in loaded(text).warnings]


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ([], []),
        ([("session: a, ", "")], [KEYLESS]),
        ([("session: a, ", ""), ("replicas: 2", "replicas: 1")], []),
        ([("session: a, ", ""), ("9}]}", "9}], headers: {X-Chat: b}}")], []),
        ([("session: a, ", ""), ("9}]}", "9}], direct: m}")], []),
        ([("session: a, ", ""), ("session-table, headers: [x-chat]", "random")], []),
    ],
)
def test_requests_without_a_session_key_are_doubted_where_one_is_looked_for(
    loaded: Loaded, changes: list[tuple[str, str]], said: list[str]
) -> None:
    """vllm-project/aibrix#842 retold: a hash ring without keys was plain least load, and its
    figures stood under the ring's name."""
    assert doubts_of_fleet(loaded, *changes) == said


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "[{name: all,",
            "[{name: a, match: {headers: {x-team: a}}, backends: [m]}, {name: all,",
            "4:17: router.rules: one rule takes nothing, for no workload sends the headers wanted: "
            "a",
        ),
        (
            "[{name: all, backends: [m]}]",
            "[{name: all, backends: [m]}], policy: {budgets: [{name: b, scope: team, "
            "maxTokens: 9}]}",
            "4:66: router.policy.budgets.0: budget b caps nobody: no workload sends the header "
            "x-llmkube-team",
        ),
        (
            "backends: [m]}",
            "backends: [m], poolActivation: IfIdle}",
            "4:61: router.rules.0.poolActivation: changes nothing: none of the rule's backends is "
            "a member of a pool",
        ),
        (
            "9}]}",
            "9}], numCtx: 4096}",
            "7:98: workloads.w.numCtx: changes nothing: there is no pool of kind ollama",
        ),
        (
            "9}]}",
            "9}], priority: 2}",
            "7:100: workloads.w.priority: changes nothing: no engine has schedulingPolicy: "
            "priority",
        ),
        (
            "9}]}",
            "9}], retry: {on: [504, 500]}}",
            "7:102: workloads.w.retry.on: no try is repeated: the router never answers 504, 500; "
            "502 or 503 it does",
        ),
        (
            "window: {measure: 1m}",
            "window: {measure: 1m}\nevents: [{kind: pod-lost, at: 60s, backend: m}]",
            "6:31: events.0.at: comes after the end of the window at 60 s",
        ),
    ],
)
def test_what_changes_nothing_is_doubted(loaded: Loaded, old: str, new: str, said: str) -> None:
    """A run was read as one with an outage, with priorities, with a cap, and had none of it."""
    assert doubts_of_fleet(loaded, (old, new)) == [said]


def test_a_failover_to_pods_that_are_not_there_is_doubted(loaded: Loaded) -> None:
    """vllm-project/production-stack#382 retold with one pod: the key stood there, and whoever
    compared it with its absence read "identical" as "failover does not help"."""
    rules = "[{name: all, backends: [m]}]"
    wanted = (rules, f"{rules}, proxy: {{maxInstanceFailoverRerouteAttempts: 2}}")
    assert doubts_of_fleet(loaded, wanted) == []
    (said,) = doubts_of_fleet(loaded, wanted, ("replicas: 2", "replicas: 1"))
    assert said.endswith("Attempts: changes nothing: no backend has another pod")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("9}]}", "9}], retry: {on: [504, 503]}}"),
        ("9}]}", "9}], retry: {on: [504], onConnectionError: true}}"),
        ("9}]}", "9}], retry: {on: [500]}, direct: m}"),
        ("a: 10}}", "a: 10}, schedulingPolicy: priority}"),
        ("measure: 1m", "measure: 1m, drain: true"),
    ],
)
def test_what_may_change_something_is_not(loaded: Loaded, old: str, new: str) -> None:
    """Only what is certain is worth a line."""
    late = ("}\nworkloads", "}\nevents: [{kind: pod-lost, at: 60s, backend: m}]\nworkloads")
    urgent = ("9}]", "9}], priority: 2")
    more = {"drain": [late], "scheduling": [urgent]}
    changes = [(old, new), *(each for word in more if word in new for each in more[word])]
    assert doubts_of_fleet(loaded, *changes) == []


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        ("kvBlocks: 100, maxModelLen: 1616", None),
        (
            "kvBlocks: 100, maxModelLen: 1617",
            "vLLM would not start: a sequence of 1,617 tokens takes 102 KV blocks and a pod has "
            "100; 1,600 tokens fit",
        ),
        (
            "model: qwen3-8b, gpu: h100, maxModelLen: 2M",
            "tokens fit; that is podsim's estimate, and vLLM's logs have had up to 60 % more: give "
            "kvBlocks as logged",
        ),
    ],
)
def test_a_model_limit_beyond_the_cache_is_doubted(
    loaded: Loaded, engine: str, said: str | None
) -> None:
    """vllm-project/vllm#2418, #5976 and #11391: vLLM ends at its start then; here everything ran.
    Its own sum counts the null block, so that a block more than can be held still starts."""
    found = doubts_of_fleet(loaded, ("kvBlocks: 100", engine))
    assert len(found) == (said is not None)
    assert all(each.endswith(str(said)) for each in found)


# -- numbers that something else swallows ----------------------------------------------------

WINDOW = "workloads:\n"
ROWS = "    rows: [{arrival: 0s, promptTokens: 9, outputTokens: 9}]\n  team:\n"


def said(loaded: Loaded, *changes: tuple[str, str]) -> list[str]:
    """The warnings, without places."""
    text = DESK
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return [each.split(": ", 1)[1] for each in loaded(text).warnings]


def events(*written: str) -> tuple[str, str]:
    lines = "".join(f"  - {{{each}}}\n" for each in written)
    return WINDOW, f"window: {{warmup: 1m, measure: 4m}}\nevents:\n{lines}workloads:\n"


def test_what_the_end_of_the_window_cuts_off_is_said(loaded: Loaded) -> None:
    """Events at minute 10 of a run of five, and spells that outlast it, were dropped silently."""
    found = said(
        loaded,
        events(
            "kind: proxy-restart, at: 10m",
            "kind: load-failure, at: 5m, backend: coder",
            "kind: backend-errors, at: 4m, for: 2m, backend: coder",
            "kind: probe-failure, at: 4m, for: 1m, probe: idle, backend: coder",
        ),
        (ROWS, ROWS.replace("}]\n", "}, {arrival: 5m, promptTokens: 9, outputTokens: 9}]\n")),
    )
    assert found == [
        "events.0.at: comes after the end of the window at 300 s",
        "events.1.at: comes after the end of the window at 300 s",
        "events.2.for: lasts to the end of the window at 300 s, not until 360 s",
        "workloads.load.rows: 1 of 2 come later than is measured: the window is over at 300 s",
    ]


def test_an_event_of_a_backend_that_nothing_leads_to_is_said(loaded: Loaded) -> None:
    """Its name in the event would count as a use, and nothing ever happen."""
    found = said(
        loaded,
        ("backends:\n", "backends:\n  spare: {engine: small}\n"),
        (WINDOW, "events: [{kind: pod-lost, at: 1s, backend: spare}]\nworkloads:\n"),
    )
    assert found == ["events.0.backend: nothing leads to 'spare': the event has no effect"]


REQUESTS = "    arrivals: {kind: poisson, rate: 2}\n    promptTokens: 9\n    outputTokens: 9\n"


@pytest.mark.parametrize(
    ("workload", "expected"),
    [
        (
            "kind: agents\n    agents: 4\n    ramp: 10m\n",
            ["ramp: agents begin until 600 s, but the window is over at 300 s"],
        ),
        (
            f"kind: requests\n    count: 1000\n{REQUESTS}",
            [
                "count: the last of 1,000 requests comes at about 500 s, but the window is over "
                "at 300 s"
            ],
        ),
        (f"kind: requests\n    count: 500\n{REQUESTS}", []),
        (
            f"kind: requests\n    clientTimeout: 1m\n    patience: 30s\n{REQUESTS}",
            ["clientTimeout: never runs out: patience ends before, after 30 s"],
        ),
        (
            f"kind: requests\n    priority: 5\n{REQUESTS}",
            ["priority: changes nothing: no engine has schedulingPolicy: priority"],
        ),
        (
            "kind: agents\n    agents: 4\n    maxContext: 4000\n    sharedPrefix: {tokens: 100}\n"
            "    freshShare: 1\n    freshPrompt: {uniform: {min: 3000, max: 9000}}\n",
            [
                "freshPrompt: more than half of its draws are longer than the longest prompt, "
                "4,000 tokens (maxContext), and cut to it"
            ],
        ),
        (
            "kind: agents\n    agents: 4\n    freshShare: 1\n    freshPrompt: 800\n"
            "    sharedPrefix: {tokens: 1000}\n",
            [
                "freshPrompt: more than half of its draws are shorter than sharedPrefix, "
                "1,000 tokens"
            ],
        ),
        (
            "kind: agents\n    agents: 4\n    freshShare: 1\n    atContextLimit: compact\n"
            "    compaction: {prompt: 100k, threshold: 0.5}\n    maxContext: 150k\n",
            [
                "compaction.prompt: more than half of its draws are longer than the longest "
                "prompt, 75,000 tokens, at which it is compacted again"
            ],
        ),
        (
            "kind: agents\n    agents: 4\n    think: {uniform: {min: 20s, max: 30s}}\n"
            "    thinkCap: 10s\n",
            ["thinkCap: shorter than every think: each lasts for thinkCap"],
        ),
    ],
)
def test_what_a_workload_says_in_vain_is_said(
    loaded: Loaded, workload: str, expected: list[str]
) -> None:
    """Lengths were cut to the context, and counts to the window, without a word."""
    roomy = DESK.replace("kvBlocks: 100,", "kvBlocks: 100000,")
    text = roomy[: roomy.index("workloads:")] + (
        f"window: {{warmup: 1m, measure: 4m}}\nworkloads:\n  load:\n    model: assistant\n"
        f"    {workload}"
    )
    found = [each.split(": ", 1)[1] for each in loaded(text).warnings]
    assert [each for each in found if each.startswith("workloads")] == [
        f"workloads.load.{each}" for each in expected
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (
            "swapBudget: 60s",
            "reclaimAfter: 60s",
            ["reclaimAfter: means nothing with swapPolicy sticky: nothing is reclaimed"],
        ),
        (
            "swapBudget: 60s",
            "idleProbe: always-idle\n    idleProbeInterval: 9s",
            ["idleProbeInterval: means nothing with idleProbe always-idle: nobody is asked"],
        ),
        (
            "{load: 38.6s, unload: 2s}",
            "{load: 38.6s, unload: 2s, loadLimit: 30s}",
            [
                "members.coder.loadLimit: 30 s is shorter than the load of 38.6 s, which fails "
                "every time"
            ],
        ),
        (
            "swapBudget: 60s",
            "kind: llama-swap\n    healthCheckTimeout: 30s\n    unloadTimeout: 1s",
            [
                "healthCheckTimeout: coder: 30 s is shorter than the load of 38.6 s, which fails "
                "every time",
                "unloadTimeout: 1 s is shorter than coder's unload of 2 s: it is killed",
            ],
        ),
        (
            "coder: {load: 38.6s, unload: 2s}\n    swapBudget: 60s",
            "coder: {load: 9s, loadLimit: 50s}\n    kind: llama-swap\n    healthCheckTimeout: 30s",
            ["members.coder.loadLimit: never reached: healthCheckTimeout ends a load after 30 s"],
        ),
        (
            "assistant: {load: 8s, unload: 1s}",
            "assistant: {swap: {method: vllm-sleep-2, disk: 50GB/s}}",
            [
                "members.assistant.swap.disk: weights are taken in at 6 GB/s (loader, "
                "hostToDevice, host), not faster"
            ],
        ),
        (
            "swapBudget: 60s",
            "swapBudget: 60s\n    maxWait: 60s",
            ["maxWait: never reached: swapBudget ends every hold after 60 s"],
        ),
        (
            "assistant: {load: 8s, unload: 1s}",
            "assistant: {swap: {method: vllm-sleep-1, hostToDevice: 20GB/s}}",
            [
                "swapBudget: 60 s is shorter than 53.41 s to unload assistant for the first time "
                "and 38.6 s to load coder: such a swap fails"
            ],
        ),
    ],
)
def test_what_a_pool_says_in_vain_is_said(
    loaded: Loaded, old: str, new: str, expected: list[str]
) -> None:
    """Of two limits the longer one was dropped, and times that nobody looks at were taken."""
    text = DESK.replace("small: {", "small: {weights: 100GB, ")
    assert text.count(old) == 1
    found = [each.split(": ", 1)[1] for each in loaded(text.replace(old, new)).warnings]
    assert found == [f"pools.desk.{each}" for each in expected]


def test_a_failure_later_than_the_limit_of_a_load_is_said(loaded: Loaded) -> None:
    """A crash after two minutes was one at the health check, whatever the event said."""
    found = said(
        loaded,
        ("swapBudget: 60s", "kind: llama-swap"),
        (WINDOW, "events: [{kind: load-failure, at: 0, backend: coder, after: 3m}]\nworkloads:\n"),
    )
    assert found == ["events.0.after: its limit ends each load of coder after 120 s"]
