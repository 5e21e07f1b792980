"""All that ``podsim explain`` says about one request, from a story of ``sim.explain.report``."""

from typing import Any, Final, TypeAlias

from sim.core.text import aligned, wrapped
from sim.explain.kinds import PARTS

Document: TypeAlias = dict[str, Any]

LEAST_S: Final = 0.0005
"""Parts below half a millisecond everywhere have no row."""


def block(story: Document) -> list[str]:
    """What became of it, where its time went, who decided on it, what the caches held."""
    variant = f"{story['variant']}, " if story["variant"] else ""
    where = f" of session {story['session_id']}" if story["session_id"] else ""
    lines = wrapped(
        f"request {story['request_id']} ({variant}seed {story['seed']}): turn {story['turn']}"
        f"{where}, {story['prompt_tokens']:,} prompt tokens"
    )
    lines.append(_outcome(story))
    lines += _parts(story)
    for retry in story["retries"]:
        lines += wrapped(f"try {retry['try']}, sent at {retry['sent_s']:,.3f} s: {_answer(retry)}")
    for failed in story["failed_attempts"]:
        lines += wrapped(
            f"{failed['backend']} did not serve it: {failed['error']} after "
            f"{failed['end_s'] - failed['start_s']:.3f} s"
        )
    for hold in story["holds"]:
        if hold["end_s"] is None or hold["end_s"] - hold["start_s"] >= LEAST_S:
            lines += wrapped(_hold(hold))
    for decision in story["decisions"]:
        lines += _decided(decision, story)
    return lines + _cache(story)


def _outcome(story: Document) -> str:
    if story["ttft_s"] is not None:
        return (
            f"TTFT {story['ttft_s']:.3f} s: arrived at {story['arrival_s']:,.3f} s, first token "
            f"at {story['first_token_s']:,.3f} s"
        )
    reason = f" ({story['reason']})" if story["reason"] else ""
    return (
        f"no first token: {story['status']}{reason}, {story['state']} after "
        f"{story['total_s']:.3f} s; arrived at {story['arrival_s']:,.3f} s"
    )


def _parts(story: Document) -> list[str]:
    rows = []
    for part in PARTS:
        seconds = story["parts_s"][part.name]
        if seconds >= LEAST_S:
            share = f"{100.0 * seconds / story['total_s']:.1f} %"
            rows.append([f"  {part.label}", f"{seconds:.3f} s", share, part.meaning])
    return aligned(rows, numbers=(1, 2)) if rows else []


def _answer(retry: Document) -> str:
    """What became of a try that was not the last."""
    said = retry["http_status"] or "no answer"
    reason = f" {retry['reason']}" if retry["reason"] else ""
    return f"{said}{reason} after {retry['end_s'] - retry['sent_s']:.3f} s"


def _hold(hold: Document) -> str:
    """How long a pool held it, and what it did meanwhile."""
    ends = hold["end_s"]
    took = "to the end of the run" if ends is None else f"for {ends - hold['start_s']:.3f} s"
    text = f"pool {hold['pool']} held it {took} for {hold['member']}"
    swaps = [
        f"from {swap['from_member'] or 'none'} to {swap['member']} at {swap['start_s']:,.3f} s"
        f"{_phases(swap)}"
        for swap in hold["swaps"]
    ]
    return f"{text}; swaps meanwhile: {', '.join(swaps)}" if swaps else text


def _phases(swap: Document) -> str:
    known = [
        f"{name} {swap[f'{name}_s']:.1f} s"
        for name in ("drain", "unload", "load")
        if swap[f"{name}_s"] is not None
    ]
    return f" ({', '.join(known)})" if known else ""


def _decided(decision: Document, story: Document) -> list[str]:
    """A decision in words, and the pods as they were."""
    lines = wrapped(f"sent at {decision['dispatch_s']:,.3f} s {decision['in_words']}")
    if not decision["pods"]:
        return lines
    before = story["turn_before"]
    rows = [["  pod", "in flight", "waiting", "running", "KV used", "held of prompt", ""]]
    for pod in decision["pods"]:
        marks = [
            "sent here" if pod["pod"] == decision["pod"] else "",
            "its home" if pod["pod"] == decision["home"] else "",
            f"turn {before['turn']}" if before and before["pod"] == pod["pod"] else "",
            "" if pod["ready"] else "not ready",
        ]
        rows.append(
            [
                f"  {pod['pod']}",
                str(pod["in_flight"]),
                str(pod["waiting"]),
                str(pod["running"]),
                f"{100.0 * pod['kv_usage']:.0f} %",
                tokens(pod["held_tokens"]),
                ", ".join(filter(None, marks)),
            ]
        )
    return [*lines, *aligned(rows, numbers=range(1, 6))]


def _cache(story: Document) -> list[str]:
    cache, cached = story["cache"], story["cached_tokens"]
    if cached is None:
        return []
    prompt, computed = story["prompt_tokens"], story["computed_tokens"]
    text = f"{cached:,} of {prompt:,} tokens were in the cache when it was admitted"
    if computed is not None:
        text += f", {computed:,} were computed"
    if cache["missed_tokens"]:
        text += (
            f"; {cache['best_pod']} had {cache['held_elsewhere_tokens']:,}: "
            f"{cache['missed_s']:.3f} s of its own prefill"
        )
    return wrapped(text)


def tokens(value: int | None) -> str:
    """A number of tokens; a dash where nobody knows it."""
    return "–" if value is None else f"{value:,}"
