"""Verdicts in words, the same ones on a terminal, in a pull request and in a test report."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from sim.comparison.exact import Cell, ExactComparison, ExactRun
from sim.comparison.judging import ONE_SEED, ROUNDING, TWO_ALIKE
from sim.comparison.pairing import called
from sim.comparison.sides import Comparison, MetricVerdict, Verdict
from sim.core.text import few, plural

SHOWN: Final[dict[Verdict, str]] = {"incomparable": "not comparable"}
"""Verdicts that a reader sees under another name."""

NAMED: Final[tuple[Verdict, ...]] = ("worse", "incomparable")
"""Verdicts on primary metrics that are told in a sentence, before any table."""

QUIET: Final = ("identical", "same", "inconclusive")
"""Verdicts of which there is nothing to say where a metric decides nothing."""

COLUMNS: Final = ("base", "new", "change", "interval", "margin", "seeds", "verdict")

PAIRED_METHOD: Final = (
    "Differences new - base, seed by seed, of times and rates ratios new / base (geometric means), "
    "with t intervals that hold for all primary metrics of a scenario together (95 %, Holm). A "
    "percentile is compared run by run; its mean over seeds is "
    "not the percentile of all requests."
)


def told(verdict: Verdict) -> str:
    """The verdict as a reader sees it."""
    return SHOWN.get(verdict, verdict)


def amount(value: float | None) -> str:
    """A figure with four digits, in the unit that its key names; a ratio as a share of 1."""
    return "unknown" if value is None else _digits(value)


def change(judged: MetricVerdict) -> str:
    """The mean change: in percent of the base, or in the metric's unit."""
    if judged.change is None:
        return ""
    return _shown(judged, judged.change) + _measure(judged)


def interval(judged: MetricVerdict) -> str:
    """The interval of the change, in the same measure; empty when there is none."""
    if judged.low is None or judged.high is None:
        return ""
    return f"[{_shown(judged, judged.low)}, {_shown(judged, judged.high)}]"


def margin(judged: MetricVerdict) -> str:
    """The difference up to which the metric counts as equal, in the measure of the change."""
    if judged.low is None or judged.margin <= ROUNDING:
        return ""
    return _digits(judged.margin * _scale(judged)) + _measure(judged)


def sentence(judged: MetricVerdict) -> str:
    """What became of a metric, by how much, and how sure that is."""
    who = f"{judged.variant}: " if judged.variant else ""
    values = f"{amount(judged.base)} → {amount(judged.new)}"
    parts = [f"{who}{judged.key} is {told(judged.verdict)}: {values}"]
    if judged.change is not None:
        parts.append(f"{change(judged)} {interval(judged)}".rstrip())
    parts.append(f"{judged.n} {plural('seed', judged.n)}")
    return ", ".join(parts) + (f" ({remark(judged)})" if remark(judged) else "")


def aside(judged: MetricVerdict) -> str:
    """A metric that decides nothing, in a few words."""
    return f"{judged.key} {told(judged.verdict)} {change(judged)}".rstrip()


def remark(judged: MetricVerdict) -> str:
    """Why a verdict is what it is, and what would decide it; often nothing."""
    if judged.seeds_needed is None:
        return judged.reason
    needed = f"about {judged.seeds_needed:,} seeds would decide"
    return f"{judged.reason}; {needed}" if judged.reason else needed


def worth_a_row(comparison: Comparison, everything: bool = False) -> list[MetricVerdict]:
    """The primary metrics, and below them those others of which there is something to say.

    Of identical variants there is not. With ``everything`` all of them. Variant
    by variant.
    """
    shown = [
        each
        for each in comparison.judged
        if everything or (each.primary and each.verdict != "identical") or each.verdict not in QUIET
    ]
    variants = list(dict.fromkeys(each.variant for each in shown))
    return sorted(shown, key=lambda each: (variants.index(each.variant), not each.primary))


def identical_variants(comparison: Comparison) -> list[str]:
    """The variants of which both sides have the same runs to the bit."""
    verdicts: dict[str, set[Verdict]] = {}
    for each in comparison.judged:
        verdicts.setdefault(each.variant, set()).add(each.verdict)
    return [
        called(variant, comparison.scenario)
        for variant, found in verdicts.items()
        if found == {"identical"}
    ]


def advice(judged: Iterable[MetricVerdict]) -> str:
    """What would decide the primary metrics that are inconclusive; empty when nothing is known."""
    unclear = [each for each in judged if each.primary and each.verdict == "inconclusive"]
    if any(each.reason.startswith((ONE_SEED, TWO_ALIKE)) for each in unclear):
        return "run more seeds on both sides, as podsim run FILE --seeds 5, and compare again"
    needed = [each.seeds_needed for each in unclear if each.seeds_needed is not None]
    if not needed:
        return ""
    return (
        f"about {max(needed):,} seeds on both sides would decide {_all_of(len(needed), unclear)}: "
        f"podsim run FILE --seeds {max(needed)}"
    )


def _all_of(count: int, unclear: Sequence[MetricVerdict]) -> str:
    if count == len(unclear):
        return "what is inconclusive"
    return f"{count} of the {len(unclear)} that are inconclusive"


def cells(judged: MetricVerdict) -> tuple[str, ...]:
    """What a table says of a metric, under ``COLUMNS``."""
    verdict = told(judged.verdict)
    if judged.seeds_needed is not None:
        verdict += f", ~{judged.seeds_needed:,} seeds"
    return (
        amount(judged.base),
        amount(judged.new),
        change(judged),
        interval(judged),
        margin(judged),
        str(judged.n),
        verdict,
    )


def remarks(judged: Iterable[MetricVerdict]) -> list[str]:
    """Each reason that is given, after the metrics that it is given for.

    Those that ``sentence`` is said of have said theirs.
    """
    found: dict[str, dict[str, None]] = {}
    for each in judged:
        if each.reason and not (each.primary and each.verdict in NAMED):
            found.setdefault(each.reason, {})[each.key] = None
    return [f"{few(list(keys))}: {reason}" for reason, keys in found.items()]


def headline(comparison: Comparison) -> str:
    """One line for a whole scenario: its verdict and what that rests on."""
    verdict = comparison.verdict
    if comparison.reason:
        return f"{told(verdict)}: {comparison.reason}"
    if verdict == "identical":
        return f"identical: {_runs(comparison.pairs)}, the same to the bit"
    counted = [
        f"{count} {told(each)}"
        for each in ("worse", "incomparable", "inconclusive", "better", "same")
        if (count := len(comparison.named(each)))
    ]
    parts = [f"primary metrics: {', '.join(counted)}"] if counted else []
    if comparison.unpaired:
        count = len(comparison.unpaired)
        parts.append(f"{count} {plural('variant', count)} not comparable")
    if comparison.pairs:
        parts.append(f"{comparison.identical} of {_runs(comparison.pairs)} identical")
    return f"{told(verdict)}: {'; '.join(parts)}"


def exact_headline(comparison: ExactComparison) -> str:
    """One line for a whole scenario that was compared to the bit."""
    if comparison.reason:
        return f"{told(comparison.verdict)}: {comparison.reason}"
    count = sum(run.verdict == "identical" for run in comparison.runs)
    return f"{told(comparison.verdict)}: {count} of {_runs(len(comparison.runs))} identical"


def exact_sentence(run: ExactRun) -> str:
    """Where two runs of one variant and seed first differ."""
    who = f"{run.variant}, seed {run.seed}" if run.variant else f"seed {run.seed}"
    parts = [run.reason] if run.reason else []
    if run.cell is not None:
        parts.append(_cell(run.cell))
    parts += _figures(run)
    return f"{who}: {'; '.join(parts) or told(run.verdict)}"


def _cell(cell: Cell) -> str:
    where = f"table {cell.table}, row {cell.row}"
    if not cell.column:
        longer = "base" if cell.base_rows > cell.new_rows else "new"
        rows = f"{cell.base_rows:,} rows → {cell.new_rows:,}"
        return f"table {cell.table}: {rows}; the rows from {cell.row} on are only in {longer}"
    values = f"{_exactly(cell.base)} → {_exactly(cell.new)}"
    if cell.reordered:
        return f"{where}, column {cell.column}: {values}; the rows are the same in another order"
    if cell.base_rows != cell.new_rows:
        values += f"; {cell.base_rows:,} rows → {cell.new_rows:,}"
    return f"first difference in {where}, column {cell.column}: {values}"


def _figures(run: ExactRun) -> list[str]:
    """The first figures that differ, and how many more do."""
    named = [f"{each.key} {_exactly(each.base)} → {_exactly(each.new)}" for each in run.figures]
    return [f"figures: {few(named)}"] if named else []


def _exactly(value: Any) -> str:
    return "null" if value is None else repr(value)


def _runs(count: int) -> str:
    return f"{count} {plural('pair', count)} of runs"


def _scale(judged: MetricVerdict) -> float:
    return 100.0 if judged.relative else 1.0


def _measure(judged: MetricVerdict) -> str:
    return " %" if judged.relative else ""


def _shown(judged: MetricVerdict, difference: float) -> str:
    """A difference in the measure of the change; what rounding may make is none.

    No metric has a unit of which so little would be anything.
    """
    return _signed(0.0 if abs(difference) <= ROUNDING else difference * _scale(judged))


MOST_SHOWN: Final = 1e6
"""Two seeds that disagree put no bound on a ratio: its digits would be read as one."""


def _signed(value: float) -> str:
    if value == 0.0:
        return "0"
    if value > MOST_SHOWN:
        return "+∞"
    if abs(value) < 0.995:
        return f"{value:+.2g}"
    return f"{value:+,.1f}" if abs(value) < 999.5 else f"{value:+,.0f}"


def _digits(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 999.95 else f"{value:.4g}"
