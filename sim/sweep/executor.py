"""Where the runs of a sweep are computed: what it asks for; this process; worker processes."""

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, Final, Protocol

from sim.core.errors import WorkerError
from sim.execution.signals import signals_held_back
from sim.execution.workers import Worker, start, started, stop

Call = Callable[[], Any]


@dataclass(frozen=True)
class Ended:
    """A call that was made: what it returned, or what it raised."""

    key: int
    result: Any = None
    error: Exception | None = None


class Executor(Protocol):
    """Makes calls somewhere, several at a time.

    A call that fails, or whose process dies, ends with its own error and harms
    no other. Ctrl-C may come at any instant: it must find no lock taken that a
    thread in the background waits for, which is why there are no futures here.
    """

    @property
    def slots(self) -> int:
        """How many calls it can work on at once; may change while it works."""
        ...

    def submit(self, key: int, call: Call, /) -> None:
        """Have ``call`` made and its end told by ``next_end``; call and result are pickled.

        Raises ``WorkerError`` when there is nobody left to make it.
        """
        ...

    def next_end(self) -> Ended:
        """Wait for the next end of what was submitted, in any order.

        Raises ``WorkerError`` when there is nobody left to make it.
        """
        ...


class ThisProcess:
    """Makes one call after another, here, where the dying of one would be the end of all."""

    slots: Final = 1

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, Call]] = deque()

    def submit(self, key: int, call: Call, /) -> None:
        """Keep it for ``next_end``: what has ended is told before anything else begins."""
        self._waiting.append((key, call))

    def next_end(self) -> Ended:
        """Make the next call; Ctrl-C goes on to the caller."""
        key, call = self._waiting.popleft()
        try:
            return Ended(key, call())
        except Exception as error:
            return Ended(key, error=error)


@contextmanager
def worker_processes(count: int) -> Iterator[Executor]:
    """An executor of ``count`` processes on this machine; none of them is left afterwards.

    A process that dies is replaced, or missed as long as there are others. What
    is in flight at the end is lost. Raises ``WorkerError`` when a process
    cannot be started.
    """
    with started(count) as workers:
        yield _Processes(workers)


class _Processes:
    """Hands each idle process the next call; see ``worker_processes``."""

    def __init__(self, workers: list[Worker]) -> None:
        self._workers = workers
        self._idle = deque(workers)
        self._busy: dict[Any, Worker] = {}
        self._waiting: deque[tuple[int, Call]] = deque()
        self._unsent: deque[Ended] = deque()

    @property
    def slots(self) -> int:
        return len(self._workers)

    def submit(self, key: int, call: Call, /) -> None:
        self._waiting.append((key, call))
        self._hand_out()

    def next_end(self) -> Ended:
        if self._unsent:
            return self._unsent.popleft()
        worker = self._busy.pop(wait(list(self._busy))[0])
        ended = self._heard(worker)
        self._hand_out()
        return ended

    def _hand_out(self) -> None:
        while self._waiting and self._idle:
            key, call = self._waiting.popleft()
            worker = self._idle.popleft()
            try:
                worker.give(key, _Quiet(call))
            except WorkerError:  # it died in idleness, which is not the fault of this call
                self._waiting.appendleft((key, call))
                self._replace(worker)
            except Exception as error:  # whatever pickling a call may raise
                self._unsent.append(Ended(key, error=error))
                self._idle.append(worker)
            else:
                self._busy[worker.connection] = worker

    def _heard(self, worker: Worker) -> Ended:
        key = worker.index
        try:
            ended = Ended(key, worker.answer())
        except WorkerError as error:
            self._replace(worker)
            return Ended(key, error=error)
        except Exception as error:
            ended = Ended(key, error=error)
        self._idle.append(worker)
        return ended

    def _replace(self, lost: Worker) -> None:
        """Have a fresh process instead; raises ``WorkerError`` if there is none and no other."""
        with signals_held_back():
            stop([lost])
            self._workers.remove(lost)
            try:
                fresh = start()
            except WorkerError:
                if not self._workers:
                    raise
            else:
                self._workers.append(fresh)
                self._idle.append(fresh)


@dataclass(frozen=True)
class _Quiet:
    """A call that sends no notes, as a worker makes it."""

    call: Call

    def __call__(self, _: Any) -> Any:
        return self.call()
