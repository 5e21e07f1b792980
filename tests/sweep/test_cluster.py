"""Sweeps on Dask: the same table as here, and workers that are not fit are found first."""

import os
import signal
import sys
from dataclasses import replace

import pytest

from sim.core.errors import UserError, WorkerError
from sim.sweep.design import design
from sim.sweep.executors import DaskExecutor, check_workers, executor_factory, local_cluster
from sim.sweep.runs import TABLE, check_machine
from sim.sweep.search import find
from sim.sweep.sweep import plan, run_sweep
from sim.sweep.table import write
from tests.sweep.conftest import TINY
from tests.sweep.here import here

pytestmark = pytest.mark.slow
GRID = ("--grid", "backends.pods.replicas=1..3..1", "--seeds", "2")


@pytest.fixture(scope="module")
def scheduler():
    """The scheduler of a cluster of two processes, for all tests here."""
    import distributed

    with local_cluster(distributed, 2) as cluster:
        yield cluster


def planned():
    return plan("tiny.yaml", design(grid=["backends.pods.replicas=1..3..1"]), seeds=(1, 2))


def test_a_cluster_gives_the_same_table_byte_for_byte(podsim, folder, scheduler):
    """A sweep could not be moved to a cluster, or be finished on another machine."""
    address = scheduler.scheduler_address
    far = podsim("sweep", "tiny.yaml", *GRID, "--executor", "dask", "--address", address,
                 "--out", "far")  # fmt: skip
    assert far.exit_code == 0, far.output
    near = podsim("sweep", "tiny.yaml", *GRID, "--jobs", 2, "--out", "near")
    tables = [list(folder.glob(f"{out}/*/{TABLE}")) for out in ("far", "near")]
    assert [len(found) for found in tables] == [1, 1]
    assert tables[0][0].read_bytes() == tables[1][0].read_bytes()
    assert far.stdout.replace("far/", "near/") == near.stdout


def test_a_dead_worker_of_a_cluster_loses_nothing(folder, scheduler):
    """One machine of a hundred that goes away would end the sweep."""
    killed = []

    def kill_one(report):
        if report.runs_done == 2 and not killed:
            killed.append(next(iter(scheduler.workers.values())).pid)
            os.kill(killed[0], signal.SIGKILL)

    opened = executor_factory("dask", None, scheduler.scheduler_address)
    tried = run_sweep(planned(), folder / "a", opened, progress=kill_one)
    assert killed and not tried.failed
    assert tried.columns.equals(run_sweep(planned(), folder / "b", here).columns)


def test_without_an_address_a_cluster_of_this_machine(podsim, folder):
    """``--executor dask`` would need a cluster to be tried out, or Dask would chatter on stderr."""
    result = podsim("sweep", "tiny.yaml", *GRID, "--executor", "dask", "--jobs", 2)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    (table,) = folder.glob(f"results/sweeps/*/{TABLE}")
    made = run_sweep(planned(), folder / "here", here)
    write(made.columns, folder / "here.parquet")
    assert table.read_bytes() == (folder / "here.parquet").read_bytes()


def test_a_search_on_a_cluster(folder, scheduler):
    """``podsim find`` would know processes of this machine only."""
    question = ("tiny.yaml", "backends.pods.replicas=1..2", "ttft_s.p50 <= 10")
    far = find(*question, executor="dask", address=scheduler.scheduler_address)
    assert far == find(*question, store=folder / "near")


def test_workers_that_lack_a_file_or_have_another_podsim_are_refused_first(folder, scheduler):
    """Every point would fail on its own, or figures of two versions would stand in one table."""
    recorded = TINY.replace(
        "{kind: requests, arrivals: {kind: poisson, rate: 4}, promptTokens: 500, outputTokens: 50}",
        "{kind: script, file: rows.csv}",
    )
    rows = folder / "rows.csv"
    rows.write_text("arrival_s,prompt_tokens,output_tokens\n1,100,10\n", encoding="utf-8")
    (folder / "tiny.yaml").write_text(recorded, encoding="utf-8")
    opened = executor_factory("dask", None, scheduler.scheduler_address)
    made = planned()
    assert not run_sweep(made, folder / "a", opened).failed
    rows.write_text("arrival_s,prompt_tokens,output_tokens\n1,100,11\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"rows.csv is not the file that the sweep began with"):
        run_sweep(made, folder / "b", opened)
    rows.unlink()
    with pytest.raises(UserError, match=r"has no .*rows\.csv: .* file system that all of them"):
        run_sweep(made, folder / "c", opened)
    older = replace(made.runs[0][1], podsim="0.0.1")
    with pytest.raises(UserError, match=r"the sweep podsim 0\.0\.1; install the same"):
        check_machine(older)


def test_dask_that_is_not_installed_is_told_with_the_way_to_get_it(podsim, monkeypatch):
    """A traceback about a module that nobody has asked for."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = podsim("sweep", "tiny.yaml", *GRID, "--executor", "dask")
    assert result.exit_code == 2
    assert "pip install 'podsim[cluster]'" in result.stderr


def test_a_scheduler_that_does_not_answer_is_told(podsim, monkeypatch):
    """A slip in the address would hang, or end in a traceback."""
    monkeypatch.setattr("sim.sweep.executors.CONNECT_S", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        result = podsim("sweep", "tiny.yaml", *GRID, "--executor", "dask", "--address", address)
        assert result.exit_code == 2
        assert f"no Dask scheduler answers at {address}" in result.stderr


def test_a_scheduler_that_leaves_ends_the_sweep_as_a_dead_worker_does():
    """A cluster that is shut down would look like a bug of podsim."""

    class Leaving:
        """A client whose scheduler has left."""

        def get_executor(self, **_):
            return self

        def submit(self, *_):
            raise RuntimeError("closed")

    with pytest.raises(WorkerError, match="takes no more work: closed"):
        DaskExecutor(Leaving()).run([print], lambda *_: False)


@pytest.mark.parametrize(("stayed", "answer"), [(("a",), "b left"), (("a", "b"), "b hangs up")])
def test_a_worker_that_leaves_while_it_is_asked_is_not_unfit(stayed, answer):
    """A machine of a hundred that went away at the wrong moment ended the sweep, which would have
    done without it a moment later.
    """

    class Cluster:
        def wait_for_workers(self, count, timeout):
            assert (count, timeout) == (1, 10.0)

        def run(self, check, on_error):
            assert on_error == "return"
            return {"a": check(), "b": OSError(answer)}

        def nthreads(self):
            return dict.fromkeys(stayed, 1)

    if "b" not in stayed:
        check_workers(Cluster(), None, lambda: None)
        return
    with pytest.raises(UserError, match="b hangs up"):
        check_workers(Cluster(), None, lambda: None)
