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
