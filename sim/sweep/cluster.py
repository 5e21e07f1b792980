"""The runs of a sweep on a Dask cluster: one that is there already, or one of this machine."""

import logging
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from importlib import import_module
from queue import SimpleQueue
from typing import Any, Final

from sim.errors import UserError, WorkerError
from sim.sweep.executor import Call, Ended, Executor
from sim.workers import signals_held_back, without_interrupts

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
        yield _Dask(client)


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

    The client's own thread takes the locks that we take when we ask something,
    so that no signal may come between; only the wait for an end has none.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._executor = client.get_executor(pure=False)
        self._ended: SimpleQueue[tuple[int, Future[Any]]] = SimpleQueue()

    @property
    def slots(self) -> int:
        try:
            with signals_held_back():
                return max(1, sum(map(int, self._client.nthreads().values())))
        except Exception as error:  # whatever a client says whose scheduler has left
            raise _gone(error) from error

    def submit(self, key: int, call: Call, /) -> None:
        try:
            with signals_held_back():
                future: Future[Any] = self._executor.submit(call)
                future.add_done_callback(lambda done: self._ended.put((key, done)))
        except Exception as error:  # as above
            raise _gone(error) from error

    def next_end(self) -> Ended:
        key, future = self._ended.get()
        try:
            return Ended(key, future.result())
        except Exception as error:
            return Ended(key, error=error)


def _check(client: Any, address: str | None, check: Callable[[], None]) -> None:
    """Whether there are workers, and every one of them is fit."""
    try:
        client.wait_for_workers(1, timeout=CONNECT_S)
    except TimeoutError:
        raise UserError(f"the Dask cluster at {address} has no workers") from None
    answers = client.run(check, on_error="return")
    faults = dict.fromkeys(_unfit(answer) for answer in answers.values() if answer is not None)
    if faults:
        raise UserError("; ".join(faults))


def _unfit(error: Exception) -> str:
    if isinstance(error, ImportError):
        return f"workers of the Dask cluster cannot import podsim ({error}); install it there"
    return str(error)


def _gone(error: Exception) -> WorkerError:
    return WorkerError(f"the Dask cluster takes no more work: {error}")
