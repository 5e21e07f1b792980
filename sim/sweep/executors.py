"""Where the runs of a sweep are made: this process, processes of this machine, a Dask cluster."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from importlib import import_module
from typing import Any, Final

from sim.core.errors import UserError, WorkerError
from sim.core.suggest import suggestion
from sim.execution.parallel import (
    Call,
    Executor,
    FutureExecutor,
    InProcess,
    attempt,
    without_interrupts,
    worker_processes,
)
from sim.execution.runner import available_jobs
from sim.sweep.runs import Task, check_machine

EXECUTORS: Final = ("processes", "dask")
CONNECT_S: Final = 10.0
"""How long to wait for a Dask scheduler, and for its first worker."""
IN_FLIGHT: Final = 1_000
"""How many calls a Dask cluster holds at once, however many workers join it."""

ExecutorFactory = Callable[[Sequence[Task]], AbstractContextManager[Executor]]
"""Opens the executor for some tasks; it is not called when nothing is to be run."""


def executor_factory(name: str, jobs: int | None, address: str | None) -> ExecutorFactory:
    """What opens the executor ``name`` once the tasks are known.

    ``jobs`` is the number of processes on this machine, as many as cores when None. Raises
    ``UserError`` for a name or an address that cannot be meant.
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
        return dask_cluster(address, count, partial(_check_machine, _samples(tasks)))

    return opened


def factory_for_scripts(name: str, jobs: int, address: str | None) -> ExecutorFactory:
    """As ``executor_factory``, but one job is this process, and of Dask as many as cores.

    Raises ``UserError`` for what cannot be meant.
    """
    if isinstance(jobs, bool) or not isinstance(jobs, int) or jobs < 1:
        raise UserError(f"jobs: must be a whole number from 1; got {jobs!r}")
    opened = executor_factory(name, None if jobs == 1 else jobs, address)
    if jobs == 1 and name == "processes":
        return lambda _: nullcontext(InProcess())
    return opened


def _samples(tasks: Sequence[Task]) -> tuple[Task, ...]:
    """One task for each set of files that is needed."""
    return tuple({tuple(task.scenarios.file_hashes.items()): task for task in tasks}.values())


def _check_machine(tasks: Sequence[Task]) -> None:
    for task in tasks:
        check_machine(task)


@contextmanager
def dask_cluster(address: str | None, count: int, check: Callable[[], None]) -> Iterator[Executor]:
    """An executor on the cluster whose scheduler is at ``address``.

    Without one a cluster of ``count`` processes on this machine, which ends
    afterwards. ``check`` is called on every worker first and raises ``UserError``
    where it is not fit. Raises ``UserError`` when Dask is not installed, no scheduler
    answers or a worker is not fit, and ``WorkerError`` when none can be started.
    """
    try:
        distributed: Any = import_module("distributed")  # has types for half of what it offers
    except ImportError:
        raise UserError(
            "--executor dask needs Dask, which is not installed: pip install 'podsim[cluster]'"
        ) from None
    with ExitStack() as stack:
        place: Any = address
        if address is None:
            place = stack.enter_context(local_cluster(distributed, count))
        try:
            client = stack.enter_context(distributed.Client(place, timeout=CONNECT_S))
        except (OSError, ValueError) as error:
            raise UserError(f"no Dask scheduler answers at {address}: {error}") from None
        check_workers(client, address, check)
        yield DaskExecutor(client)


def local_cluster(distributed: Any, count: int) -> Any:
    """A Dask cluster of ``count`` processes on this machine; raises ``WorkerError``."""
    try:
        with without_interrupts():
            return distributed.LocalCluster(
                n_workers=count,
                threads_per_worker=1,
                processes=True,
                dashboard_address="127.0.0.1:0",  # any port: another may have the usual one
                silence_logs=logging.CRITICAL,
            )
    except (OSError, RuntimeError) as error:
        raise WorkerError(f"cannot start a Dask cluster on this machine: {error}") from error


class DaskExecutor(FutureExecutor):
    """Makes calls on the workers of a Dask client, which loses none when a worker dies."""

    slots = IN_FLIGHT

    def __init__(self, client: Any) -> None:
        self._executor = client.get_executor(pure=False)

    def submit(self, index: int, call: Call) -> "Future[Any]":
        """Begin a call; raises ``WorkerError`` when the scheduler has left."""
        try:
            future: Future[Any] = self._executor.submit(attempt, call)
        except Exception as error:  # whatever a client says whose scheduler has left
            raise WorkerError(f"the Dask cluster takes no more work: {error}") from error
        return future


def check_workers(client: Any, address: str | None, check: Callable[[], None]) -> None:
    """Raise ``UserError`` unless there are workers and all are fit that do not leave meanwhile."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError:
        raise UserError(f"the Dask cluster at {address} has no workers") from None
    answers = client.run(check, on_error="return")
    stayed = client.nthreads()
    faults = dict.fromkeys(
        _unfit(answer)
        for worker, answer in answers.items()
        if answer is not None and (worker in stayed or not isinstance(answer, OSError))
    )
    if faults:
        raise UserError("; ".join(faults))


def _unfit(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"workers of the Dask cluster cannot import podsim ({error}); install it there"
    return str(error)
