"""Ctrl-C and SIGTERM: obeyed once; more of them at once are one impatient hand."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from typing import Any, Final

from sim.execution.unraisable import raised_again

AGAIN_S: Final = 2.0
"""After so long another one is obeyed as well, should the first have had no effect."""


@contextmanager
def interruptible() -> Iterator[None]:
    """Both signals raise ``KeyboardInterrupt`` meanwhile, and nothing once it has been raised.

    The process is about to end then. A signal that it was started to ignore
    stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may say what a signal does
        return
    last_s = -inf

    def interrupt(*_: Any) -> None:
        nonlocal last_s
        now_s = time.monotonic()
        if now_s - last_s > AGAIN_S:
            last_s = now_s
            raise KeyboardInterrupt

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    obeyed = [number for number, handler in before.items() if handler != signal.SIG_IGN]
    for number in obeyed:
        signal.signal(number, interrupt)
    try:
        with raised_again(KeyboardInterrupt):
            yield
    finally:
        for number in obeyed:
            signal.signal(number, before[number] if last_s == -inf else signal.SIG_IGN)
