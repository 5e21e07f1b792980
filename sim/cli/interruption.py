"""Ctrl-C and SIGTERM end podsim: once, whatever it is at."""

import _thread
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

LOST_S: Final = 0.01
"""How long after an interruption was lost the next one comes."""
AGAIN_S: Final = 2.0
"""Signals within so long are one: ``timeout`` sends two, an impatient hand several."""
INTERRUPTED: Final = 130


@contextmanager
def interruptible() -> Iterator[None]:
    """Raise ``KeyboardInterrupt`` for both signals, once; ``AGAIN_S`` later end without tidying up.

    A signal that the process was started to ignore stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    raised_s: float | None = None

    def interrupt(*_: Any) -> None:
        nonlocal raised_s
        if raised_s is None:
            raised_s = time.monotonic()
            raise KeyboardInterrupt
        if time.monotonic() - raised_s > AGAIN_S:
            _end_at_once()

    def report_unraisable(lost: "sys.UnraisableHookArgs") -> None:
        nonlocal raised_s
        if lost.exc_type is not KeyboardInterrupt:
            before(lost)
            return
        raised_s = None  # Python drops what is raised in a ``__del__``: interrupt once more
        threading.Timer(LOST_S, _thread.interrupt_main).start()

    before, sys.unraisablehook = sys.unraisablehook, report_unraisable
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    obeyed = [number for number, handler in handlers.items() if handler != signal.SIG_IGN]
    for number in obeyed:
        signal.signal(number, interrupt)
    try:
        yield
    except BaseException as error:
        if raised_s is None:
            raise
        # Libraries in C turn it into errors of their own; and where it came through an ``exec`` of
        # text, as in ``dataclass``, Python notes to die of SIGINT at its exit, up to the next one.
        exec("")
        raise KeyboardInterrupt from error
    finally:
        sys.unraisablehook = before
        for number in obeyed:  # Python takes its own handlers away before its end
            signal.signal(number, handlers[number] if raised_s is None else signal.SIG_IGN)


def _end_at_once() -> None:
    from multiprocessing import active_children

    for child in active_children():
        child.kill()
    os._exit(INTERRUPTED)
