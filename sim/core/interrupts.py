"""Ctrl-C and SIGTERM, put off while something must not be left half done."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

Handler = Callable[[int, FrameType | None], Any] | int | None


@contextmanager
def interrupts_deferred(on_signal: Callable[[], None] = lambda: None) -> Iterator[None]:
    """Handle Ctrl-C and SIGTERM at the end, a second one at once.

    ``on_signal`` is called when the first one comes. A signal that is ignored stays ignored.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread is interrupted, and only it may set handlers
        return
    handlers: dict[int, Handler] = {}
    pending: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        pending.append(number)
        if len(pending) == 1:
            on_signal()
        else:
            _handle(handlers.get(number), number)

    # SIGINT is the first to be deferred and the last to be given back: nothing is raised between.
    for each in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(each) not in (signal.SIG_IGN, None):
            handlers[each] = signal.signal(each, note)
    try:
        yield
    finally:
        for number, handler in reversed(handlers.items()):
            signal.signal(number, handler)
        for number in dict.fromkeys(pending):
            signal.raise_signal(number)


def _handle(handler: Handler, number: int) -> None:
    signal.signal(number, handler)
    signal.raise_signal(number)
