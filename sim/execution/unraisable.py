"""What a signal's handler raises is raised again when it came where nothing can be raised.

Python runs such a handler between any two instructions, also in a ``__del__``, in a generator
that is thrown away, or in the callback of a weak reference, of which every import has one. What
it raises there goes to stderr and is forgotten: ``sys.unraisablehook``.
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

MOMENT_S: Final = 0.01
"""How long after; the hook has returned by then."""


@contextmanager
def raised_again(kind: type[BaseException]) -> Iterator[None]:
    """A ``kind`` that is lost meanwhile comes a moment later instead, and stderr hears nothing.

    At the end at the latest. For the main thread, where signals are handled. SIGALRM is used when
    one is lost.
    """
    told = sys.unraisablehook
    before: Any = None
    due = False

    def again(*_: Any) -> None:
        nonlocal due
        due = False
        raise kind

    def insist(lost: "sys.UnraisableHookArgs") -> None:
        nonlocal before, due
        if lost.exc_type is not kind:
            told(lost)
            return
        if before is None:
            before = signal.signal(signal.SIGALRM, again)
        due = True
        signal.setitimer(signal.ITIMER_REAL, MOMENT_S)

    sys.unraisablehook = insist
    try:
        yield
    finally:
        sys.unraisablehook = told
        if before is not None:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, before)
    if due:
        raise kind
