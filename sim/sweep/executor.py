"""Where the runs of a sweep are computed: what it asks for; this process; worker processes."""

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from queue import SimpleQueue
from threading import Lock
from typing import Any, Final, Protocol, TypeVar

from sim.errors import WorkerError
from sim.workers import Worker, signals_held_back, start, started

Result = TypeVar("Result")


class Executor(Protocol):
    """What a sweep needs of a ``concurrent.futures.Executor``, and how wide it is.

    A call that fails, or whose process dies, fails its own future and no other.
    """

    @property
    def slots(self) -> int:
        """How many calls it can work on at once; may change while it works."""
        ...

    def submit(self, call: Callable[[], Result], /) -> "Future[Result]":
        """Have ``call`` made somewhere; call and result are pickled.

        Raises ``WorkerError`` when there is nobody left to make it.
        """
        ...


class ThisProcess:
    """Makes each call at once, here, where the dying of one would be the end of all."""

    slots: Final = 1

    def submit(self, call: Callable[[], Result], /) -> "Future[Result]":
        """A future that has ended; Ctrl-C goes on to the caller."""
        future: Future[Result] = Future()
        try:
            future.set_result(call())
        except Exception as error:
            future.set_exception(error)
        return future


@contextmanager
def worker_processes(count: int) -> Iterator[Executor]:
    """An executor of ``count`` processes on this machine; none of them is left afterwards.

    A process that dies is replaced. What is in flight at the end is lost.
    Raises ``WorkerError`` when a process cannot be started.
    """
    with ExitStack() as ended, started(count) as workers:
        processes = _Processes(workers)
        ended.callback(processes.join)  # once they are dead, nobody waits for their answers
        try:
            yield processes
        finally:
            processes.close()


class _Processes:
    """A thread for each worker process hands it calls; see ``worker_processes``."""

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers
        self._threads = ThreadPoolExecutor(len(workers))
        self._idle: SimpleQueue[Worker] = SimpleQueue()
        self._changing = Lock()
        self._closed = False
        for worker in workers:
            self._idle.put(worker)

    @property
    def slots(self) -> int:
        return len(self._workers)

    def submit(self, call: Callable[[], Result], /) -> "Future[Result]":
        return self._threads.submit(self._ask, partial(_quiet, call))

    def close(self) -> None:
        """Begin nothing any more."""
        with self._changing:
            self._closed = True
        self._threads.shutdown(wait=False, cancel_futures=True)

    def join(self) -> None:
        """Wait for the threads, whose processes have ended."""
        self._threads.shutdown()

    def _ask(self, call: Callable[[Any], Result]) -> Result:
        worker = self._idle.get()  # there are as many as threads
        try:
            return worker.ask(call)
        except WorkerError:
            worker = self._successor(worker)
            raise
        finally:
            self._idle.put(worker)

    def _successor(self, lost: Worker) -> Worker:
        """A fresh process in place of one that died; the dead one if there is none to be had."""
        with self._changing:
            if self._closed:
                return lost
            try:
                with signals_held_back():
                    fresh = start()
            except WorkerError:
                return lost  # the next call says so again
            self._workers[self._workers.index(lost)] = fresh
        lost.connection.close()
        return fresh


def _quiet(call: Callable[[], Result], _: Any) -> Result:
    """A call that sends no notes, as a worker makes it."""
    return call()
