"""A comparison as text for a terminal, Markdown for a pull request, JUnit XML or JSON."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from textwrap import wrap
from typing import Any, Final, NamedTuple

from sim.comparison import wording
from sim.comparison.exact import ExactComparison
from sim.comparison.pairing import called
from sim.comparison.report import One, Report
from sim.comparison.sides import Comparison, MetricVerdict, Verdict

WIDTH: Final = 100


def text_report(report: Report, everything: bool = False) -> str:
    """The whole report; with ``everything`` also the metrics of which there is nothing to say."""
    lines: list[str] = []
    for each in report.comparisons:
        lines += [f"{each.scenario}: {each.base} → {each.new}"]
        if isinstance(each, ExactComparison):
            lines += _exact(each)
        else:
            lines += _paired(each, everything)
        lines += [
            line
            for fault in each.unpaired
            for line in _wrapped(
                f"not comparable: {called(fault.variant, each.scenario)}: {fault.reason}"
            )
        ]
        lines += [line for note in each.notes for line in _wrapped(f"note: {note}")]
        lines.append("")
    lines += [line for note in report.notes for line in _wrapped(f"note: {note}")]
    if any(
        isinstance(each, Comparison) and wording.worth_a_row(each, everything)
        for each in report.comparisons
    ):
        lines += wrap(wording.PAIRED_METHOD, WIDTH)
    return "\n".join(lines).rstrip("\n")


def _exact(comparison: ExactComparison) -> Iterator[str]:
    yield wording.exact_headline(comparison)
    for run in comparison.runs:
        if run.verdict != "identical":
            yield from _wrapped(f"  {wording.exact_sentence(run)}")


def _paired(comparison: Comparison, everything: bool) -> Iterator[str]:
    yield from _wrapped(wording.headline(comparison))
    for verdict in wording.NAMED:
        for each in comparison.named(verdict):
            yield from _wrapped(f"  {wording.sentence(each)}")
    shown = wording.worth_a_row(comparison, everything)
    if comparison.verdict != "identical":
        yield from (f"{name}: identical" for name in wording.identical_variants(comparison))
    if not shown:
        return
    yield ""
    yield from _aligned([["", *wording.COLUMNS], *_rows(shown, comparison.scenario)])
    yield ""
    for line in wording.remarks(shown):
        yield from _wrapped(line)
    if advice := wording.advice(shown):
        yield from _wrapped(advice)


def _rows(shown: Sequence[MetricVerdict], scenario: str) -> Iterator[list[str]]:
    """A row for each metric, below its variant; those that decide nothing apart."""
    several = len({each.variant for each in shown}) > 1
    both = len({each.primary for each in shown}) > 1
    for variant, primary in dict.fromkeys((each.variant, each.primary) for each in shown):
        heading = [called(variant, scenario)] if several else []
        if not primary:
            heading.append("metrics that decide nothing")
        elif both:
            heading.append("primary metrics")
        if heading:
            yield [", ".join(heading)]
        for each in shown:
            if (each.variant, each.primary) == (variant, primary):
                yield [f"  {each.key}", *wording.cells(each)]


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns side by side: names and verdicts to the left, numbers to the right."""
    full = [row for row in rows if len(row) > 1]
    widths = [max(len(cell) for cell in column) for column in zip(*full, strict=True)]
    lines = []
    for row in rows:
        name, *numbers = row
        middle = [cell.rjust(width) for cell, width in zip(numbers[:-1], widths[1:])]
        lines.append("  ".join([name.ljust(widths[0]), *middle, *numbers[-1:]]).rstrip())
    return lines


def _wrapped(line: str) -> list[str]:
    indent = line[: len(line) - len(line.lstrip())] + "  "
    return wrap(line, WIDTH, subsequent_indent=indent, break_long_words=False)


MOST_RUNS: Final = 20
"""Differing runs that are listed; a changed engine changes all of them."""
_SPECIAL: Final = str.maketrans({each: f"\\{each}" for each in "\\`*_[]|~<>#&$"})


def markdown_report(report: Report, everything: bool = False) -> str:
    """The whole report as GitHub-flavoured Markdown."""
    blocks = [f"### {report.title}: {wording.told(report.verdict)}"]
    for each in report.comparisons:
        names = f"{_plain(each.base)} → {_plain(each.new)}"
        if isinstance(each, ExactComparison):
            line, body = wording.exact_headline(each), list(_exact_items(each))
        else:
            line, body = wording.headline(each), list(_paired_blocks(each, everything))
        blocks.append(f"**{_plain(each.scenario)}** ({names}): {_plain(line)}")
        faults = [
            "- not comparable: "
            f"{_plain(called(fault.variant, each.scenario))}: {_plain(fault.reason)}"
            for fault in each.unpaired
        ]
        notes = [f"- note: {_plain(note)}" for note in each.notes]
        blocks += filter(None, ["\n".join([*faults, *notes])])
        blocks += body
    blocks += filter(None, ["\n".join(f"- note: {_plain(note)}" for note in report.notes)])
    return "\n\n".join(blocks)


def _exact_items(comparison: ExactComparison) -> Iterator[str]:
    differing = [run for run in comparison.runs if run.verdict != "identical"]
    lines = [f"- {_plain(wording.exact_sentence(run))}" for run in differing[:MOST_RUNS]]
    if len(differing) > MOST_RUNS:
        lines.append(f"- and {len(differing) - MOST_RUNS} more runs")
    if lines:
        yield "\n".join(lines)


def _paired_blocks(comparison: Comparison, everything: bool) -> Iterator[str]:
    named = [each for verdict in (*wording.NAMED, "better") for each in comparison.named(verdict)]
    if named:
        yield "\n".join(f"- {_plain(wording.sentence(each))}" for each in named)
    shown = wording.worth_a_row(comparison, everything)
    if shown:
        yield _unfolded(shown, comparison.scenario)
    if advice := wording.advice(shown):
        yield _plain(advice)


def _unfolded(shown: Sequence[MetricVerdict], scenario: str) -> str:
    """The table of all that was judged, folded until somebody asks for it."""
    header = ["variant", "metric", *wording.COLUMNS]
    rows = [
        (
            called(each.variant, scenario),
            each.key + ("" if each.primary else " (decides nothing)"),
            *wording.cells(each),
        )
        for each in shown
    ]
    aligned = ["---", "---", *["---:"] * (len(wording.COLUMNS) - 1), "---"]
    lines = [
        f"<details><summary>{len(rows)} metrics</summary>",
        "",
        f"| {' | '.join(header)} |",
        f"| {' | '.join(aligned)} |",
        *(f"| {' | '.join(map(_plain, row))} |" for row in rows),
        "",
        *(f"- {_plain(remark)}" for remark in wording.remarks(shown)),
        "",
        wording.PAIRED_METHOD,
        "",
        "</details>",
    ]
    return "\n".join(lines)


def _plain(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return " ".join(text.translate(_SPECIAL).split())


OUTCOMES: Final[dict[Verdict, str]] = {
    "worse": "failure",
    "different": "failure",
    "incomparable": "error",
    "inconclusive": "skipped",
}
"""What a verdict is to a test runner; any other is a test that has passed."""

_NOT_IN_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


class _Case(NamedTuple):
    group: str
    name: str
    verdict: Verdict
    message: str


def junit_report(report: Report) -> str:
    """A suite for each scenario, a test for each primary metric of each variant, or for each run.

    Worse and different are failures, what is not comparable is an error, what is
    inconclusive is skipped.
    """
    suites = ElementTree.Element("testsuites", name=report.title)
    for comparison in report.comparisons:
        cases = list(_cases(comparison))
        outcomes = [OUTCOMES.get(case.verdict, "") for case in cases]
        suite = ElementTree.SubElement(
            suites,
            "testsuite",
            name=_legal(comparison.scenario),
            tests=str(len(cases)),
            failures=str(outcomes.count("failure")),
            errors=str(outcomes.count("error")),
            skipped=str(outcomes.count("skipped")),
        )
        for case, outcome in zip(cases, outcomes, strict=True):
            test = ElementTree.SubElement(
                suite, "testcase", classname=_legal(case.group), name=_legal(case.name), time="0"
            )
            if outcome:
                message = _legal(case.message)
                ElementTree.SubElement(test, outcome, message=message).text = message
    ElementTree.indent(suites)
    text: str = ElementTree.tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{text}'


def _cases(comparison: One) -> Iterator[_Case]:
    scenario = comparison.scenario
    if comparison.reason:
        yield _Case(scenario, "comparable", "incomparable", comparison.reason)
    for fault in comparison.unpaired:
        yield _Case(_group(scenario, fault.variant), "comparable", "incomparable", fault.reason)
    if isinstance(comparison, ExactComparison):
        for run in comparison.runs:
            said = wording.exact_sentence(run)
            yield _Case(_group(scenario, run.variant), f"seed {run.seed}", run.verdict, said)
        return
    for each in comparison.judged:
        if each.primary:
            group = _group(scenario, each.variant)
            yield _Case(group, each.key, each.verdict, wording.sentence(each))


def _group(scenario: str, variant: str) -> str:
    """What the tests of a variant stand under; those of a scenario without any, under its name."""
    return f"{scenario}.{variant}" if variant else scenario


def _legal(text: str) -> str:
    """Text without the characters that XML cannot hold, however they are escaped."""
    return _NOT_IN_XML.sub("\ufffd", text)


def as_document(report: Report) -> dict[str, Any]:
    """The report as plain data; unknown values are null, verdicts are the words of the program.

    A value that is no number, which only a damaged result holds, is the text ``nan`` or ``inf``.
    """
    return {
        "base": report.base,
        "new": report.new,
        "verdict": report.verdict,
        "comparisons": [
            {**_finite(asdict(each)), "verdict": each.verdict} for each in report.comparisons
        ],
        "notes": list(report.notes),
    }


def json_report(report: Report) -> str:
    """The document as text, keys sorted."""
    return json.dumps(as_document(report), indent=2, sort_keys=True, allow_nan=False)


def _finite(value: Any) -> Any:
    """The same data with a text for every number that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
