"""A run, or one request, as plain data: parts, cache, and the decisions on its way in words."""

from dataclasses import asdict
from math import isnan
from typing import Any, TypeAlias

import numpy as np

from sim.core.request import DIRECT, Outcome, Reason
from sim.explain.explanation import Explanation
from sim.explain.instrumentation import DecisionView, PodSeen
from sim.explain.kinds import NAMES
from sim.results import arrow
from sim.results.arrow import Mask, Table


def sentence(placement: dict[str, Any], seen: DecisionView | None, ran_on: str | None) -> str:
    """Which decision sent a request where it went.

    ``placement`` is a row of the placements table, ``seen`` what the router saw, if that is
    known, and ``ran_on`` the pod of the turn before.
    """
    pod, outcome, reason = placement["pod"], placement["outcome"], placement["reason"]
    named = f"{outcome} ({reason})" if reason else outcome
    if placement["proxy"] == DIRECT:
        return f"to {pod}: beside the router, the pods of {placement['backend']} in turn"
    policy = f" by {seen.policy}" if seen is not None else ""
    why = _why(placement, seen, ran_on)
    return f"to {pod}{policy}: {named}{': ' + why if why else ''}"


def _why(placement: dict[str, Any], seen: DecisionView | None, ran_on: str | None) -> str:
    outcome, reason = placement["outcome"], placement["reason"]
    home = seen.home if seen is not None and seen.home is not None else ran_on
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
    if outcome == Outcome.SPILL and reason == Reason.BOUND:
        return _beyond_bound(seen)
    if outcome == Outcome.SPILL and home is not None:
        return _backed_up(seen, home, placement["pod"], reason)
    return ""


def _beyond_bound(seen: DecisionView | None) -> str:
    """A ring: the home may carry no more."""
    if seen is None or seen.home is None or seen.bound is None:
        return "its home had as many in flight as it may"
    home = _pod(seen, seen.home)
    return f"its home {home.pod} had {home.in_flight} in flight, the bound was {seen.bound}"


def _backed_up(seen: DecisionView | None, home: str, chosen: str, reason: str | None) -> str:
    """A session table: the pod of the session has requests waiting, or its KV cache is full."""
    if seen is None or home not in {pod.pod for pod in seen.pods}:
        return f"away from {home}, where the turn before it ran"
    own, other = _pod(seen, home), _pod(seen, chosen)
    said = f"{own.pod} had {own.in_flight} in flight and {own.waiting} waiting"
    if reason == Reason.KV_FULL:
        said += f", its KV cache {100.0 * own.kv_usage:.0f} % full"
    if own.metrics_age_s is None or own.metrics_age_s > 0.0:
        age = "never" if own.metrics_age_s is None else f"{own.metrics_age_s:.1f} s before"
        said += f" (polled {age})"
    return f"{said}; {other.pod} had {other.in_flight} in flight"


def _pod(seen: DecisionView, name: str) -> PodSeen:
    return next(pod for pod in seen.pods if pod.pod == name)


Row: TypeAlias = dict[str, Any]


def request_document(explanation: Explanation, request: int) -> Row:
    """What is known of a request; times are seconds, null is what is not known.

    ``decisions`` are its attempts in order: what the router saw of each pod, and how many
    tokens of the prompt each held (not without a repetition of the run).
    """
    result = explanation.result
    row = _rows(result.tables.requests, "request_id", request)[0]
    before = _previous(result.tables.requests, row)
    return {
        "variant": result.variant,
        "seed": result.seed,
        **{name: value for name, value in row.items() if name not in ("variant", "seed")},
        "state": explanation.breakdown.states[request],
        "ttft_s": _or_none(explanation.breakdown.ttft_s[request]),
        "total_s": float(explanation.breakdown.total_s[request]),
        "parts_s": {
            name: float(part[request]) for name, part in explanation.breakdown.parts_s.items()
        },
        "cache": _cache(explanation, request),
        "turn_before": before,
        "decisions": _decisions(explanation, request, before),
        "failed_attempts": _rows(result.tables.failed_attempts, "request_id", request),
        "retries": _rows(result.tables.retries, "request_id", request),
        "holds": _holds(explanation, request),
    }


def _cache(explanation: Explanation, request: int) -> Row:
    cache = explanation.cache
    return {
        "held_here_tokens": _whole(cache.here[request]),
        "held_elsewhere_tokens": _whole(cache.elsewhere[request]),
        "best_pod": cache.best_pod[request],
        "missed_tokens": _whole(cache.missed[request]),
        "missed_s": float(cache.missed_s[request]),
    }


def _previous(table: Table, row: Row) -> Row | None:
    """The request of its session that came before it."""
    if row["session_id"] is None:
        return None
    same = arrow.strings(table, "session_id").equal(row["session_id"])
    same[row["request_id"] :] = False
    earlier = np.flatnonzero(same)
    if not len(earlier):
        return None
    found = _rows(table, "request_id", int(earlier[-1]))[0]
    return {name: found[name] for name in ("request_id", "turn", "pod", "status", "end_s")}


def _decisions(explanation: Explanation, request: int, before: Row | None) -> list[Row]:
    """The attempts in order; how each came to its place in words."""
    placed = _rows(explanation.result.tables.placements, "request_id", request)
    views: dict[int, DecisionView] = {}
    if explanation.repetition is not None:
        views = {view.attempt: view for view in explanation.repetition.watch.views[request]}
    ran_on = None if before is None else before["pod"]
    decisions = []
    for row in placed:
        seen = views.get(row["attempt"])
        decisions.append(
            {
                **{name: value for name, value in row.items() if name != "request_id"},
                "policy": None if seen is None else seen.policy,
                "home": None if seen is None else seen.home,
                "bound": None if seen is None else seen.bound,
                "pods": None if seen is None else [asdict(pod) for pod in seen.pods],
                "in_words": sentence(row, seen, ran_on),
            }
        )
    return decisions


def _holds(explanation: Explanation, request: int) -> list[Row]:
    """What pools held it, each with the swaps that went on meanwhile."""
    table = explanation.result.tables.pools
    holds = [row for row in _rows(table, "request_id", request) if row["kind"] == "hold"]
    if not holds:
        return []
    swaps = arrow.rows(table, arrow.strings(table, "kind").equal("swap"))
    for hold in holds:
        hold["swaps"] = [swap for swap in swaps if _meanwhile(swap, hold)]
    return holds


def _meanwhile(swap: Row, hold: Row) -> bool:
    """Whether a swap of the same pool went on while a request was held."""
    hold_ends_s = np.inf if hold["end_s"] is None else hold["end_s"]
    swap_ends_s = np.inf if swap["end_s"] is None else swap["end_s"]
    if swap["pool"] != hold["pool"]:
        return False
    return bool(swap["start_s"] < hold_ends_s and hold["start_s"] < swap_ends_s)


def _rows(table: Table, column: str, value: int) -> list[Row]:
    return arrow.rows(table, arrow.whole(table, column) == value)


def _or_none(value: float) -> float | None:
    return None if isnan(value) else float(value)


def _whole(value: float) -> int | None:
    return None if isnan(value) else int(value)


Document: TypeAlias = dict[str, Any]


def document(explanation: Explanation, requests: list[int]) -> Document:
    """Means over the window's requests and over its slowest, and all about ``requests``.

    ``repeated`` says whether the run was simulated again; otherwise ``why_not`` does, and
    only the parts that tables tell are known. Times are seconds, null what is unknown.
    """
    result = explanation.result
    facts = result.facts
    endless = np.isinf(facts.window_end_s)
    return {
        "scenario": facts.scenario,
        "variant": result.variant,
        "seed": result.seed,
        "digest": result.digest,
        "repeated": explanation.repetition is not None,
        "why_not": explanation.why_not or None,
        "window_start_s": facts.window_start_s,
        "window_end_s": None if endless else facts.window_end_s,
        "without_first_token": int((explanation.arrived & ~explanation.measured).sum()),
        "all": _means(explanation, explanation.measured),
        "slowest_5_percent": _means(explanation, explanation.tail),
        "requests": [request_document(explanation, request) for request in requests],
    }


def total(stories: list[Document]) -> Document:
    """The parts of some requests added up, and the prefill of tokens that another pod had."""
    parts_s = {name: sum(each["parts_s"][name] for each in stories) for name in NAMES}
    return {
        "requests": len(stories),
        "total_s": sum(each["total_s"] for each in stories),
        "parts_s": parts_s,
        "missed_s": sum(each["cache"]["missed_s"] for each in stories),
    }


def _means(explanation: Explanation, where: Mask) -> Document:
    """Over no requests every mean is null."""
    requests = int(where.sum())
    known = requests > 0
    cache = explanation.cache
    return {
        "requests": requests,
        "ttft_s": float(explanation.breakdown.ttft_s[where].mean()) if known else None,
        "parts_s": explanation.means_s(where),
        "missed_s": float(cache.missed_s[where].mean()) if known else None,
        "missed_tokens": _mean_known(cache.missed[where]),
    }


def _mean_known(values: Any) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None
