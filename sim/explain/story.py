"""Everything about one request, as plain data: its parts, its cache, the decisions on its way."""

from dataclasses import asdict
from math import isnan
from typing import Any, TypeAlias

import numpy as np

from sim.explain.explanation import Explanation
from sim.explain.view import View
from sim.explain.words import sentence
from sim.results import arrow
from sim.results.arrow import Table

Row: TypeAlias = dict[str, Any]


def story(explanation: Explanation, request: int) -> Row:
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
    views: dict[int, View] = {}
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
