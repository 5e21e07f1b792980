"""Numbers that can be simulated and cannot be meant are warned of before a run."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.core.registry import Registry
from sim.scenario.load import ScenarioSet, load_text
from sim.workload.distributions import CountForms, GeometricCount, LognormalCount, UniformCount
from tests.scenario.conftest import GOOD

Loaded = Callable[..., ScenarioSet]

SLO = GOOD + "slo: {ttft: 2500, tpot: 50}\n"
AGENTS = GOOD.split("  load:")[0] + "  load: {kind: agents, agents: 2%s}\n"


@pytest.mark.parametrize(
    ("text", "setting", "warnings"),
    [
        (
            SLO,
            "slo.ttft=2500",
            ["slo.ttft: is 2,500 s, for a bare number is seconds; did you mean 2500ms?"],
        ),
        (SLO, "slo.ttft=2500s", []),
        (GOOD, "slo={ttft: 2, tpot: 0.05}", []),
        (
            AGENTS % "",
            "workloads.load.think=5000",
            ["think: is 5,000 s, for a bare number is seconds; did you mean 5000ms?"],
        ),
        (AGENTS % "", "workloads.load.think=5000s", []),
        (
            AGENTS % "",
            "workloads.load.think={lognormal: {median: 5000, sigma: 1}}",
            ["think.lognormal.median: is 5,000 s"],
        ),
        (
            GOOD.replace("replicas: 2", "replicas: 1"),
            "pools={desk: {members: {pods: {load: 15000}}, swapBudget: null}}",
            ["load: is 15,000 s, for a bare number is seconds; did you mean 15000ms?"],
        ),
        (GOOD, "router.proxy.responseHeaderTimeout=120000", ["is 120,000 s"]),
        (GOOD, "router.proxy.responseHeaderTimeout=600", []),
        (GOOD, "window.measure=7200", []),
        (
            GOOD,
            "engines.small.workspace=4",
            ["workspace: is 4 bytes, for a bare number is bytes; did you mean 4GiB?"],
        ),
        (
            GOOD,
            "engines.small={kind: llamacpp, ctxSize: 9000, stepTime: {a: 1}, kvPerToken: 57344, "
            "cacheRam: 8192}",
            ["cacheRam: is 8,192 bytes, for a bare number is bytes; did you mean 8192MiB?"],
        ),
        (GOOD, "workloads.load.arrivals.rate=6000", ["is 6,000 requests per second"]),
    ],
)
def test_a_number_in_another_unit_is_asked_about(
    loaded: Loaded, text: str, setting: str, warnings: list[str]
) -> None:
    """``slo: {ttft: 2500, tpot: 50}`` had no faults, and 100 % met 50 s per token."""
    text = text.replace("ttft: 2500, tpot: 50", "ttft: 2s") if "slo" in setting else text
    found = [each for each in loaded(text, [setting]).warnings if "bare" in each or "rates" in each]
    assert len(found) == len(warnings)
    assert all(said in each for said, each in zip(warnings, found, strict=True))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (
            "engines.small.maxModelLen=999",
            "promptTokens: no prompt can ever be served: pods serve",
        ),
        ("workloads.load.promptTokens=500k", "at most 1,600 tokens (the KV cache)"),
        (
            "workloads.load.promptTokens={lognormal: {median: 1000, sigma: 0.5}}",
            "promptTokens: 17 % of the prompts can never be served",
        ),
        ("workloads.load.promptTokens={uniform: {min: 1, max: 1601}}", None),
        ("workloads.load={kind: agents, agents: 2}", "maxContext: sessions grow to prompts of"),
        ("workloads.load={kind: agents, agents: 2}", "% of the sessions begin with a prompt"),
        (
            "workloads.load={kind: agents, agents: 2, turns: 1, freshShare: 1, freshPrompt: 900, "
            "sharedPrefix: {tokens: 10}}",
            None,
        ),
        (
            "workloads.load={kind: script, rows: [{arrival: 0s, promptTokens: 9, outputTokens: 1}, "
            "{arrival: 1s, promptTokens: 9k, outputTokens: 1}]}",
            "rows.1.promptTokens: 1 of 2 prompts are longer, up to 9,000 tokens",
        ),
    ],
)
def test_prompts_that_nobody_serves_are_told_before_a_run(
    loaded: Loaded, setting: str, said: str | None
) -> None:
    """500k prompts on 472k tokens of KV had no faults, and then 100 % were refused."""
    warnings = loaded(GOOD, [setting]).warnings
    if said is None:
        assert warnings == ()
    else:
        assert any(said.replace("pods serve", "pods serves") in each for each in warnings), warnings


def test_rows_of_files_count_as_well(tmp_path: Path, registry: Registry) -> None:
    """An imported fleet with a trace of 128k prompts on maxModelLen 32768 gave no warning."""
    rows = "arrival_s,promptTokens,outputTokens\n0,100,1\n1,5000,1\n"
    (tmp_path / "rows.csv").write_text(rows, "utf-8")
    line = json.dumps(
        {"arrival_s": 0, "prompt_tokens": 5000, "output_tokens": 1, "sequence_block_runs": []}
    )
    (tmp_path / "recording.jsonl").write_text(line + "\n", "utf-8")
    for kind, file, said in (
        ("script", "rows.csv", "file: 1 of 2 prompts are longer, up to 5,000 tokens: pods"),
        ("recording", "recording.jsonl", "file: 1 of 1 prompts are longer, up to 5,000 tokens"),
    ):
        setting = f"workloads.load={{kind: {kind}, file: {file}}}"
        (found,) = load_text(GOOD, "f.yaml", [setting], tmp_path, registry).warnings
        assert said in found


def test_prompts_are_held_against_the_backend_they_go_to_first(loaded: Loaded) -> None:
    """A larger backend behind the first hides nothing: 400 is an answer, and is not retried."""
    large = GOOD.replace("promptTokens: 1k", "promptTokens: 2k")
    more = large.replace("  pods:\n", "  more: {engine: large}\n  pods:\n", 1)
    more = more.replace("engines:\n", "engines:\n  large: {kvBlocks: 9k, stepTime: {a: 10}}\n")
    (found,) = loaded(more.replace("backends: [pods]", "backends: [pods, more]")).warnings
    assert "promptTokens: no prompt can ever be served: pods serves" in found
    assert loaded(more.replace("backends: [pods]", "backends: [more, pods]")).warnings == ()


@pytest.mark.parametrize(
    ("drawn", "limit", "share"),
    [
        (CountForms(constant=10), 10, 0.0),
        (CountForms(constant=11), 10, 1.0),
        (CountForms(uniform=UniformCount(min=1, max=10)), 7, 0.3),
        (CountForms(lognormal=LognormalCount(median=100, sigma=1.0)), 99, 0.502),
        (CountForms(lognormal=LognormalCount(median=100, sigma=1.0, max=200)), 200, 0.0),
        (CountForms(lognormal=LognormalCount(median=400, sigma=1.0, min=300)), 299, 1.0),
        (CountForms(geometric=GeometricCount(mean=10.0)), 5, 0.59049),
    ],
)
def test_the_share_above_a_limit_is_that_of_the_distribution(
    drawn: CountForms, limit: int, share: float
) -> None:
    """A warning would name a share that no run has."""
    assert drawn.share_above(limit) == pytest.approx(share, abs=1e-3)
