"""A report for a comment on a pull request: verdict, what got worse, and the table to unfold."""

from collections.abc import Iterator, Sequence
from typing import Final

from sim.comparison import wording
from sim.comparison.exact import ExactComparison
from sim.comparison.pairing import called
from sim.comparison.report import Report
from sim.comparison.verdict import Comparison, Judged

MOST_RUNS: Final = 20
"""Differing runs that are listed; a changed engine changes all of them."""
_SPECIAL: Final = str.maketrans({each: f"\\{each}" for each in "\\`*_[]|~<>#&$"})


def render(report: Report, everything: bool = False) -> str:
    """The whole report as GitHub-flavoured Markdown."""
    blocks = [f"### {report.title}: {wording.told(report.verdict)}"]
    for each in report.comparisons:
        names = f"{_plain(each.base)} → {_plain(each.new)}"
        if isinstance(each, ExactComparison):
            line, body = wording.exact_headline(each), list(_exact(each))
        else:
            line, body = wording.headline(each), list(_paired(each, everything))
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


def _exact(comparison: ExactComparison) -> Iterator[str]:
    differing = [run for run in comparison.runs if run.verdict != "identical"]
    lines = [f"- {_plain(wording.exact_sentence(run))}" for run in differing[:MOST_RUNS]]
    if len(differing) > MOST_RUNS:
        lines.append(f"- and {len(differing) - MOST_RUNS} more runs")
    if lines:
        yield "\n".join(lines)


def _paired(comparison: Comparison, everything: bool) -> Iterator[str]:
    named = [each for verdict in (*wording.NAMED, "better") for each in comparison.named(verdict)]
    if named:
        yield "\n".join(f"- {_plain(wording.sentence(each))}" for each in named)
    shown = wording.worth_a_row(comparison, everything)
    if shown:
        yield _unfolded(shown, comparison.scenario)
    if advice := wording.advice(shown):
        yield _plain(advice)


def _unfolded(shown: Sequence[Judged], scenario: str) -> str:
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
