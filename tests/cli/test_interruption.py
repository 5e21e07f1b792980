"""Ctrl-C: heard wherever it comes, and by nobody but podsim while podsim is at work."""

import signal
import sys
import time

import pytest
from click.testing import CliRunner

import sim.cli
from sim.cli import interruption, main
from sim.cli.interruption import interruptible
from sim.hardware import catalog

PATIENCE_S = 300.0
"""So long is only waited for what never comes."""


class Interrupted:
    """Ctrl-C comes while it is cleared away, where Python can raise nothing."""

    def __del__(self) -> None:
        signal.raise_signal(signal.SIGINT)


def works_on() -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline_s:
        pass


def test_ctrl_c_is_obeyed_where_nothing_can_be_raised(capfd: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C in the callback of a weak reference, as every import has one, wrote `Exception
    ignored in` and a traceback to the terminal, and podsim went on as if nothing had come.
    """
    before = signal.getsignal(signal.SIGALRM)
    with pytest.raises(KeyboardInterrupt), interruptible():
        Interrupted()
        works_on()
    assert capfd.readouterr().err == ""
    assert signal.getsignal(signal.SIGALRM) is before
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_the_end_may_come_before_the_second_try() -> None:
    """The shell's loop around podsim would go on, or what comes after podsim be interrupted."""
    told = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interruptible():
        Interrupted()
    assert sys.unraisablehook is told
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def test_an_impatient_hand_does_not_keep_podsim_from_saying_what_it_obeys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a busy machine the second of two Ctrl-C came while podsim said `interrupted`, and was
    obeyed in its turn: the exit code was 1, as for something that has become worse.
    """
    explain = sim.cli.explain

    def interrupted(failure: BaseException) -> tuple[str, int]:
        signal.raise_signal(signal.SIGINT)
        return explain(failure)

    monkeypatch.setattr(interruption, "AGAIN_S", 0.0)
    monkeypatch.setattr(sim.cli, "explain", interrupted)
    monkeypatch.setattr(catalog, "gpus", lambda: signal.raise_signal(signal.SIGINT))
    result = CliRunner().invoke(main, ["list", "gpus"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


@pytest.fixture(autouse=True)
def _handlers_as_before():
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before):
        signal.signal(number, handler)
