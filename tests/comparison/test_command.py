"""``podsim compare`` as its users call it."""

import json
import math
import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from sim.results.metrics import METRICS
from tests.command import Podsim, modules_after

HASH = "tiny-"


def folder(of: str) -> Path:
    (found,) = Path(of).glob(f"{HASH}*")
    return found


def edit(run: Path, **figures: object) -> None:
    """Write other figures into the summary of a stored run."""
    path = run / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **figures}))


def test_the_same_runs_are_fine(podsim: Podsim) -> None:
    """Unchanged code would not be green."""
    result = podsim("compare", "base", "again")
    assert result.exit_code == 0, result.output
    assert result.output.splitlines() == [
        "tiny: base → again",
        "identical: 10 pairs of runs, the same to the bit",
    ]
    assert podsim("compare", "base", "again", "--exact").exit_code == 0


def test_worse_is_exit_code_1_and_says_what_and_by_how_much(podsim: Podsim) -> None:
    """A slower engine would pass, or fail without a word."""
    result = podsim("compare", "base", "slow", "--across")
    assert result.exit_code == 1
    assert "two: ttft_s.p95 is worse: " in result.output
    assert "one: stream_tokens_per_s.p50 is worse: " in result.output


def test_another_scenario_is_exit_code_3(podsim: Podsim) -> None:
    """An edited scenario would look like a regression of the code, or like a success."""
    result = podsim("compare", "base", "slow")
    assert result.exit_code == 3
    assert "not comparable: two: not the same scenario" in result.output
    assert "engines.small.stepTime.a is 10.0 in base, 15.0 in slow" in " ".join(
        result.output.split()
    )


def test_scenarios_that_differ_name_the_next_step(podsim: Podsim) -> None:
    """Settings that differ were named, and the option that compares nevertheless was not."""
    for options in ((), ("--exact",), ("--format", "markdown")):
        told = podsim("compare", "base", "slow", *options).output
        assert told.count("note: --across compares scenarios that differ") == 1
        assert "--across" not in podsim("compare", "base", "slow", "--across", *options).output
    assert "--across" not in podsim("compare", "base", "again").output
    shutil.rmtree(folder("slow") / "one")
    shutil.rmtree(folder("base") / "two")
    shutil.copytree(folder("slow") / "two", folder("base") / "two")
    assert "note: --across" in podsim("compare", "base").output
    assert podsim("compare", "base", "--across").exit_code != 3


def test_worse_wins_over_not_comparable(podsim: Podsim) -> None:
    """A regression would be reported as a matter of bookkeeping."""
    shutil.rmtree(folder("slow") / "one")
    result = podsim("compare", "base", "slow", "--across")
    assert result.exit_code == 1
    assert "not comparable: one: slow has no such variant" in result.output


def test_two_variants_of_one_run(podsim: Podsim) -> None:
    """Which of two settings is better is asked more often than what a commit has changed."""
    result = podsim("compare", folder("base") / "two", folder("base") / "one")
    assert result.exit_code == 1
    assert "two → one: ttft_s.p50 is worse: " in result.output
    back = podsim("compare", folder("base") / "one", folder("base") / "two")
    assert back.exit_code == 0
    assert "better" in back.output


def test_one_name_compares_its_variants(podsim: Podsim) -> None:
    """All variants would have to be named one by one."""
    result = podsim("compare", "base")
    assert result.output.startswith("tiny: two → one\nworse: ")
    assert result.exit_code == 1


def test_names_below_the_store(podsim: Podsim) -> None:
    """Users would type folders with hashes in them."""
    shutil.copytree("base", "results/runs")
    result = podsim("compare", "tiny/two", "tiny/one")
    assert result.exit_code == 1
    assert result.output.startswith("tiny: tiny/two → tiny/one\n")


def test_the_first_difference_is_shown(podsim: Podsim) -> None:
    """Digests would differ, and where could be found by hand only."""
    result = podsim("compare", "base", "slow", "--exact", "--across")
    assert result.exit_code == 1
    assert "two, seed 1: first difference in table requests, row 0, column " in result.output


def test_inconclusive_is_fine_unless_strict(podsim: Podsim) -> None:
    """Too few seeds would fail every pull request, or a strict project could not ask for more."""
    options = ("compare", folder("base") / "two/seed-1", folder("base") / "one/seed-1")
    assert podsim(*options).exit_code == 0
    assert podsim(*options, "--strict").exit_code == 1
    assert "run more seeds" in podsim(*options).output


@pytest.mark.parametrize("value", [math.nan, None])
def test_a_figure_that_is_gone_is_exit_code_3(podsim: Podsim, value: float | None) -> None:
    """A summary with a hole in it would compare like one without."""
    edit(folder("again") / "two/seed-1", output_tokens_per_s=value)
    result = podsim("compare", "base", "again")
    assert result.exit_code == 3
    assert "two: output_tokens_per_s is not comparable" in result.output


def test_a_variant_that_vanished_is_exit_code_3(podsim: Podsim) -> None:
    """What is no longer run would be no longer worse."""
    shutil.rmtree(folder("again") / "one")
    assert podsim("compare", "base", "again").exit_code == 3
    assert podsim("compare", "again", "base").exit_code == 0


def test_reports_are_written_as_their_endings_say(podsim: Podsim) -> None:
    """Continuous integration would compare three times to get three reports."""
    files = ("new.md", "new.xml", "new.json", "new.txt")
    result = podsim("compare", "base", "slow", "--across", *(f"-o{name}" for name in files))
    assert result.exit_code == 1
    markdown, junit, document, text = (Path(name).read_text(encoding="utf-8") for name in files)
    assert markdown.startswith("### podsim compare: worse\n")
    assert int(ElementTree.fromstring(junit.encode())[0].attrib["failures"]) > 0
    assert json.loads(document)["verdict"] == "worse"
    assert text == result.output


@pytest.mark.parametrize(
    ("options", "begins"),
    [
        (("--json",), "{\n"),
        (("--format", "json"), "{\n"),
        (("--format", "markdown"), "### podsim compare"),
        (("--format", "junit"), "<?xml"),
    ],
)
def test_what_is_printed(podsim: Podsim, options: tuple[str, ...], begins: str) -> None:
    """A script would have to write a file to read it."""
    assert podsim("compare", "base", "again", *options).output.startswith(begins)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("base", "nowhere"), "'nowhere' is neither a folder nor a stored run"),
        (("base", "empty"), "no stored run in this folder"),
        (("base", "again", "-o", "report.pdf"), "report.pdf: must end in .txt"),
        (("base", "again", "-o", "a.pdf", "-o", "b"), "a.pdf, b: must end in"),
        (("base", "again", "--json", "--format", "junit"), "give only one"),
        (("base", "again", "-o", "no/such/place.md"), "there is no folder no/such"),
        (("both", "again"), "several results of tiny, in both/x/"),
        ((), "Missing argument 'BASE'"),
    ],
)
def test_bad_input_is_answered_kindly(
    podsim: Podsim, arguments: tuple[str, ...], words: str
) -> None:
    """C73: a traceback, or a comparison with something else than was meant."""
    Path("empty").mkdir()
    shutil.copytree("base", "both/x")
    shutil.copytree("base", "both/y")
    result = podsim("compare", *arguments)
    assert result.exit_code == 2
    assert words in result.output
    assert "Traceback" not in result.output


def test_a_broken_summary_is_bad_input(podsim: Podsim) -> None:
    """A file that a disk has cut short would end in a traceback."""
    (folder("again") / "two/seed-1/summary.json").write_text("{")
    result = podsim("compare", "base", "again")
    assert result.exit_code == 2
    assert "cannot read a result from" in result.output


def test_help_says_what_the_exit_codes_mean(podsim: Podsim) -> None:
    """A workflow could not tell a regression from a typing error."""
    text = podsim("compare", "--help").output
    assert "3 not comparable and nothing worse" in " ".join(text.split())


def test_the_verb_loads_no_pandas_matplotlib_or_scipy_stats(stored: Path) -> None:
    """A check in continuous integration would spend its time on imports."""
    loaded = modules_after("compare", stored / "slow", stored / "base", "--across")
    assert "sim.comparison.paired" in loaded
    assert loaded & {"pandas", "matplotlib", "scipy.stats", "sim.cluster"} == set()


def test_list_metrics_tells_what_decides_and_within_which_margin(podsim: Podsim) -> None:
    """A verdict would rest on numbers that only the code knows."""
    found = json.loads(podsim("list", "metrics", "--json").output)
    assert list(found) == [each.key for each in METRICS]
    assert found["ttft_s.p95"]["summary"].startswith(
        "s, less is better, margin 5 % or 0.001, primary; 95th percentile"
    )
    assert found["requests"]["summary"].startswith("requests, neutral, margin 2 %; ")
    assert len(podsim("list", "metrics").output.splitlines()) == len(METRICS)
