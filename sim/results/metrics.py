"""Every figure of a summary, declared once: key, unit, direction, margin, definition.

Request figures are over the requests that arrived inside the window
[warm-up, warm-up + measure), whenever they end; flow figures count what
happened inside it. A percentile is type 7 (linear interpolation) over all
requests of one run, all pods together. A request still on its way to its first
admission, first token or end when the run ended is censored in ``queue_s``,
``ttft_s`` or ``e2e_s``: it counts as infinitely late, and a percentile among the
censored is null. One that was rejected, failed or cancelled before it got there
never will: it has no value, is left out, and is counted apart. A user's request
counts once, however often its client sends it, and its times run from its first
arrival; what reaches a pod beside the router is a request like any other, but
no placement.
"""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final

from sim.results.metric import Metric, spread
from sim.results.metrics_by_name import ANSWERS, BY_NAME

METRICS: Final[tuple[Metric, ...]] = (
    Metric("requests", "requests", "none", 0.02, "requests that arrived in the window"),
    Metric(
        "requests_completed",
        "requests",
        "up",
        0.02,
        "of these, those answered to their end; that may be where an answer outgrew the pod's KV "
        "cache or the model limit and was cut off (reason length)",
    ),
    Metric(
        "requests_censored",
        "requests",
        "down",
        0.05,
        "of these, those still queued or running when the run ended",
    ),
    Metric("requests_rejected", "requests", "down", 0.0, "answered without a first token"),
    Metric("requests_failed", "requests", "down", 0.0, "broken off after dispatch"),
    Metric(
        "requests_cancelled",
        "requests",
        "down",
        0.0,
        "whose client gave up before the answer was complete",
        primary=True,
    ),
    Metric(
        "requests_outside_window",
        "requests",
        "none",
        0.02,
        "requests that arrived before or after the window and are left out of figures over "
        "requests",
    ),
    Metric(
        "offered_requests_per_s",
        "requests/s",
        "none",
        0.02,
        "arrivals of the window per second from the first of them to the last, whatever became "
        "of them; null when all come at once",
    ),
    Metric(
        "completed_requests_per_s",
        "requests/s",
        "up",
        0.02,
        "requests completed inside the window / its length",
    ),
    *spread(
        "ttft_s",
        "s",
        "down",
        0.05,
        "first token - arrival at the router (hold and queue inside), requests with a first "
        "token; those rejected, failed or cancelled before it have none and are left out",
        primary=("p50", "p95"),
        floor=0.001,
    ),
    *spread(
        "tpot_s",
        "s",
        "down",
        0.05,
        "(end - first token) / (output tokens - 1), completed requests with 2 tokens or more",
    ),
    *spread(
        "e2e_s",
        "s",
        "down",
        0.05,
        "end - arrival at the router, completed requests",
        primary=("p95",),
        floor=0.001,
    ),
    *spread(
        "queue_s",
        "s",
        "down",
        0.05,
        "first admission by the engine - dispatch by the router, requests admitted",
        floor=0.001,
    ),
    *spread(
        "stream_tokens_per_s",
        "tokens/s",
        "up",
        0.03,
        "(output tokens - 1) / (end - first token), completed requests with 2 tokens or more",
        primary=("p50",),
    ),
    Metric(
        "output_tokens_per_s",
        "tokens/s",
        "up",
        0.02,
        "tokens emitted inside the window / its length, whether their request finished or not",
        primary=True,
    ),
    Metric(
        "output_tokens_per_gpu_s",
        "tokens/s",
        "up",
        0.02,
        "output_tokens_per_s / number of GPUs of all pods",
    ),
    *spread(
        "prompt_tokens",
        "tokens",
        "none",
        0.02,
        "the prompt length, all requests that arrived in the window",
    ),
    Metric(
        "prompt_cache_hit_ratio",
        "ratio",
        "up",
        0.01,
        "cached prompt tokens / prompt tokens, summed over all pods, each request that arrived "
        "in the window counted once, at its first admission",
        primary=True,
        floor=0.001,
    ),
    Metric(
        "prompt_cache_hit_ratio_mean",
        "ratio",
        "up",
        0.01,
        "mean over the same requests of each one's own cached / prompt tokens",
        floor=0.001,
    ),
    Metric(
        "requests_with_hit_ratio",
        "ratio",
        "up",
        0.01,
        "share of the same requests with any cached prompt token",
        floor=0.001,
    ),
    Metric(
        "placements.total", "placements", "none", 0.02, "dispatches of the router in the window"
    ),
    Metric("placements.by_outcome.*", "placements", "none", 0.05, "of these, by outcome"),
    Metric("placements.by_reason.*", "placements", "none", 0.05, "of these, by reason, where any"),
    Metric(
        "spill_ratio",
        "ratio",
        "down",
        0.05,
        "spills / placements of the window; null for a policy without a home",
        primary=True,
        floor=0.001,
    ),
    Metric(
        "migration_ratio",
        "ratio",
        "down",
        0.05,
        "migrations off pods that are not ready / placements of the window; null for a policy "
        "without a home",
        floor=0.001,
    ),
    Metric(
        "error_ratio",
        "ratio",
        "down",
        0.0,
        "rejected and failed requests / requests that arrived in the window; cancelled ones are "
        "no errors and are counted apart",
        primary=True,
    ),
    Metric("preemptions", "preemptions", "down", 0.05, "preemptions inside the window, all pods"),
    Metric(
        "recomputed_tokens",
        "tokens",
        "down",
        0.05,
        "tokens computed again after preemptions inside the window, all pods",
    ),
    *spread(
        "kv_usage",
        "ratio",
        "none",
        0.03,
        "KV blocks held by requests / all blocks, over the polls of all pods inside the window",
        floor=0.001,
    ),
    Metric(
        "pod_requests.*",
        "placements",
        "none",
        0.05,
        "dispatches in the window and what came beside the router, by pod",
    ),
    *spread(
        "session_s",
        "s",
        "down",
        0.05,
        "first arrival to last end of a session, sessions whose closing request was completed and "
        "whose last end lies in the window; single-shot requests are no sessions",
        floor=0.001,
    ),
    Metric(
        "turns_per_agent_hour",
        "turns/h",
        "up",
        0.02,
        "requests of agents completed inside the window / (agents x its length); null without "
        "agents",
    ),
    Metric(
        "samples.*",
        "values",
        "none",
        0.05,
        "how many values a figure rests on: observed, and censored because the run ended first",
    ),
    Metric(
        "slo_attainment",
        "ratio",
        "up",
        0.01,
        "of the requests that arrived in the window and whose fate is known, the share completed "
        "within the objectives; rejected and failed ones and those whose client gave up miss "
        "them, so does one still without a first token after the TTFT objective or unfinished "
        "after the E2E objective; other unfinished ones are left out",
        primary=True,
        floor=0.001,
    ),
    Metric(
        "goodput_requests_per_s",
        "requests/s",
        "up",
        0.02,
        "requests completed inside the window within the objectives / its length",
        primary=True,
    ),
    *ANSWERS,
    *BY_NAME,
)


@lru_cache(maxsize=4096)  # a comparison asks for each of hundreds of figures once per seed
def metric(key: str) -> Metric:
    """The declaration of a figure; raises ``KeyError`` for one that no summary has."""
    for declared in METRICS:
        if declared.covers(key):
            return declared
    raise KeyError(key)


def flatten(summary: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float | None]]:
    """Every figure of a summary with its keys joined by dots, in the summary's order."""
    for key, value in summary.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value
