"""Calls in several processes: results in order, ends that are quick, and nobody left behind.

A worker is handed its calls through a pipe and answers through it. It ignores
Ctrl-C, which a terminal sends to every process: the parent alone decides, and
tells the workers with SIGTERM. A worker whose parent is gone ends by itself.
"""

import _thread
import pickle
import signal
import threading
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any, Final, NamedTuple, TypeVar

from sim.core.errors import UserError, WorkerError
from sim.execution.signals import signals_held_back, without_interrupts
from sim.execution.unraisable import raised_again

Result = TypeVar("Result")
Tell = Callable[[Any], None]
PATIENCE_S: Final = 10.0
"""How long a worker may take to tidy up before it is killed; on an idle machine it needs 0.1 s."""
DYING_S: Final = 60.0
"""How long a worker may take to be gone when its end of the pipe is closed already."""


def run_all(
    calls: Sequence[Callable[[Tell], Result]],
    workers: int,
    on_note: Callable[[int, Any], None],
    on_done: Callable[[int, Result], None],
) -> list[Result]:
    """The results of ``calls`` in their order, whatever the order in which they finish.

    A call is given a function that sends a note to the parent. ``on_note``
    hears the index of the call and the note, ``on_done`` the index and the
    result. The processes are started afresh, since a fork would copy threads
    of libraries; calls, notes and results are pickled. When a call raises, or
    the parent is interrupted, the calls in flight are lost. Raises
    ``WorkerError`` when a worker cannot start or ends without an answer.
    """
    results: dict[int, Result] = {}
    waiting = iter(enumerate(calls))
    with started(min(workers, len(calls))) as crew:
        busy = {worker.connection: worker for worker in crew}
        for worker in crew:
            worker.give(*next(waiting))
        while busy:
            for connection in wait(list(busy)):
                worker = busy[connection]  # type: ignore[index]
                index = worker.index
                match worker.hear():
                    case _Note(note):
                        on_note(index, note)
                    case _Failure(error):
                        raise error
                    case _Answer(result):
                        results[index] = result
                        following = next(waiting, None)
                        if following is None:
                            del busy[worker.connection]
                        else:
                            worker.give(*following)
                        on_done(index, result)
    return [results[index] for index in range(len(calls))]


class _Note(NamedTuple):
    value: Any


class _Answer(NamedTuple):
    value: Any


class _Failure(NamedTuple):
    error: Exception


@dataclass
class Worker:
    """A worker as its parent sees it; ``index`` is that of the call it has."""

    process: SpawnProcess
    connection: Connection
    index: int = -1

    def give(self, index: int, call: Callable[[Tell], Any]) -> None:
        """Hand it a call; raises ``WorkerError`` when it is gone, and had not heard of the call.

        Raises ``UserError`` for a call that cannot be sent: one with a spec that its
        package does not define at the top of a module.
        """
        self.index = index
        try:
            pickled = pickle.dumps(call)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UserError(
                f"a run cannot be sent to a worker process: {error}; --jobs 1 makes it here"
            ) from error
        try:
            self.connection.send_bytes(pickled)
        except OSError:
            raise self._lost() from None

    def hear(self) -> _Note | _Answer | _Failure:
        """Wait for what it says next; raises ``WorkerError`` when it is gone."""
        try:
            pickled = self.connection.recv_bytes()
        except (EOFError, OSError):
            raise self._lost() from None
        message: _Note | _Answer | _Failure = pickle.loads(pickled)
        return message

    def answer(self) -> Any:
        """What its call returns, notes unheard; raises what it raises.

        Raises ``WorkerError`` when the worker ends without an answer.
        """
        while True:
            match self.hear():
                case _Failure(error):
                    raise error
                case _Answer(result):
                    return result

    def _lost(self) -> WorkerError:
        self.process.join(DYING_S)
        code = self.process.exitcode
        if code is None or code >= 0:
            return WorkerError(f"a worker process ended without an answer, exit code {code}")
        cause = signal.Signals(-code).name
        hint = " (out of memory?)" if cause == "SIGKILL" else ""
        return WorkerError(f"a worker process was killed by {cause}{hint}")


@contextmanager
def started(count: int) -> Iterator[list[Worker]]:
    """So many workers; none of them is left afterwards."""
    workers: list[Worker] = []
    try:
        with without_interrupts():
            workers.extend(start() for _ in range(count))
        yield workers
    finally:
        try:
            _stop_undisturbed(workers)
        except BaseException:  # of a signal that came just before the next ones were held back
            _stop_undisturbed(workers)
            raise


def _stop_undisturbed(workers: Sequence[Worker]) -> None:
    with signals_held_back():
        stop(workers)


def stop(workers: Sequence[Worker]) -> None:
    """End those that have not been ended, those that take too long the hard way."""
    patience_s = PATIENCE_S
    running = [worker for worker in workers if not worker.connection.closed]
    for worker in running:
        worker.process.terminate()
    for worker in running:
        worker.process.join(patience_s)
        if worker.process.is_alive():
            patience_s = 0.0  # the others have had as long
            worker.process.kill()
            worker.process.join()
        worker.process.close()
        worker.connection.close()


def start() -> Worker:
    """A fresh worker; raises ``WorkerError`` when it cannot be had."""
    spawn = get_context("spawn")
    try:
        ours, theirs = spawn.Pipe()
        with theirs:  # only the worker keeps it open: when it dies, we read the end of the pipe
            process = spawn.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
    except OSError as error:
        raise WorkerError(f"cannot start a worker process: {error.strerror}") from error
    return Worker(process, ours)


def _serve(connection: Connection) -> None:
    """The life of a worker: answer calls until somebody ends it or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, _leave)
    threading.Thread(target=_leave_with_parent, daemon=True).start()

    def tell(note: Any) -> None:
        connection.send(_Note(note))

    with suppress(EOFError, OSError), raised_again(SystemExit):
        while True:
            connection.send(_answer(connection.recv(), tell))


def _answer(call: Callable[[Tell], Any], tell: Tell) -> _Answer | _Failure:
    try:
        return _Answer(call(tell))
    except Exception as error:
        return _Failure(_portable(error))


def _portable(error: Exception) -> Exception:
    """The error with the traceback, which pickling loses, as a note."""
    report = "".join(traceback.format_exception(error))
    error.add_note(f"in a worker process:\n{report}")
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:  # whatever an exception of somebody else's may do when it is rebuilt
        return RuntimeError(report)
    return error


def _leave(*_: Any) -> None:
    """On SIGTERM: end as from within, so that half a result is tidied away."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise SystemExit


def _leave_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        parent.join()
        _thread.interrupt_main(signal.SIGTERM)
