"""A run, or one request, as plain data: parts, cache, and the decisions on its way in words."""

from dataclasses import asdict
from math import isnan
from typing import Any, TypeAlias

import numpy as np

from sim.core.request import DIRECT, Outcome, Reason
from sim.explain.explanation import Explanation
from sim.explain.instrumentation import DecisionView
from sim.explain.kinds import NAMES
from sim.results import arrow
from sim.results.arrow import Mask, Table

Document: TypeAlias = dict[str, Any]
"""As JSON has it; times are seconds, null is what is not known."""


def document(explanation: Explanation, requests: list[int]) -> Document:
    """Return means over the window's requests and over its slowest, and all about ``requests``.

    ``repeated`` says whether the run was simulated again; otherwise ``why_not`` does, and
    only the parts that tables tell are known.
    """
    result = explanation.result
    facts = result.facts
    return {
        "scenario": facts.scenario,
        "variant": result.variant,
        "seed": result.seed,
        "digest": result.digest,
        "repeated": explanation.repetition is not None,
        "why_not": explanation.why_not or None,
        "window_start_s": facts.window_start_s,
        "window_end_s": None if np.isinf(facts.window_end_s) else facts.window_end_s,
        "without_first_token": int((explanation.arrived & ~explanation.measured).sum()),
        "all": _means(explanation, explanation.measured),
        "slowest_5_percent": _means(explanation, explanation.tail),
        "requests": [request_report(explanation, request) for request in requests],
    }


def _means(explanation: Explanation, where: Mask) -> Document:
    """Over no requests every mean is null."""
    cache, divided = explanation.cache, explanation.breakdown
    parts_s = {name: _mean(part_s[where]) for name, part_s in divided.parts_s.items()}
    return {
        "requests": int(where.sum()),
        "ttft_s": _mean(divided.ttft_s[where]),
        "parts_s": parts_s if where.any() else None,
        "missed_s": _mean(cache.missed_s[where]),
        "missed_tokens": _mean(cache.missed[where & ~np.isnan(cache.missed)]),
    }


def _mean(values: Any) -> float | None:
    return float(values.mean()) if len(values) else None


def total(reports: list[Document]) -> Document:
    """Return the parts of some requests added up, and the prefill of what another pod had."""
    return {
        "requests": len(reports),
        "total_s": sum(each["total_s"] for each in reports),
        "parts_s": {name: sum(each["parts_s"][name] for each in reports) for name in NAMES},
        "missed_s": sum(each["cache"]["missed_s"] for each in reports),
    }


def request_report(explanation: Explanation, request: int) -> Document:
    """Return what is known of a request.

    ``decisions`` are its attempts in order: what the router saw of each pod, and how many
    tokens of the prompt each held (not without a repetition of the run).
    """
    result, divided, cache = explanation.result, explanation.breakdown, explanation.cache
    row = _rows(result.tables.requests, "request_id", request)[0]
    before = _turn_before(result.tables.requests, row)
    return {
        "variant": result.variant,
        "seed": result.seed,
        **{name: value for name, value in row.items() if name not in ("variant", "seed")},
        "state": divided.states[request],
        "ttft_s": _or_none(divided.ttft_s[request]),
        "total_s": float(divided.total_s[request]),
        "parts_s": {name: float(part_s[request]) for name, part_s in divided.parts_s.items()},
        "cache": {
            "held_here_tokens": _whole(cache.here[request]),
            "held_elsewhere_tokens": _whole(cache.elsewhere[request]),
            "best_pod": cache.best_pod[request],
            "missed_tokens": _whole(cache.missed[request]),
            "missed_s": float(cache.missed_s[request]),
        },
        "turn_before": before,
        "decisions": _decisions(explanation, request, before),
        "failed_attempts": _rows(result.tables.failed_attempts, "request_id", request),
        "retries": _rows(result.tables.retries, "request_id", request),
        "holds": _holds(result.tables.pools, request),
    }


def _turn_before(table: Table, row: Document) -> Document | None:
    """Return the request of its session that came before it."""
    if row["session_id"] is None:
        return None
    same = arrow.strings(table, "session_id").equal(row["session_id"])
    earlier = np.flatnonzero(same[: row["request_id"]])
    if not len(earlier):
        return None
    found = _rows(table, "request_id", int(earlier[-1]))[0]
    return {name: found[name] for name in ("request_id", "turn", "pod", "status", "end_s")}


def _holds(pools: Table, request: int) -> list[Document]:
    """Return what pools held it, each with the swaps of its pool that went on meanwhile."""
    holds = [row for row in _rows(pools, "request_id", request) if row["kind"] == "hold"]
    if holds:
        swaps = arrow.rows(pools, arrow.strings(pools, "kind").equal("swap"))
        for hold in holds:
            hold["swaps"] = [
                swap
                for swap in swaps
                if swap["pool"] == hold["pool"]
                and swap["start_s"] < _end_s(hold)
                and hold["start_s"] < _end_s(swap)
            ]
    return holds


def _end_s(row: Document) -> float:
    return float("inf") if row["end_s"] is None else float(row["end_s"])


def _rows(table: Table, column: str, value: int) -> list[Document]:
    return arrow.rows(table, arrow.whole(table, column) == value)


def _or_none(value: float) -> float | None:
    return None if isnan(value) else float(value)


def _whole(value: float) -> int | None:
    return None if isnan(value) else int(value)


# -- decisions ------------------------------------------------------------------------------


def _decisions(explanation: Explanation, request: int, before: Document | None) -> list[Document]:
    """Return the attempts in order; how each came to its place in words."""
    views: dict[int, DecisionView] = {}
    if explanation.repetition is not None:
        seen = explanation.repetition.instrumentation.views[request]
        views = {view.attempt: view for view in seen}
    ran_on = None if before is None else before["pod"]
    decisions = []
    for row in _rows(explanation.result.tables.placements, "request_id", request):
        view = views.get(row["attempt"])
        known: Document = dict.fromkeys(("policy", "home", "bound", "pods"))
        if view is not None:
            known = {name: value for name, value in asdict(view).items() if name != "attempt"}
            known["pods"] = list(known["pods"])
        decisions.append(
            {
                **{name: value for name, value in row.items() if name != "request_id"},
                **known,
                "in_words": _sentence(row, known, ran_on),
            }
        )
    return decisions


def _sentence(placement: Document, known: Document, ran_on: str | None) -> str:
    """Return which decision sent a request where it went.

    ``placement`` is a row of the placements table, ``known`` what the router saw, and
    ``ran_on`` the pod of the turn before.
    """
    pod, outcome, reason = placement["pod"], placement["outcome"], placement["reason"]
    if placement["proxy"] == DIRECT:
        return f"to {pod}: beside the router, the pods of {placement['backend']} in turn"
    policy = f" by {known['policy']}" if known["policy"] else ""
    why = _why(placement, known, known["home"] or ran_on)
    return f"to {pod}{policy}: {outcome}{f' ({reason})' if reason else ''}{why and ': ' + why}"


def _why(placement: Document, known: Document, home: str | None) -> str:
    outcome, reason = placement["outcome"], placement["reason"]
    match outcome:
        case Outcome.NEW:
            return "its session is new to the router; the least loaded pod"
        case Outcome.STICKY:
            return "where its session is bound"
        case Outcome.HOME:
            return "the home of its session"
        case Outcome.UNKEYED:
            return "it has no session key; the least loaded pod"
        case Outcome.MIGRATED:
            return f"{home} was not ready" if home else "the pod of its session was not ready"
    pods = {pod["pod"]: pod for pod in known["pods"] or ()}
    if outcome == Outcome.SPILL and reason == Reason.BOUND:
        return _beyond_bound(pods.get(known["home"]), known["bound"])
    if outcome == Outcome.SPILL and home is not None:
        if home not in pods:
            return f"away from {home}, where the turn before it ran"
        return _backed_up(pods[home], pods[placement["pod"]], reason)
    return ""


def _beyond_bound(home: Document | None, bound: int | None) -> str:
    """A ring: the home may carry no more."""
    if home is None or bound is None:
        return "its home had as many in flight as it may"
    return f"its home {home['pod']} had {home['in_flight']} in flight, the bound was {bound}"


def _backed_up(own: Document, other: Document, reason: str | None) -> str:
    """A session table: the pod of the session has requests waiting, or its KV cache is full."""
    text = f"{own['pod']} had {own['in_flight']} in flight and {own['waiting']} waiting"
    if reason == Reason.KV_FULL:
        text += f", its KV cache {100.0 * own['kv_usage']:.0f} % full"
    age_s = own["metrics_age_s"]
    if age_s != 0.0:
        text += f" (polled {'never' if age_s is None else f'{age_s:.1f} s before'})"
    return f"{text}; {other['pod']} had {other['in_flight']} in flight"
