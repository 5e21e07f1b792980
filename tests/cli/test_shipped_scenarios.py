"""The scenarios that come with podsim: valid, and pinned where published figures rest on them."""

from pathlib import Path

import pytest

from sim.engine.spec import kv_blocks
from sim.hardware.engine import StepTime
from sim.hardware.step_times import step_time
from sim.scenario.load import ScenarioSet, load
from tests.command import podsim

SCENARIOS = Path(__file__).parents[2] / "scenarios"
FILES = sorted(SCENARIOS.rglob("*.yaml"))
MEANT = {"swap-budget": ["it can never be loaded for a request (variant budget-2m)"]}
"""What scenarios are warned about because they show what comes of it."""

POLICIES = {
    "ring-0.10.7": "bounded-ring",
    "session-table": "session-table",
    "plain-hash": "consistent-hash",
    "round-robin": "round-robin",
    "least-loaded": "least-loaded",
}


def engines(scenarios: ScenarioSet) -> list:
    return [scenario.engines["qwen-27b"] for scenario in scenarios.variants]


def policies(scenarios: ScenarioSet) -> dict[str, str]:
    return {
        scenario.variant: scenario.backends["qwen"].policy.kind for scenario in scenarios.variants
    }


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(SCENARIOS)) for file in FILES])
def test_every_scenario_is_valid_and_warns_of_nothing_unmeant(file):
    """A newcomer's first run would end in an error of ours."""
    loaded = load(file)
    meant = MEANT.get(file.stem, [])
    assert len(loaded.warnings) == len(meant)
    assert all(words in warning for words, warning in zip(meant, loaded.warnings))
    assert loaded.name == file.stem
    assert loaded.description


@pytest.mark.parametrize("file", FILES, ids=[str(file.relative_to(SCENARIOS)) for file in FILES])
def test_every_scenario_can_be_described(file):
    """A think time of 0 s counted as no value: `podsim validate` ended in a traceback."""
    assert podsim("validate", file).exit_code == 0


def test_the_published_deployment_is_as_pinned():
    """C05: a value would have been changed to move the table."""
    loaded = load(SCENARIOS / "b200-agents.yaml")
    sixteen = {"ring-16k": "bounded-ring", "session-table-16k": "session-table"}
    tail = {"ring-prompt-tail": "bounded-ring", "session-table-prompt-tail": "session-table"}
    assert policies(loaded) == POLICIES | tail | sixteen
    assert loaded.seeds == (1, 2, 3, 4, 5)
    for scenario, engine in zip(loaded.variants, engines(loaded)):
        assert step_time(engine) == StepTime(a=6.3, b=22.1, c=0.47, d=15.2, f=3.9)
        assert kv_blocks(engine) * engine.block_size // 10_000 == 444
        assert engine.max_num_seqs == 1024
        budget = 16_384 if scenario.variant in sixteen else 65_536
        assert engine.max_num_batched_tokens == budget
        retention = ("prompt-tail", 784, 3) if scenario.variant in tail else ("every-block", 16, 0)
        cache = (engine.prefix_retention, engine.block_size, engine.state_blocks)
        assert cache == retention
        assert (scenario.window.warmup, scenario.window.measure) == (600.0, 900.0)
        assert scenario.backends["qwen"].replicas == 8
        coding = scenario.workloads["coding"]
        assert (coding.agents, coding.set, coding.start, coding.ramp) == (384, "A", "fresh", 30.0)
    ring = loaded.variant(["ring-0.10.7"]).variants[0].backends["qwen"].policy
    assert ring.max_load_percent == 125


def test_the_recorded_sessions_run_on_the_same_fleet():
    """Two tables that are read side by side would be of different machines."""
    b200 = load(SCENARIOS / "b200-agents.yaml", variants=["session-table"])
    recorded = load(SCENARIOS / "traces/claude-code.yaml")
    assert policies(recorded) == POLICIES | {"session-table-recorded-think": "session-table"}
    assert set(engines(recorded)) == set(engines(b200))
    *corrected, as_recorded = (scenario.workloads["coding"] for scenario in recorded.variants)
    assert {(w.agents, w.max_context, w.think, w.cap) for w in corrected} == {
        (384, 128_000, "corrected", 120.0)
    }
    assert (as_recorded.think, as_recorded.cap) == ("recorded", 60.0)


def test_the_bench_is_the_one_whose_speed_is_stated():
    """A stated speed would be that of another load."""
    (scenario,) = load(SCENARIOS / "bench/short-prompts.yaml").variants
    b200 = load(SCENARIOS / "b200-agents.yaml", variants=["session-table"])
    assert [scenario.engines["qwen-27b"]] == engines(b200)
    assert scenario.backends["qwen"].policy.kind == "least-loaded"
    short = scenario.workloads["short"]
    assert (short.arrivals.kind, short.arrivals.rate, short.count) == ("poisson", 100.0, 100_000)
    assert short.prompt_tokens.draw(None, 2).tolist() == [2000, 2000]
    assert short.output_tokens.draw(None, 2).tolist() == [200, 200]
