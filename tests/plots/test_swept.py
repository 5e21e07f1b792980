"""What ``podsim plot`` draws of a sweep, and ``podsim explain --plot`` of times to first token."""

from pathlib import Path

import pytest

from tests.cli.conftest import podsim  # noqa: F401
from tests.command import Podsim

SWEEP = ("sweep", "tiny.yaml", "--seed", "7", "--grid", "workloads.traffic.promptTokens=400,500")


def swept(call: Podsim, *more: str) -> str:
    """The folder of a sweep that has been made."""
    assert call(*SWEEP, *more).exit_code == 0
    (folder,) = Path("results/sweeps").iterdir()
    return str(folder)


def test_the_folder_of_a_sweep_is_drawn(podsim: Podsim) -> None:  # noqa: F811
    """Sweeps could be drawn in Python only."""
    folder = swept(podsim)
    result = podsim("plot", folder, "-o", "drawn")
    assert result.exit_code == 0, result.output
    drawn = [Path(path) for path in result.stdout.split()]
    assert Path("drawn/ttft_s.p95.svg") in drawn
    assert "workloads.traffic.promptTokens" in Path("drawn/ttft_s.p95.svg").read_text("utf-8")
    named = podsim("plot", folder, "--figure", "ttft-cdf")
    assert named.exit_code == 2
    assert "give neither --figure nor a file" in named.output


def test_more_than_a_figure_can_show_is_refused(podsim: Podsim) -> None:  # noqa: F811
    """A line through points of two other parameters would be one of none."""
    folder = swept(podsim, "--grid", "backends.pods.replicas=2,3")
    result = podsim("plot", folder)
    assert result.exit_code == 2
    assert "more was swept than a figure can show" in result.output


def test_a_sweep_that_cannot_be_drawn_says_why(podsim: Podsim) -> None:  # noqa: F811
    """Two sweeps, or one whose table went to a CSV file, were "no stored run in this folder"."""
    folder = swept(podsim, "-o", "x.csv")
    result = podsim("plot", folder)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {folder}: has no table.parquet: the sweep has not ended, or its table went "
        "elsewhere; the same podsim sweep without -o writes it\n",
    )
    result = podsim("plot", folder, folder)
    assert (result.exit_code, result.stderr) == (
        2,
        f"error: {folder} is a sweep: plot one at a time, and runs apart from it\n",
    )


@pytest.mark.parametrize("requests", [(), ("0", "1")])
def test_the_parts_of_a_time_to_first_token_are_drawn(
    podsim: Podsim,  # noqa: F811
    requests: tuple[str, ...],
) -> None:
    """The parts stood in a table only, though there was a figure for them."""
    assert podsim("run", "tiny.yaml", "--seed", "7").exit_code == 0
    run = "tiny/least-loaded/seed-7" if requests else "tiny"
    result = podsim("explain", run, *requests, "--plot", "parts.svg")
    assert result.exit_code == 0, result.output
    drawing = Path("parts.svg").read_text("utf-8")
    assert ("request 1" if requests else "round-robin, slowest 5 %") in drawing
    assert "own prefill" in drawing
    refused = podsim("explain", run, "--plot", "parts.gif")
    assert refused.exit_code == 2
    assert "no figure is a .gif" in refused.output
