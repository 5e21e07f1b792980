"""The arithmetic of the progress bar, and its silence where nobody looks."""

import sys

import pytest

from sim.cli.progress import figures, fraction_done, progress_bar, simulated_s
from sim.runner import Progress


def report(runs_done: int, now_s: float, horizon_s: float | None = 1500.0) -> Progress:
    return Progress(runs_done, 4, "ring", 1, now_s, horizon_s)


def test_finished_runs_and_the_present_one_add_up():
    """The bar would start anew with every run, and the time left with it."""
    assert simulated_s(report(1, 750.0)) == 2250.0
    assert fraction_done(report(1, 750.0)) == 0.375
    shown = figures(report(1, 750.0), elapsed_s=9.0)
    assert shown == "1 of 4 runs, 2,250 s simulated, 250 x real time, 15 s left"


def test_a_replay_without_planned_end_counts_whole_runs():
    """A trace that is replayed to its end would show an invented time left."""
    assert figures(report(0, 30.0, None), 10.0) == "0 of 4 runs, 30 s simulated, 3 x real time"
    assert fraction_done(report(2, 30.0, None)) == 0.5


def test_nothing_is_divided_by_zero_at_the_start():
    """The first report, before any time has passed, would end in an internal error."""
    assert figures(report(0, 0.0), 0.0) == "0 of 4 runs"


def test_quiet_when_stderr_is_not_a_terminal(capsys):
    """Logs of continuous integration would fill up with bars."""
    with progress_bar() as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")


def test_draws_on_stderr_only_when_it_is_a_terminal(capsys, monkeypatch: pytest.MonkeyPatch):
    """The bar would be mixed into the data on stdout, or never appear."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar() as progress:
        progress(report(1, 750.0))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 of 4 runs" in captured.err
