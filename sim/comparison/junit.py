"""A report as JUnit XML, which continuous integration shows test by test."""

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from typing import Final, NamedTuple

from sim.comparison import wording
from sim.comparison.exact import ExactComparison
from sim.comparison.report import One, Report
from sim.comparison.verdict import Verdict

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


def render(report: Report) -> str:
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
