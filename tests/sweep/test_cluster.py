"""Sweeps on Dask: the same table as here, and workers that are not fit are found first."""

import os
import signal
import sys
from concurrent.futures import Future
from dataclasses import replace
from threading import Event

import pytest
from sim.sweep.cluster import _check, _Dask, _local_cluster
from sim.sweep.executor import Ended
from sim.sweep.finding import find, ladder
from sim.sweep.kept import TABLE
from sim.sweep.places import opener

from sim.core.errors import UserError, WorkerError
from sim.sweep.design import written
from sim.sweep.runs import check_place
from sim.sweep.sweep import carry_out, plan
from sim.sweep.table import write
from sim.sweep.target import parse
from tests.sweep.conftest import TINY
from tests.sweep.here import here

GRID = ("--grid", "backends.pods.replicas=1..3..1", "--seeds", "2")


@pytest.fixture(scope="module")
def scheduler():
    """The scheduler of a cluster of two processes, for all tests here."""
    import distributed

    with _local_cluster(distributed, 2) as cluster:
        yield cluster


def planned():
    return plan("tiny.yaml", written(grid=["backends.pods.replicas=1..3..1"]), seeds=(1, 2))


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

    opened = opener("dask", None, scheduler.scheduler_address)
    tried = carry_out(planned(), folder / "a", opened, progress=kill_one)
    assert killed and not tried.failed
    assert tried.columns.equals(carry_out(planned(), folder / "b", here).columns)


def test_without_an_address_a_cluster_of_this_machine(podsim, folder):
    """``--executor dask`` would need a cluster to be tried out, or Dask would chatter on stderr."""
    result = podsim("sweep", "tiny.yaml", *GRID, "--executor", "dask", "--jobs", 2)
    assert result.exit_code == 0, result.output
    assert result.stderr == ""
    (table,) = folder.glob(f"results/sweeps/*/{TABLE}")
    made = carry_out(planned(), folder / "here", here)
    write(made.columns, folder / "here.parquet")
    assert table.read_bytes() == (folder / "here.parquet").read_bytes()


def test_a_search_on_a_cluster(folder, scheduler):
    """``podsim find`` would know processes of this machine only."""
    arguments = ("tiny.yaml", ladder("backends.pods.replicas=1..2", None))
    targets = (parse("ttft_s.p50 <= 10"),)
    far = find(*arguments, targets, opener("dask", None, scheduler.scheduler_address))
    assert far == find(*arguments, targets, here, root=folder / "near")


def test_workers_that_lack_a_file_or_have_another_podsim_are_refused_first(folder, scheduler):
    """Every point would fail on its own, or figures of two versions would stand in one table."""
    recorded = TINY.replace(
        "{kind: requests, arrivals: {kind: poisson, rate: 4}, promptTokens: 500, outputTokens: 50}",
        "{kind: script, file: rows.csv}",
    )
    rows = folder / "rows.csv"
    rows.write_text("arrival_s,prompt_tokens,output_tokens\n1,100,10\n", encoding="utf-8")
    (folder / "tiny.yaml").write_text(recorded, encoding="utf-8")
    opened = opener("dask", None, scheduler.scheduler_address)
    made = planned()
    assert not carry_out(made, folder / "a", opened).failed
    rows.write_text("arrival_s,prompt_tokens,output_tokens\n1,100,11\n", encoding="utf-8")
    with pytest.raises(UserError, match=r"rows.csv is not the file that the sweep began with"):
        carry_out(made, folder / "b", opened)
    rows.unlink()
    with pytest.raises(UserError, match=r"has no .*rows\.csv: .* file system that all of them"):
        carry_out(made, folder / "c", opened)
    older = replace(made.runs[0][1], podsim="0.0.1")
    with pytest.raises(UserError, match=r"the sweep podsim 0\.0\.1; install the same"):
        check_place(older)


def test_dask_that_is_not_installed_is_told_with_the_way_to_get_it(podsim, monkeypatch):
    """A traceback about a module that nobody has asked for."""
    monkeypatch.setitem(sys.modules, "distributed", None)
    result = podsim("sweep", "tiny.yaml", *GRID, "--executor", "dask")
    assert result.exit_code == 2
    assert "pip install 'podsim[cluster]'" in result.stderr


def test_a_scheduler_that_does_not_answer_is_told(podsim, monkeypatch):
    """A slip in the address would hang, or end in a traceback."""
    monkeypatch.setattr("sim.sweep.cluster.CONNECT_S", 0.2)
    for address in ("tcp://127.0.0.1:1", "nonsense://x"):
        result = podsim("sweep", "tiny.yaml", *GRID, "--executor", "dask", "--address", address)
        assert result.exit_code == 2
        assert f"no Dask scheduler answers at {address}" in result.stderr


def test_a_scheduler_that_leaves_ends_the_sweep_as_a_dead_worker_does():
    """A cluster that is shut down would look like a bug of podsim."""

    class Leaving:
        """A client whose scheduler leaves after so many calls."""

        def __init__(self, calls):
            self.calls = calls

        def get_executor(self, **_):
            return self

        def nthreads(self):
            if self.calls < 0:
                raise OSError("closed")
            return {"worker": 1}

        def submit(self, _):
            self.calls -= 1
            if self.calls < 0:
                raise RuntimeError("closed")
            return Future()

    with pytest.raises(WorkerError, match="takes no more work: closed"):
        _Dask(Leaving(-1))
    for calls in (0, 1):
        dask = _Dask(Leaving(calls))
        for key in range(calls + 1):
            dask.submit(key, print)
        with pytest.raises(WorkerError, match="takes no more work: closed"):
            dask.next_end()


def test_a_client_that_waits_for_ever_keeps_nobody_waiting():
    """A scheduler had stopped, or the network was cut: signals were held back until its answer,
    and only SIGKILL ended the sweep.
    """
    stopped = Event()

    class Waiting:
        """A client whose scheduler says how many workers it has, and then nothing more."""

        asked = 0

        def get_executor(self, **_):
            return self

        def nthreads(self):
            self.asked += 1
            if self.asked > 1:
                stopped.wait()
            return {"worker": 3}

        def submit(self, call):
            made = Future()
            made.set_result(call())
            return made

    dask = _Dask(Waiting())
    dask.submit(0, lambda: "made")
    dask.submit(1, lambda: "not sent")
    assert dask.next_end() == Ended(0, "made")
    assert dask.slots == 3
    dask.close()
    stopped.set()


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
        _check(Cluster(), None, lambda: None)
        return
    with pytest.raises(UserError, match="b hangs up"):
        _check(Cluster(), None, lambda: None)
