import json
import math
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import replace

import pytest

from sim.comparison import rendering, wording
from sim.comparison.exact import Cell, ExactComparison, ExactRun, FigureDifference
from sim.comparison.report import Report, report
from sim.comparison.sides import Comparison, Side
from tests.comparison.harness import base, each_seed, side

NASTY = "a|b <i>\"&' *x* `y` \x00\x1b[31m\ud800"


def mixed() -> Report:
    """A worse, a better, an inconclusive, an incomparable, a same and a silent metric."""
    wobble = [0.8, 1.6, 0.95, 1.4, 1.5]

    def after(seed: int) -> dict[str, float | None]:
        return {
            "error_ratio": 0.01,
            "ttft_s.p50": 1.0,
            "ttft_s.p95": 1.5 + 0.001 * seed,
            "e2e_s.p95": 20.0 * wobble[seed - 1],
            "queue_s.p95": 2.0,
            "queue_s.p99": 1.0,
            "output_tokens_per_s": 1200.0 + seed,
            "prompt_cache_hit_ratio": None,
        }

    def before(seed: int) -> dict[str, float | None]:
        return {
            "error_ratio": 0.0,
            "ttft_s.p50": 1.0,
            "ttft_s.p95": 1.0,
            "e2e_s.p95": 20.0,
            "queue_s.p95": 1.0,
            "queue_s.p99": 1.0,
            "output_tokens_per_s": 1000.0,
            "prompt_cache_hit_ratio": 0.9,
        }

    old, new = base(*each_seed(5, before)), side(*each_seed(5, after))
    return report("base", "new", [old], [new])


def exact(**changes: object) -> Report:
    """One run that is identical and one of which a cell and two figures differ."""
    cell = Cell("requests", 3, "end_s", 1.5, 1.5000000000000002, 10, 12)
    figures = (FigureDifference("tries", 10, 12), FigureDifference("ttft_s.p99", None, 1.0))
    runs = (
        ExactRun("ring", 1, "identical"),
        replace(ExactRun("ring", 2, "different", cell, figures), **changes),
    )
    return Report("base", "new", (ExactComparison("base", "new", "small", runs),))


def identical() -> Report:
    figures = each_seed(3, lambda seed: {"ttft_s.p95": 1.0})
    return report("a", "b", [base(*figures, digest="d")], [side(*figures, digest="d")])


def test_the_text_of_a_comparison() -> None:
    """Readers would look for verdict, size, interval or next step and not find it."""
    assert (
        rendering.text_report(mixed())
        == """\
small: base → new
worse: primary metrics: 2 worse, 1 not comparable, 1 inconclusive, 1 better, 1 same; 0 of 5 pairs of
  runs identical
  ring: error_ratio is worse: 0 → 0.01, +0.01 [+0.01, +0.01], 5 seeds
  ring: ttft_s.p95 is worse: 1 → 1.503, +50.3 % [+50.0, +50.6], 5 seeds
  ring: prompt_cache_hit_ratio is not comparable: 0.9 → unknown, 0 seeds (new had nothing to measure
    it by under 5 seeds from 1 to 5)

                           base      new    change          interval  margin  seeds  verdict
primary metrics
  error_ratio                 0     0.01     +0.01    [+0.01, +0.01]              5  worse
  ttft_s.p50                  1        1       0 %            [0, 0]     5 %      5  same
  ttft_s.p95                  1    1.503   +50.3 %    [+50.0, +50.6]     5 %      5  worse
  e2e_s.p95                  20       25   +20.6 %    [-17.5, +76.4]     5 %      5  inconclusive, ~13 seeds
  output_tokens_per_s     1,000    1,203   +20.3 %    [+20.1, +20.5]     2 %      5  better
  prompt_cache_hit_ratio    0.9  unknown                                          0  not comparable
metrics that decide nothing
  queue_s.p95                 1        2  +100.0 %  [+100.0, +100.0]     5 %      5  worse

about 13 seeds on both sides would decide what is inconclusive: podsim run FILE --seeds 13

Differences new - base, seed by seed, of times and rates ratios new / base (geometric means), with t
intervals that hold for all primary metrics of a scenario together (95 %, Holm). A percentile is
compared run by run; its mean over seeds is not the percentile of all requests."""  # noqa: E501
    )


def unsorted(*variants: str) -> Report:
    """A figure that decides nothing before and behind a primary one, all of them twice as good."""
    values = {"queue_s.p95": 1.0, "ttft_s.p95": 1.0, "queue_s.p99": 1.0}
    olds = [base(*each_seed(4, lambda seed: values), variant=name) for name in variants]
    halves = {key: value / 2 for key, value in values.items()}
    news = [side(*each_seed(4, lambda seed: halves), variant=name) for name in variants]
    old, new = (
        Side(label, "small", tuple(run for each in sides for run in each.runs))
        for label, sides in (("base", olds), ("new", news))
    )
    return report("base", "new", [old], [new])


def test_primary_metrics_stand_first() -> None:
    """What decides nothing led the table, and the primary metrics followed without a heading."""
    lines = rendering.text_report(unsorted("ring")).splitlines()
    assert [line.split("  ")[0] or line.split()[0] for line in lines[4:9]] == [
        "primary metrics",
        "ttft_s.p95",
        "metrics that decide nothing",
        "queue_s.p95",
        "queue_s.p99",
    ]
    lines = rendering.text_report(unsorted("ring", "table")).splitlines()
    assert [line for line in lines if line.startswith(("ring", "table"))] == [
        "ring, primary metrics",
        "ring, metrics that decide nothing",
        "table, primary metrics",
        "table, metrics that decide nothing",
    ]


def test_primary_metrics_stand_first_in_markdown() -> None:
    """The table of a pull request began with what decides nothing."""
    rows = rendering.markdown_report(unsorted("ring", "table")).splitlines()
    assert [row.split(" | ")[1] for row in rows if row.startswith(("| ring", "| table"))] == [
        "ttft\\_s.p95",
        "queue\\_s.p95 (decides nothing)",
        "queue\\_s.p99 (decides nothing)",
    ] * 2


@pytest.mark.parametrize(("before", "shown"), [(1.0, "0 %"), (0.0, "0")])
def test_rounding_is_no_change(before: float, shown: str) -> None:
    """Another order of summation was shown as a change of +2.2e-11 % [+2.1e-11, +2.2e-11]."""
    old = base(*each_seed(4, lambda seed: {"ttft_s.p95": before}))
    new = side(*each_seed(4, lambda seed: {"ttft_s.p95": before + 2e-13 + 1e-15 * seed}))
    found = report("base", "new", [old], [new])
    (comparison,) = found.comparisons
    assert isinstance(comparison, Comparison)
    (judged,) = comparison.judged
    assert judged.change
    assert (wording.change(judged), wording.interval(judged)) == (shown, "[0, 0]")
    small = replace(judged, change=2e-9, low=1e-9, high=3e-9)
    assert wording.change(small).startswith("+2e-")
    assert wording.interval(small).startswith("[0, +3e-")


def test_everything_is_every_metric() -> None:
    """Nobody could see what was judged and found to be in order."""
    assert "queue_s.p99" not in rendering.text_report(mixed())
    assert "queue_s.p99" in rendering.text_report(mixed(), everything=True)
    assert "queue\\_s.p99" in rendering.markdown_report(mixed(), everything=True)
    assert "ttft_s.p95" in rendering.text_report(identical(), everything=True)


def test_identical_runs_take_two_lines() -> None:
    """Green checks would be pages long."""
    assert (
        rendering.text_report(identical())
        == "small: base → new\nidentical: 3 pairs of runs, the same to the bit"
    )
    assert "<details>" not in rendering.markdown_report(identical())


def test_a_difference_to_the_bit_is_told_with_its_place() -> None:
    """Two runs would be different and nobody could tell where."""
    assert (
        rendering.text_report(exact())
        == """\
small: base → new
different: 1 of 2 pairs of runs identical
  ring, seed 2: first difference in table requests, row 3, column end_s: 1.5 → 1.5000000000000002;
    10 rows → 12; figures: tries 10 → 12, ttft_s.p99 null → 1.0"""
    )


def test_markdown_says_what_got_worse_before_any_table() -> None:
    """A reviewer would unfold a table to learn why the check is red."""
    lines = rendering.markdown_report(mixed()).splitlines()
    assert lines[0] == "### podsim compare: worse"
    folded = lines.index("<details><summary>7 metrics</summary>")
    assert (
        "- ring: ttft\\_s.p95 is worse: 1 → 1.503, +50.3 % \\[+50.0, +50.6\\], 5 seeds"
        in (lines[:folded])
    )
    assert lines[folded + 1] == ""  # without it GitHub shows the table as text
    table = [line for line in lines if line.startswith("|")]
    assert len(table) == 2 + 7
    assert len({line.replace("\\|", "").count("|") for line in table}) == 1
    assert lines[lines.index("</details>") + 2].startswith("about 13 seeds on both sides")
    assert "not the percentile of all requests" in rendering.markdown_report(mixed())


def test_names_cannot_break_markdown() -> None:
    """A name with a bar or a tag would shift the columns of a comment, or hide half of it."""
    shown = rendering.markdown_report(named(NASTY))
    (row,) = (line for line in shown.splitlines() if line.startswith("| a"))
    assert "a\\|b \\<i\\>" in row
    assert row.replace("\\|", "").count("|") == 10


def test_junit_is_read_by_a_parser() -> None:
    """Continuous integration would drop the report, or count other tests than there are."""
    root = ElementTree.fromstring(rendering.junit_report(mixed()).encode())
    (suite,) = root
    assert suite.attrib == {
        "name": "small",
        "tests": "6",
        "failures": "2",
        "errors": "1",
        "skipped": "1",
    }
    outcomes = {case.attrib["name"]: [each.tag for each in case] for case in suite}
    assert outcomes == {
        "error_ratio": ["failure"],
        "ttft_s.p50": [],
        "ttft_s.p95": ["failure"],
        "e2e_s.p95": ["skipped"],
        "output_tokens_per_s": [],
        "prompt_cache_hit_ratio": ["error"],
    }
    assert suite[2][0].attrib["message"] == (
        "ring: ttft_s.p95 is worse: 1 → 1.503, +50.3 % [+50.0, +50.6], 5 seeds"
    )


@pytest.mark.parametrize("made", [mixed, exact, identical])
def test_every_junit_report_counts_what_it_holds(made: Callable[[], Report]) -> None:
    """A failure could be in the list and not in the total."""
    for suite in ElementTree.fromstring(rendering.junit_report(made()).encode()):
        assert int(suite.attrib["tests"]) == len(suite) > 0
        for outcome, total in (("failure", "failures"), ("error", "errors")):
            assert int(suite.attrib[total]) == len(suite.findall(f"testcase/{outcome}"))


def named(variant: str) -> Report:
    """A worse metric of a variant of that name."""
    old = base(*each_seed(3, lambda seed: {"ttft_s.p95": 1.0}), variant=variant)
    new = side(*each_seed(3, lambda seed: {"ttft_s.p95": 2.0}), variant=variant)
    return report("base", "new", [old], [new])


def test_names_cannot_break_xml() -> None:
    """A control character in a name is no XML, however it is escaped."""
    root = ElementTree.fromstring(rendering.junit_report(named(NASTY)).encode())
    (case,) = root.iter("testcase")
    assert case.attrib["classname"] == "small.a|b <i>\"&' *x* `y` \ufffd\ufffd[31m\ufffd"


def test_what_cannot_be_compared_is_an_error_of_its_own() -> None:
    """Without a single metric a test report would be empty, and empty is green."""
    old = base(*each_seed(3, lambda seed: {"ttft_s.p95": 1.0}))
    gone = report("base", "new", [old, replace(old, scenario="other")], [])
    for found in (gone, report("base", "new", [old], [Side("new", "small", ())])):
        root = ElementTree.fromstring(rendering.junit_report(found).encode())
        assert all(suite.attrib["errors"] == "1" for suite in root)
        assert "not comparable" in rendering.text_report(found)
        assert rendering.markdown_report(found).startswith("### podsim compare: not comparable")


def test_json_holds_all_that_was_judged() -> None:
    """Scripts would read the text."""
    found = json.loads(rendering.json_report(mixed()))
    assert found["verdict"] == "worse"
    (comparison,) = found["comparisons"]
    assert (comparison["scenario"], comparison["verdict"]) == ("small", "worse")
    assert {each["key"]: each["verdict"] for each in comparison["judged"]} == {
        "error_ratio": "worse",
        "ttft_s.p50": "same",
        "ttft_s.p95": "worse",
        "e2e_s.p95": "inconclusive",
        "queue_s.p95": "worse",
        "queue_s.p99": "same",
        "output_tokens_per_s": "better",
        "prompt_cache_hit_ratio": "incomparable",
    }
    (cell,) = (
        each["cell"]
        for each in json.loads(rendering.json_report(exact()))["comparisons"][0]["runs"][1:]
    )
    assert (cell["table"], cell["row"], cell["column"]) == ("requests", 3, "end_s")


def test_json_of_a_value_that_is_no_number() -> None:
    """A damaged result, compared to the bit and asked for as JSON, was an internal error."""
    run = ExactRun("ring", 1, "different", figures=(FigureDifference("ttft_s.p95", 1.0, math.nan),))
    found = Report("base", "new", (ExactComparison("base", "new", "small", (run,)),))
    (shown,) = json.loads(rendering.json_report(found))["comparisons"][0]["runs"]
    assert shown["figures"] == [{"key": "ttft_s.p95", "base": 1.0, "new": "nan"}]


def test_no_name_is_markup_in_markdown() -> None:
    """Entities and formulas of GitHub were left to work: a&lt;b was shown as a<b."""
    assert r"a\&lt;b \$x\$: ttft" in rendering.markdown_report(named("a&lt;b $x$"))


def test_one_seed_is_told_what_to_do() -> None:
    """A beginner who compares two single runs would be left with a word."""
    old = base(*each_seed(1, lambda seed: {"ttft_s.p95": 1.0}))
    new = side(*each_seed(1, lambda seed: {"ttft_s.p95": 2.0}))
    shown = rendering.text_report(report("base", "new", [old], [new]))
    assert "ttft_s.p95: one seed says nothing about chance" in shown
    assert "run more seeds on both sides, as podsim run FILE --seeds 5" in shown


def test_a_scenario_without_variants_goes_by_its_name() -> None:
    """Pull requests and test reports spoke of a variant called "(no variants)"."""
    shown = named("")
    root = ElementTree.fromstring(rendering.junit_report(shown).encode())
    (case,) = root.iter("testcase")
    assert case.attrib["classname"] == "small"
    assert "| small | ttft\\_s.p95 |" in rendering.markdown_report(shown)
    assert "no variants" not in rendering.markdown_report(shown) + rendering.text_report(
        shown, everything=True
    )
