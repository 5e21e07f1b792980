"""``podsim baseline check``: what is identical, what is not comparable, what must be explained."""

import json
import shlex
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from tests.baseline.conftest import BASELINES, SCENARIOS
from tests.baseline.test_update import edited

FILE = BASELINES / "several.json"


def rewritten(old: str, new: str) -> None:
    """Change a baseline by hand."""
    assert old in FILE.read_text("utf-8")
    FILE.write_text(FILE.read_text("utf-8").replace(old, new), "utf-8")


def test_unchanged_code_is_identical(kept):
    """A check would be red, or say that something had changed, when nothing had."""
    checked = kept("check")
    assert checked.exit_code == 0
    assert checked.stdout == (
        "several: identical: 6 pairs of runs, the same to the bit\n"
        "single: identical: 3 pairs of runs, the same to the bit\n"
    )


def test_nothing_that_does_not_change_a_run_matters(kept):
    """A comment or a description would make baselines stale."""
    edited("description: two pods", "# Small.\ndescription: a pair of pods")
    assert kept("check").exit_code == 0
    Path(BASELINES, "several.json").write_text(
        json.dumps(json.loads(FILE.read_text("utf-8"))), "utf-8"
    )
    assert kept("check").exit_code == 0, "another layout of the same JSON, as tools leave it"


def test_an_edited_variant_is_not_comparable_and_the_others_are_compared(kept):
    """A scenario made easier would turn the check green, or hide what the code does to the rest."""
    edited("least-loaded: {}", "least-loaded: {engines.small.maxNumSeqs: 3}")
    checked = kept("check")
    assert checked.exit_code == 3
    assert "least-loaded: not comparable: it has been edited" in checked.stdout
    assert "podsim baseline update several" in checked.stdout
    assert "3 of 3 pairs of runs identical" in checked.stdout
    assert "single: identical" in checked.stdout


def test_other_variants_and_seeds_are_not_comparable(kept):
    """A variant could be added, renamed or dropped without anybody measuring it."""
    edited("  least-loaded:", "  fewest:")
    checked = kept("check", "several")
    assert checked.exit_code == 3
    assert "fewest: not comparable: it is not in the baseline" in checked.stdout
    assert "least-loaded: not comparable: it is only in the baseline" in checked.stdout
    edited("seeds: [1, 2, 3]", "seeds: [1, 2]", "single")
    checked = kept("check", "single")
    assert checked.exit_code == 3
    assert checked.stdout == (
        "single: not comparable: its seeds are 1, 2, in the baseline 1, 2, 3: podsim "
        "baseline update single\n"
    )


def test_a_scenario_without_a_baseline_is_told(kept):
    """A new scenario would guard nothing, and nobody would notice."""
    FILE.unlink()
    checked = kept("check")
    assert checked.exit_code == 3
    assert checked.stdout == (
        "several: not comparable: it has no baseline yet: podsim baseline update several\n"
        "single: identical: 3 pairs of runs, the same to the bit\n"
    )


def test_a_baseline_without_a_scenario_is_told(kept):
    """A scenario that is deleted or renamed by mistake would take its guard with it."""
    (SCENARIOS / "single.yaml").unlink()
    checked = kept("check")
    assert checked.exit_code == 3
    assert (
        "single: not comparable: results/baselines/single.json has no scenario "
        "scenarios/regression/single.yaml" in checked.stdout
    )
    assert kept("check", "several").exit_code == 0, "who names one asks about that one"


def test_a_changed_baseline_must_be_explained(kept):
    """Whoever makes something worse could keep the new figures without a word."""
    edited("rate: 4", "rate: 6")
    (line,) = [
        line for line in kept("update").stdout.splitlines() if line.startswith("- baseline:")
    ]
    for text in ("", f"\n{line}\n", "\nbaseline: several 00000000 more load\n"):
        log = Path("CHANGELOG.md")
        log.write_text(log.read_text("utf-8") + text, "utf-8")
        checked = kept("check")
        assert checked.exit_code == 2
        assert checked.stdout == "", "nothing was run"
        assert line in checked.stderr
        assert "baseline: single" not in checked.stderr
    assert kept("check", "--no-changelog").exit_code == 0
    log.write_text(log.read_text("utf-8").replace("<why it changed>", "more load"), "utf-8")
    assert kept("check").exit_code == 0


def test_a_changelog_elsewhere_and_none(kept):
    """A repository that keeps no CHANGELOG.md could not use baselines."""
    log = Path("CHANGELOG.md").rename("NEWS.md")
    missing = kept("check")
    assert missing.exit_code == 2
    assert "CHANGELOG.md: no such file" in missing.stderr
    assert "--no-changelog" in missing.stderr
    assert kept("check", "--changelog", str(log)).exit_code == 0
    log.write_bytes(b"\xff\xfe\x00")
    broken = kept("check", "--changelog", str(log))
    assert broken.exit_code == 2
    assert "NEWS.md: cannot read the changelog" in broken.stderr


def test_a_figure_that_was_changed_by_hand_is_found(kept):
    """A bound that is in the way could be moved in an editor."""
    values = json.loads(FILE.read_text("utf-8"))["variants"]["round-robin"]["figures"]["ttft_s.p95"]
    rewritten(json.dumps(values), json.dumps([value * 2 for value in values]))
    checked = kept("check")
    assert checked.exit_code == 2
    assert "- baseline: several " in checked.stderr


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"form": 1', '"form": 2', "written in form 2 by a newer podsim"),
        ('"seeds": [1, 2, 3]', '"seeds": [1, 2]', "has 3 values for 2 seeds"),
        ('"seeds"', '"sides"', "'seeds' is missing"),
        ('"scenario": "several"', '"scenario": "other"', "this is the baseline of other"),
        ('"requests": [40,', '"requests": [NaN,', "a figure is a number or null; got NaN"),
        ('"requests": [40,', '"requests": ["50",', "a figure is a number or null; got '50'"),
        ('"requests": [40,', '"requests": [1e999,', "a figure is a number or null; got inf"),
        ("{", "[", "cannot read a baseline from it"),
    ],
)
def test_a_broken_baseline_is_named(kept, old, new, said):
    """A merge conflict or a slip would end in a traceback, or pass: a NaN is never worse."""
    rewritten(old, new)
    checked = kept("check", "--no-changelog")
    assert checked.exit_code == 2
    assert str(FILE) in checked.stderr
    assert said in checked.stderr
    assert "Traceback" not in checked.stderr


def test_faults_of_all_scenarios_are_told_at_once(kept):
    """A folder would have to be repaired one run at a time."""
    edited("rate: 4", "rat: 4")
    edited("name: single", "name: other", "single")
    checked = kept("check")
    assert checked.exit_code == 2
    assert "several.yaml" in checked.stderr
    assert "single.yaml: name: must be that of the file, single; got other" in checked.stderr


def test_folders_that_are_not_there(baseline):
    """A mistyped folder would be an empty one: nothing to check, all well."""
    wrong = baseline("check", "--scenarios", "scenario", "--no-changelog")
    assert wrong.exit_code == 2
    assert "scenario: no such folder" in wrong.stderr
    Path("scenario").mkdir()
    empty = baseline("check", "--scenarios", "scenario", "--no-changelog")
    assert empty.exit_code == 2
    assert "scenario: no scenario in it" in empty.stderr
    none = baseline("check", "--no-changelog")
    assert none.exit_code == 3


def test_hints_repeat_the_folders(kept):
    """A hint that was typed as it stood looked into the folders that were not meant, and failed."""
    SCENARIOS.rename("my scenarios")
    BASELINES.rename("bl")
    folders = ("--scenarios", "my scenarios", "--baselines", "bl")
    hint = "podsim baseline update several --scenarios 'my scenarios' --baselines bl"
    scenario, baseline = Path("my scenarios", "several.yaml"), Path("bl", "several.json")
    good, old = baseline.read_text("utf-8"), scenario.read_text("utf-8")

    def told(*options: str) -> str:
        checked = kept("check", *folders, "--no-changelog", *options, "several")
        assert "podsim baseline update" not in checked.output.replace(hint, "")
        return checked.output

    baseline.unlink()
    assert f"no baseline yet: {hint}\n" in told()
    assert f"no baseline yet: {hint}\n" in told("--format", "markdown")
    assert f"no baseline yet: {hint}" in told("--json")
    assert kept(*shlex.split(hint)[2:]).exit_code == 0, "typed as it stands"
    assert baseline.read_text("utf-8") == good
    baseline.write_text(good.replace('"seeds": [1, 2, 3]', '"seeds": [1, 2]'), "utf-8")
    assert f"{hint} writes it anew" in told()
    baseline.write_text(good, "utf-8")
    scenario.write_text(old.replace("seeds: [1, 2, 3]", "seeds: [1, 2]"), "utf-8")
    assert f"in the baseline 1, 2, 3: {hint}\n" in told()
    scenario.write_text(old.replace("rate: 4", "rate: 5"), "utf-8")
    assert f"every variant has changed: {hint}\n" in told()
    scenario.write_text(old, "utf-8")
    document = json.loads(good)
    for variant in document["variants"].values():
        variant["figures"]["ttft_s.p95"] = [
            each / 2 + at / 1e3 for at, each in enumerate(variant["figures"]["ttft_s.p95"])
        ]
    baseline.write_text(json.dumps(document), "utf-8")
    assert f"If it is meant to be worse, keep it and say why: {hint}\n" in told()
    baseline.write_text(good.replace('"requests": [40, 40, 40]', '"requests": [40, 40, 39]'))
    assert f"note: the baseline is out of date; {hint} keeps" in told()


def test_reports_are_those_of_compare(kept):
    """A pull request would show another verdict than the terminal, or a test report none."""
    edited("least-loaded: {}", "least-loaded: {engines.small.maxNumSeqs: 3}")
    files = ("report.md", "report.xml", "report.json", "report.txt")
    checked = kept("check", "--json", *(word for file in files for word in ("-o", file)))
    assert checked.exit_code == 3
    document = json.loads(checked.stdout)
    assert json.loads(Path("report.json").read_text("utf-8")) == document
    assert document["verdict"] == "incomparable"
    assert [each["verdict"] for each in document["comparisons"]] == ["incomparable", "identical"]
    assert "### podsim baseline check: not comparable" in Path("report.md").read_text("utf-8")
    suites = ElementTree.parse("report.xml").getroot()
    assert suites.get("name") == "podsim baseline check"
    assert [suite.get("errors") for suite in suites] == ["1", "0"]
    assert "least-loaded: not comparable" in Path("report.txt").read_text("utf-8")
    assert kept("check", "-o", "report.html").exit_code == 2
    assert kept("check", "--json", "--format", "junit").exit_code == 2


def test_a_report_that_cannot_be_written_is_told_before_anything_runs(kept, monkeypatch):
    """All scenarios had run when it turned out that the folder of the table is not there."""
    monkeypatch.setattr("sim.baseline.files.run_set", None)
    checked = kept("check", "-o", "nowhere/table.md")
    assert checked.exit_code == 2
    assert "nowhere/table.md: there is no folder nowhere" in checked.stderr


def test_a_number_that_no_float_holds_is_no_figure(kept):
    """A baseline with such an integer ended in an internal error."""
    FILE.write_text(FILE.read_text("utf-8").replace("[40, 40, 40]", f"[1{400 * '0'}, 40, 40]"))
    checked = kept("check", "--no-changelog")
    assert checked.exit_code == 2
    assert "cannot read a baseline from it" in checked.stderr
