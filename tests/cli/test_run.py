"""`podsim run`: which runs it makes, what it prints, what it leaves behind."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import pytest

import sim.execution.runner
from sim.cli import main
from sim.core.errors import UserError
from tests.command import started

ROOT = Path(__file__).parents[2]
PATIENCE_S = 300.0
"""So long is only waited for what never comes."""

Found = TypeVar("Found")


def document(result) -> dict:
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


def stored(folder: Path) -> list[str]:
    """The runs below ``folder``, as variant/seed."""
    return sorted(f"{path.parent.name}/{path.name}" for path in folder.glob("tiny-*/*/*"))


def test_prints_the_table_and_nothing_else_where_nobody_watches(podsim):
    """Progress or notices would be mixed into the data, or into logs."""
    result = podsim("run", "tiny.yaml", "--jobs", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("tiny: two pods, forty requests\n")
    assert "Mean over seeds 7, 8 ±" in result.stdout
    header = next(line for line in result.stdout.splitlines() if line.startswith("   "))
    assert header.split() == ["round-robin", "least-loaded"]


def test_the_json_document_is_complete_and_repeatable(podsim):
    """A program that reads podsim would miss a key, or see two runs of one seed differ."""
    first = podsim("run", "tiny.yaml", "--json", "--jobs", 1, "--no-store")
    found = document(first)
    assert sorted(found) == ["comparison", "runs", "scenario"]
    assert found["scenario"] == "tiny"
    assert [(run["variant"], run["seed"]) for run in found["runs"]] == [
        *(("round-robin", 7), ("round-robin", 8)),
        *(("least-loaded", 7), ("least-loaded", 8)),
    ]
    assert all(run["summary"]["requests_completed"] == 40 for run in found["runs"])
    assert len({run["digest"] for run in found["runs"]}) == 4
    figure = found["comparison"]["ttft_s.p95"]["least-loaded"]
    assert sorted(figure) == ["high", "low", "mean", "n"]
    assert figure["n"] == 2
    assert podsim("run", "tiny.yaml", "--json", "--jobs", 2, "--no-store").stdout == first.stdout


def test_a_warning_of_the_file_stays_out_of_the_json(podsim):
    """The document would not parse, or a program's user would not be warned."""
    table = "backends.pods.policy={kind: session-table, maxLoadPercent: 125}"
    result = podsim("run", "tiny.yaml", "--json", "--no-store", "--seed", 1,
                    "--variant", "least-loaded", "--set", table)  # fmt: skip
    assert result.exit_code == 0
    assert "maxLoadPercent" in result.stderr
    assert json.loads(result.stdout)["scenario"] == "tiny"


@pytest.mark.parametrize(
    ("options", "seeds"), [([], [7, 8]), (["--seed", 3], [3]), (["--seeds", 3], [1, 2, 3])]
)
def test_the_command_line_chooses_the_seeds_over_the_file(podsim, options, seeds):
    """A run would be reported under a seed that nobody asked for."""
    found = document(
        podsim("run", "tiny.yaml", "--json", "--no-store", "--variant", "least-loaded", *options)
    )
    assert [run["seed"] for run in found["runs"]] == seeds


def test_one_seed_has_no_interval(podsim):
    """An interval over the requests of one run would pass for one over runs."""
    found = document(podsim("run", "tiny.yaml", "--json", "--no-store", "--seed", 1))
    figure = found["comparison"]["ttft_s.p95"]["least-loaded"]
    assert (figure["low"], figure["high"], figure["n"]) == (None, None, 1)


def test_settings_win_over_the_file_and_its_variants(podsim):
    """--set would be read and not used."""
    options = ("--json", "--no-store", "--seed", 1, "--set", "workloads.traffic.count=5")
    found = document(podsim("run", "tiny.yaml", *options))
    assert [run["summary"]["requests_completed"] for run in found["runs"]] == [5, 5]


def test_every_run_is_stored_in_a_folder_of_its_own(podsim, tmp_path):
    """Results would be lost, or one run would overwrite another."""
    result = podsim("run", "tiny.yaml", "--jobs", 1)
    runs = [
        "least-loaded/seed-7",
        "least-loaded/seed-8",
        "round-robin/seed-7",
        "round-robin/seed-8",
    ]
    assert stored(tmp_path / "results/runs") == runs
    (folder,) = (tmp_path / "results/runs").iterdir()
    assert f"Tables of each run: results/runs/{folder.name}/" in result.stdout
    podsim("run", "tiny.yaml", "--jobs", 1, "--out", "elsewhere", "--seed", 9)
    assert stored(tmp_path / "elsewhere") == ["least-loaded/seed-9", "round-robin/seed-9"]


def test_no_store_writes_nothing(podsim, tmp_path):
    """A quick look would litter the folder it was taken in."""
    assert podsim("run", "tiny.yaml", "--no-store", "--seed", 1).exit_code == 0
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["missing.yaml"], "missing.yaml"),
        (["tiny.yaml", "--variant", "round-robbin"], "did you mean 'round-robin'"),
        (["tiny.yaml", "--set", "backends.pods.replica=3"], "replicas"),
        (["tiny.yaml", "--set", "seeds"], "path=value"),
        (["tiny.yaml", "--seed", "1", "--seeds", "2"], "give only one"),
        (["tiny.yaml", "--no-store", "--out", "x"], "give only one"),
        (["tiny.yaml", "--seeds", "0"], "--seeds"),
        (["tiny.yaml", "--seed", "9223372036854775808"], "--seed"),
        (["tiny.yaml", "--out", "tiny.yaml"], "tiny.yaml"),
        (["tiny.yaml", "--out", "tiny.yaml/x"], "tiny.yaml/x"),
    ],
)
def test_a_slip_is_answered_with_code_2_and_nothing_is_written(podsim, tmp_path, arguments, said):
    """A user's mistake would end in a traceback or in half a result."""
    result = podsim("run", *arguments, "--jobs", 1)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


def test_a_violated_invariant_has_a_code_of_its_own(podsim, monkeypatch: pytest.MonkeyPatch):
    """A run that contradicts itself would pass for a result."""
    monkeypatch.setattr(sim.execution.runner, "check_cheap", lambda result: ["INV-1: 39 != 40"])
    result = podsim("run", "tiny.yaml", "--jobs", 1, "--no-store", "--seed", 1)
    assert result.exit_code == 4
    assert "tiny round-robin seed 1: INV-1: 39 != 40" in result.stderr
    assert result.stdout == ""


def test_a_run_without_variants_is_named_without_one(
    podsim, tmp_path, monkeypatch: pytest.MonkeyPatch
):
    """A gap in the message would look as if a name had been lost."""
    monkeypatch.setattr(sim.execution.runner, "check_cheap", lambda result: ["INV-1: 39 != 40"])
    scenario = tmp_path / "tiny.yaml"
    scenario.write_text(scenario.read_text("utf-8").split("variants:")[0], "utf-8")
    result = podsim("run", "tiny.yaml", "--jobs", 1, "--no-store", "--seed", 1)
    assert "tiny seed 1: INV-1: 39 != 40" in result.stderr


def test_check_verifies_every_invariant(podsim, monkeypatch: pytest.MonkeyPatch):
    """--check would look only at the cheap ones."""
    monkeypatch.setattr(sim.execution.runner, "check_all", lambda result: ["seen"])
    assert podsim("run", "tiny.yaml", "--check", "--no-store", "--jobs", 1).exit_code == 4


def test_a_folder_that_cannot_be_made_is_found_before_the_first_run(
    podsim, monkeypatch: pytest.MonkeyPatch
):
    """An hour of simulation would end in a message that its result cannot be stored."""
    monkeypatch.setattr(sim.execution.runner, "run_one", lambda *_: pytest.fail("was simulated"))
    result = podsim("run", "tiny.yaml", "--out", "tiny.yaml/x", "--jobs", 1)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: cannot store the results in tiny.yaml/x/tiny-")
    assert result.stderr.endswith(": Not a directory\n")


@pytest.mark.parametrize("fails_at", [7, 8])
def test_kept_runs_are_told_of_when_there_are_any(
    podsim, tmp_path, monkeypatch: pytest.MonkeyPatch, fails_at
):
    """A user would look for results that nobody has stored, or find an empty folder."""
    run_one = sim.execution.runner.run_one

    def interrupted(scenario, seed, *others):
        if seed == fails_at:
            raise KeyboardInterrupt
        return run_one(scenario, seed, *others)

    monkeypatch.setattr(sim.execution.runner, "run_one", interrupted)
    result = podsim("run", "tiny.yaml", "--out", "here/there", "--jobs", 1)
    kept = "finished runs are kept in here/there\n" if fails_at == 8 else ""
    assert (result.exit_code, result.stderr) == (130, f"{kept}interrupted\n")
    assert (tmp_path / "here").exists() == (fails_at == 8)


@contextmanager
def calling(folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A call with two workers that runs for minutes."""
    run = ("run", "scenarios/quickstart.yaml", "--jobs", "2", "--out", str(folder))
    with started(*run, *options) as child:
        yield child


@pytest.fixture
def long_run(tmp_path) -> Iterator[subprocess.Popen[str]]:
    """Very many short runs."""
    with calling(tmp_path, "--seeds", "1000") as child:
        yield child


def wait_for(condition: Callable[[], Found]) -> Found:
    """What it says when that is neither empty nor false."""
    deadline_s = time.monotonic() + PATIENCE_S
    while not (found := condition()):
        assert time.monotonic() < deadline_s
        time.sleep(0.02)
    return found


def workers_of(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes that a call has started so far."""
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(child) for child in children if b"spawn_main" in command_line(child)]


def command_line(process: str) -> bytes:
    """Empty for one that has ended meanwhile, such as git."""
    try:
        return Path("/proc", process, "cmdline").read_bytes()
    except OSError:
        return b""


def finished_runs(folder: Path) -> list[Path]:
    return list(folder.glob("*/*/seed-*/manifest.json"))


def test_an_interruption_keeps_the_finished_runs_and_starts_no_further_one(tmp_path, long_run):
    """Ctrl-C would lose finished runs, print tracebacks of workers, or wait for the last run.

    It comes twice, as from an impatient user or a wrapper that passes it on.
    """
    wait_for(lambda: len(finished_runs(tmp_path)) > 4)  # so the parent has heard of the first
    os.killpg(long_run.pid, signal.SIGINT)
    time.sleep(0.05)
    with suppress(ProcessLookupError):
        os.killpg(long_run.pid, signal.SIGINT)
    # The output ends when the last process that could write to it is gone.
    stdout, stderr = long_run.communicate(timeout=PATIENCE_S)
    assert (long_run.returncode, stdout) == (130, "")
    assert stderr == f"finished runs are kept in {tmp_path}\ninterrupted\n"
    assert 1 <= len(finished_runs(tmp_path)) < 1000
    assert list(tmp_path.glob("*/*/.*")) == []


def test_a_killed_worker_is_no_bug_and_costs_only_the_run_it_had_in_hand(tmp_path):
    """Where memory is short, the kernel's choice would end all runs, or be shown as a traceback."""
    with calling(tmp_path / "out", "--seeds", "8", "--set", "window.measure=30s") as child:
        wait_for(lambda: finished_runs(tmp_path / "out"))
        os.kill(wait_for(lambda: workers_of(child))[0], signal.SIGKILL)
        _, stderr = child.communicate(timeout=PATIENCE_S)
    assert (child.returncode, stderr) == (0, "")
    assert len(finished_runs(tmp_path / "out")) == 24


def test_python_dash_m_is_the_same_command():
    """Where the script is not on the path, nothing would work."""
    child = subprocess.run(
        [sys.executable, "-m", "sim.cli", "--version"], capture_output=True, text=True, check=True
    )
    assert child.stdout.startswith("podsim ")
    assert main.name == "main"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("sweep", "tiny.yaml", "--grid", "slo.ttft=1s", "-o", "x.xls"), ".parquet or .csv"),
        (("report", "tiny", "-o", "x.pdf"), ".html or .htm"),
        (("run", "tiny.yaml", "--timeline", "x.csv"), ".json or .gz"),
        (("run", "tiny.yaml", "--prometheus", "x.json"), ".prom or .txt"),
        (("export", "tiny", "--prometheus", "x.csv"), ".prom or .txt"),
        (("export", "tiny", "--trace", "x.csv"), ".jsonl or .ndjson or .gz"),
        (("export", "tiny", "--csv", "x.csv"), "x.csv: must be a folder"),
        (("import", "tiny.yaml", "-o", "x.json"), ".yaml or .yml"),
    ],
    ids=lambda found: found if isinstance(found, str) else found[0],
)
def test_a_file_is_what_its_name_says(podsim, tmp_path, arguments, message):
    """``sweep -o x.csv`` wrote Parquet, ``report -o x.pdf`` a page, and so on."""
    result = podsim(*arguments)
    assert result.exit_code == 2
    assert message in result.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["tiny.yaml"]


@pytest.mark.parametrize(
    "options", [("--set", "seeds=[3]", "--seed", 4), ("--set", "seeds=[3]", "--seeds", 2)]
)
def test_seeds_are_said_once(podsim, options):
    """One of two ways to say the seeds won without a word."""
    result = podsim("run", "tiny.yaml", "--no-store", *options)
    assert result.exit_code == 2
    assert "give only one" in result.stderr
    with pytest.raises(UserError, match="give only one"):
        sim.run("tiny.yaml", seeds=[4], settings="seeds=[3]")
