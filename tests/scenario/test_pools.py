"""Pools, rules and events that cannot be meant are refused in words, with their lines."""

from collections.abc import Callable
from pathlib import Path

import pytest

from sim.scenario.load import ScenarioSet
from tests.command import podsim

Lines = Callable[..., list[str]]
Loaded = Callable[..., ScenarioSet]

DESK = """\
name: desk
engines:
  small: {kvBlocks: 100, stepTime: {a: 10}}
backends:
  assistant: {engine: small}
  coder: {engine: small}
  other: {engine: small}
pools:
  desk:
    members:
      assistant: {load: 8s}
      coder: {load: 60s}
    swapBudget: 300s
router:
  rules:
    - {name: chat, backends: [assistant, coder], poolActivation: IfIdle}
    - {name: rest, backends: [other]}
  proxy: {responseHeaderTimeout: 120s}
workloads:
  load: {kind: script, rows: [{arrival: 0s, promptTokens: 9, outputTokens: 9}]}
events:
  - {at: 1s, kind: pod-lost, backend: coder}
  - {at: 1s, kind: load-failure, backend: coder}
"""

WRONG = {
    "an unknown member": (
        ("coder: {load: 60s}", "codr: {load: 60s}"),
        "12:7: pools.desk.members.codr: unknown backend 'codr'; did you mean 'coder'?",
    ),
    "a member of two pools": (
        ("router:\n", "  attic:\n    members: {coder: {load: 1s}}\nrouter:\n"),
        "15:15: pools.attic.members.coder: 'coder' is a member of pool 'desk' already",
    ),
    "a member of two pods": (
        ("  coder: {engine: small}", "  coder: {engine: small, replicas: 2}"),
        "6:36: backends.coder.replicas: must be 1: coder is a member of pool 'desk'; got 2",
    ),
    "a member of two ranks": (
        ("stepTime: {a: 10}}", "stepTime: {a: 10}, dataParallel: 2}"),
        "3:59: engines.small.dataParallel: must be 1 for a member of pool 'desk'; got 2",
    ),
    "no members": (
        ("      assistant: {load: 8s}\n      coder: {load: 60s}\n", "      {}\n"),
        "11:7: pools.desk.members: must have at least 1 entry; got 0",
    ),
    "a load that nobody knows": (
        ("coder: {load: 60s}", "coder: {}"),
        "12:14: pools.desk.members.coder: give load (a time such as 30s) or swap (to compute it); "
        "got neither",
    ),
    "an unknown default": (
        ("swapBudget: 300s", "default: codr"),
        "13:14: pools.desk.default: must be one of the members (assistant, coder); got 'codr'",
    ),
    "an unknown initial member": (
        ("swapBudget: 300s", "initial: other"),
        "13:14: pools.desk.initial: must be cold or one of the members (assistant, coder); "
        "got 'other'",
    ),
    "reclaim without a default": (
        ("swapBudget: 300s", "swapPolicy: reclaim"),
        "13:17: pools.desk.swapPolicy: reclaim needs default, the member to bring back",
    ),
    "a queue without a limit": (
        ("swapBudget: 300s", "maxHeld: 1"),
        "13:14: pools.desk.maxHeld: needs maxInFlight: without it nobody is held for the resident",
    ),
    "a mode that does not exist": (
        ("poolActivation: IfIdle", "poolActivation: Maybe"),
        "16:66: router.rules.0.poolActivation: must be 'Wait' or 'IfIdle'; got 'Maybe'",
    ),
    "two proxies": (
        ("responseHeaderTimeout: 120s", "replicas: 2"),
        "18:21: router.proxy.replicas: must be 1: podsim has only one proxy. Several would each "
        "have counts, a ring and a table of their own, and in front of a pooled backend, where "
        "LLMKube allows no second one, each would swap members without asking the others; got 2",
    ),
    "an unknown kind of pool": (
        ("swapBudget: 300s", "kind: model-pol"),
        "13:11: pools.desk.kind: unknown kind 'model-pol'; did you mean 'model-pool'? "
        "Known: fair, llama-swap, model-pool, ollama",
    ),
    "a key that is misspelt": (
        ("swapBudget: 300s", "swapBuget: 300s"),
        "13:5: pools.desk.swapBuget: unknown key 'swapBuget'; did you mean 'swapBudget'?",
    ),
    "an event of a backend that is not there": (
        ("kind: pod-lost, backend: coder", "kind: pod-lost, backend: codr"),
        "22:39: events.0.backend: unknown backend 'codr'; did you mean 'coder'?",
    ),
    "a load of what is not loaded": (
        ("kind: load-failure, backend: coder", "kind: load-failure, backend: other"),
        "23:43: events.1.backend: must be a member of a pool: nothing else is loaded",
    ),
    "a probe of what is in no pool": (
        ("kind: load-failure, backend: coder", "kind: probe-failure, probe: idle, backend: other"),
        "23:57: events.1.backend: must be a member of a pool: nothing else is loaded",
    ),
    "a member that comes back by itself": (
        ("kind: pod-lost, backend: coder", "kind: pod-lost, backend: coder, for: 5s"),
        "22:51: events.0.for: not for a member of a pool, which is loaded when wanted",
    ),
    "a pod that is not there": (
        ("kind: pod-lost, backend: coder", "kind: pod-lost, backend: coder, replica: 1"),
        "22:55: events.0.replica: must be below the number of replicas, 1",
    ),
}


def changed(*changes: tuple[str, str]) -> str:
    text = DESK
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_the_scenario_is_right_before_it_is_changed(loaded: Loaded) -> None:
    """Every fault below would be found whatever is changed."""
    (scenario,) = loaded(DESK).variants
    assert list(scenario.pools["desk"].members) == ["assistant", "coder"]


@pytest.mark.parametrize("what", WRONG)
def test_a_fault_is_told_where_it_is(faults: Lines, what: str) -> None:
    """A user would have to guess which line is meant, or what would be right."""
    change, expected = WRONG[what]
    assert f"f.yaml:{expected}" in faults(changed(change))


@pytest.mark.parametrize("verb", ["run", "validate"])
@pytest.mark.parametrize("what", WRONG)
def test_run_and_validate_say_the_same(tmp_path: Path, verb: str, what: str) -> None:
    """A traceback would be shown, or a run begin that cannot be meant."""
    change, expected = WRONG[what]
    file = tmp_path / "f.yaml"
    file.write_text(changed(change), encoding="utf-8")
    result = podsim(verb, file)
    assert result.exit_code == 2
    assert f"{file}:{expected}" in result.stderr
    assert "nothing was run" in result.stderr
    assert "Traceback" not in result.output
    assert list(tmp_path.iterdir()) == [file]


def test_a_setting_of_a_pool_that_is_not_there_is_told_the_nearest(
    loaded: Loaded, faults: Lines
) -> None:
    """A slip in the name of a pool began another one, whose members were then missing."""
    setting = "pools.deks.swapBudget=2m"
    assert faults(DESK, [setting]) == [
        f"--set {setting}: pools.deks.swapBudget: no pool 'deks' here; did you mean 'desk'?"
    ]
    text = DESK.replace("\n  other: {engine", "\n  spare: {engine: small}\n  other: {engine", 1)
    second = loaded(text, ["pools.attic={members: {spare: {load: 1s}}}"])
    assert list(second.variants[0].pools) == ["desk", "attic"]


def test_faults_of_pools_are_told_at_once(faults: Lines) -> None:
    """The user would mend one fault, run again, and find the next."""
    text = changed(
        ("coder: {load: 60s}", "codr: {load: 60s}"),
        ("swapBudget: 300s", "swapPolicy: reclaim"),
        ("router:\n", "  attic:\n    members: {assistant: {load: 1s}}\nrouter:\n"),
        ("  assistant: {engine: small}", "  assistant: {engine: small, replicas: 2}"),
        ("kind: load-failure, backend: coder", "kind: load-failure, backend: other"),
    )
    found = [line.split(": ")[1] for line in faults(text)]
    assert found == [
        "backends.assistant.replicas",
        "pools.desk.members.codr",
        "pools.desk.swapPolicy",
        "pools.attic.members.assistant",
        "events.1.backend",
    ]


def test_an_idle_probe_that_nobody_asks_cannot_fail(faults: Lines) -> None:
    """An image without a probe: the event would have no effect, without a word."""
    text = changed(
        ("swapBudget: 300s", "idleProbe: always-idle"),
        ("kind: load-failure", "kind: probe-failure, probe: idle"),
    )
    where = "f.yaml:23:42: events.1.probe: "
    assert f"{where}pool 'desk' does not ask its members whether they are idle" in faults(text)


def test_nothing_is_said_of_events_of_a_pool_with_faults(faults: Lines) -> None:
    """One slip in a pool would have all events of its members called wrong."""
    assert len(faults(changed(("swapBudget: 300s", "swapBudget: soon")))) == 1
