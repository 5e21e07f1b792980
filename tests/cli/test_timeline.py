"""`podsim run --timeline`: which files it writes, what it says, what it refuses."""

import gzip
import json
from pathlib import Path

import pytest

import sim.execution.runner
from tests.timeline.format import breaches, events

ONE = ("run", "tiny.yaml", "--no-store", "--jobs", 1, "--seed", 7, "--variant", "least-loaded")


@pytest.fixture
def nothing_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A run fails the test."""
    monkeypatch.setattr(sim.execution.runner, "run_one", lambda *_: pytest.fail("was simulated"))


def test_one_run_writes_one_file_and_says_what_it_shows(podsim):
    """The reader would not know which part of the run to look for."""
    result = podsim(*ONE, "--timeline", "out.json")
    text = Path("out.json").read_text("utf-8")
    assert result.exit_code == 0
    assert breaches(events(text)) == []
    about = json.loads(text)["otherData"]
    assert (about["variant"], about["seed"], about["start_s"]) == ("least-loaded", 7, 0.0)
    end_s, count, size = about["end_s"], len(events(text)), len(text) / 1e6
    assert result.stderr == (
        f"timeline out.json: 0 s to {end_s:,g} s, {count:,} events, {size:.1f} MB\n"
    )
    assert sorted(path.name for path in Path().iterdir()) == ["out.json", "tiny.yaml"]


def test_several_runs_write_a_file_each(podsim):
    """All runs would write to one file, and the last one would stay."""
    result = podsim("run", "tiny.yaml", "--no-store", "--jobs", 1, "--timeline", "out.json.gz")
    assert result.exit_code == 0
    names = [
        f"out-{variant}-seed-{seed}.json.gz"
        for variant in ("round-robin", "least-loaded")
        for seed in (7, 8)
    ]
    assert [line.split()[1] for line in result.stderr.splitlines()] == [f"{n}:" for n in names]
    for name in names:
        about = json.loads(gzip.decompress(Path(name).read_bytes()))["otherData"]
        assert name == f"out-{about['variant']}-seed-{about['seed']}.json.gz"


@pytest.mark.parametrize("name", ["out.json", "out.json.gz"])
def test_the_file_does_not_depend_on_where_the_run_happens(podsim, name):
    """Two workers and one process would draw a run differently, or pack it with the time of day."""
    for jobs, folder in ((1, "one"), (2, "two")):
        Path(folder).mkdir()
        arguments = ("--seed", 7, "--jobs", jobs, "--timeline", f"{folder}/{name}")
        assert podsim("run", "tiny.yaml", "--no-store", *arguments).exit_code == 0
    ones = {path.name: path.read_bytes() for path in Path("one").iterdir()}
    assert len(ones) == 2
    assert ones == {path.name: path.read_bytes() for path in Path("two").iterdir()}


def test_a_run_with_a_timeline_prints_what_it_prints_without(podsim):
    """stdout would no longer be data alone, or the run would be another one."""
    without = podsim(*ONE, "--json")
    assert podsim(*ONE, "--json", "--timeline", "out.json").stdout == without.stdout


def test_the_window_chooses_what_is_shown(podsim):
    """One would always get the first minute."""
    result = podsim(*ONE, "--timeline", "out.json", "--timeline-window", "2s..4s")
    assert result.stderr.startswith("timeline out.json: 2 s to 4 s, ")
    times = [e["ts"] for e in events(Path("out.json").read_text("utf-8")) if e["ph"] != "M"]
    assert 2_000_000 <= min(times) <= max(times) < 4_000_000


POOLED = """\
name: pooled
window: {measure: 100s}
engines: {small: {kvBlocks: 1000, stepTime: {a: 10}}}
backends: {a: {engine: small}, b: {engine: small}}
pools: {card: {members: {a: {load: 5s}, b: {load: 5s}}, initial: a}}
router: {rules: [{name: all, backends: [b]}]}
workloads:
  late: {kind: script, rows: [{arrival: 81.5s, promptTokens: 100, outputTokens: 2}]}
"""


def test_a_window_without_a_swap_names_one_that_has_one(podsim):
    """The first minute of a pool has no swap; one would look for the first by trial and error."""
    Path("pooled.yaml").write_text(POOLED, "utf-8")
    pooled = ("run", "pooled.yaml", "--no-store", "--timeline", "out.json")
    covered, hint = podsim(*pooled).stderr.splitlines()
    assert covered.startswith("timeline out.json: 0 s to 60 s, ")
    assert hint == "  no swap in it, one begins at 81.5 s: --timeline-window 66s..126s"
    followed = podsim(*pooled, *hint.split()[-2:])
    assert "no swap" not in followed.stderr
    assert "a > b" in Path("out.json").read_text("utf-8")


def test_without_a_window_it_is_the_first_minute_of_what_is_measured(podsim):
    """The warm-up would be shown, or the whole run."""
    window = ("--set", "window={warmup: 2s, measure: 100s}")
    result = podsim(*ONE, *window, "--timeline", "out.json")
    assert result.stderr.startswith("timeline out.json: 2 s to 62 s, ")


def test_an_older_file_is_replaced_as_a_whole(podsim):
    """Half of the old file would follow the new one."""
    Path("out.json").write_text("x" * 1_000_000)
    assert podsim(*ONE, "--timeline", "out.json").exit_code == 0
    assert breaches(events(Path("out.json").read_text("utf-8"))) == []


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("missing/out.json", "No such file or directory"),
        ("tiny.yaml/out.json", "Not a directory"),
        (".", "it is not a file"),
        ("/dev/null", "it is not a file"),
    ],
)
def test_a_file_that_cannot_be_written_is_found_before_the_first_run(podsim, file, reason):
    """An hour of simulation would end in a message that its timeline cannot be written."""
    result = podsim(*ONE, "--timeline", file)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == f"error: cannot write the timeline to {file}: {reason}\n"
    assert [path.name for path in Path().iterdir()] == ["tiny.yaml"]


@pytest.mark.usefixtures("nothing_runs")
def test_a_folder_is_refused_for_several_runs_too(podsim):
    """`.` has no name to which variant and seed could be put: it ended in a traceback."""
    result = podsim("run", "tiny.yaml", "--no-store", "--timeline", ".")
    said = "error: cannot write the timeline to .: it is not a file\n"
    assert (result.exit_code, result.stderr) == (2, said)


@pytest.mark.usefixtures("nothing_runs")
def test_a_window_that_begins_after_the_run_is_refused(podsim):
    """The user would wait for an empty file."""
    window = ("--set", "window.measure=100s", "--timeline-window", "100s..200s")
    result = podsim(*ONE, *window, "--timeline", "out.json")
    assert result.exit_code == 2
    assert result.stderr == (
        "error: the timeline would begin at 100 s, but the run of least-loaded ends at 100 s\n"
    )


@pytest.mark.usefixtures("nothing_runs")
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--timeline-window", "1s..2s"), "give both"),
        (("--timeline", "out.json", "--timeline-window", "1..2"), "as in 600s..11m"),
        (("--timeline", "out.json", "--timeline-window", "2s..1s"), "before it ends"),
    ],
)
def test_options_that_cannot_be_meant_are_refused(podsim, options, said):
    """A slip of the pen would cost a run."""
    result = podsim(*ONE, *options)
    assert result.exit_code == 2
    assert said in result.stderr.replace("\n", " ")
    assert "Traceback" not in result.stderr


def test_a_disk_that_fills_up_leaves_no_half_file(podsim, monkeypatch: pytest.MonkeyPatch):
    """A viewer would be given half a document; the older file would be gone."""
    Path("out.json").write_text("older")

    def full(self: Path, content: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    result = podsim(*ONE, "--timeline", "out.json")
    assert result.exit_code == 2
    assert "cannot write the timeline to out.json: No space left on device" in result.stderr
    assert Path("out.json").read_text() == "older"
    assert sorted(path.name for path in Path().iterdir()) == ["out.json", "tiny.yaml"]
