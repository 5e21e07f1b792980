"""A report for a terminal: verdict first, then what it rests on."""

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import Final

from sim.comparison import wording
from sim.comparison.exact import ExactComparison
from sim.comparison.pairing import called
from sim.comparison.report import Report
from sim.comparison.verdict import Comparison, Judged

WIDTH: Final = 100


def render(report: Report, everything: bool = False) -> str:
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


def _rows(shown: Sequence[Judged], scenario: str) -> Iterator[list[str]]:
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
