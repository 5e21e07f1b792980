"""The text that ``podsim explain`` prints, from the documents of ``sim.explain.request_report``."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from sim.core.text import aligned, side_by_side, wrapped
from sim.explain.kinds import BEFORE, BESIDE, PARTS, QUEUE
from sim.explain.request_report import Document, total

LEAST_S: Final = 0.0005
"""Parts below half a millisecond everywhere have no row."""

SHORT: Final = (
    ("before", BEFORE),
    ("hold", ("hold_s",)),
    ("front end", ("front_end_s",)),
    ("queue", QUEUE),
    ("thrown out", ("preempted_s",)),
    ("prefill", ("prefill_s",)),
    ("others", BESIDE),
    ("rest", ("service_unsplit_s",)),
)
"""The columns of the table of the slowest, and the parts that each of them adds up."""


def overview(documents: Sequence[Document], folders: Mapping[str, str]) -> str:
    """Runs side by side, their slowest requests one below the other, the longest TTFT first.

    ``folders`` are those of the runs by variant, as a command line has them.
    """
    reports = sorted(_reports(documents), key=lambda report: -report["ttft_s"])
    lines = [*_heading(documents), ""]
    for key, title in (("all", "mean over all"), ("slowest_5_percent", "mean over slowest 5 %")):
        if reports or key == "all":
            lines += [*_means(documents, key, title), ""]
    if reports:
        lines += [*_slowest(reports, several=len(documents) > 1), ""]
        lines += [*_conclusion(reports), *_legend(reports)]
        slowest = f"{folders[reports[0]['variant']]} {reports[0]['request_id']}"
        lines.append(f"All about one of them: podsim explain {slowest}")
    else:
        lines.append("No request of this window has a first token.")
    lines += _cautions(documents)
    return "\n".join(lines).rstrip()


def one_by_one(documents: Sequence[Document]) -> str:
    """A block for each request."""
    blocks = ["\n".join(_block(report)) for report in _reports(documents)]
    return "\n\n".join([*blocks, *_cautions(documents)])


def _reports(documents: Sequence[Document]) -> list[Document]:
    return [report for document in documents for report in document["requests"]]


def _heading(documents: Sequence[Document]) -> list[str]:
    first = documents[0]
    ends = first["window_end_s"]
    until = "the end" if ends is None else f"{ends:,g} s"
    seeds = ", ".join(str(seed) for seed in dict.fromkeys(each["seed"] for each in documents))
    return [
        f"{first['scenario']}, seed {seeds}: where the time to the first token went",
        f"Requests that arrived from {first['window_start_s']:,g} s to {until}.",
    ]


def _means(documents: Sequence[Document], key: str, title: str) -> list[str]:
    """The parts that any of the runs has, in a column for each run."""
    names = [document["variant"] or document["scenario"] for document in documents]
    groups = [document[key] for document in documents]
    rows = [[f"{title}, s", *names], ["TTFT", *(_seconds(group["ttft_s"]) for group in groups)]]
    for part in PARTS:
        values = [(group["parts_s"] or {}).get(part.name) for group in groups]
        if any((value or 0.0) >= LEAST_S for value in values):
            rows.append([f"  {part.label}", *map(_seconds, values)])
            missed = [group["missed_s"] for group in groups]
            if part.name == "prefill_s" and any((value or 0.0) >= LEAST_S for value in missed):
                rows.append(["    of tokens another pod had", *map(_seconds, missed)])
    rows.append(["requests", *(f"{group['requests']:,}" for group in groups)])
    if key == "all":
        without = (f"{document['without_first_token']:,}" for document in documents)
        rows.append(["without a first token", *without])
    labels, *columns = zip(*rows)
    return side_by_side(labels, columns)


def _slowest(reports: Sequence[Document], several: bool) -> list[str]:
    """One row per request, the longest TTFT first, and their sum."""
    short = _short(reports)
    rows = [["slowest, s", "TTFT", *(label for label, _ in short), "cached"]]
    for report in reports:
        parts = [_seconds(_sum(report, names)) for _, names in short]
        cached = f"{_tokens(report['cached_tokens'])} of {report['prompt_tokens']:,}"
        rows.append([str(report["request_id"]), _seconds(report["ttft_s"]), *parts, cached])
    if _any_elsewhere(reports):
        rows[0].append("elsewhere")
        for row, report in zip(rows[1:], reports):
            row.append(_tokens(report["cache"]["held_elsewhere_tokens"]))
    numbers = range(1, len(rows[0]))
    rows[0] += ["decision", "run"] if several else ["decision"]
    for row, report in zip(rows[1:], reports):
        row += [_decision(report), report["variant"]] if several else [_decision(report)]
    added = total(list(reports))
    sums = [_seconds(_sum(added, names)) for _, names in short]
    return aligned([*rows, ["sum", _seconds(added["total_s"]), *sums]], numbers)


def _short(reports: Sequence[Document]) -> list[tuple[str, tuple[str, ...]]]:
    """The columns that any of the requests has something in."""
    return [
        (label, names)
        for label, names in SHORT
        if any(_sum(report, names) >= LEAST_S for report in reports)
    ]


def _any_elsewhere(reports: Sequence[Document]) -> bool:
    return any(report["cache"]["held_elsewhere_tokens"] is not None for report in reports)


def _legend(reports: Sequence[Document]) -> list[str]:
    """What the columns are that their names do not say."""
    labels = {label for label, _ in _short(reports)}
    meanings = {
        "before: earlier tries, waits between them, backends that failed": "before" in labels,
        "others: longer steps for prompts and decodes of others, steps without it": "others"
        in labels,
        "cached: of its prompt, on its pod, when admitted": True,
        "elsewhere: what the other pod held that held most, when it was sent": _any_elsewhere(
            reports
        ),
    }
    return wrapped("; ".join(meaning for meaning, holds in meanings.items() if holds))


def _conclusion(reports: Sequence[Document]) -> list[str]:
    """What the slowest have in common, in a sentence."""
    added = total(list(reports))
    if not added["total_s"]:
        return []
    shares = {part.label: added["parts_s"][part.name] / added["total_s"] for part in PARTS}
    largest = sorted(shares, key=lambda label: -shares[label])[:2]
    named = " and ".join(
        f"{shares[each] * 100:.0f} % {each}" for each in largest if shares[each] >= 0.005
    )
    text = f"Of the TTFT of these {len(reports)}: {named}."
    missed = added["missed_s"] / added["total_s"]
    if missed >= 0.005:
        text += f" {missed * 100:.0f} % is prefill of tokens that another pod had."
    return wrapped(text)


def _cautions(documents: Sequence[Document]) -> list[str]:
    """Why some runs are not explained in full."""
    return [
        line
        for document in documents
        if document["why_not"]
        for line in wrapped(
            f"note: {document['variant'] or document['scenario']}, seed {document['seed']}: only "
            f"what its tables tell, since {document['why_not']}"
        )
    ]


# -- all about one request ------------------------------------------------------------------


def _block(report: Document) -> list[str]:
    """What became of it, where its time went, who decided on it, what the caches held."""
    variant = f"{report['variant']}, " if report["variant"] else ""
    where = f" of session {report['session_id']}" if report["session_id"] else ""
    lines = wrapped(
        f"request {report['request_id']} ({variant}seed {report['seed']}): turn {report['turn']}"
        f"{where}, {report['prompt_tokens']:,} prompt tokens"
    )
    lines.append(_outcome(report))
    lines += _parts(report)
    for retry in report["retries"]:
        lines += wrapped(f"try {retry['try']}, sent at {retry['sent_s']:,.3f} s: {_answer(retry)}")
    for failed in report["failed_attempts"]:
        lines += wrapped(
            f"{failed['backend']} did not serve it: {failed['error']} after "
            f"{failed['end_s'] - failed['start_s']:.3f} s"
        )
    for hold in report["holds"]:
        if hold["end_s"] is None or hold["end_s"] - hold["start_s"] >= LEAST_S:
            lines += wrapped(_hold(hold))
    for decision in report["decisions"]:
        lines += wrapped(f"sent at {decision['dispatch_s']:,.3f} s {decision['in_words']}")
        if decision["pods"]:
            lines += _pods(decision, report["turn_before"])
    return lines + _cache(report)


def _outcome(report: Document) -> str:
    if report["ttft_s"] is not None:
        return (
            f"TTFT {report['ttft_s']:.3f} s: arrived at {report['arrival_s']:,.3f} s, first token "
            f"at {report['first_token_s']:,.3f} s"
        )
    reason = f" ({report['reason']})" if report["reason"] else ""
    return (
        f"no first token: {report['status']}{reason}, {report['state']} after "
        f"{report['total_s']:.3f} s; arrived at {report['arrival_s']:,.3f} s"
    )


def _parts(report: Document) -> list[str]:
    rows = []
    for part in PARTS:
        seconds = report["parts_s"][part.name]
        if seconds >= LEAST_S:
            share = f"{100.0 * seconds / report['total_s']:.1f} %"
            rows.append([f"  {part.label}", f"{seconds:.3f} s", share, part.meaning])
    return aligned(rows, numbers=(1, 2)) if rows else []


def _answer(retry: Document) -> str:
    """What became of a try that was not the last."""
    status = retry["http_status"] or "no answer"
    reason = f" {retry['reason']}" if retry["reason"] else ""
    return f"{status}{reason} after {retry['end_s'] - retry['sent_s']:.3f} s"


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


def _pods(decision: Document, before: Document | None) -> list[str]:
    """The pods as they were when it was sent, the one of the turn ``before`` marked."""
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
                *(str(pod[name]) for name in ("in_flight", "waiting", "running")),
                f"{100.0 * pod['kv_usage']:.0f} %",
                _tokens(pod["held_tokens"]),
                ", ".join(filter(None, marks)),
            ]
        )
    return aligned(rows, numbers=range(1, 6))


def _cache(report: Document) -> list[str]:
    cache, cached = report["cache"], report["cached_tokens"]
    if cached is None:
        return []
    prompt, computed = report["prompt_tokens"], report["computed_tokens"]
    text = f"{cached:,} of {prompt:,} tokens were in the cache when it was admitted"
    if computed is not None:
        text += f", {computed:,} were computed"
    if cache["missed_tokens"]:
        text += (
            f"; {cache['best_pod']} had {cache['held_elsewhere_tokens']:,}: "
            f"{cache['missed_s']:.3f} s of its own prefill"
        )
    return wrapped(text)


# -- cells ----------------------------------------------------------------------------------


def _sum(report: Document, names: Iterable[str]) -> float:
    return float(sum(report["parts_s"][name] for name in names))


def _seconds(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _tokens(value: int | None) -> str:
    """A number of tokens; a dash where it is unknown."""
    return "–" if value is None else f"{value:,}"


def _decision(report: Document) -> str:
    if report["outcome"] is None:
        return "not placed"
    placed = report["decisions"][-1]
    reason = f" ({placed['reason']})" if placed["reason"] else ""
    return f"{placed['outcome']}{reason} {report['pod']}"
