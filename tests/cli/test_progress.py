"""The arithmetic of the progress bar, and its silence where nobody looks."""

import sys
from pathlib import Path

import pytest

from sim.cli.progress import busy, figures, fraction_done, note, progress_bar, waited, watched
from sim.execution.runner import Progress, run_set
from sim.scenario.load import load
from tests.cli.conftest import Podsim


def report(runs_done: int, simulated_s: float, planned_s: float | None = 6000.0) -> Progress:
    return Progress(runs_done, 4, simulated_s, planned_s)


def test_the_time_left_follows_from_the_simulated_time():
    """The bar would jump from run to run, or promise another time than it takes."""
    assert fraction_done(report(1, 2250.0)) == 0.375
    shown = figures(report(1, 2250.0), elapsed_s=9.0)
    assert shown == "1 of 4 runs, 2,250 s simulated, 250 x real time, 15 s left"


def test_a_replay_without_planned_end_counts_whole_runs():
    """A trace that is replayed to its end would show an invented time left."""
    assert figures(report(0, 30.0, None), 10.0) == "0 of 4 runs, 30 s simulated, 3 x real time"
    assert fraction_done(report(2, 30.0, None)) == 0.5


def test_nothing_is_divided_by_zero_at_the_start():
    """The first report, before any time has passed, would end in an internal error."""
    assert figures(report(0, 0.0), 0.0) == "0 of 4 runs"


@pytest.mark.parametrize("jobs", [1, 2])
def test_runs_in_flight_count_wherever_they_run(podsim: Podsim, tmp_path: Path, jobs: int):
    """With worker processes the bar would stand still until the first run has ended."""
    settings = ["workloads.traffic.count=3000", "window={measure: 500s}"]
    reports: list[Progress] = []
    run_set(load(tmp_path / "tiny.yaml", settings), jobs=jobs, progress=reports.append)
    simulated_s = [report.simulated_s for report in reports]
    assert simulated_s == sorted(simulated_s)
    assert 0.0 < simulated_s[0] < 500.0
    assert reports[-1] == Progress(4, 4, 2000.0, 2000.0)


def test_quiet_when_stderr_is_not_a_terminal(capsys):
    """Logs of continuous integration would fill up with bars."""
    with progress_bar() as progress:
        assert progress is None
    assert capsys.readouterr() == ("", "")


def test_draws_on_stderr_only_when_it_is_a_terminal(capsys, monkeypatch: pytest.MonkeyPatch):
    """The bar would be mixed into the data on stdout, or never appear."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar() as progress:
        progress(report(1, 2250.0))
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "1 of 4 runs" in captured.err


def test_a_note_stands_above_the_bar(capfd, monkeypatch: pytest.MonkeyPatch):
    """A sweep that went on said so inside of its own bar: `starting11 of 22 runs are kept`."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar() as progress:
        progress(report(1, 2250.0))
        note("11 of 22 runs are kept")
    lines = capfd.readouterr().err.replace("\r", "\n").splitlines()
    (said,) = [line for line in lines if "11 of 22" in line]
    assert said.endswith("11 of 22 runs are kept")
    assert "runs, 2,250" not in said


def test_a_note_needs_nobody_who_listens(monkeypatch: pytest.MonkeyPatch, capsys):
    """Under cron, without stderr, it would stand in the data on stdout or end the run."""
    monkeypatch.setattr(sys, "stderr", None)
    note("11 of 22 runs are kept")
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("terminal", [True, False])
def test_slow_verbs_show_that_they_work(capsys, monkeypatch: pytest.MonkeyPatch, terminal: bool):
    """report, plot, bench, validate --theory and export --prometheus were silent for a minute."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    monkeypatch.setenv("TERM", "xterm")
    assert list(watched(["a", "b"], "figures")) == ["a", "b"]
    assert list(waited(iter("ab"), "simulating queues")) == ["a", "b"]
    with busy("drawing 3 runs"):
        pass
    captured = capsys.readouterr()
    assert captured.out == ""
    for words in ("figures", "simulating queues", "drawing 3 runs"):
        assert (words in captured.err) == terminal
