"""Ctrl-C and SIGTERM, held back while something is begun or tidied up."""

import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from multiprocessing import resource_tracker
from types import FrameType
from typing import Any, Final

HELD: Final = (signal.SIGINT, signal.SIGTERM)

Handler = Callable[[int, FrameType | None], Any] | int | None


@contextmanager
def signals_held_back() -> Iterator[None]:
    """What would interrupt us is heard afterwards; workers started meanwhile never hear Ctrl-C.

    Nothing within may wait for somebody who might never answer. What a signal
    does is afterwards as it was, whenever another one comes.
    """
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    heard: list[int] = []
    handlers: dict[signal.Signals, Handler] = {}
    # The mask is inherited, but here a library's thread may take the signal in our stead. Only
    # the main thread is interrupted, and only it may say what a signal does.
    if threading.current_thread() is threading.main_thread():
        handlers = {number: signal.getsignal(number) for number in HELD}
    try:
        signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
        for number in handlers:
            signal.signal(number, lambda held, _: heard.append(held))
        signal.pthread_sigmask(signal.SIG_SETMASK, {*mask, signal.SIGINT})  # workers obey SIGTERM
        yield
    finally:
        _give_back(handlers, mask)
        for held in heard:
            signal.raise_signal(held)


def _give_back(handlers: Mapping[signal.Signals, Handler], mask: set[int | signal.Signals]) -> None:
    """Let signals do what they did; what one raises that comes meanwhile is raised at the end."""
    raised: BaseException | None = None
    while True:
        try:
            for number, handler in handlers.items():
                signal.signal(number, handler)
            signal.pthread_sigmask(signal.SIG_SETMASK, mask)
            break
        except BaseException as error:
            raised = error
    if raised is not None:
        raise raised


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Processes started meanwhile never hear Ctrl-C; we hear it afterwards."""
    # It would let interrupts through if it were started while they are held back.
    resource_tracker.ensure_running()
    with signals_held_back():
        yield
