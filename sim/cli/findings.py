"""What ``podsim find`` prints: what was tried for each variant, and the answer."""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from sim.core.text import aligned, share, wrapped
from sim.results.survivors import REFUSED, WORTH_SAYING
from sim.sweep.search_result import in_words

if TYPE_CHECKING:
    from sim.sweep.search_result import Answer, Judged, Trial

CENSORED: Final = "late"
TOO_FEW: Final = "of too few"
MEANINGS: Final = {
    CENSORED: "under some seed so many were still on their way at the end that it is not known",
    TOO_FEW: f"more {REFUSED} than it leaves room for: 5 % for p95 and a mean, 1 % for p99",
}
NULL: Final = "null"
PLAIN: Final = ("variant", "status", "larger_helps", "value", "misses", "unit", "crossing")
"""Facts of an answer that are as they are in JSON."""


def render(answers: "Sequence[Answer]") -> str:
    """One block for each variant."""
    lines = [f"{answers[0].path} for {in_words(answers[0].targets)}"]
    lines.append("Mean over the seeds ± half-width of the 95 % t interval.")
    for answer in answers:
        lines += ["", *_block(answer)]
    return "\n".join(lines)


def as_document(answers: "Sequence[Answer]") -> dict[str, Any]:
    """The answers for machines; the mean of what is censored, or was not there, is null."""
    return {
        "path": answers[0].path,
        "targets": [str(target) for target in answers[0].targets],
        "answers": [
            {
                **{name: getattr(answer, name) for name in PLAIN},
                "answer": sentence(answer),
                "reason": answer.reason,
                "trials": [_trial_document(trial) for trial in answer.trials],
                "contradictions": [list(pair) for pair in answer.contradictions],
                "skipped": [{"value": value, "reason": why} for value, why in answer.skipped],
            }
            for answer in answers
        ],
    }


def sentence(answer: "Answer") -> str:
    """The answer in one sentence."""
    name = answer.path.rpartition(".")[2]
    first, last = answer.trials[0], answer.trials[-1]
    if answer.status == "unmeasured":
        return f"none: {answer.reason}"
    if answer.status == "always":
        return f"both ends meet it: {_both(answer)}; widen the range to see where that ends"
    if answer.status == "never":
        return f"both ends miss it: {_both(answer)}"
    if answer.larger_helps is None:
        ends = f"{_value(answer, first.value)}, {_value(answer, last.value)}"
        return f"undecided at both ends, {ends}; more --max-seeds would tell"
    kind = "smallest" if answer.larger_helps else "largest"
    misses, value = _value(answer, answer.misses), _value(answer, answer.value)
    if answer.status == "found":
        return f"{kind} {name}: {value} ({misses} misses it{_why(answer)})"
    surely = f"{misses} surely misses it, {value} surely meets it"
    by_mean = answer.crossing and [_value(answer, each) for each in answer.crossing]
    guess = f", the means cross it between {by_mean[0]} and {by_mean[1]}" if by_mean else ""
    return f"undecided in between: {surely}{guess}; more --max-seeds would tell"


def _value(answer: "Answer", value: float | None) -> str:
    """A value as the scenario has it."""
    return "no value" if value is None else f"{value:.12g}{answer.unit}"


def _why(answer: "Answer") -> str:
    """By which of several targets the neighbour misses, and whether it serves too few."""
    (trial,) = (trial for trial in answer.trials if trial.value == answer.misses)
    missed = [each for each in trial.judged if each.verdict == "misses"]
    named = [str(each.target) for each in missed] if len(trial.judged) > 1 else []
    refused = [_refused(each) for each in missed if each.left_out > WORTH_SAYING]
    return "".join(f": {part}" for part in (" and ".join(named), *refused[:1]) if part)


def _refused(judged: "Judged") -> str:
    return f"{share(judged.left_out)} of what {judged.target.key} is of {REFUSED}"


def _block(answer: "Answer") -> list[str]:
    name = answer.path.rpartition(".")[2]
    few = any(each.left_out > WORTH_SAYING for trial in answer.trials for each in trial.judged)
    header = [name, *(target.key for target in answer.targets), *["left out"] * few, "seeds", ""]
    rows = [
        [
            _value(answer, trial.value),
            *(_figure(each) for each in trial.judged),
            *[share(max(each.left_out for each in trial.judged))] * few,
            str(trial.seeds),
            trial.verdict,
        ]
        for trial in answer.trials
    ]
    lines = [f"variant {answer.variant}"] if answer.variant else []
    if answer.larger_helps is not None:
        lines.append(f"{'Larger' if answer.larger_helps else 'Smaller'} values help.")
    lines += aligned([header, *rows], numbers=range(len(header) - 1))
    if few:
        lines += wrapped(
            f"left out: the share that {REFUSED}, of whom the figure says nothing, under the seed "
            "with the most of them"
        )
    written = {_figure(each) for trial in answer.trials for each in trial.judged}
    for word, meaning in MEANINGS.items():
        lines += wrapped(f"{word}: {meaning}") if word in written else []
    for value, why in answer.skipped:
        lines += wrapped(f"skipped: {_value(answer, value)} cannot be run: {why}")
    for one, other in answer.contradictions:
        pair = f"from {_value(answer, one)} to {_value(answer, other)}"
        lines.append(
            f"beware: {pair} the figure went the other way; there may be more than "
            "one place where the target begins to be met"
        )
    return [*lines, f"Answer: {sentence(answer)}"]


def _both(answer: "Answer") -> str:
    ends = (answer.trials[0], answer.trials[-1])
    return " and ".join(
        f"{', '.join(_with_share(each) for each in trial.judged)} at {_value(answer, trial.value)}"
        for trial in ends
    )


def _with_share(judged: "Judged") -> str:
    """A figure, and the share that it leaves out."""
    few = f" ({share(judged.left_out)} {REFUSED})" if judged.left_out > WORTH_SAYING else ""
    return _figure(judged) + few


def _figure(judged: "Judged") -> str:
    if judged.verdict == "unmeasured":
        return NULL
    mean, low, high = judged.interval.mean, judged.interval.low, judged.interval.high
    if mean is None or low is None or high is None or not isfinite(mean):
        return TOO_FEW if judged.left_out > WORTH_SAYING else CENSORED
    return f"{mean:,.4g} ± {(high - low) / 2.0:,.2g}"


def _trial_document(trial: "Trial") -> dict[str, Any]:
    def finite(value: float | None) -> float | None:
        return value if value is not None and isfinite(value) else None

    return {
        "value": trial.value,
        "seeds": trial.seeds,
        "verdict": trial.verdict,
        "reason": trial.reason,
        "figures": [
            {
                "target": str(each.target),
                "mean": finite(each.interval.mean),
                "low": finite(each.interval.low),
                "high": finite(each.interval.high),
                "censored": each.interval.mean is not None and not isfinite(each.interval.mean),
                "left_out": each.left_out,
                "verdict": each.verdict,
            }
            for each in trial.judged
        ],
    }
