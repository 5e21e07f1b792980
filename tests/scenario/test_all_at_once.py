"""Faults that have nothing to do with each other are reported together.

What hides behind a fault of the same block may come on the second run.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from sim.cli import main
from sim.core import registry as registries
from sim.core.errors import ScenarioError
from sim.core.registry import Registry
from sim.scenario.load import load_dict, load_text
from tests.scenario.conftest import GOOD

Lines: TypeAlias = Callable[..., list[str]]

FLEET: Final = """\
name: fleet
window: {warmup: 10s, measure: 1m}
seeds: [1, 2]
engines:
  given: {kvBlocks: 100, stepTime: {a: 10}, maxNumBatchedTokens: 8192, maxNumSeqs: 64}
  sheet: {model: qwen3-8b, gpu: h100, tensorParallel: 2, weightDtype: fp8}
  small: {kind: llamacpp, model: qwen3-8b, weightDtype: q4_0, gpu: rtx-4090, ctxSize: 16384}
backends:
  pods: {engine: given, replicas: 2, policy: {kind: bounded-ring, maxLoadPercent: 125}}
  more: {engine: sheet, balancing: {mode: LoadAware, sessionAffinity: {idleTimeout: 30m}}}
  b: {engine: small}
  c: {engine: small}
  d: {engine: small}
pools:
  turns: {members: {b: {swap: {method: llamacpp}}, c: {load: 2s}}, initial: b, maxInFlight: 4}
  memory: {kind: ollama, members: {d: {load: 10s}}, memory: 23.5GiB, initial: [d]}
router:
  rules:
    - {name: one, match: {headers: {x-team: a}}, backends: [pods, more, b, d], timeout: 10s}
    - {name: two, backends: [more]}
  defaultRoute: pods
workloads:
  load:
    kind: requests
    arrivals: {kind: poisson, rate: 5}
    promptTokens: {lognormal: {median: 2k, sigma: 1}}
    outputTokens: 10
  rows:
    kind: script
    direct: pods
    rows:
      - {session: a, arrival: 1s, promptTokens: 10, outputTokens: 5}
      - {session: a, think: 1s, promptTokens: 20, outputTokens: 5}
events:
  - {kind: pod-lost, at: 10s, backend: pods, replica: 1}
  - {kind: load-failure, at: 20s, backend: b}
slo: {ttft: 2s}
"""

SLIPS: Final = (  # each of another block
    "name=[1]",
    "window.warmup=366d",
    "seeds=[1, 1]",
    "engines.given.maxNumSeqs=9000",
    "engines.sheet.tensorParallel=3",
    "engines.small.stepTime=no-such-preset",
    "backends.pods.engine=givn",
    "backends.more.balancing.mode=RoundRobin",
    "backends.c.replicas=2",
    "pools.turns.default=nobody",
    "pools.memory.memory=1MiB",
    "router.rules.1.name=one",
    "router.rules.0.backends.0=pod",
    "workloads.load.promptTokens.lognormal.mu=3",
    "workloads.rows.rows.1.turn=7",
    "events.1.after=soon",
    "slo={}",
    "no={such: key}",
)
HIDES: Final = {
    # Who the members of a pool are follows from the pool.
    "backends.c.replicas=2": {"pools.turns.default=nobody"},
}


def faults_with(slips: tuple[str, ...]) -> set[tuple[str, str]]:
    with pytest.raises(ScenarioError) as caught:
        load_text(FLEET, settings=slips, registry=registries.load())
    return {(each.path, each.message) for each in caught.value.faults}


ALONE: Final = {slip: faults_with((slip,)) for slip in SLIPS}


@settings(max_examples=60, deadline=None)
@given(st.sets(st.sampled_from(SLIPS), min_size=2).map(lambda chosen: tuple(sorted(chosen))))
def test_what_is_reported_together_is_what_is_reported_alone(chosen: tuple[str, ...]) -> None:
    """The user would mend one fault, run again and find the next, or look for one that is none."""
    shown = [slip for slip in chosen if HIDES.get(slip, set()).isdisjoint(chosen)]
    assert faults_with(chosen) == set().union(*(ALONE[slip] for slip in shown))


def test_a_model_that_nobody_serves_is_told_beside_faults_of_another_workload(
    faults: Lines,
) -> None:
    """The model would be found wrong after the other workload is mended."""
    text = GOOD.replace("kvBlocks: 100", "model: qwen, kvBlocks: 100")
    more = text.split("  load: ")[1]
    text += f"  other: {more}".replace("{kind", "{model: qwn, kind", 1) + f"  bad: {more}"
    assert [line.split(": ")[1] for line in faults(text, ["workloads.bad.count=0"])] == [
        "workloads.other.model",
        "workloads.bad.count",
    ]
    assert len(faults(text, ["workloads.bad.count=0", "workloads.bad.direct=pods"])) == 1


def test_what_is_no_yaml_value_hides_no_other_fault(faults: Lines) -> None:
    """A key that stands twice would be mended before anything else is looked at."""
    text = GOOD.replace("name: good", "name: good\nname: better\nslo: {ttft: *t}")
    text = text.replace("replicas: 2", "replicas: 0").replace("warmup: 10s", "warmup: x")
    assert [line.split(": ")[:2] for line in faults(text + "---\nname: next\n")] == [
        ["f.yaml:2:1", "name"],
        ["f.yaml:3:13", "slo.ttft"],
        ["f.yaml:4:18", "window.warmup"],
        ["f.yaml:10:15", "backends.pods.replicas"],
        ["f.yaml:17:1", "a second document begins here; one file holds one scenario"],
    ]


def test_variants_that_cannot_be_read_hide_nothing(faults: Lines) -> None:
    """The whole file would be looked at once its variants are mended."""
    text = GOOD.replace("replicas: 2", "replicas: 0") + "variants: 5\n"
    assert [line.split(": ")[1] for line in faults(text, ["seeds=x"], ["some"])] == [
        "backends.pods.replicas",
        "variants",
        "seeds",
    ]


def test_an_unknown_variant_is_told_with_the_faults_of_the_file(faults: Lines) -> None:
    """Two rounds for one command line and one file."""
    text = GOOD.replace("replicas: 2", "replicas: 0") + "variants: {a: {}, b: {}}\n"
    first, second = faults(text, (), ["c"])
    assert first == "f.yaml: unknown variant 'c'; known: a, b"
    assert second.startswith("f.yaml:8:15: backends.pods.replicas: ")


def test_every_value_that_python_has_and_yaml_has_not_is_told(registry: Registry) -> None:
    """A script with two of them would be run three times."""
    data: dict[str, Any] = YAML(typ="safe").load(GOOD)
    data["seeds"] = {1, 2}
    data["window"]["warmup"] = object()
    data["backends"]["pods"]["replicas"] = 0
    with pytest.raises(ScenarioError) as caught:
        load_dict(data, registry=registry)
    assert sorted(each.path for each in caught.value.faults) == [
        "backends.pods.replicas",
        "seeds",
        "window.warmup",
    ]


def test_settings_and_the_file_are_told_together_in_order(tmp_path: Path) -> None:
    """The command line would be mended first, then the file, then the command line again."""
    file = tmp_path / "f.yaml"
    text = GOOD.replace("replicas: 2", "replicas: 0").replace("rate: 5", "rat: 5")
    file.write_text(text.replace("warmup: 10s", "warmup: x"), encoding="utf-8")
    settings = ["engines.small.maxNumSeqs=9k", "backends.pod.replicas=2", "slo.ttft=[", "seeds"]
    options = [option for setting in settings for option in ("--set", setting)]
    result = CliRunner().invoke(main, ["validate", str(file), *options])
    assert (result.exit_code, result.stdout) == (2, "")
    told = [line.removeprefix(f"{tmp_path}/").split(": ")[:2] for line in result.stderr.split("\n")]
    assert told[:-2] == [
        ["f.yaml:2:18", "window.warmup"],
        ["f.yaml:8:15", "backends.pods.replicas"],
        ["f.yaml:14:52", "workloads.load.arrivals.rat"],
        [f"--set {settings[0]}", "engines.small.maxNumSeqs"],
        [f"--set {settings[1]}", "backends.pod.replicas"],
        [f"--set {settings[2]}", "slo.ttft"],
        [f"--set {settings[3]}", "must be path=value, such as backends.a.replicas=4"],
    ]
