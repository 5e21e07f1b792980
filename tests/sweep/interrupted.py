"""Ctrl-C at one instant after another of a sweep: prints how many were obeyed and ignored."""

import signal
import sys
from functools import partial
from itertools import count
from typing import Any

from sim.sweep.executor import worker_processes
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


def sweep(chosen: int) -> int:
    """Make some runs, a signal at the line ``chosen``; how many lines there were."""
    lines = count()
    with worker_processes(2) as executor:
        sys.settrace(partial(signal_at, chosen, lines))
        try:
            measure_all([Harmless()] * RUNS, executor, 1, lambda *_: None)
        finally:
            sys.settrace(None)
    return next(lines)


def main() -> None:
    sweep(-1)  # whatever is imported at its first use
    lines, obeyed, ignored = sweep(-1), 0, 0
    for instant in range(INSTANTS):
        chosen = round(lines * (instant + 0.5) / INSTANTS)
        try:
            ignored += sweep(chosen) > chosen  # another sweep may have fewer lines
        except KeyboardInterrupt:
            obeyed += 1
    print(f"{obeyed} obeyed, {ignored} ignored")


if __name__ == "__main__":
    main()
