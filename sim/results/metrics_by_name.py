"""Declarations of figures per answer, per workload, per rule of the router and per pool.

A hold, a skip or a reclaim belongs to the window in which it begins, a swap to
the one in which it ends.
"""

from typing import Final

from sim.results.metric import Metric, spread

_ENDS: Final = ("p50", "p95")
_MIDDLE: Final = ("mean", "p50", "p95")

_FELL_THROUGH: Final = (
    "completed requests of which their last try passed over at least one backend of its rule, or "
    "a pod of one that is tried again on another / completed requests"
)
_OF_WINDOW: Final = "of the length of the window"

ANSWERS: Final[tuple[Metric, ...]] = (
    Metric(
        "answers.by_request.*",
        "requests",
        "none",
        0.02,
        "requests that arrived in the window and are over, by HTTP status, 0 for none, and reason",
    ),
    Metric(
        "answers.by_try.*",
        "tries",
        "none",
        0.02,
        "the same for every try of their clients that got an answer or was given up",
    ),
    Metric(
        "tries", "tries", "none", 0.02, "how often requests that arrived in the window were sent"
    ),
    Metric(
        "abandoned_tokens.*",
        "tokens",
        "down",
        0.05,
        "tokens of prompts and of answers that were computed after the clients of their requests "
        "had left, requests that arrived in the window; with router.proxy.abandoned: runs-on",
    ),
    Metric("try_error_ratio", "ratio", "down", 0.0, "rejected and failed tries / tries"),
    Metric(
        "failed_attempts.by_error.*",
        "attempts",
        "down",
        0.0,
        "backends of a rule that did not serve requests of the window, by error",
    ),
)
"""How requests ended, as their clients and as their users see it."""

_BY_WORKLOAD: Final[tuple[Metric, ...]] = (
    Metric("by_workload.*.requests", "requests", "none", 0.02, "those of one workload"),
    Metric("by_workload.*.requests_completed", "requests", "up", 0.02, "those of one workload"),
    Metric("by_workload.*.requests_cancelled", "requests", "down", 0.0, "those of one workload"),
    Metric("by_workload.*.error_ratio", "ratio", "down", 0.0, "that of one workload", primary=True),
    Metric(
        "by_workload.*.answers.by_request.*",
        "requests",
        "none",
        0.02,
        "answers.by_request, of one workload",
    ),
    Metric("by_workload.*.answers.by_try.*", "tries", "none", 0.02, "answers.by_try, of it"),
    Metric(
        "by_workload.*.tries_per_request",
        "tries/request",
        "down",
        0.02,
        "how often its requests were sent / how many they are",
    ),
    Metric(
        "by_workload.*.served_after_retry",
        "requests",
        "none",
        0.02,
        "completed requests of one workload that were sent more than once",
    ),
    Metric("by_workload.*.fell_through_ratio", "ratio", "none", 0.01, _FELL_THROUGH),
    *spread(
        "by_workload.*.ttft_s",
        "s",
        "down",
        0.05,
        "ttft_s, of one workload",
        _ENDS,
        primary=("p95",),
        floor=0.001,
    ),
    *spread("by_workload.*.e2e_s", "s", "down", 0.05, "e2e_s, of one workload", _ENDS, floor=0.001),
)

_RULES: Final[tuple[Metric, ...]] = (
    Metric("rules.*.requests", "requests", "none", 0.02, "requests of the window that it took"),
    Metric("rules.*.requests_completed", "requests", "up", 0.02, "of these, those completed"),
    Metric(
        "rules.*.backends.*.served_ratio",
        "ratio",
        "none",
        0.01,
        "completed requests of the rule that the backend served / completed requests of the rule",
    ),
    Metric("rules.*.fell_through_ratio", "ratio", "none", 0.01, f"{_FELL_THROUGH}, of the rule"),
)

_POOLS: Final[tuple[Metric, ...]] = (
    Metric("pool.*.swaps.total", "swaps", "none", 0.02, "swaps completed in the window"),
    Metric("pool.*.swaps.by_pair.*", "swaps", "none", 0.02, "of these, from one member to another"),
    *spread(
        "pool.*.swap_s", "s", "down", 0.05, "begin to end of those swaps, drain inside", _MIDDLE
    ),
    Metric(
        "pool.*.swapping_ratio",
        "ratio",
        "down",
        0.02,
        f"swaps under way, share {_OF_WINDOW}, those at the same time counted once; a member is "
        "resident before the pool sees it at a poll of its readiness, and its swap goes on till "
        "then, so that this and ready_ratio of all members may add up to more than 1",
        primary=True,
        floor=0.001,
    ),
    Metric("pool.*.swap_failures.*", "swaps", "down", 0.0, "swaps abandoned or failed, by reason"),
    Metric("pool.*.swaps_cancelled", "swaps", "none", 0.02, "swaps that nobody wanted any more"),
    Metric("pool.*.reclaims", "swaps", "none", 0.02, "swaps to the default for want of requests"),
    Metric(
        "pool.*.holds.total",
        "attempts",
        "none",
        0.02,
        "attempts at a member, those let through at once included, those turned away at once not",
    ),
    Metric("pool.*.holds.waited", "attempts", "down", 0.02, "of these, those that had to wait"),
    Metric(
        "pool.*.holds.censored", "attempts", "down", 0.0, "of these, those still held at the end"
    ),
    Metric(
        "pool.*.holds.by_result.*",
        "attempts",
        "none",
        0.02,
        "of these, by how it ended: granted (the coalesced ones), cancelled or an error",
    ),
    *spread("pool.*.hold_s", "s", "down", 0.05, "how long those that waited were held", _MIDDLE),
    Metric(
        "pool.*.skips.total",
        "attempts",
        "none",
        0.02,
        "attempts that a busy pool turned away, at once or after they had waited for a swap",
    ),
    Metric(
        "pool.*.direct_errors",
        "requests",
        "down",
        0.0,
        "tries beside the router that a member refused or broke off",
    ),
    Metric("pool.*.members.*.busy_skips", "attempts", "none", 0.02, "by the member wanted"),
    *spread("pool.*.members.*.swap_s", "s", "down", 0.05, "pool.*.swap_s, of swaps to it", _MIDDLE),
    Metric("pool.*.members.*.loads", "loads", "none", 0.02, "loads begun, whatever became of them"),
    Metric("pool.*.members.*.ready_ratio", "ratio", "none", 0.02, f"resident, share {_OF_WINDOW}"),
    Metric("pool.*.members.*.busy_ratio", "ratio", "none", 0.02, f"computing, share {_OF_WINDOW}"),
    Metric(
        "pool.*.members.*.idle_ratio",
        "ratio",
        "none",
        0.02,
        f"resident without anything to compute, share {_OF_WINDOW}",
    ),
    Metric("pool.*.members.*.loading_ratio", "ratio", "down", 0.02, f"loading, share {_OF_WINDOW}"),
)

BY_NAME: Final = (*_BY_WORKLOAD, *_RULES, *_POOLS)
"""Of runs with several workloads, with rules, with pools."""
