"""The runs of a sweep on a Dask cluster: one that is there already, or one of this machine."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from queue import SimpleQueue
from threading import Thread
from typing import Any, Final

from sim.core.errors import UserError, WorkerError
from sim.execution.signals import without_interrupts
from sim.sweep.executor import Call, Ended, Executor

CONNECT_S: Final = 10.0
"""How long to wait for a scheduler, and for the first worker."""


@contextmanager
def dask_cluster(address: str | None, count: int, check: Callable[[], None]) -> Iterator[Executor]:
    """An executor on the cluster whose scheduler is at ``address``.

    Without one a cluster of ``count`` processes on this machine, which ends
    afterwards. ``check`` is called on every worker first and raises ``UserError``
    where it is not fit. Raises ``UserError`` when Dask is not installed, nobody
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
            place = stack.enter_context(_local_cluster(distributed, count))
        try:
            client = stack.enter_context(distributed.Client(place, timeout=CONNECT_S))
        except (OSError, ValueError) as error:
            raise UserError(f"no Dask scheduler answers at {address}: {error}") from None
        _check(client, address, check)
        dask = _Dask(client)
        stack.callback(dask.close)
        yield dask


def _local_cluster(distributed: Any, count: int) -> Any:
    """A cluster of ``count`` processes on this machine, which never hear Ctrl-C.

    Raises ``WorkerError``.
    """
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


class _Dask:
    """Calls of a Dask client; see ``dask_cluster``.

    The client is asked by a thread: it has locks that must not be left taken
    when we are interrupted, and may wait for a scheduler that has stopped. Of
    a ``SimpleQueue`` a signal leaves nothing half done.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor = client.get_executor(pure=False)
        self._slots = 1
        self._count()
        self._submitted: SimpleQueue[tuple[int, Call] | None] = SimpleQueue()
        self._ended: SimpleQueue[Ended | WorkerError] = SimpleQueue()
        Thread(target=self._ask, daemon=True).start()

    @property
    def slots(self) -> int:
        """As many as there were at the last call that was handed over."""
        return self._slots

    def submit(self, key: int, call: Call, /) -> None:
        self._submitted.put((key, call))

    def next_end(self) -> Ended:
        ended = self._ended.get()
        if isinstance(ended, WorkerError):
            raise ended
        return ended

    def close(self) -> None:
        """End the thread, as soon as nobody keeps it waiting."""
        self._submitted.put(None)

    def _ask(self) -> None:
        while (submitted := self._submitted.get()) is not None:
            try:
                self._submit(*submitted)
                self._count()
            except WorkerError as error:
                self._ended.put(error)
                return

    def _submit(self, key: int, call: Call) -> None:
        try:
            future: Future[Any] = self._executor.submit(call)
        except Exception as error:  # whatever a client says whose scheduler has left
            raise _gone(error) from error
        future.add_done_callback(partial(self._tell, key))

    def _count(self) -> None:
        try:
            self._slots = max(1, sum(map(int, self._client.nthreads().values())))
        except Exception as error:  # as above
            raise _gone(error) from error

    def _tell(self, key: int, future: "Future[Any]") -> None:
        """Called by a thread of Dask's; with its future it drops Dask's own, which takes locks."""
        try:
            self._ended.put(Ended(key, future.result()))
        except Exception as error:
            self._ended.put(Ended(key, error=error))


def _check(client: Any, address: str | None, check: Callable[[], None]) -> None:
    """Whether there are workers, and every one of them is fit that does not leave meanwhile."""
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


def _gone(error: Exception) -> WorkerError:
    return WorkerError(f"the Dask cluster takes no more work: {error}")
