"""Which executor a sweep works on, by its name."""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Final

from sim.core.errors import UserError
from sim.core.suggest import suggestion
from sim.execution.runner import available_jobs
from sim.sweep.executor import Executor, ThisProcess, worker_processes
from sim.sweep.runs import Task, check_place
from sim.sweep.sweep import Opened

EXECUTORS: Final = ("processes", "dask")


def opener(name: str, jobs: int | None, address: str | None) -> Opened:
    """What opens the executor ``name`` once the tasks are known; ``jobs`` is the number of
    processes on this machine, as many as cores when None.

    Raises ``UserError`` for a name or an address that cannot be meant.
    """
    if name not in EXECUTORS:
        raise UserError(f"executor: no executor {name!r}{suggestion(name, EXECUTORS, every=True)}")
    if address is not None and name != "dask":
        raise UserError("--address is that of a Dask scheduler: give --executor dask with it")
    if address is not None and jobs is not None:
        raise UserError("--jobs is for this machine, --address has its own workers: give only one")

    def opened(tasks: Sequence[Task]) -> AbstractContextManager[Executor]:
        count = min(jobs or available_jobs(), len(tasks))
        if name == "processes":
            return worker_processes(count)
        from sim.sweep.cluster import dask_cluster

        return dask_cluster(address, count, partial(_check_places, _samples(tasks)))

    return opened


def opener_for_scripts(name: str, jobs: int, address: str | None) -> Opened:
    """As ``opener``, but one job is this process, and of Dask as many processes as cores.

    Raises ``UserError`` for what cannot be meant.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise UserError(f"jobs: must be a whole number from 1; got {jobs!r}")
    opened = opener(name, None if jobs == 1 else jobs, address)
    if jobs == 1 and name == "processes":
        return lambda _: nullcontext(ThisProcess())
    return opened


def _samples(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """One task for each set of files that is needed."""
    return tuple({tuple(task.scenarios.file_hashes.items()): task for task in tasks}.values())


def _check_places(tasks: Sequence[Task]) -> None:
    for task in tasks:
        check_place(task)
