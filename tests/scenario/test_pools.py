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


@pytest.mark.parametrize("verb", ["run", "validate"])
def test_run_and_validate_say_the_same(tmp_path: Path, verb: str) -> None:
    """A traceback would be shown, or a run begin that cannot be meant."""
    file = tmp_path / "f.yaml"
    file.write_text(DESK.replace("coder: {load: 60s}", "codr: {load: 60s}"), encoding="utf-8")
    result = podsim(verb, file)
    assert result.exit_code == 2
    said = "12:7: pools.desk.members.codr: unknown backend 'codr'; did you mean 'coder'?"
    assert f"{file}:{said}" in result.stderr
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
