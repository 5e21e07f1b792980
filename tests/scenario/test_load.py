"""A scenario is right, or all that is wrong with it is said at once, line by line."""

import math
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sim.core.errors import Fault, ScenarioError
from sim.core.registry import Registry
from sim.router.placement.load import LeastLoadedSpec
from sim.scenario.load import ScenarioSet, load, load_dict
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]
Loaded = Callable[..., ScenarioSet]


def replaced(*changes: tuple[str, str]) -> str:
    text = GOOD
    for old, new in changes:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


def test_a_right_scenario_is_loaded_with_its_defaults(loaded: Loaded) -> None:
    """Nothing could be simulated, or a default would be another than documented."""
    found = loaded(GOOD)
    (scenario,) = found.variants
    assert (found.name, found.source, found.seeds, found.warnings) == ("good", "f.yaml", (1,), ())
    assert scenario.variant == ""
    assert (scenario.window.warmup, scenario.window.measure) == (10.0, 60.0)
    assert scenario.backends["pods"].policy == LeastLoadedSpec()
    engine = scenario.engines["small"]
    assert (engine.block_size, engine.max_num_seqs, engine.max_num_batched_tokens) == (
        16,
        256,
        8192,
    )
    assert scenario.workloads["load"].prompt_tokens.constant == 1000


def test_a_missing_policy_is_least_loaded(loaded: Loaded) -> None:
    """A backend without a policy would have no router."""
    (scenario,) = loaded(replaced(("    policy: {kind: least-loaded}\n", ""))).variants
    assert scenario.backends["pods"].policy == LeastLoadedSpec()


def test_unless_given_the_sequences_are_capped_by_the_token_budget(loaded: Loaded) -> None:
    """A small budget alone would be refused for a number that nobody wrote."""
    text = replaced(("kvBlocks: 100,", "kvBlocks: 100, maxNumBatchedTokens: 64,"))
    (scenario,) = loaded(text).variants
    assert scenario.engines["small"].max_num_seqs == 64


def test_every_fault_of_a_file_is_reported_at_once_in_file_order(faults: Lines) -> None:
    """The user would mend one fault, run again, and find the next."""
    text = replaced(
        ("warmup: 10s, measure: 1m", "warmp: 10s, measure: -1"),
        ("small: {kvBlocks: 100, stepTime: {a: 10}}", "small: {kvBlocks: 2.5, steptime: {a: 10}}"),
        ("engine: small", "engine: smal"),
        ("replicas: 2", "replicas: '2'"),
        ("kind: least-loaded", "kind: leastloaded"),
        ("backends: [pods]", "backends: [pod]"),
        ("outputTokens: 10", "outputTokens: .nan"),
    )
    assert faults(text + "extra: 1\n") == [
        "f.yaml:2:10: window.warmp: unknown key 'warmp'; did you mean 'warmup'?",
        "f.yaml:2:31: window.measure: must be a duration such as 30s or 250ms, above 0, up to "
        "366d; got -1",
        "f.yaml:4:21: engines.small.kvBlocks: must be a whole number such as 1, from 1 to 1G; "
        "got 2.5",
        "f.yaml:4:26: engines.small.steptime: unknown key 'steptime'; did you mean 'stepTime'?",
        "f.yaml:7:13: backends.pods.engine: unknown engine 'smal'; did you mean 'small'?",
        "f.yaml:8:15: backends.pods.replicas: must be a whole number such as 1, from 1 to 10k; "
        "got '2'",
        "f.yaml:9:20: backends.pods.policy.kind: unknown kind 'leastloaded'; "
        "did you mean 'least-loaded'? Known: bounded-ring, consistent-hash, keep-alive, "
        "least-loaded, power-of-two, random, round-robin, session-table, vllm-dp",
        "f.yaml:12:30: router.rules.0.backends.0: unknown backend 'pod'; did you mean 'pods'?",
        "f.yaml:14:94: workloads.load.outputTokens: must be a whole number of tokens such as "
        "75k, from 1 to 1000G; got nan",
        "f.yaml:15:1: extra: unknown key 'extra'; known: name, description, window, seeds, "
        "ringSalt, engines, backends, router, pools, workloads, events, slo, variants",
    ]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("name: good", "name: 5", "1:7: name: must be text; got 5 (text that looks like a number "
         "or a truth value needs quotes)"),
        ("name: good", "name: go.od", "1:7: name: must be letters, digits and hyphens, a letter "
         "or a digit first; got 'go.od'"),
        ("name: good", f"name: {'x' * 64}", "1:7: name: must have at most 63 characters; got 64"),
        ("name: good\n", "", "1:1: missing key 'name'"),
        ("name: good", "name: good\nvariant: x", "2:1: variant: unknown key 'variant'; "
         "did you mean 'variants'?"),
        ("name: good", "name: good\nseeds: []", "2:8: seeds: must have at least 1 entry; got 0"),
        ("name: good", "name: good\nseeds: 3", "2:8: seeds: must be a list such as [3]; got 3"),
        ("name: good", "name: good\nseeds: [3, 4, 3]", "2:8: seeds: seed 3 stands here twice: its "
         "runs would count double"),
        ("name: good", "name: good\nseeds: [1, -1]", "2:12: seeds.1: must be a whole number such "
         "as 1, from 0 to 9223372036854775807; got -1"),
        ("name: good", "name: good\nslo: {}", "2:6: slo: give one or more of ttft, tpot and e2e"),
        ("warmup: 10s", "warmup: 366d", "2:33: window.measure: must end within 366d of simulated "
         "time; got 3.16225e+07s"),
        ("warmup: 10s", "warmup: 10 parsecs", "2:18: window.warmup: must be a duration such as "
         "30s or 250ms, from 0 to 366d; got '10 parsecs'"),
        ("warmup: 10s", "drain: yes", "2:17: window.drain: must be true or false; got 'yes' (a "
         "word is text in YAML 1.2)"),
        (", measure: 1m", "", "2:9: window: missing key 'measure': workload 'load' never ends, so "
         "say how long to measure, e.g. 15m"),
        ("window: {warmup: 10s, measure: 1m}\n", "", "13:3: window: missing key 'measure': "
         "workload 'load' never ends, so say how long to measure, e.g. 15m"),
        ("kvBlocks: 100, ", "", "4:10: engines.small: the KV capacity is unknown: give kvBlocks, "
         "or both gpu and model"),
        ("kvBlocks: 100", "kvBlocks: 0", "4:21: engines.small.kvBlocks: must be a whole number "
         "such as 1, from 1 to 1G; got 0 (no request could ever be served)"),
        ("kvBlocks: 100", "kvBlocks: 100, maxNumSeqs: 10k", "4:38: engines.small.maxNumSeqs: must "
         "be at most maxNumBatchedTokens (8192), since each running sequence takes a token of the "
         "step; got 10000"),
        ("kvBlocks: 100", "kvBlocks: 100, max_num_seqs: 5", "4:26: engines.small.max_num_seqs: "
         "unknown key 'max_num_seqs'; did you mean 'maxNumSeqs'?"),
        ("a: 10", "a: 0, c: 1", "4:36: engines.small.stepTime: a, b or d must be above 0: "
         "computing a prompt takes time"),
        ("a: 10", "a: 0, b: 1, d: 1", "4:36: engines.small.stepTime: a, c, f or g must be above "
         "0: decoding a token takes time"),
        ("small: {", "sm.all: {", "4:3: engines.sm.all: must be letters, digits and hyphens, a "
         "letter or a digit first; got 'sm.all'"),
        ("replicas: 2", "replicas: 0", "8:15: backends.pods.replicas: must be a whole number such "
         "as 1, from 1 to 10k; got 0 (no request could ever be served)"),
        ("replicas: 2", "replicas: true", "8:15: backends.pods.replicas: must be a whole number "
         "such as 1, from 1 to 10k; got true"),
        ("{kind: least-loaded}", "{}", "9:13: backends.pods.policy: missing key 'kind', one of: "
         "bounded-ring, consistent-hash, keep-alive, least-loaded, power-of-two, random, "
         "round-robin, session-table, vllm-dp"),
        ("{kind: least-loaded}", "least-loaded", "9:13: backends.pods.policy: must be a mapping "
         "such as {kind: bounded-ring}"),
        ("{kind: least-loaded}", "{kind: bounded-ring, maxLoadPercent: 99}", "9:50: "
         "backends.pods.policy.maxLoadPercent: must be a whole number such as 100, from 100 to "
         "100k; got 99"),
        ("{kind: least-loaded}", "{kind: [x]}", "9:20: backends.pods.policy.kind: unknown kind "
         "'a list or a mapping'; known: bounded-ring, consistent-hash, keep-alive, "
         "least-loaded, power-of-two, random, round-robin, session-table, vllm-dp"),
        ("rules:\n    - {name: all, backends: [pods]}", "rules: {}", "11:10: router.rules: must be "
         "a list; got a mapping"),
        ("rules:\n    - {name: all, backends: [pods]}", "rules: []", "11:3: router: give rules, "
         "defaultRoute or both: nothing would be served"),
        ("backends: [pods]", "backends: [5]", "12:30: router.rules.0.backends.0: must be text; "
         "got 5 (text that looks like a number or a truth value needs quotes)"),
        ("kind: requests", "kind: request", "14:16: workloads.load.kind: unknown kind 'request'; "
         "did you mean 'requests'? Known: agents, recording, requests, script, sessions, trace"),
        ("kind: poisson, rate: 5", "kind: poison, rate: 5", "14:43: workloads.load.arrivals.kind: "
         "unknown kind 'poison'; did you mean 'poisson'? Known: poisson, constant, gamma"),
        ("kind: poisson, rate: 5", "rate: 5", "14:36: workloads.load.arrivals: missing key 'kind'"),
        ("kind: poisson, rate: 5", "kind: poisson, rat: 5", "14:52: workloads.load.arrivals.rat: "
         "unknown key 'rat'; did you mean 'rate'?"),
        ("kind: poisson, rate: 5", "kind: poisson, speed: 5", "14:36: workloads.load.arrivals: "
         "missing key 'rate'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_in_one_line(
    faults: Lines, old: str, new: str, expected: str
) -> None:
    """C73 and more: a fault would pass, or be said in words that help nobody."""
    assert f"f.yaml:{expected}" in faults(replaced((old, new)))


@pytest.mark.parametrize("prefill", ["b", "d"])
@pytest.mark.parametrize("decode", ["c", "f", "g"])
def test_every_step_takes_time_but_not_every_part_of_it(
    loaded: Loaded, faults: Lines, prefill: str, decode: str
) -> None:
    """Prompts would be computed, or a million tokens decoded, at one instant: a span without
    length has no rate, and a closed loop would ask for ever without the clock moving on."""
    loaded(replaced(("{a: 10}", f"{{a: 0, {prefill}: 1, {decode}: 1}}")))
    for written, unsaid in ((prefill, "decoding"), (decode, "computing")):
        (line,) = faults(replaced(("{a: 10}", f"{{a: 0, {written}: 1}}")))
        assert f": {unsaid} a " in line
    assert len(faults(replaced(("{a: 10}", "{a: 0}")))) == 2


def test_one_mistake_is_one_line(faults: Lines) -> None:
    """A block with a fault would set off complaints about what is right."""
    assert len(faults(replaced(("kvBlocks: 100", "kvBlocks: -1")))) == 1
    assert len(faults(replaced(("kind: least-loaded", "kind: none")))) == 1
    budget = replaced(("kvBlocks: 100", "kvBlocks: 100, maxNumBatchedTokens: 0"))
    assert len(faults(budget)) == 1


@pytest.mark.parametrize(
    ("right", "slip"),
    [
        ("engines:\n", "engine:\n"),
        ("backends:\n", "Backends:\n"),
        ("window: {", "windw: {"),
        ("measure: 1m", "measur: 1m"),
        ("workloads:\n", "workload:\n"),
        ("stepTime: {", "steptime: {"),
        ("promptTokens: ", "prompttokens: "),
        ("rate: 5", "rte: 5"),
    ],
)
def test_a_mistyped_key_is_one_line(faults: Lines, right: str, slip: str) -> None:
    """One slip would be two faults or more: a key too many, one missing, and what follows."""
    (line,) = faults(replaced((right, slip)))
    assert f"unknown key {slip.split(':')[0]!r}; did you mean {right.split(':')[0]!r}?" in line


def test_a_missing_key_is_reported_beside_an_unlike_one(faults: Lines) -> None:
    """A key that is really missing would be found only after the unknown one is removed."""
    assert len(faults(replaced(("engine: small", "colour: red")))) == 2


def test_of_very_many_faults_the_first_hundred_are_shown() -> None:
    """A file in another format would fill the terminal, and the first line scroll away."""
    found = [Fault("f.yaml", line, 1, "", "is wrong") for line in range(1, 104)]
    assert len(str(ScenarioError(found[:100])).splitlines()) == 100
    *lines, last = str(ScenarioError(found)).splitlines()
    assert lines == [str(fault) for fault in found[:100]]
    assert last == "... and 3 more faults"
    assert str(ScenarioError(found[:101])).endswith("\n... and 1 more fault")


def test_a_number_of_many_digits_is_no_name(faults: Lines) -> None:
    """C73: a bare number where a name is wanted would end in a traceback when it is too long."""

    def said(number: str) -> list[str]:
        rows = f"rows: [{{arrival: 0, session: {number}, promptTokens: 1, outputTokens: 1}}]"
        return faults(GOOD.split("  load:")[0] + f"  load: {{kind: script, {rows}}}\n")

    where = "f.yaml:14:53: workloads.load.rows.0.session: "
    assert said("7" * 300) == [where + "must have at most 200 characters; got 300"]
    for endless in ("7" * 5000, "0x" + "f" * 5000, "0o" + "7" * 9000):
        (line,) = said(endless)
        assert line.startswith(where + "must be text; got inf ")


@pytest.mark.parametrize("text", ["- 1\n", "just text\n", "5\n", "null\n"])
def test_a_file_that_is_no_mapping_is_refused(faults: Lines, text: str) -> None:
    """Anything but a mapping would end in a traceback."""
    assert faults(text) == [
        "f.yaml:1:1: must be a mapping with keys such as name, engines, backends and workloads"
    ]


def test_blocks_that_are_no_mappings_are_refused_one_by_one(faults: Lines) -> None:
    """A list where names are expected would end in a traceback, or hide the rest."""
    text = "name: x\nengines: [1]\nbackends: 5\nrouter: null\nworkloads: text\n"
    assert faults(text) == [
        "f.yaml:2:10: engines: must be a mapping; got a list",
        "f.yaml:3:11: backends: must be a mapping; got 5",
        "f.yaml:4:9: router: must be a mapping; got nothing",
        "f.yaml:5:12: workloads: must be a mapping; got 'text'",
    ]
    text = "name: x\nengines: {a: 1}\nbackends: {b: [1]}\nrouter: {rules: [5]}\nworkloads: {w: 1}\n"
    assert faults(text) == [
        "f.yaml:2:14: engines.a: must be a mapping; got 1",
        "f.yaml:3:15: backends.b: must be a mapping; got a list",
        "f.yaml:4:18: router.rules.0: must be a mapping; got 5",
        "f.yaml:5:16: workloads.w: must be a mapping such as {kind: agents}",
    ]


def test_what_nobody_uses_is_a_warning(loaded: Loaded) -> None:
    """A slip in a name that leaves something behind would go unseen."""
    text = replaced(
        (
            "    engine: small",
            "    engine: small\n  spare: {engine: small}\n  other:\n    engine: x",
        )
    )
    text = text.replace("    replicas: 2\n    policy: {kind: least-loaded}\n", "")
    text = text.replace(
        "engines:\n",
        "engines:\n  x: {kvBlocks: 1, stepTime: {a: 1}}\n  y: {kvBlocks: 1, stepTime: {a: 1}}\n",
    )
    assert loaded(text).warnings == (
        "f.yaml:5:3: engines.y: unused: no backend names it",
        "f.yaml:10:3: backends.spare: unused: no rule names it",
        "f.yaml:11:3: backends.other: unused: no rule names it",
    )


def test_a_file_is_loaded_with_its_directory(tmp_path: Path, registry: Registry) -> None:
    """C76: BOM or CRLF would spoil a file, or its traces be looked for elsewhere."""
    file = tmp_path / "scenario.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    found = load(file, registry=registry)
    assert (found.source, found.directory) == (str(file), tmp_path)
    assert found.scenario_hash == load(str(file), registry=registry).scenario_hash
    file.write_bytes(GOOD.encode("utf-16"))
    with pytest.raises(ScenarioError, match=r"scenario\.yaml:1:1: UTF-16 or UTF-32 text"):
        load(file, registry=registry)
    with pytest.raises(ScenarioError, match=r"none\.yaml: cannot be read: no such file"):
        load(tmp_path / "none.yaml", registry=registry)


def test_a_loaded_scenario_can_be_sent_to_a_worker_process(loaded: Loaded) -> None:
    """Runs could not be spread over cores."""
    found = loaded(GOOD + "variants: {a: {}, b: {}}\n")
    assert pickle.loads(pickle.dumps(found)) == found


def as_dict() -> dict[str, object]:
    return {
        "name": "good",
        "window": {"warmup": 10, "measure": np.float64(60)},
        "engines": {"small": {"kvBlocks": np.int64(100), "stepTime": {"a": 10}}},
        "backends": {"pods": {"engine": "small", "replicas": 2}},
        "router": {"rules": [{"name": "all", "backends": ["pods"]}]},
        "workloads": {
            "load": {
                "kind": "requests",
                "arrivals": {"kind": "poisson", "rate": 5},
                "promptTokens": "1k",
                "outputTokens": 10,
            }
        },
    }


def test_a_python_mapping_is_the_same_scenario(registry: Registry, loaded: Loaded) -> None:
    """C73: the Python API would simulate something else than the file."""
    found = load_dict(as_dict(), ["seeds=[7]"], registry=registry)
    assert found.seeds == (7,)
    assert found.scenario_hash == loaded(GOOD).scenario_hash


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"window": {"measure": math.nan}}, "scenario: window.measure: must be a duration such as "
         "30s or 250ms, above 0, up to 366d; got nan"),
        ({"seeds": [10**400]}, "scenario: seeds.0: must be a whole number such as 1, from 0 to "
         "9223372036854775807; got a whole number of more than 38 digits"),
        ({"seeds": {1, 2}}, "scenario: seeds: must be text, a number, a list or a mapping; "
         "got set"),
        ({"engines": {**as_dict()["engines"], 5: as_dict()["engines"]["small"]}},
         "scenario: engines: keys must be text; got 5"),
    ],
)  # fmt: skip
def test_a_python_mapping_is_checked_like_a_file(
    registry: Registry, change: dict[str, object], expected: str
) -> None:
    """C73: a fault would pass in Python that is refused in a file, or end in a traceback."""
    with pytest.raises(ScenarioError) as caught:
        load_dict({**as_dict(), **change}, registry=registry)
    assert str(caught.value) == expected


def test_a_python_mapping_that_contains_itself_is_refused(registry: Registry) -> None:
    """C77: a self-reference would exhaust the stack."""
    data = as_dict()
    data["window"] = {"window": data}
    with pytest.raises(ScenarioError, match="nested deeper than 64 levels"):
        load_dict(data, registry=registry)


def test_seven_megabytes_without_anchors_work(loaded: Loaded) -> None:
    """C77: a guard against bombs would refuse an honest big file, or it would take minutes."""
    rows = "".join(
        f"      - {{arrival: {n}.5, session: s{n}, promptTokens: {n + 100}, outputTokens: 10}}\n"
        for n in range(95_000)
    )
    head, _ = GOOD.split("  load:")
    text = f"{head}  load:\n    kind: script\n    rows:\n{rows}variants: {{a: {{}}, b: {{}}}}\n"
    assert len(text) > 7e6
    first, second = loaded(text).variants
    assert len(first.workloads["load"].rows) == 95_000
    assert first.workloads["load"] is second.workloads["load"]
