"""Traces are looked into when the scenario is loaded: every fault, with its place, once."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.core.errors import ScenarioError
from sim.core.registry import Registry
from sim.core.textfile import read_text
from sim.scenario.inputs import Inputs
from sim.scenario.load import load_text
from sim.workload import files

HEAD = """\
name: traced
window: {measure: 1m}
engines:
  qwen: {kvBlocks: 100, model: qwen, stepTime: {a: 10}}
  any: {kvBlocks: 100, stepTime: {a: 10}}
backends:
  pods: {engine: qwen}
router: {rules: [{name: all, backends: [pods]}]}
workloads:
"""
CSV = "arrival_s,model,promptTokens,outputTokens\n"
SCRIPT = "  csv: {kind: script, file: rows.csv}\n"
RECORDED = "  recorded: {kind: sessions, agents: 1, file: t.jsonl}\n"
GOOD_CALL = {"type": "n", "t": 0, "model": "m", "in": 10, "out": 1, "hash_runs": []}
SESSION = {"block_size": 64, "tool_tokens": 0, "system_tokens": 0, "requests": [GOOD_CALL] * 2}

Said = Callable[..., list[str]]


@pytest.fixture
def said(tmp_path: Path, registry: Registry) -> Said:
    """The lines about a scenario with these files, the folder left out; none if it is right."""

    def lines(text: str, rows: str = CSV + "0,qwen,1,1\n", session: object = SESSION) -> list[str]:
        (tmp_path / "rows.csv").write_text(rows, encoding="utf-8")
        (tmp_path / "t.jsonl").write_text(json.dumps(session), encoding="utf-8")
        try:
            load_text(text, "f.yaml", directory=tmp_path, registry=registry)
        except ScenarioError as error:
            return str(error).replace(f"{tmp_path}/", "").splitlines()
        return []

    return lines


def test_right_traces_are_loaded(said: Said) -> None:
    """Every scenario with a trace would be refused."""
    assert said(HEAD + SCRIPT + RECORDED) == []


def test_faults_of_all_workloads_and_of_the_scenario_come_at_once(said: Said) -> None:
    """The user would mend one trace, run, and find the next faulty, after other runs."""
    row = "{model: x, arrival: 0, promptTokens: 1, outputTokens: 1}"
    bad = {**SESSION, "block_size": 0}
    rows = f"  rows: {{kind: script, rows: [{row}]}}\n"
    text = (HEAD + SCRIPT + RECORDED + rows).replace("measure: 1m", "measure: -1")
    found = said(text, CSV + "0,qwen,0,1\n1,qwen,1,x\n", bad)
    assert [line.partition(": ")[0] for line in found] == [
        "f.yaml:2:19",
        "f.yaml:12:39",
        "rows.csv:2:8",
        "rows.csv:3:10",
        "t.jsonl:1:1",
    ]
    assert found[1] == (
        "f.yaml:12:39: workloads.rows.rows.0.model: no backend serves 'x'; served: qwen"
    )


def test_a_model_that_nobody_serves_is_shown_in_its_row(said: Said) -> None:
    """C74 (vi): the user would search a long file for the name."""
    rows = CSV + "0,qwen,1,1\n1,gpt,1,1\n2,claude,1,1\n3,gpt,1,1\n"
    assert said(HEAD + SCRIPT, rows) == [
        "rows.csv:3:3: model: no backend serves 'gpt' (the first of 2 rows); served: qwen",
        "rows.csv:4:3: model: no backend serves 'claude'; served: qwen",
    ]


def test_a_fault_of_some_variants_names_them(said: Said) -> None:
    """A trace that is right for one variant's models only would pass, or be wrong for all."""
    text = HEAD + SCRIPT + "variants: {a: {}, b: {backends.pods.engine: any}}\n"
    assert said(text, CSV + "0,gpt,1,1\n") == [
        "rows.csv:2:3: model: no backend serves 'gpt'; served: qwen (variant a)"
    ]
    assert said(text, CSV + "0,gpt,-1,1\n") == [
        "rows.csv:2:7: promptTokens: must be a whole number of tokens such as 75k, from 1 to "
        "1000G; got '-1'"
    ]


def test_a_fault_elsewhere_hides_none_of_a_trace(said: Said) -> None:
    """Faults of a trace would show only after those of the engine are mended."""
    found = said((HEAD + SCRIPT).replace("a: 10", "a: -1"), CSV + "0,gpt,0,1\n")
    assert [line.partition(": ")[0] for line in found] == [
        "f.yaml:4:52",
        "f.yaml:5:38",
        "rows.csv:2:7",
    ]


def test_a_recording_without_a_usable_session_is_a_fault_of_the_scenario(said: Said) -> None:
    """C75: variants before the one whose context is too short would have been run."""
    text = HEAD + RECORDED + "variants: {a: {}, b: {workloads.recorded.maxContext: 9}}\n"
    assert said(text) == ["t.jsonl: no session has two requests of at most 9 tokens (variant b)"]


def test_a_missing_file_is_one_line(said: Said, tmp_path: Path) -> None:
    """The file would be missed twice, by its name and by its content."""
    (line,) = said((HEAD + SCRIPT).replace("rows.csv", "none.csv"))
    assert line.startswith("f.yaml:10:29: workloads.csv.file: 'none.csv' cannot be read: ")


def test_a_file_is_read_once_for_all_variants(tmp_path: Path) -> None:
    """A large recording would be parsed once more for every variant that changes its workload."""
    (tmp_path / "a.txt").write_text("a")
    read = []

    def reading(path: Path) -> str:
        read.append(path.name)
        return read_text(path)

    inputs = Inputs(tmp_path)
    for models in ((), ("x",), ("x",)):
        assert inputs.serving(models).once(reading, "a.txt") == "a"
        with pytest.raises(ScenarioError, match="no such file"):
            inputs.serving(models).once(reading, "b.txt")
    assert read == ["a.txt", "b.txt"]


def test_variants_that_change_a_recorded_workload_share_one_reading(
    said: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A sweep over a setting of the replay would take seconds to load."""
    lines = []
    parse = files.from_json
    monkeypatch.setattr(files, "from_json", lambda line: lines.append(line) or parse(line))
    sweep = ", ".join(f"v{n}: {{workloads.recorded.agents: {n}}}" for n in range(1, 9))
    assert said(f"{HEAD}{RECORDED}variants: {{{sweep}}}\n") == []
    assert len(lines) == 1
