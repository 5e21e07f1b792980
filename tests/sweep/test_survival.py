"""What a sweep loses when something dies: the runs in flight, and no finished one."""

import errno
import math
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from multiprocessing import active_children
from pathlib import Path

import pytest
from sim.sweep.executor import ThisProcess, worker_processes
from sim.sweep.kept import TABLE
from sim.sweep.places import opener, opener_for_scripts

import sim.sweep
from sim.core.errors import InvariantError, UserError, WorkerError
from sim.sweep.design import written
from sim.sweep.runs import Failed, Measured, Task, measure_all
from sim.sweep.sweep import carry_out, plan
from sim.sweep.table import build, write
from tests.sweep.conftest import ROOT
from tests.sweep.here import here
from tests.sweep.interrupted import INSTANTS

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


def in_group(group: int) -> list[int]:
    """The processes of a group that have not ended."""
    found = []
    for place in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = place.read_text(encoding="utf-8").rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[2]) == group and fields[0] != "Z":
            found.append(int(place.parent.name))
    return found


def stopped(
    started, folder: Path, number: signal.Signals, *options: str, send=os.kill
) -> tuple[int, str]:
    """Start an endless sweep, send it a signal once two runs are kept, wait for its processes."""
    child = started(*ENDLESS, "--jobs", "2", *options)
    wait_for(lambda: len(kept(folder)) >= 2 or child.poll() is not None)
    send(child.pid, number)
    _, told = child.communicate(timeout=PATIENCE_S)
    wait_for(lambda: not in_group(child.pid))
    assert len(kept(folder)) >= 2
    assert not list(folder.glob(f"results/sweeps/*/{TABLE}"))
    return child.returncode, told


def test_a_killed_sweep_loses_no_finished_run_and_a_rerun_completes_it(
    started, podsim, folder, monkeypatch
):
    """A night of runs would be lost with the machine, or its workers would go on for ever."""
    code, _ = stopped(started, folder, signal.SIGKILL)
    assert code == -signal.SIGKILL
    asked_for = [path for path in kept(folder) if path.stem in ("seed-1", "seed-2")]
    before = {path: path.stat().st_mtime_ns for path in asked_for}
    assert before  # they were the first to be begun

    monkeypatch.setattr("sim.sweep.places.worker_processes", here)
    rerun = podsim(*SWEEP, "2")
    assert rerun.exit_code == 0
    assert f"{len(before)} of {RUNS} runs are kept" in rerun.stderr
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert podsim(*SWEEP, "2", "--out", "undisturbed").exit_code == 0
    assert table_bytes(folder) == table_bytes(folder, "undisturbed")


def test_ctrl_c_ends_a_sweep_at_once_and_says_what_is_kept(started, folder):
    """Whoever interrupts would not know whether the night was for nothing."""
    code, told = stopped(started, folder, signal.SIGINT)
    assert code == 130
    assert "finished runs are kept; the same command makes the missing ones" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_ctrl_c_at_a_terminal_is_heard_by_one_process(started, folder, executor):
    """A terminal sends it to all of them: every worker of Dask printed its traceback."""
    options = ("--executor", executor)
    code, told = stopped(started, folder, signal.SIGINT, *options, send=os.killpg)
    assert code == 130
    assert "finished runs are kept; the same command makes the missing ones" in told
    assert "Traceback" not in told


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_ctrl_c_is_obeyed_at_every_instant(executor):
    """Now and then it came while a future's lock was taken: the thread that was to end the future
    waited for the lock, the sweep for the thread, and both for ever.
    """
    child = subprocess.run(
        [sys.executable, "-m", "tests.sweep.interrupted", executor],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=10 * PATIENCE_S,
    )
    assert child.stderr == ""
    obeyed, ignored = map(int, re.findall(r"\d+", child.stdout))
    assert INSTANTS / 2 < obeyed <= INSTANTS and ignored == 0


def planned():
    design = written(grid=["backends.pods.replicas=1..2..1"], settings=["window.measure=30s"])
    return plan("tiny.yaml", design, seeds=(1, 2))


@dataclass(frozen=True)
class Doomed(Task):
    """A run whose process is killed, once: ``sign`` says that it has been."""

    sign: Path = Path()

    def measure(self):
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
    tried = carry_out(plan, folder / "a", opener("processes", 2, None))
    assert (folder / "killed").exists()
    assert not tried.failed
    assert tried.columns.equals(carry_out(planned(), folder / "b", here).columns)


def test_a_run_that_was_not_tried_again_stands_in_the_table_until_a_rerun(folder):
    """A failed point would be missing from the table, or no rerun would ever complete it."""
    root, opened = folder / "kept", opener("processes", 2, None)
    plan = planned_with_a_doomed_run(folder)
    tried = carry_out(plan, root, opened, retries=0)
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
    rerun = carry_out(planned(), root, here, note=notes.append)
    assert notes == [f"{RUNS - 1} of {RUNS} runs are kept in {rerun.folder} from before"]
    assert not rerun.failed


class Deadly:
    """A run that takes its process with it, every time."""

    def measure(self):
        os.kill(os.getpid(), signal.SIGKILL)


class Harmless:
    def measure(self):
        return Measured("fine", {}, ())


class Broken:
    def __init__(self, error):
        self.error = error

    def measure(self):
        raise self.error


def test_a_run_that_always_dies_takes_no_other_with_it():
    """The neighbours of a run that needs too much memory would fail with it."""
    outcomes = {}
    tasks = [Harmless(), Deadly(), *[Harmless()] * 6]
    with worker_processes(2) as executor:
        measure_all(tasks, executor, 2, outcomes.__setitem__)
    dead = outcomes.pop(1)
    assert isinstance(dead, Failed) and dead.tries == 3 and not dead.is_bug
    assert "killed by SIGKILL (out of memory?)" in dead.reason
    assert outcomes == {index: Measured("fine", {}, ()) for index in (0, 2, 3, 4, 5, 6, 7)}
    assert not active_children()


def test_a_run_that_cannot_be_sent_or_ends_with_the_error_of_a_dead_worker_fails_alone():
    """It would end the sweep, or leave a process behind that nobody knows any more."""
    outcomes = {}
    unknown = type("Unknown", (Harmless,), {})  # nobody finds it by its name
    tasks = [unknown(), Broken(WorkerError("not so")), *[Harmless()] * 3]
    with worker_processes(2) as executor:
        measure_all(tasks, executor, 0, outcomes.__setitem__)
        assert len(active_children()) == 2
    assert "cannot be sent to a worker process" in outcomes.pop(0).reason
    assert outcomes.pop(1) == Failed("not so", 1)
    assert outcomes == {index: Measured("fine", {}, ()) for index in (2, 3, 4)}
    assert not active_children()


def test_a_worker_that_dies_in_idleness_costs_no_run_a_try():
    """The next run would count as failed, though nobody had heard of it."""
    outcomes = {}
    with worker_processes(2) as executor:
        for child in active_children():
            child.kill()
            child.join()
        measure_all([Harmless()] * 3, executor, 0, outcomes.__setitem__)
    assert outcomes == dict.fromkeys(range(3), Measured("fine", {}, ()))


def test_without_another_process_a_sweep_goes_on_with_those_it_has(monkeypatch):
    """All runs that were left would fail one after another, and be said to want memory."""
    refusal = WorkerError("cannot start a worker process: Too many open files")

    def refuse():
        raise refusal

    outcomes = {}
    with worker_processes(2) as executor:
        monkeypatch.setattr("sim.sweep.executor.start", refuse)
        measure_all([Deadly(), *[Harmless()] * 3], executor, 0, outcomes.__setitem__)
        assert "killed by SIGKILL" in outcomes.pop(0).reason
        assert outcomes == {index: Measured("fine", {}, ()) for index in (1, 2, 3)}
        with pytest.raises(WorkerError, match="cannot start a worker process: Too many"):
            measure_all([Deadly(), Harmless()], executor, 0, outcomes.__setitem__)


def test_a_broken_invariant_is_a_bug_and_not_tried_again_other_errors_are_told_by_type():
    """A bug would be computed again and again, or be taken for a machine that failed."""
    outcomes = {}
    errors = (InvariantError("INV-1 broken"), UserError("no file\nhere"), KeyError("x"))
    with worker_processes(1) as executor:
        measure_all([Broken(error) for error in errors], executor, 1, outcomes.__setitem__)
    assert outcomes[0] == Failed("INV-1 broken", 1, is_bug=True)
    assert outcomes[1] == Failed("no file here", 2)
    assert outcomes[2] == Failed("KeyError: 'x'", 2)


def test_in_this_process_a_run_that_raises_fails_alone():
    """One bad point of a script would end the whole sweep, or be thought fine."""
    outcomes = {}
    tasks = [Broken(KeyError("x")), Harmless(), Broken(InvariantError("INV-1 broken"))]
    measure_all(tasks, ThisProcess(), 1, outcomes.__setitem__)
    assert outcomes == {
        0: Failed("KeyError: 'x'", 2),
        1: Measured("fine", {}, ()),
        2: Failed("INV-1 broken", 1, is_bug=True),
    }


def test_ctrl_c_in_this_process_loses_no_finished_run():
    """The run before the one that was interrupted had ended, but nobody had been told to keep it;
    or Ctrl-C would count as the failure of one run.
    """
    outcomes = {}
    tasks = [Harmless(), Broken(KeyboardInterrupt()), Harmless()]
    with pytest.raises(KeyboardInterrupt):
        measure_all(tasks, ThisProcess(), 1, outcomes.__setitem__)
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

    monkeypatch.setattr("sim.sweep.places.worker_processes", noted)
    carry_out(planned(), folder / "a", opener("processes", 1, None))
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
    monkeypatch.setattr("sim.sweep.places.opener", lambda *given: heard.append(given))
    opener_for_scripts("dask", jobs, address)
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
    monkeypatch.setattr("sim.sweep.places.worker_processes", here)
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
    small = written(grid=["backends.pods.replicas=1"])
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

    monkeypatch.setattr("sim.execution.runner.run_set", refuse)
    monkeypatch.setattr("sim.sweep.places.worker_processes", here)
    result = podsim("sweep", "tiny.yaml", "--grid", "backends.pods.replicas=1", "--seeds", "1")
    assert result.exit_code == 70
    assert (
        "failed: point 0 (backends.pods.replicas=1), variant round-robin seed 1: no such luck "
        "(tried 2 times)"
    ) in result.stderr
    assert "2 of 2 runs failed" in result.stderr
