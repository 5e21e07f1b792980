"""Stored runs explained: by the command, from Python, and when they cannot be repeated."""

import json
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.errors import UserError
from sim.explain import explain, parts
from sim.explain.kinds import NAMES
from sim.results.arrow import whole
from sim.results.store import read
from sim.results.stored import MANIFEST
from tests.cli.conftest import podsim  # noqa: F401
from tests.command import Podsim
from tests.explain.runs import check

RUN = Path("results", "runs")
TTFT_AND_REST = {"queue_unsplit_s", "service_unsplit_s"}


@pytest.fixture
def stored(podsim: Podsim) -> Podsim:  # noqa: F811
    """``tiny.yaml`` has been run: two variants, two seeds."""
    assert podsim("run", "tiny.yaml", "--jobs", 1).exit_code == 0
    return podsim


def place(variant: str = "round-robin", seed: int = 7) -> Path:
    (folder,) = RUN.glob("tiny-*")
    return folder / variant / f"seed-{seed}"


def changed(**manifest: Any) -> None:
    """Another manifest for a stored run."""
    path = place() / MANIFEST
    document = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps({**document, **manifest}), "utf-8")


def test_variants_stand_side_by_side_and_their_slowest_follow(stored: Podsim) -> None:
    """The question why one variant is slower than another would have no answer."""
    ran = stored("explain", "tiny", "--slowest", 3, "--jobs", 1)
    assert ran.exit_code == 0, ran.output
    lines = ran.stdout.splitlines()
    assert lines[0] == "tiny, seed 7: where the time to the first token went"
    (head,) = [line for line in lines if line.startswith("mean over all, s")]
    assert head.split()[-2:] == ["round-robin", "least-loaded"]
    assert "4 runs; explained is the first seed of each variant" in ran.stderr
    table = lines[lines.index(next(line for line in lines if line.startswith("slowest, s"))) :]
    assert len(table[1 : table.index("")]) == 3 + 1
    assert table[4].startswith("sum")
    assert max(map(len, lines)) <= 100


def test_json_has_everything_and_adds_up(stored: Podsim) -> None:
    """Scripts would get other figures than readers, or parts of something else."""
    ran = stored("explain", "tiny", "--json", "--jobs", 1)
    assert ran.exit_code == 0, ran.output
    runs = json.loads(ran.stdout)["runs"]
    assert [(run["variant"], run["seed"], run["repeated"]) for run in runs] == [
        ("round-robin", 7, True),
        ("least-loaded", 7, True),
    ]
    told = [request for run in runs for request in run["requests"]]
    assert len(told) == 10
    for run in runs:
        assert sum(run["all"]["parts_s"].values()) == pytest.approx(run["all"]["ttft_s"])
        assert run["all"]["requests"] == 40
        summary = read(place(run["variant"])).summary
        assert run["all"]["ttft_s"] == pytest.approx(summary["ttft_s"]["mean"])
    for request in told:
        assert sum(request["parts_s"].values()) == pytest.approx(request["ttft_s"], abs=1e-9)
        assert len(request["decisions"][-1]["pods"]) == 2


def test_one_request_is_told_in_full(stored: Podsim) -> None:
    """Parts, decision and pods of one request: what the table has no room for."""
    ran = stored("explain", place(), 7, 3)
    assert ran.exit_code == 0, ran.output
    blocks = ran.stdout.split("\n\n")
    assert [block.splitlines()[0].split(":")[0] for block in blocks] == [
        "request 7 (round-robin, seed 7)",
        "request 3 (round-robin, seed 7)",
    ]
    assert "by round-robin: placed" in blocks[0]
    assert "sent here" in blocks[0]


@pytest.mark.parametrize("name", ["tiny", "tiny/round-robin", "tiny/round-robin/seed-7"])
def test_the_request_to_ask_for_next_can_be_asked_for(stored: Podsim, name: str) -> None:
    """Of a variant with several seeds the last line named a command that is refused."""
    last = stored("explain", name, "--slowest", 1).stdout.splitlines()[-1]
    command = shlex.split(last.removeprefix("All about one of them: "))
    assert command[:2] == ["podsim", "explain"]
    result = stored(*command[1:])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith(f"request {command[3]} ")


def test_output_does_not_depend_on_jobs(stored: Podsim) -> None:
    """Two people would see different tables of the same runs."""
    outputs = [stored("explain", "tiny", "--jobs", jobs).stdout for jobs in (1, 2)]
    assert outputs[0] == outputs[1] != ""


def test_a_request_that_is_not_there_is_answered_with_those_that_are(stored: Podsim) -> None:
    """A number that is out of range would end in a traceback."""
    ran = stored("explain", place(), 40, 99)
    assert ran.exit_code == 2
    assert ran.stderr == "error: requests [40, 99]: not in this run, its requests are 0 to 39\n"


def test_a_request_of_several_runs_is_asked_back(stored: Podsim) -> None:
    """Request 3 of some run would be told, not of the one that was meant."""
    ran = stored("explain", "tiny", 3)
    assert ran.exit_code == 2
    assert ran.stderr.startswith("error: tiny: 4 runs, each with requests of its own; name one")
    assert f"podsim explain {place()} 3" in ran.stderr


def test_runs_of_several_scenarios_are_asked_back(stored: Podsim) -> None:
    """Means of runs that have nothing to do with each other would stand side by side."""
    assert (
        stored("run", "tiny.yaml", "--set", "slo.ttft=1s", "--seed", 7, "--jobs", 1).exit_code == 0
    )
    ran = stored("explain", RUN)
    assert ran.exit_code == 2
    assert "runs of 2 scenarios; name one of them" in ran.stderr


def test_requests_and_a_number_of_them_contradict(stored: Podsim) -> None:
    """One of the two would be ignored silently."""
    ran = stored("explain", place(), 3, "--slowest", 2)
    assert ran.exit_code == 2
    assert "give only one" in ran.stderr


def test_another_result_is_not_taken_for_the_run(stored: Podsim) -> None:
    """Steps of a run that never was would explain one that was; its tables still speak."""
    scenario = json.loads((place() / MANIFEST).read_text("utf-8"))["scenario"]
    scenario["engines"]["small"]["stepTime"]["a"] = 11.0
    changed(scenario=scenario, podsim="0.0.9")
    explanation = explain(place())
    assert explanation.repetition is None
    assert "made by podsim 0.0.9 and this one comes to another result" in explanation.why_not
    table = explanation.breakdown.parts_s
    assert {name for name in NAMES if table[name].any()} <= TTFT_AND_REST
    added_s = np.sum(list(table.values()), axis=0)
    assert np.allclose(added_s, explanation.breakdown.ttft_s, rtol=0.0, atol=1e-9)
    ran = stored("explain", place())
    assert ran.exit_code == 0
    told = " ".join(ran.stdout.split())
    assert "note: round-robin, seed 7: only what its tables tell, since it was made" in told


def test_a_scenario_that_is_no_longer_read_is_said(stored: Podsim) -> None:
    """A run of an older podsim with a key that is gone would end in a list of faults."""
    scenario = json.loads((place() / MANIFEST).read_text("utf-8"))["scenario"]
    changed(scenario={**scenario, "gone": 1})
    explanation = explain(place())
    assert "its scenario cannot be read any more" in explanation.why_not
    assert "gone" in explanation.why_not
    assert stored("explain", place(), 3).exit_code == 0


def test_files_of_a_scenario_are_found_where_it_was_run(
    stored: Podsim, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trace beside the scenario would be looked for beside the reader."""
    (tmp_path / "sub").mkdir()
    rows = "arrival_s,prompt_tokens,output_tokens\n0,100,2\n1,100,2\n"
    (tmp_path / "sub" / "rows.csv").write_text(rows, "utf-8")
    text = (tmp_path / "tiny.yaml").read_text("utf-8")
    head = text[: text.index("workloads:")].replace("name: tiny", "name: filed")
    workload = "workloads: {w: {kind: script, file: rows.csv}}\n"
    (tmp_path / "sub" / "filed.yaml").write_text(head + workload, "utf-8")
    ran = stored("run", "sub/filed.yaml", "--seed", 7, "--jobs", 1)
    assert ran.exit_code == 0, ran.output
    (run,) = (tmp_path / RUN).glob("filed-*/base/seed-7")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    check(explain(run))
    (tmp_path / "sub" / "rows.csv").unlink()
    assert "rows.csv" in explain(run).why_not


def test_a_data_frame_stacks_up_to_ttft(stored: Podsim) -> None:
    """A plot of stacked bars would end below or above the TTFT."""
    frame = parts(place())
    assert list(frame.index) == list(range(40))
    assert np.allclose(frame[list(NAMES)].sum(axis=1), frame["ttft_s"], rtol=0.0, atol=1e-9)
    some = parts(str(place()), [5, 2])
    assert list(some.index) == [5, 2]
    assert some.loc[2].to_dict() == frame.loc[2].to_dict()
    with pytest.raises(UserError, match=r"request 40: not in this run, its requests are 0 to 39"):
        parts(place(), [40])
    with pytest.raises(UserError, match="must be the folder of one stored run; it holds 4"):
        parts(RUN)


def test_a_result_in_memory_needs_its_scenario(stored: Podsim) -> None:
    """A notebook that has just simulated would have to store first."""
    runs = sim.run("tiny.yaml", seeds=(7,))
    with pytest.raises(UserError, match="give scenario="):
        parts(runs.runs[1])
    explanation = explain(runs.runs[1], scenario=runs.scenario)
    check(explanation)
    assert explanation.result.variant == "least-loaded"


def test_a_run_without_measured_requests_says_so(stored: Podsim) -> None:
    """Means over nothing would be NaN, or a traceback."""
    window = ("--set", "window.warmup=60s", "--set", "window.measure=10s")
    before = set(RUN.iterdir())
    assert stored("run", "tiny.yaml", "--seed", 7, "--jobs", 1, *window).exit_code == 0
    (newest,) = set(RUN.iterdir()) - before
    ran = stored("explain", newest, "--jobs", 1)
    assert ran.exit_code == 0, ran.output
    assert "No request of this window has a first token." in ran.stdout
    assert json.loads(stored("explain", newest, "--json", "--jobs", 1).stdout)["runs"][0][
        "all"
    ] == {
        "requests": 0,
        "ttft_s": None,
        "parts_s": None,
        "missed_s": None,
        "missed_tokens": None,
    }


def test_an_engine_that_tells_less_is_told_as_such(
    stored: Podsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step of somebody else's engine would be divided by prices that are not its own."""
    monkeypatch.setattr("sim.explain.instrumentation.step_costs", lambda _: None)
    explanation = explain(place())
    assert explanation.why_not == ""
    table = explanation.breakdown.parts_s
    known = {"step_in_flight_s", "no_share_s"}
    assert {name for name in NAMES if table[name].any()} <= TTFT_AND_REST | known
    assert table["service_unsplit_s"].all()
    added_s = np.sum(list(table.values()), axis=0)
    assert np.allclose(added_s, explanation.breakdown.ttft_s, rtol=0.0, atol=1e-9)
    assert whole(explanation.result.tables.requests, "attempts").all()
