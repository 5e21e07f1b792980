"""What ``podsim find`` prints: what was tried for each variant, and the answer."""

from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Final

from sim.cli.layout import aligned

if TYPE_CHECKING:
    from sim.sweep.answer import Answer, Trial

CENSORED: Final = "censored"
NULL: Final = "null"


def render(answers: "Sequence[Answer]") -> str:
    """One block for each variant."""
    lines = [f"{answers[0].path} for {answers[0].target}"]
    lines.append("Mean over the seeds ± half-width of the 95 % t interval.")
    for answer in answers:
        lines += ["", *_block(answer)]
    return "\n".join(lines)


def as_document(answers: "Sequence[Answer]") -> dict[str, Any]:
    """The answers for machines; the mean of what is censored, or was not there, is null."""
    return {
        "path": answers[0].path,
        "target": str(answers[0].target),
        "answers": [
            {
                "variant": answer.variant,
                "status": answer.status,
                "larger_helps": answer.larger_helps,
                "value": answer.value,
                "misses": answer.misses,
                "crossing": answer.crossing,
                "answer": in_words(answer),
                "reason": answer.reason,
                "trials": [_plain(trial) for trial in answer.trials],
                "contradictions": [list(pair) for pair in answer.contradictions],
            }
            for answer in answers
        ],
    }


def in_words(answer: "Answer") -> str:
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
        return f"undecided at both ends, {first.value}, {last.value}; more --max-seeds would tell"
    kind = "smallest" if answer.larger_helps else "largest"
    if answer.status == "found":
        return f"{kind} {name}: {answer.value} ({answer.misses} misses it)"
    ends = (answer.misses or "no value", answer.value or "no value")
    surely = f"{ends[0]} surely misses it, {ends[1]} surely meets it"
    by_mean = answer.crossing
    guess = f", the means cross it between {by_mean[0]} and {by_mean[1]}" if by_mean else ""
    return f"undecided in between: {surely}{guess}; more --max-seeds would tell"


def _block(answer: "Answer") -> list[str]:
    name = answer.path.rpartition(".")[2]
    header = [name, answer.target.key, "seeds", ""]
    rows = [
        [trial.value, _figure(trial), str(trial.interval.n), trial.verdict]
        for trial in answer.trials
    ]
    lines = [f"variant {answer.variant}"] if answer.variant else []
    if answer.larger_helps is not None:
        lines.append(f"{'Larger' if answer.larger_helps else 'Smaller'} values help.")
    lines += aligned([header, *rows], numbers=range(len(header) - 1))
    for one, other in answer.contradictions:
        lines.append(
            f"beware: from {one} to {other} the figure went the other way; there may be more than "
            "one place where the target begins to be met"
        )
    return [*lines, f"Answer: {in_words(answer)}"]


def _both(answer: "Answer") -> str:
    ends = (answer.trials[0], answer.trials[-1])
    return " and ".join(f"{_figure(trial)} at {trial.value}" for trial in ends)


def _figure(trial: "Trial") -> str:
    if trial.verdict == "unmeasured":
        return NULL
    mean, low, high = trial.interval.mean, trial.interval.low, trial.interval.high
    if mean is None or low is None or high is None or not isfinite(mean):
        return CENSORED
    return f"{mean:,.4g} ± {(high - low) / 2.0:,.2g}"


def _plain(trial: "Trial") -> dict[str, Any]:
    interval = trial.interval

    def known(value: float | None) -> float | None:
        return value if value is not None and isfinite(value) else None

    return {
        "value": trial.value,
        "mean": known(interval.mean),
        "low": known(interval.low),
        "high": known(interval.high),
        "seeds": interval.n,
        "censored": interval.mean is not None and not isfinite(interval.mean),
        "verdict": trial.verdict,
        "reason": trial.reason,
    }
