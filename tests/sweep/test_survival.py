"""What a sweep loses when something dies: the runs in flight, and no finished one."""

import errno
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

import sim.sweep
from sim.core.errors import InvariantError, UserError, WorkerError
from sim.execution.parallel import InProcess, no_tick
from sim.sweep.design import design
from sim.sweep.executors import executor_factory, factory_for_scripts
from sim.sweep.runs import TABLE, Failed, Measured, Task, measure_all
from sim.sweep.sweep import plan, run_sweep
from sim.sweep.table import build, write
from tests.sweep.conftest import ROOT
from tests.sweep.here import here

PATIENCE_S = 300.0
"""So long is only waited for what never comes."""
RUNS = 8
SWEEP = (
    *("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1..2..1"),
    *("--set", "window.measure=2m", "--seeds"),
)
ENDLESS = (*SWEEP, "5000")
"""The same with more runs than any machine makes while a signal is on its way."""


def kept(folder: Path) -> list[Path]:
    return sorted(folder.glob("results/sweeps/*/runs/*/*/seed-*.json"))


def table_bytes(folder: Path, root: str = "results/sweeps") -> bytes:
    (found,) = folder.glob(f"{root}/*/{TABLE}")
    return found.read_bytes()


def wait_for(condition) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def test_a_killed_sweep_loses_no_finished_run_and_a_rerun_completes_it(
    started, podsim, folder, monkeypatch
):
    """A night of runs would be lost with the machine, or its workers would go on for ever."""
    child = started(*ENDLESS, "--jobs", "2")
    wait_for(lambda: len(kept(folder)) >= 2 or child.poll() is not None)
    child.kill()
    child.communicate(timeout=PATIENCE_S)  # ends with the last process that could write to it
    assert not list(folder.glob(f"results/sweeps/*/{TABLE}"))
    asked_for = [path for path in kept(folder) if path.stem in ("seed-1", "seed-2")]
    before = {path: path.stat().st_mtime_ns for path in asked_for}
    assert before  # they were the first to be begun

    monkeypatch.setattr("sim.sweep.executors.worker_processes", here)
    rerun = podsim(*SWEEP, "2")
    assert rerun.exit_code == 0
    assert f"{len(before)} of {RUNS} runs are kept" in rerun.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert podsim(*SWEEP, "2", "--out", "undisturbed").exit_code == 0
    assert table_bytes(folder) == table_bytes(folder, "undisturbed")


@pytest.mark.parametrize("executor", ["processes", pytest.param("dask", marks=pytest.mark.slow)])
def test_ctrl_c_at_a_terminal_is_heard_by_one_process(started, folder, executor):
    """A terminal sends it to all of them: every worker of Dask printed its traceback. And whoever
    interrupts would not know whether the night was for nothing.
    """
    child = started(*ENDLESS, "--jobs", "2", "--executor", executor)
    wait_for(lambda: len(kept(folder)) >= 2 or child.poll() is not None)
    os.killpg(child.pid, signal.SIGINT)
    _, told = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 130
    assert "finished runs are kept; the same command makes the missing ones" in told
    assert "Traceback" not in told


def planned():
    points = design(grid=["backends.pods.replicas=1..2..1"], settings=["window.measure=30s"])
    return plan("tiny.yaml", points, seeds=(1, 2))


@dataclass(frozen=True)
class Doomed(Task):
    """A run whose process is killed, once: ``sign`` says that it has been."""

    sign: Path = Path()

    def measure(self, _=no_tick):
        if not self.sign.exists():
            self.sign.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().measure()


def planned_with_a_doomed_run(folder):
    """The sweep whose third run is killed the first time; how often is left to ``retries``."""
    plan = planned()
    (point, task) = plan.runs[2]
    doomed = Doomed(task.scenarios, task.seed, task.podsim, folder / "killed")
    return replace(plan, runs=(*plan.runs[:2], (point, doomed), *plan.runs[3:]))


def test_a_killed_worker_costs_its_run_one_try(folder):
    """For want of memory in one process the whole sweep would end."""
    plan = planned_with_a_doomed_run(folder)
    tried = run_sweep(plan, folder / "a", executor_factory("processes", 2, None))
    assert (folder / "killed").exists()
    assert not tried.failed
    assert tried.columns.equals(run_sweep(planned(), folder / "b", here).columns)


def test_a_run_that_was_not_tried_again_stands_in_the_table_until_a_rerun(folder):
    """A failed point would be missing from the table, or no rerun would ever complete it."""
    root, opened = folder / "kept", executor_factory("processes", 2, None)
    plan = planned_with_a_doomed_run(folder)
    tried = run_sweep(plan, root, opened, retries=0)
    ((point, task, failed),) = tried.failed
    assert (point, task) == plan.runs[2]
    assert failed.tries == 1 and "killed by SIGKILL" in failed.reason
    write(tried.columns, tried.folder / TABLE)
    table = sim.sweep.read(tried.folder)
    (row,) = table[table["status"] == "failed"].to_dict("records")
    assert (row["point"], row["variant"], row["seed"]) == (point, task.variant, task.seed)
    assert "killed by SIGKILL" in row["error"]
    assert math.isnan(row["ttft_s.p95"])
    notes: list[str] = []
    rerun = run_sweep(planned(), root, here, on_message=notes.append)
    assert notes == [f"{RUNS - 1} of {RUNS} runs are kept in {rerun.folder} from before"]
    assert not rerun.failed


class Harmless:
    def measure(self, _=no_tick):
        return Measured("fine", {}, ())


class Broken:
    def __init__(self, error):
        self.error = error

    def measure(self, _=no_tick):
        raise self.error


def test_a_broken_invariant_is_a_bug_and_not_tried_again_other_errors_are_told_by_type():
    """A bug would be computed again and again, or be taken for a machine that failed."""
    outcomes = {}
    errors = (InvariantError("INV-1 broken"), UserError("no file\nhere"), KeyError("x"))
    tasks = [*(Broken(error) for error in errors), Harmless()]
    measure_all(tasks, InProcess(), 1, outcomes.__setitem__)
    assert outcomes[0] == Failed("INV-1 broken", 1, is_bug=True)
    assert outcomes[1] == Failed("no file here", 2)
    assert outcomes[2] == Failed("KeyError: 'x'", 2)
    assert outcomes[3] == Measured("fine", {}, ())


def test_ctrl_c_in_this_process_loses_no_finished_run():
    """Ctrl-C would count as the failure of one run."""
    outcomes = {}
    tasks = [Harmless(), Broken(KeyboardInterrupt()), Harmless()]
    with pytest.raises(KeyboardInterrupt):
        measure_all(tasks, InProcess(), 1, outcomes.__setitem__)
    assert outcomes == {0: Measured("fine", {}, ())}


SCRIPT = """\
import sim
made = sim.sweep.run("tiny.yaml", grid={"backends.pods.replicas": [1, 2]}, store="script")
assert not made.failed
(one, other) = sim.sweep.find("tiny.yaml", "backends.pods.replicas=1..2", "ttft_s.p50 <= 10")
print(len(made.table), one.status, other.status)
"""


@pytest.mark.parametrize("as_file", [True, False])
def test_a_plain_script_needs_no_guard_and_makes_the_table_of_worker_processes(folder, as_file):
    """A script without ``if __name__ == "__main__"`` ended in Python's bootstrapping error, one
    that was piped into Python in FileNotFoundError.
    """
    (folder / "script.py").write_text(SCRIPT, encoding="utf-8")
    child = subprocess.run(
        [sys.executable, "script.py" if as_file else "-"],
        input=None if as_file else SCRIPT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    assert (child.stderr, child.stdout) == ("", f"{RUNS} always always\n")
    grid = {"backends.pods.replicas": [1, 2]}
    sim.sweep.run("tiny.yaml", grid=grid, jobs=2, store="processes")
    assert table_bytes(folder, "script") == table_bytes(folder, "processes")


def test_one_job_is_a_process_of_its_own_on_the_command_line_alone(folder, monkeypatch):
    """A killed worker would end a whole sweep with --jobs 1, or a script would start processes
    that it did not ask for.
    """
    asked = []

    def noted(count):
        asked.append(count)
        return here(count)

    monkeypatch.setattr("sim.sweep.executors.worker_processes", noted)
    run_sweep(planned(), folder / "a", executor_factory("processes", 1, None))
    assert asked == [1]
    grid = {"backends.pods.replicas": [1]}
    sim.sweep.run("tiny.yaml", grid=grid, seeds=[1])
    assert asked == [1]
    sim.sweep.run("tiny.yaml", grid=grid, seeds=[2], jobs=2)
    assert asked == [1, 2]


@pytest.mark.parametrize(
    ("jobs", "address", "asked"),
    [(1, None, None), (3, None, 3), (1, "tcp://head:8786", None)],
)
def test_one_job_says_nothing_about_a_cluster(monkeypatch, jobs, address, asked):
    """A cluster here would have one process, and one elsewhere would refuse the number of jobs."""
    heard = []
    monkeypatch.setattr("sim.sweep.executors.executor_factory", lambda *given: heard.append(given))
    factory_for_scripts("dask", jobs, address)
    assert heard == [("dask", asked, address)]


@pytest.mark.parametrize("jobs", [0, None, True, "2", 1.5])
def test_a_number_of_jobs_that_cannot_be_meant(folder, jobs):
    """It would end in an exception of some library, or be taken for something else."""
    with pytest.raises(UserError, match="jobs: must be a whole number from 1; got"):
        sim.sweep.run("tiny.yaml", grid={"backends.pods.replicas": "1,2"}, jobs=jobs)
    with pytest.raises(UserError, match="jobs: must be a whole number from 1; got"):
        sim.sweep.find("tiny.yaml", "backends.pods.replicas=1..2", "ttft_s.p50 <= 1", jobs=jobs)


def full_disk(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """From the ``after``-th file on, half of it is written and then the disk is full."""
    whole, written_files = Path.write_bytes, []

    def write_bytes(path: Path, content: bytes) -> int:
        written_files.append(path)
        if len(written_files) <= after:
            return whole(path, content)
        whole(path, content[: len(content) // 2])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", write_bytes)


def test_a_full_disk_ends_a_sweep_kindly_and_loses_no_finished_run(podsim, folder, monkeypatch):
    """Half a file would be taken for a run, or every finished run would be made again."""
    monkeypatch.setattr("sim.sweep.executors.worker_processes", here)
    with pytest.MonkeyPatch.context() as patch:
        full_disk(patch, after=1 + 5)
        result = podsim(*SWEEP, "2")
    assert result.exit_code == 2
    assert "cannot keep a finished run in results/sweeps" in result.stderr
    assert "No space left on device" in result.stderr
    assert "the same command makes the missing ones" in result.stderr
    assert "Traceback" not in result.stderr
    assert len(kept(folder)) == 5
    assert not list(folder.rglob(".unfinished-*"))
    again = podsim(*SWEEP, "2")
    assert again.exit_code == 0
    assert f"5 of {RUNS} runs are kept" in again.stderr
    podsim(*SWEEP, "2", "--out", "other")
    assert table_bytes(folder) == table_bytes(folder, "other")


def test_a_disk_that_is_full_at_the_table_leaves_the_old_one(folder, monkeypatch):
    """A table would be cut off in the middle."""
    small = design(grid=["backends.pods.replicas=1"])
    made = plan("tiny.yaml", small, seeds=(1,))
    outcomes = [Measured("digest", {"requests": 3}, ())] * 2
    columns = build(small, made.scenarios, made.runs, outcomes)
    write(columns, folder / "table.parquet")
    before = (folder / "table.parquet").read_bytes()

    def refuse(_, place: Path) -> None:
        place.write_bytes(b"PAR1")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("sim.results.arrow.write", refuse)
    with pytest.raises(UserError, match=r"cannot write the table .* No space left on device"):
        write(columns, folder / "table.parquet")
    assert (folder / "table.parquet").read_bytes() == before
    assert sorted(path.name for path in folder.iterdir()) == ["table.parquet", "tiny.yaml"]


def test_failed_runs_are_told_and_the_exit_code_says_so(podsim, monkeypatch):
    """A script would take half a table for a whole one."""

    def refuse(*_, **__):
        raise WorkerError("no such luck")

    monkeypatch.setattr("sim.sweep.runs.run_set", refuse)
    monkeypatch.setattr("sim.sweep.executors.worker_processes", here)
    result = podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1", "--seeds", "1")
    assert result.exit_code == 70
    assert (
        "failed: point 0 (backends.pods.replicas=1), variant round-robin seed 1: no such luck "
        "(tried 2 times)"
    ) in result.stderr
    assert "2 of 2 runs failed" in result.stderr
