"""``podsim plot``: which files it writes, what it prints, what it refuses."""

import errno
import json
import os
from pathlib import Path

import pytest

from sim.plots import FIGURES
from sim.results.store import Origin, write
from tests import command
from tests.command import HEAVY, modules_after
from tests.results.builders import mixed_run, pooled_run


def origin(scenario_hash):
    return Origin(scenario_hash=scenario_hash, scenario={}, variant_hash="", variants=("",))


@pytest.fixture
def podsim(tmp_path, monkeypatch):
    """Call podsim in a folder that holds one stored run, called by-hand."""
    monkeypatch.chdir(tmp_path)
    write(mixed_run(), Path("results/runs"), origin("a" * 64))
    return command.podsim


def test_every_figure_that_says_something_is_written_and_named(podsim):
    """A script could not find the figures, or a file would be missing or half-written."""
    result = podsim("plot", "by-hand")
    assert result.exit_code == 0, result.output
    paths = result.stdout.split()
    folder = "results/plots/by-hand-aaaaaaaa"
    assert paths == [f"{folder}/{name}.svg" for name in FIGURES if name in _told(paths)]
    assert {"ttft-cdf", "spills-by-reason", "load-over-time"} <= set(_told(paths))
    assert "pool-timeline" not in _told(paths)
    assert all(Path(path).read_bytes().endswith(b"</svg>\n") for path in paths)
    assert sorted(Path(folder).iterdir()) == sorted(map(Path, paths))


def _told(paths):
    return [Path(path).stem for path in paths]


@pytest.mark.parametrize("name", ["x.gif", "figures/x.SVGZ", "paper.v2"])
def test_a_file_of_another_format_is_refused(podsim, name):
    """``-o x.gif`` made a folder of that name, with SVG files in it."""
    before = sorted(Path().rglob("*"))
    result = podsim("plot", "by-hand", "--figure", "ttft-cdf", "-o", name)
    assert result.exit_code == 2
    assert f"Error: {name}: no figure is a .{name.partition('.')[2].lower()}: give a file" in (
        result.stderr
    )
    assert sorted(Path().rglob("*")) == before


def test_the_list_says_what_each_figure_shows(podsim):
    """A user would have to draw all to know which there are."""
    lines = podsim("plot", "--list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(FIGURES)
    assert json.loads(podsim("plot", "--list", "--json").stdout) == FIGURES


def test_runs_of_two_scenarios_are_refused(podsim):
    """One figure would compare what does not belong together."""
    write(pooled_run(), Path("results/runs"), origin("b" * 64))
    result = podsim("plot", "results/runs")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: these are runs of 2 scenarios (by-hand-aaaaaaaa, by-hand-bbbbbbbb): "
        "plot the runs of one at a time\n"
    )
    assert not Path("results/plots").exists()


def test_a_run_that_is_named_twice_is_drawn_once(podsim):
    """A seed would count twice and narrow the intervals."""
    once = podsim("plot", "by-hand", "--figure", "metrics", "-o", "a.svg")
    twice = podsim("plot", "by-hand", "results/runs", "--figure", "metrics", "-o", "b.svg")
    assert (once.exit_code, twice.exit_code) == (0, 0)
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("by-hand", "--figure", "pool-timeline"),
            "error: pool-timeline says nothing of these runs: no pools\n",
        ),
        (
            ("by-hand", "--figure", "ttft"),
            "Error: Invalid value for '--figure': 'ttft' is not one of",
        ),
        ((), "Error: which runs? podsim plot RUN, for instance podsim plot quickstart\n"),
        (("by-hand", "-o", "all.svg"), "Error: all.svg is one file: name one --figure, or give"),
        (
            ("by-hand", "--figure", "metrics", "-o", "a.svg", "--format", "png"),
            "Error: a.svg says svg, --format says png: give only one\n",
        ),
        (("nobody",), "error: 'nobody' is neither a folder nor a stored run below results/runs"),
        (("by-hand", "--width", "0"), "Error: Invalid value for '--width': 0.0 is not in the"),
        (("by-hand", "--width", "nan"), "Error: Invalid value for '--width'"),
        (
            (
                "by-hand",
                "--figure",
                "metrics",
                "-o",
                "results/runs/by-hand-aaaaaaaa/base/seed-1/manifest.json/x",
            ),
            "error: ",
        ),
    ],
)
def test_what_cannot_be_drawn_is_refused_and_nothing_written(podsim, arguments, message):
    """A slip would end in a traceback, an empty figure, or files in odd places."""
    before = sorted(Path().rglob("*"))
    result = podsim("plot", *arguments)
    assert result.exit_code == 2, result.output
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert sorted(Path().rglob("*")) == before


def test_a_table_that_cannot_be_read_is_told(podsim):
    """A truncated file would show a traceback of the parquet library."""
    table = next(Path("results/runs").rglob("requests.parquet"))
    table.write_bytes(table.read_bytes()[:100])
    result = podsim("plot", "by-hand", "--figure", "ttft-cdf")
    assert result.exit_code == 2
    assert result.stderr.startswith(f"error: cannot read a result from {table.parent}")


def test_a_figure_reads_only_the_tables_it_needs(podsim):
    """Every figure would wait for the largest table."""
    for table in Path("results/runs").rglob("*.parquet"):
        if table.stem != "pods":
            table.write_bytes(b"")
    result = podsim("plot", "by-hand", "--figure", "load-over-time", "-o", "load.svg")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("arguments", [["plot", "--help"], ["plot", "--list"]])
def test_help_and_list_load_nothing_heavy(arguments):
    """Asking which figures there are would take a second."""
    assert modules_after(*arguments) & HEAVY == set()


def test_a_full_disk_names_the_file_that_was_asked_for_and_leaves_no_folder(podsim, monkeypatch):
    """``compare -o c.md`` on a read-only disk named ``.unfinished-c.md-0``; a failed
    ``plot -o DIR`` left an empty folder."""

    def full(place: Path, _: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_bytes", full)
    result = podsim("plot", "by-hand", "--figure", "metrics", "-o", "deep/figures")
    assert result.stderr == "error: deep/figures/metrics.svg: No space left on device\n"
    assert (result.exit_code, Path("deep").exists()) == (2, False)

    def read_only(place: Path, **_: bool) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(place))

    monkeypatch.setattr(Path, "touch", read_only)
    result = podsim("compare", "by-hand", "-o", "c.md")
    assert result.stderr == "error: c.md: Read-only file system\n"
    assert result.exit_code == 2


def test_figures_go_where_they_are_sent_in_the_format_and_width_that_is_asked_for(podsim):
    """A figure beside a paper would have another name, be a PDF called .png, or be scaled down."""
    named = ("--figure", "ttft-cdf", "--figure", "metrics")
    result = podsim("plot", "by-hand", *named, "-o", "paper/figures", "--format", "png")
    assert result.stdout.split() == ["paper/figures/ttft-cdf.png", "paper/figures/metrics.png"]
    assert Path("paper/figures/metrics.png").read_bytes().startswith(b"\x89PNG")
    Path("paper.v2").mkdir()
    result = podsim("plot", "by-hand", *named[:2], "-o", "paper.v2", "--width", "4.5", "--json")
    assert json.loads(result.stdout) == [{"figure": "ttft-cdf", "path": "paper.v2/ttft-cdf.svg"}]
    assert b'width="324pt"' in Path("paper.v2/ttft-cdf.svg").read_bytes()
    assert podsim("plot", "by-hand", *named[:2], "-o", "a.pdf").stdout == "a.pdf\n"
    assert Path("a.pdf").read_bytes().startswith(b"%PDF")
