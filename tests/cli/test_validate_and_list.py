"""`podsim validate` and `podsim list`: what would be run, and what may be named."""

import json
from pathlib import Path

import pytest

from sim.core.registry import load
from sim.core.text import terms


def test_validate_says_what_would_be_run(podsim):
    """It showed neither window nor slo, nor any setting of a policy or a workload; of a variant
    that changes the policy nine lines of engine settings came again; bytes had no unit."""
    slo, drawn = "slo={ttft: 2s, tpot: 50ms}", "{lognormal: {mu: 6.2146, sigma: 0.5, max: 4k}}"
    traffic = f"workloads.traffic.promptTokens={drawn}"
    result = podsim("validate", "tiny.yaml", "--set", slo, "--set", traffic)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == (
        "tiny: no faults\n"
        "seeds 7, 8; 4 runs in all\n"
        "variant round-robin\n"
        "  window\n"
        "    default   warmup 0 s\n"
        "  slo\n"
        "    given     ttft 2 s, tpot 50 ms\n"
        "  engine small: vllm\n"
        "    given     kvBlocks 10,000, maxNumBatchedTokens 2,048\n"
        "    default   tensorParallel 1, kvCacheDtype bf16, workspace 4 GiB, "
        "gpuMemoryUtilization 0.92,\n"
        "              dataParallel 1, enableExpertParallel false, prefixRetention every-block,\n"
        "              blockSize 16, maxNumSeqs 256, reserveFullPrompt true, evictUnhashedFirst "
        "true,\n"
        "              stateBlocks 0, enablePrefixCaching true, longPrefillTokenThreshold 0, "
        "watermark 0,\n"
        "              schedulingPolicy fcfs, asyncScheduling false\n"
        "    stepTime  a 10, b 20 (ms, given)\n"
        "  backend pods\n"
        "    given     engine small, replicas 2\n"
        "    pods      2 x small, 160,000 KV tokens per pod (given)\n"
        "  policy of pods: round-robin\n"
        "  rule all\n"
        "    given     backends [pods]\n"
        "    default   poolActivation Wait, failClosed false\n"
        "  router\n"
        "    default   defaultRouteStrategy Static\n"
        "  proxy\n"
        "    default   responseHeaderTimeout 120 s, quarantineDuration 15 s,\n"
        "              maxInstanceFailoverRerouteAttempts 0, abandoned aborted, pollInterval 1 s\n"
        "  workload traffic: requests\n"
        "    given     arrivals.kind poisson, arrivals.rate 4,\n"
        "              promptTokens lognormal (median 500, sigma 0.5, max 4,000), outputTokens "
        "50,\n"
        "              count 40\n"
        "    default   priority 0, sessionKeys none\n"
        "variant least-loaded: as round-robin, but\n"
        "  policy of pods: least-loaded\n"
        "    default   ties rotate\n"
    )


def test_validate_tells_the_keys_of_a_set_from_those_of_the_file(podsim):
    """`workload coding: agents` was all that was said of 19 parameters."""
    agents = "workloads.traffic={kind: agents, agents: 3, growth: 500, sessionsPerAgent: 2}"
    text = " ".join(podsim("validate", "tiny.yaml", "--set", agents).stdout.split())
    assert "given agents 3, sessionsPerAgent 2, growth 500 default" in text
    for said in (
        "set A",
        "turns lognormal (median 121.5, sigma 1, min 2)",
        "think recorded (median 8 s, p90 121 s, at most 121 s), thinkCap 60 s",
        "sharedPrefix.tokens 15,000",
        "maxContext 128,000",
    ):
        assert said in text
    mixed = agents.replace("growth: 500", "set: B")
    text = " ".join(podsim("validate", "tiny.yaml", "--set", mixed).stdout.split())
    assert "think mixture (9.1 % lognormal (median 85.63 s, sigma 2.08), 36.4 % 150 ms," in text


def test_validate_shows_a_bound_that_has_been_taken_away(podsim):
    """A pool without a swapBudget would look like one of which nobody has said anything."""
    pool = "pools={desk: {members: {pods: {load: 30s}}, swapBudget: null}}"
    one = "backends.pods.replicas=1"
    result = podsim("validate", "tiny.yaml", "--set", one, "--set", pool)
    text = " ".join(result.stdout.split())
    assert "swapBudget none" in text
    assert "maxWait" not in text


def test_validate_says_of_a_further_variant_what_is_not_as_in_the_first(podsim):
    """A variant with another workload would pass for the same run twice."""
    variants = (
        "{a: {slo: {ttft: 1s}}, b: {window.warmup: 1s, workloads.traffic.outputTokens: 7, "
        "workloads.traffic.count: null, window.measure: 1m}, c: {slo: {ttft: 1s}}}"
    )
    scenario = Path("tiny.yaml").read_text("utf-8").partition("variants:")[0]
    Path("other.yaml").write_text(f"{scenario}variants: {variants}\n", "utf-8")
    lines = podsim("validate", "other.yaml").stdout.splitlines()
    at = lines.index("variant b: as a, but")
    *said, warning = lines[at + 1 :]
    assert said == [
        "  window",
        "    given     warmup 1 s, measure 60 s",
        "  workload traffic: requests",
        "    given     outputTokens 7",
        "    without   count",
        "  no slo",
        "variant c: as a",
    ]
    assert ": variants.c: is equal to variant a: their results will be the same" in warning


def test_validate_shows_what_the_file_leaves_to_podsim(podsim):
    """Nobody would know which step time and which defaults a run had."""
    engine = "engines.small={model: qwen3-8b, gpu: h100, kvCacheDtype: fp8}"
    result = podsim("validate", "tiny.yaml", "--set", engine)
    text = " ".join(result.stdout.split())
    assert "given model qwen3-8b, gpu h100, kvCacheDtype fp8 default" in text
    assert "derived weightDtype bf16, maxModelLen 40,960, KV cache" in text
    assert "maxNumBatchedTokens 8,192, maxNumSeqs 1,024" in text
    assert "stepTime a 1.98," in text and "(ms, derived)" in text
    found = json.loads(podsim("validate", "tiny.yaml", "--json", "--set", engine).stdout)
    engine = found["variants"][0]["backends"]["pods"]["engine"]
    assert engine["stepTimeFrom"] == "derived"
    assert engine["stepTime"]["a"] == pytest.approx(36 * 0.055)
    assert engine["maxNumBatchedTokens"] == 8192
    assert found["variants"][0]["workloads"]["traffic"]["count"] == 40


def test_validate_says_what_a_pod_takes_of_its_gpus(podsim):
    """Nobody would see how near to the memory of the card weights and contexts come."""
    engine = (
        "engines.small={kind: llamacpp, model: qwen2.5-coder-32b, weightDtype: q4_0, "
        "gpu: rtx-4090, ctxSize: 8192, workspace: 1GiB}"
    )
    lines = podsim("validate", "tiny.yaml", "--set", engine).stdout.splitlines()
    said = "17.2 GiB of weights + 2.0 GiB of KV + 1.0 GiB of workspace, of 21.6 GiB per pod"
    assert f"    memory    {said}" in lines
    found = json.loads(podsim("validate", "tiny.yaml", "--json", "--set", engine).stdout)
    memory = found["variants"][0]["backends"]["pods"]["memory"]
    assert memory["kv_bytes"] == 2 * 2**30
    assert memory["usable_bytes"] == 0.92 * 23.5 * 2**30
    assert "    memory" not in podsim("validate", "tiny.yaml").stdout


def test_validate_derives_the_kv_cache_from_gpu_and_model(podsim):
    """The published deployment would not have its 4.44 million tokens per pod."""
    set_engine = (
        "engines.small={model: qwen3.8-27b, gpu: b200, tensorParallel: 2, weights: 54GB, "
        "stepTime: {a: 10}}"
    )
    result = podsim("validate", "tiny.yaml", "--json", "--set", set_engine)
    (first, _) = json.loads(result.stdout)["variants"]
    backend = first["backends"]["pods"]
    assert backend["kv_derived"] is True
    usable = 0.92 * 2 * 179 * 2**30 - 54e9 - 2 * 4 * 2**30
    assert backend["kv_tokens_per_pod"] == int(usable / 65536 / 16) * 16


@pytest.mark.parametrize(
    ("engine", "line"),
    [
        (
            "kvBlocks: 193, blockSize: 1568, maxModelLen: 262144",
            "1 sequence of 262,144 tokens: each takes 168 of 193 KV blocks, ratio 1.15",
        ),
        (
            "kvBlocks: 31597, maxModelLen: 65536",
            "7 sequences of 65,536 tokens: each takes 4,096 of 31,597 KV blocks, ratio 7.71",
        ),
        (
            "kvBlocks: 100, stateBlocks: 2, maxModelLen: 17",
            "25 sequences of 17 tokens: each takes 4 of 100 KV blocks, ratio 25.00",
        ),
        (
            "kvBlocks: 9, maxModelLen: 160",
            "0 sequences of 160 tokens: each takes 10 of 9 KV blocks, ratio 0.90",
        ),
    ],
)
def test_validate_says_how_many_longest_sequences_a_pod_holds(podsim, engine, line):
    """C34: 505,563 tokens of KV, and 193 blocks of 1,568; tokens mixed with
    blocks, or blocks rounded down, would promise more."""
    set_engine = f"engines.small={{stepTime: {{a: 10}}, {engine}}}"
    text = " ".join(podsim("validate", "tiny.yaml", "--set", set_engine).stdout.split())
    assert f"room maximum concurrency {line} " in text


def test_validate_names_the_units_of_the_maximum_concurrency(podsim):
    """C34: a program could not tell tokens from blocks; without maxModelLen there is no figure."""
    keys = "stepTime: {a: 10}, kvBlocks: 193, blockSize: 1568"
    for length, expected in (
        (262_144, {"sequence_tokens": 262_144, "blocks_per_sequence": 168, "sequences": 1}),
        ("null", None),
    ):
        set_engine = f"engines.small={{{keys}, maxModelLen: {length}}}"
        result = podsim("validate", "tiny.yaml", "--json", "--set", set_engine)
        found = json.loads(result.stdout)["variants"][0]["backends"]["pods"]["maximum_concurrency"]
        if expected is not None:
            expected |= {"kv_blocks_per_pod": 193, "ratio": 193 / 168}
        assert found == expected


def test_validate_prints_the_schema_of_what_is_installed(podsim):
    """A wheel brings no scenarios/schema.json, and the command that printed it was no command."""
    found = json.loads(podsim("validate", "--schema").stdout)
    assert found["properties"]["engines"]["description"]
    result = podsim("validate", "tiny.yaml", "--schema")
    assert (result.exit_code, result.stdout) == (2, "")


def test_list_names_every_registered_family_with_its_purpose(podsim):
    """A policy that exists could not be found."""
    for what, families in (("policies", load().policies), ("workloads", load().workloads)):
        lines = podsim("list", what).stdout.splitlines()
        assert [line.split()[0] for line in lines] == list(families)
        assert all(len(line.split()) > 2 for line in lines)


def test_list_as_json_has_the_keys_of_a_family_and_the_facts_of_hardware(podsim):
    """A program would have to parse prose."""
    policies = json.loads(podsim("list", "policies", "--json").stdout)
    assert "maxLoadPercent" in policies["bounded-ring"]["keys"]
    assert "kind" not in policies["bounded-ring"]["keys"]
    gpus = json.loads(podsim("list", "gpus", "--json").stdout)
    assert gpus["b200"]["memory_bytes"] == 179 * 2**30
    models = json.loads(podsim("list", "models", "--json").stdout)
    assert models["qwen3.8-27b"]["kv_bytes_per_token"] == 65536
    assert models["qwen3.8-27b"]["context"] == 262_144
    assert "name" not in models["qwen3.8-27b"]
    engines = json.loads(podsim("list", "engines", "--json").stdout)
    assert engines["qwen3.8-27b-b200-tp2-bf16"]["step_time"]["a"] == 7.28


@pytest.mark.parametrize("what", ["metrics", "gpus", "models", "engines"])
def test_lists_respect_the_width_of_a_terminal(podsim, monkeypatch, what):
    """Lines of 250 characters were broken in words by the terminal; in a pipe they are one each."""
    entries = json.loads(podsim("list", what, "--json").stdout)
    names = list(entries)
    assert [line.split()[0] for line in podsim("list", what).stdout.splitlines()] == names
    meanings = {name: facts["summary"] for name, facts in entries.items()}
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    lines = terms(meanings)
    assert max(map(len, lines)) <= 80
    assert [line.split()[0] for line in lines if not line.startswith(" ")] == names
    assert "".join("".join(lines).split()) == "".join(
        "".join(f"{name}{meaning}".split()) for name, meaning in meanings.items()
    )
