"""Calls in several processes: results in order, and an interruption that is quick and quiet."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing import get_context
from typing import Any, TypeVar

Result = TypeVar("Result")


def run_all(
    calls: Sequence[Callable[[], Result]], workers: int, on_done: Callable[[int, int], None]
) -> list[Result]:
    """The results of ``calls`` in their order, whatever the order in which they finish.

    ``on_done`` hears the index of each call that has finished and how many
    have. The processes are started afresh, since a fork would copy threads of
    libraries; calls and results are pickled. A worker is handed a call when it
    has none, so that after an exception or an interruption only the calls in
    flight are waited for.
    """
    results: dict[int, Result] = {}
    waiting = iter(enumerate(calls))
    running: dict[Future[Result], int] = {}
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        with _interrupts_ignored():
            for index, call in islice(waiting, workers):
                running[pool.submit(_interruptible, call)] = index
        while running:
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                done = running.pop(future)
                results[done] = future.result()
                for index, call in islice(waiting, 1):
                    running[pool.submit(_interruptible, call)] = index
                on_done(done, len(results))
    return [results[index] for index in range(len(calls))]


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Processes that are started meanwhile inherit it: idle, they answer Ctrl-C with nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _interruptible(call: Callable[[], Any]) -> Any:
    """In a worker: Ctrl-C, which a terminal sends to every process, ends the call and not us."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return call()
    finally:
        signal.signal(signal.SIGINT, before)
