"""Calls made in this process or in several, through ``concurrent.futures``.

Ctrl-C and SIGTERM end the calls in flight at once and leave no process behind; a worker process
that dies costs the call it had in hand.
"""

import os
import pickle
import signal
import threading
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from functools import partial
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.process import BaseProcess
from multiprocessing.sharedctypes import RawValue
from queue import Empty, SimpleQueue
from typing import Any, Final, Protocol, TypeVar

from sim.core.errors import UserError, WorkerError
from sim.core.interrupts import interrupts_deferred

Result = TypeVar("Result")

POLL_S: Final = 0.1
"""How often progress is reported; a signal that another thread has taken is noticed as late."""

Tick = Callable[[float], None]
"""Reports how far a call is; may be called as often as one likes."""
Call = Callable[[Tick], Any]
OnEnd = Callable[[int, Any], bool]
"""Gets the index of a call and its result, or its exception; returns whether to make it again."""
OnTick = Callable[[int, float], None]


def no_tick(*_: Any) -> None:
    """Ignore progress."""


class Executor(Protocol):
    """Where calls are made."""

    def run(self, calls: Sequence[Call], on_end: OnEnd, on_tick: OnTick = no_tick) -> None:
        """Make every call; calls that are to be made again come after all others.

        ``on_end`` is called as the calls end, in any order; an interruption waits until it has
        returned. What it raises ends the calls in flight. Raises ``WorkerError`` when nothing is
        left that could make calls.
        """
        ...


class InProcess:
    """Makes one call after another in this process."""

    def run(self, calls: Sequence[Call], on_end: OnEnd, on_tick: OnTick = no_tick) -> None:
        """See ``Executor.run``."""
        waiting = deque(range(len(calls)))
        while waiting:
            index = waiting.popleft()
            try:
                outcome = calls[index](partial(on_tick, index))
            except Exception as error:
                outcome = error
            with interrupts_deferred():
                if on_end(index, outcome):
                    waiting.append(index)


class FutureExecutor:
    """Makes ``slots`` calls at a time, as futures of some executor of ``concurrent.futures``."""

    slots: int

    def submit(self, index: int, call: Call) -> "Future[Any]":
        """Begin a call."""
        raise NotImplementedError

    def outcome(self, index: int, future: "Future[Any]") -> Any:
        """Return the result or the exception of a call that has ended."""
        try:
            return future.result()
        except BaseException as error:  # SystemExit, CancelledError: of the call, not of ours
            return error

    def progress(self) -> Iterable[tuple[int, float]]:
        """Return how far each call in flight is, where that is known."""
        return ()

    def run(self, calls: Sequence[Call], on_end: OnEnd, on_tick: OnTick = no_tick) -> None:
        """See ``Executor.run``.

        Nothing is raised by a signal while futures are handled: their locks would stay taken.
        """
        waiting, running = deque(range(len(calls))), 0
        ended: SimpleQueue[tuple[int, Future[Any]] | None] = SimpleQueue()
        with interrupts_deferred(partial(ended.put, None)):
            while waiting or running:
                while waiting and running < self.slots:
                    index = waiting.popleft()
                    future = self.submit(index, calls[index])
                    future.add_done_callback(partial(_put, ended, index))
                    running += 1
                try:
                    end = ended.get(timeout=POLL_S)
                except Empty:
                    for index, now_s in self.progress():
                        on_tick(index, now_s)
                    continue
                if end is None:
                    raise KeyboardInterrupt
                running -= 1
                if on_end(end[0], self.outcome(*end)):
                    waiting.append(end[0])


def _put(ended: "SimpleQueue[Any]", index: int, future: "Future[Any]") -> None:
    ended.put((index, future))


def run_all(
    calls: Sequence[Callable[[Tick], Result]],
    jobs: int,
    on_done: Callable[[int, Result], None],
    on_tick: OnTick = no_tick,
) -> list[Result]:
    """Return the results of ``calls`` in their order; one job is this process.

    ``on_done`` gets each as its call ends. Raises what a call raises; one whose process was
    killed is made once more.
    """
    results: dict[int, Result] = {}
    lost: set[int] = set()

    def on_end(index: int, outcome: Any) -> bool:
        if isinstance(outcome, WorkerError) and index not in lost:
            lost.add(index)
            return True
        if isinstance(outcome, BaseException):
            raise outcome
        results[index] = outcome
        on_done(index, outcome)
        return False

    workers = min(jobs, len(calls))
    with worker_processes(workers) if workers > 1 else nullcontext(InProcess()) as executor:
        executor.run(calls, on_end, on_tick)
    return [results[index] for index in range(len(calls))]


@contextmanager
def worker_processes(count: int) -> Iterator[FutureExecutor]:
    """An executor of ``count`` processes on this machine, which start when they are needed.

    They are fresh interpreters, since a fork would copy threads of libraries; calls and results
    are pickled. None of them is left afterwards, whatever they are at.
    """
    executor = _Processes(count)
    try:
        yield executor
    finally:
        with interrupts_deferred():
            executor.kill()


class _Processes(FutureExecutor):
    """A pool of one process for each slot, so that a process that dies takes one call with it."""

    def __init__(self, count: int) -> None:
        self.slots = count
        self._idle = [_Worker() for _ in range(count)]
        self._busy: dict[int, _Worker] = {}

    def submit(self, index: int, call: Call) -> "Future[Any]":
        try:
            pickled = pickle.dumps(call)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            failed: Future[Any] = Future()
            failed.set_exception(_not_picklable(error))
            return failed
        worker = self._busy[index] = self._idle.pop()
        return worker.submit(pickled)

    def outcome(self, index: int, future: "Future[Any]") -> Any:
        found = super().outcome(index, future)
        worker = self._busy.pop(index, None)
        if worker is None:
            return found
        self._idle.append(worker)
        return worker.replaced() if isinstance(found, BrokenProcessPool) else found

    def progress(self) -> Iterable[tuple[int, float]]:
        known = [(index, worker.now_s.value) for index, worker in self._busy.items()]
        return [(index, now_s) for index, now_s in known if now_s > 0.0]

    def kill(self) -> None:
        """End all processes."""
        for worker in (*self._idle, *self._busy.values()):
            worker.kill()


class _Worker:
    """A pool of one process, which makes one call at a time."""

    def __init__(self) -> None:
        self.now_s = RawValue("d", 0.0)
        self._process: BaseProcess | None = None
        self._open()

    def submit(self, pickled: bytes) -> "Future[Any]":
        self.now_s.value = 0.0
        try:
            return self._submit(pickled)
        except BrokenProcessPool:  # it died in idleness
            self.replaced()
            return self._submit(pickled)

    def replaced(self) -> WorkerError:
        """Have a fresh process instead of one that has died; return why it died."""
        lost, self._process = self._process, None
        self._pool.shutdown()
        self._open()
        code = None if lost is None else lost.exitcode
        if code is None or code >= 0:
            return WorkerError(f"a worker process ended without an answer, exit code {code}")
        cause = signal.Signals(-code).name
        hint = " (out of memory?)" if cause == "SIGKILL" else ""
        return WorkerError(f"a worker process was killed by {cause}{hint}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
        self._pool.shutdown()

    def _open(self) -> None:
        self._pool = ProcessPoolExecutor(1, get_context("spawn"), _begin, (self.now_s,))

    def _submit(self, pickled: bytes) -> "Future[Any]":
        if self._process is not None:
            return self._pool.submit(_unpickled, pickled)
        results: Any = self._pool._result_queue
        try:
            with without_interrupts():
                future = self._pool.submit(_unpickled, pickled)
        except OSError as error:
            raise WorkerError(f"cannot start a worker process: {error.strerror}") from error
        (self._process,) = self._pool._processes.values()
        results._writer.close()  # else who reads half a result of a dead process waits for ever
        return future


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes and threads that are started meanwhile never hear Ctrl-C, which a terminal sends
    to all processes: their parent decides.
    """
    resource_tracker.ensure_running()  # it unblocks the signal where it is started
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


def _not_picklable(error: Exception) -> UserError:
    return UserError(f"a run cannot be sent to a worker process: {error}; --jobs 1 makes it here")


_now_s: Any = None
"""In a worker process: where its parent reads how far the call is."""


def _begin(now_s: Any) -> None:
    """Make this a worker process, which ends with its parent."""
    global _now_s
    _now_s = now_s
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _unpickled(pickled: bytes) -> Any:
    """Make a call in a worker process."""
    return attempt(pickle.loads(pickled), partial(setattr, _now_s, "value"))


def attempt(call: Call, tick: Tick = no_tick) -> Any:
    """Make a call in another process; an exception that cannot be sent back becomes its report."""
    try:
        return call(tick)
    except Exception as error:
        try:
            pickle.loads(pickle.dumps(error))
        except Exception:  # whatever another package's exception may do when it is rebuilt
            report = "".join(traceback.format_exception(error))
            raise RuntimeError(f"in a worker process:\n{report}") from None
        raise
