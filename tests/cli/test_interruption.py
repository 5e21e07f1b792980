"""Ctrl-C: heard wherever it comes, and by nobody but podsim while podsim is at work."""

import signal
import subprocess
import sys
import time

import pytest
from click.testing import CliRunner

import sim.cli
from sim.cli import main
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
    hook = sys.unraisablehook
    with pytest.raises(KeyboardInterrupt), interruptible():
        Interrupted()
        works_on()
    assert capfd.readouterr().err == ""
    assert sys.unraisablehook is hook


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

    monkeypatch.setattr(sim.cli, "explain", interrupted)
    monkeypatch.setattr(catalog, "gpus", lambda: signal.raise_signal(signal.SIGINT))
    result = CliRunner().invoke(main, ["list", "gpus"])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_who_insists_is_obeyed_without_tidying_up() -> None:
    """What keeps podsim from its end would keep it for ever."""
    program = (
        "import signal, sim.cli.interruption as it\n"
        "it.AGAIN_S = 0.0\n"
        "with it.interruptible():\n"
        "    try:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "    except KeyboardInterrupt:\n"
        "        signal.raise_signal(signal.SIGINT)\n"
        "        print('went on')\n"
    )
    child = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (child.returncode, child.stdout, child.stderr) == (130, "", "")


@pytest.fixture(autouse=True)
def _handlers_as_before():
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before):
        signal.signal(number, handler)
