"""Ctrl-C at one instant after another of a sweep: prints how many were obeyed and ignored."""

import signal
import sys
from contextlib import AbstractContextManager
from functools import partial
from itertools import count
from multiprocessing import active_children
from typing import Any

from sim.execution.unraisable import raised_again
from sim.sweep.cluster import _local_cluster, dask_cluster
from sim.sweep.executor import Executor, worker_processes
from sim.sweep.runs import Measured, measure_all

INSTANTS = 12
RUNS = 6


class Harmless:
    def measure(self) -> Measured:
        return Measured("fine", {}, ())


def signal_at(chosen: int, lines: "count[int]", *_: Any) -> Any:
    """Called for every line that this thread comes to; none of a handler of signals is one."""
    if next(lines) == chosen:
        signal.raise_signal(signal.SIGINT)
    return partial(signal_at, chosen, lines)


def on_processes(tracer: Any) -> None:
    """From the start of two processes to their end."""
    sys.settrace(tracer)
    try:
        with worker_processes(2) as executor:
            measure_all([Harmless()] * RUNS, executor, 1, lambda *_: None)
    finally:
        sys.settrace(None)


def on_dask(address: str, tracer: Any) -> None:
    """While a client is there: what it does at its start and end is not ours."""
    opened: AbstractContextManager[Executor] = dask_cluster(address, 2, lambda: None)
    with opened as executor:
        sys.settrace(tracer)
        try:
            measure_all([Harmless()] * RUNS, executor, 1, lambda *_: None)
        finally:
            sys.settrace(None)


def interrupt_all(sweep: Any) -> None:
    """Call ``sweep`` again and again with a tracer that interrupts it somewhere else."""

    def lines_until(chosen: int) -> int:
        lines = count()
        with raised_again(KeyboardInterrupt):  # a line may be one of a ``__del__`` or of gc
            sweep(partial(signal_at, chosen, lines))
        return next(lines)

    lines_until(-1)  # whatever is imported at its first use
    lines, obeyed, ignored = lines_until(-1), 0, 0
    for instant in range(INSTANTS):
        chosen = round(lines * (instant + 0.5) / INSTANTS)
        try:
            ignored += lines_until(chosen) > chosen  # another sweep may have fewer lines
        except KeyboardInterrupt:
            obeyed += 1
        assert not active_children() or sweep is not on_processes
    print(f"{obeyed} obeyed, {ignored} ignored")


def main(executor: str) -> None:
    if executor == "processes":
        interrupt_all(on_processes)
        return
    import distributed

    with _local_cluster(distributed, 2) as cluster:
        interrupt_all(partial(on_dask, cluster.scheduler_address))


if __name__ == "__main__":
    main(sys.argv[1])
