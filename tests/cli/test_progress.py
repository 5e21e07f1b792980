"""The arithmetic of the progress bar, and its silence where nobody looks."""

import sys
from pathlib import Path

import pytest

from sim.cli.progress import figures, fraction_done, progress_bar
from sim.runner import Progress, run_set
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
