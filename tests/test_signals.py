"""Signals that are held back: heard afterwards, and nothing is left as it was meanwhile."""

import gc
import signal
import sys
from itertools import count
from typing import Any

import pytest

from sim.execution.signals import HELD, signals_held_back


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.fixture
def interruptible(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Each of them raises ``KeyboardInterrupt``."""
    before = {number: signal.signal(number, interrupt) for number in HELD}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def held(chosen: int, number: int) -> int:
    """Send the signal at the line ``chosen`` of a use; how many lines there were."""
    lines = count()

    def traced(*_: Any) -> Any:
        if next(lines) == chosen:
            signal.raise_signal(number)
        return traced

    sys.settrace(traced)
    try:
        with signals_held_back():
            pass
    finally:
        sys.settrace(None)
    return next(lines)


@pytest.mark.parametrize("number", HELD)
@pytest.mark.usefixtures("interruptible")
def test_a_signal_at_any_instant_is_obeyed_and_changes_nothing(
    number: int, request: pytest.FixtureRequest
) -> None:
    """A notebook would not hear Ctrl-C any more, nor any process that it starts."""
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    gc.disable()  # whoever is told of a collection may have lines of his own, and cannot raise
    request.addfinalizer(gc.enable)
    lines = held(-1, number)
    assert lines > 30
    for chosen in range(lines - 1):
        with pytest.raises(KeyboardInterrupt):
            held(chosen, number)
        assert [signal.getsignal(each) for each in HELD] == [interrupt] * 2, chosen
        assert signal.pthread_sigmask(signal.SIG_BLOCK, ()) == mask, chosen


@pytest.mark.usefixtures("interruptible")
def test_a_use_within_a_use_lets_signals_through_after_both() -> None:
    """What the outer one protects would be interrupted by the end of the inner one."""
    done = []
    with pytest.raises(KeyboardInterrupt), signals_held_back():
        with signals_held_back():
            signal.raise_signal(signal.SIGINT)
            done.append("inner")
        done.append("outer")
    assert done == ["inner", "outer"]
