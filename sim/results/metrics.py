"""Every figure of a summary, declared once: key, unit, definition, direction, margin, label.

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
no placement. A hold, a skip or a reclaim of a pool belongs to the window in
which it begins, a swap to the one in which it ends.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from sim.core.stats import PERCENTILE_METHOD

Direction: TypeAlias = Literal["up", "down", "none"]

_LATENCY: Final = ("mean", "p50", "p90", "p95", "p99")
_MIDDLE: Final = ("mean", "p50", "p95")
_ENDS: Final = ("p50", "p95")

DISTRIBUTIONS: Final[dict[str, tuple[str, ...]]] = {
    "ttft_s": _LATENCY,
    "tpot_s": _LATENCY,
    "e2e_s": _LATENCY,
    "queue_s": _LATENCY,
    "stream_tokens_per_s": ("p50", "p5"),
    "prompt_tokens": _MIDDLE,
    "kv_usage": ("mean", "p95"),
    "session_s": _ENDS,
}
"""Which figures of which quantity a summary holds; ``p5`` is the fifth percentile."""


class Unit(NamedTuple):
    """How values of a unit are printed: its name, digits behind the point, and a factor."""

    shown: str
    decimals: int
    scale: float = 1.0


UNITS: Final = {
    "s": Unit("s", 2),
    "ratio": Unit("%", 1, 100.0),
    "tokens/s": Unit("tok/s", 0),
    "requests/s": Unit("requests/s", 2),
}
_COUNT: Final = Unit("", 0)
"""Every other unit: its label says what is counted."""


@dataclass(frozen=True)
class Metric:
    """One figure: where it stands in the summary (keys joined by dots) and what it says.

    ``better`` is the direction of improvement and ``margin`` the relative
    difference up to which two sets of runs count as equal. So they do up to a
    difference of ``floor``, in the metric's unit: a tenth of a millisecond's
    queue matters to nobody, and of zero there is no share. The ``primary``
    metrics are those that decide a comparison. A ``*`` in a key stands for any name of the
    run: a workload, a member of a pool; at its end for any names, of which one
    that is missing means 0. Tables print it under its ``label``, in which ``{}``
    is the last of those names, with as many ``decimals``, or those of its unit.
    """

    key: str
    unit: str
    definition: str
    better: Direction = "none"
    margin: float = 0.02
    primary: bool = False
    floor: float = 0.0
    label: str = ""
    decimals: int | None = None

    def covers(self, key: str) -> bool:
        """Whether ``key`` is this figure, or one of those that it stands for."""
        if "*" not in self.key:
            return key == self.key
        as_long = self.is_family or key.count(".") == self.key.count(".")
        return as_long and fnmatchcase(key, self.key)

    @property
    def is_family(self) -> bool:
        """Whether a missing name means 0."""
        return self.key.endswith(".*")

    def heading(self, key: str) -> str:
        """The label of ``key``, which this metric covers, with the unit."""
        unit = UNITS.get(self.unit, _COUNT).shown
        parts = zip(self.key.split("."), key.split(".", self.key.count(".")))
        names = [name for part, name in parts if part == "*"]
        return ", ".join(filter(None, (self.label.format(*names[-1:]), unit)))

    def written(self, value: float) -> str:
        """A value as tables print it."""
        unit = UNITS.get(self.unit, _COUNT)
        decimals = unit.decimals if self.decimals is None else self.decimals
        return f"{value * unit.scale:,.{decimals}f}"


def _spread(
    quantity: str,
    unit: str,
    definition: str,
    better: Direction = "none",
    margin: float = 0.02,
    figures: tuple[str, ...] = (),
    *,
    primary: tuple[str, ...] = (),
    floor: float = 0.0,
    label: str = "",
    decimals: int | None = None,
) -> tuple[Metric, ...]:
    """The mean and percentiles of one quantity: those of ``DISTRIBUTIONS`` if not ``figures``.

    In the label the figure replaces ``%``.
    """

    def meaning(figure: str) -> str:
        if figure == "mean":
            return f"mean of {definition}; over those observed, null when the p95 is censored"
        return f"{figure[1:]}th percentile ({PERCENTILE_METHOD}) of {definition}"

    return tuple(
        Metric(
            f"{quantity}.{figure}",
            *(unit, meaning(figure), better, margin, figure in primary, floor),
            label=label.replace("%", figure),
            decimals=decimals,
        )
        for figure in figures or DISTRIBUTIONS[quantity]
    )


_FELL_THROUGH: Final = (
    "completed requests of which their last try passed over at least one backend of its rule, or "
    "a pod of one that is tried again on another / completed requests"
)
_OF_WINDOW: Final = "of the length of the window"

_ANSWERS: Final[tuple[Metric, ...]] = (
    Metric(
        "answers.by_request.*",
        "requests",
        "requests that arrived in the window and are over, by HTTP status, 0 for none, and reason",
    ),
    Metric(
        "answers.by_try.*",
        "tries",
        "the same for every try of their clients that got an answer or was given up",
    ),
    Metric(
        "tries", "tries", "how often requests that arrived in the window were sent", label="tries"
    ),
    Metric(
        "abandoned_tokens.*",
        "tokens",
        "tokens of prompts and of answers that were computed after the clients of their requests "
        "had left, requests that arrived in the window; with router.proxy.abandoned: runs-on",
        "down",
        0.05,
        label="{} tokens for nobody",
    ),
    Metric(
        "try_error_ratio", "ratio", "rejected and failed tries / tries", "down", 0.0, label="errors"
    ),
    Metric(
        "failed_attempts.by_error.*",
        "attempts",
        "backends of a rule that did not serve requests of the window, by error",
        "down",
        0.0,
    ),
)

_BY_WORKLOAD: Final[tuple[Metric, ...]] = (
    Metric("by_workload.*.requests", "requests", "those of one workload"),
    Metric(
        "by_workload.*.requests_completed",
        "requests",
        "those of one workload",
        "up",
        label="completed",
    ),
    Metric(
        "by_workload.*.requests_cancelled",
        "requests",
        "those of one workload",
        "down",
        0.0,
        label="cancelled",
    ),
    Metric(
        "by_workload.*.error_ratio",
        "ratio",
        "that of one workload",
        "down",
        0.0,
        primary=True,
        label="errors",
    ),
    Metric("by_workload.*.answers.by_request.*", "requests", "answers.by_request, of one workload"),
    Metric("by_workload.*.answers.by_try.*", "tries", "answers.by_try, of it"),
    Metric(
        "by_workload.*.tries_per_request",
        "tries/request",
        "how often its requests were sent / how many they are",
        "down",
        label="tries per request",
        decimals=2,
    ),
    Metric(
        "by_workload.*.served_after_retry",
        "requests",
        "completed requests of one workload that were sent more than once",
        label="served after a retry",
    ),
    Metric(
        "by_workload.*.fell_through_ratio",
        "ratio",
        _FELL_THROUGH,
        "none",
        0.01,
        label="fell through",
    ),
    *_spread(
        "by_workload.*.ttft_s",
        "s",
        "ttft_s, of one workload",
        "down",
        0.05,
        _ENDS,
        primary=("p95",),
        floor=0.001,
        label="TTFT %",
    ),
    *_spread(
        "by_workload.*.e2e_s", "s", "e2e_s, of one workload", "down", 0.05, _ENDS, floor=0.001
    ),
)

_RULES: Final[tuple[Metric, ...]] = (
    Metric("rules.*.requests", "requests", "requests of the window that it took"),
    Metric("rules.*.requests_completed", "requests", "of these, those completed", "up"),
    Metric(
        "rules.*.backends.*.served_ratio",
        "ratio",
        "completed requests of the rule that the backend served / completed requests of the rule",
        "none",
        0.01,
        label="served by {}",
    ),
    Metric("rules.*.fell_through_ratio", "ratio", f"{_FELL_THROUGH}, of the rule", "none", 0.01),
)

_POOLS: Final[tuple[Metric, ...]] = (
    Metric("pool.*.swaps.total", "swaps", "swaps completed in the window", label="swaps completed"),
    Metric("pool.*.swaps.by_pair.*", "swaps", "of these, from one member to another"),
    *_spread(
        "pool.*.swap_s", "s", "begin to end of those swaps, drain inside", "down", 0.05, _MIDDLE
    ),
    Metric(
        "pool.*.swapping_ratio",
        "ratio",
        f"swaps under way, share {_OF_WINDOW}, those at the same time counted once; a member is "
        "resident before the pool sees it at a poll of its readiness, and its swap goes on till "
        "then, so that this and ready_ratio of all members may add up to more than 1",
        "down",
        primary=True,
        floor=0.001,
        label="time swapping",
    ),
    Metric(
        "pool.*.swap_failures.*",
        "swaps",
        "swaps abandoned or failed, by reason",
        "down",
        0.0,
        label="swaps failed ({})",
    ),
    Metric(
        "pool.*.swaps_cancelled",
        "swaps",
        "swaps that nobody wanted any more",
        label="swaps cancelled",
    ),
    Metric(
        "pool.*.reclaims", "swaps", "swaps to the default for want of requests", label="reclaims"
    ),
    Metric(
        "pool.*.holds.total",
        "attempts",
        "attempts at a member, those let through at once included, those turned away at once not",
    ),
    Metric(
        "pool.*.holds.waited",
        "attempts",
        "of these, those that had to wait",
        "down",
        label="attempts held",
    ),
    Metric(
        "pool.*.holds.censored", "attempts", "of these, those still held at the end", "down", 0.0
    ),
    Metric(
        "pool.*.holds.by_result.*",
        "attempts",
        "of these, by how it ended: granted (the coalesced ones), cancelled or an error",
    ),
    *_spread(
        "pool.*.hold_s",
        "s",
        "how long those that waited were held",
        "down",
        0.05,
        _MIDDLE,
        label="hold %",
        decimals=1,
    ),
    Metric(
        "pool.*.skips.total",
        "attempts",
        "attempts that a busy pool turned away, at once or after they had waited for a swap",
        label="busy skips",
    ),
    Metric(
        "pool.*.direct_errors",
        "requests",
        "tries beside the router that a member refused or broke off",
        "down",
        0.0,
        label="errors beside the router",
    ),
    Metric("pool.*.members.*.busy_skips", "attempts", "by the member wanted"),
    *_spread(
        "pool.*.members.*.swap_s",
        "s",
        "pool.*.swap_s, of swaps to it",
        "down",
        0.05,
        _MIDDLE,
        label="swap to {} %",
        decimals=1,
    ),
    Metric(
        "pool.*.members.*.loads",
        "loads",
        "loads begun, whatever became of them",
        label="loads of {} begun",
    ),
    Metric(
        "pool.*.members.*.ready_ratio",
        "ratio",
        f"resident, share {_OF_WINDOW}",
        label="{} resident",
    ),
    Metric("pool.*.members.*.busy_ratio", "ratio", f"computing, share {_OF_WINDOW}"),
    Metric(
        "pool.*.members.*.idle_ratio",
        "ratio",
        f"resident without anything to compute, share {_OF_WINDOW}",
    ),
    Metric("pool.*.members.*.loading_ratio", "ratio", f"loading, share {_OF_WINDOW}", "down"),
)

METRICS: Final[tuple[Metric, ...]] = (
    Metric("requests", "requests", "requests that arrived in the window"),
    Metric(
        "requests_completed",
        "requests",
        "of these, those answered to their end; that may be where an answer outgrew the pod's KV "
        "cache or the model limit and was cut off (reason length)",
        "up",
        label="requests completed",
    ),
    Metric(
        "requests_censored",
        "requests",
        "of these, those still queued or running when the run ended",
        "down",
        0.05,
        label="requests censored",
    ),
    Metric("requests_rejected", "requests", "answered without a first token", "down", 0.0),
    Metric("requests_failed", "requests", "broken off after dispatch", "down", 0.0),
    Metric(
        "requests_cancelled",
        "requests",
        "whose client gave up before the answer was complete",
        "down",
        0.0,
        primary=True,
        label="requests cancelled",
    ),
    Metric(
        "requests_outside_window",
        "requests",
        "requests that arrived before or after the window and are left out of figures over "
        "requests",
        label="requests outside window",
    ),
    Metric(
        "offered_requests_per_s",
        "requests/s",
        "arrivals of the window per second from the first of them to the last, whatever became "
        "of them; null when all come at once",
        label="offered",
    ),
    Metric(
        "completed_requests_per_s",
        "requests/s",
        "requests completed inside the window / its length",
        "up",
        label="completed",
    ),
    *_spread(
        "ttft_s",
        "s",
        "first token - arrival at the router (hold and queue inside), requests with a first "
        "token; those rejected, failed or cancelled before it have none and are left out",
        "down",
        0.05,
        primary=("p50", "p95"),
        floor=0.001,
        label="TTFT %",
    ),
    *_spread(
        "tpot_s",
        "s",
        "(end - first token) / (output tokens - 1), completed requests with 2 tokens or more",
        "down",
        0.05,
    ),
    *_spread(
        "e2e_s",
        "s",
        "end - arrival at the router, completed requests",
        "down",
        0.05,
        primary=("p95",),
        floor=0.001,
    ),
    *_spread(
        "queue_s",
        "s",
        "first admission by the engine - dispatch by the router, requests admitted",
        "down",
        0.05,
        floor=0.001,
    ),
    *_spread(
        "stream_tokens_per_s",
        "tokens/s",
        "(output tokens - 1) / (end - first token), completed requests with 2 tokens or more",
        "up",
        0.03,
        primary=("p50",),
        label="stream speed %",
        decimals=1,
    ),
    Metric(
        "output_tokens_per_s",
        "tokens/s",
        "tokens emitted inside the window / its length, whether their request finished or not",
        "up",
        primary=True,
        label="output",
    ),
    Metric(
        "output_tokens_per_gpu_s",
        "tokens/s",
        "output_tokens_per_s / number of GPUs of all pods",
        "up",
    ),
    *_spread(
        "prompt_tokens",
        "tokens",
        "the prompt length, all requests that arrived in the window",
        label="prompt %, tokens",
    ),
    Metric(
        "prompt_cache_hit_ratio",
        "ratio",
        "cached prompt tokens / prompt tokens, summed over all pods, each request that arrived "
        "in the window counted once, at its first admission",
        "up",
        0.01,
        primary=True,
        floor=0.001,
        label="prompt cache hit",
    ),
    Metric(
        "prompt_cache_hit_ratio_mean",
        "ratio",
        "mean over the same requests of each one's own cached / prompt tokens",
        "up",
        0.01,
        floor=0.001,
    ),
    Metric(
        "requests_with_hit_ratio",
        "ratio",
        "share of the same requests with any cached prompt token",
        "up",
        0.01,
        floor=0.001,
    ),
    Metric("placements.total", "placements", "dispatches of the router in the window"),
    Metric(
        "placements.by_outcome.*",
        "placements",
        "of these, by outcome",
        "none",
        0.05,
        label="placements {}",
    ),
    Metric(
        "placements.by_reason.*",
        "placements",
        "of these, by reason, where any",
        "none",
        0.05,
        label="reason {}, count",
    ),
    Metric(
        "spill_ratio",
        "ratio",
        "spills / placements of the window; null for a policy without a home",
        "down",
        0.05,
        primary=True,
        floor=0.001,
        label="spilled placements",
    ),
    Metric(
        "migration_ratio",
        "ratio",
        "migrations off pods that are not ready / placements of the window; null for a policy "
        "without a home",
        "down",
        0.05,
        floor=0.001,
        label="migrated placements",
    ),
    Metric(
        "error_ratio",
        "ratio",
        "rejected and failed requests / requests that arrived in the window; cancelled ones are "
        "no errors and are counted apart",
        "down",
        0.0,
        primary=True,
        label="errors",
    ),
    Metric(
        "preemptions",
        "preemptions",
        "preemptions inside the window, all pods",
        "down",
        0.05,
        label="preemptions",
    ),
    Metric(
        "recomputed_tokens",
        "tokens",
        "tokens computed again after preemptions inside the window, all pods",
        "down",
        0.05,
    ),
    *_spread(
        "kv_usage",
        "ratio",
        "KV blocks held by requests / all blocks, over the polls of all pods inside the window",
        "none",
        0.03,
        floor=0.001,
        label="KV usage %",
    ),
    Metric(
        "pod_requests.*",
        "placements",
        "dispatches in the window and what came beside the router, by pod",
        "none",
        0.05,
    ),
    *_spread(
        "session_s",
        "s",
        "first arrival to last end of a session, sessions whose closing request was completed and "
        "whose last end lies in the window; single-shot requests are no sessions",
        "down",
        0.05,
        floor=0.001,
    ),
    Metric(
        "turns_per_agent_hour",
        "turns/h",
        "requests of agents completed inside the window / (agents x its length); null without "
        "agents",
        "up",
    ),
    Metric(
        "samples.*",
        "values",
        "how many values a figure rests on: observed, and censored because the run ended first",
        "none",
        0.05,
    ),
    Metric(
        "slo_attainment",
        "ratio",
        "of the requests that arrived in the window and whose fate is known, the share completed "
        "within the objectives; rejected and failed ones and those whose client gave up miss "
        "them, so does one still without a first token after the TTFT objective or unfinished "
        "after the E2E objective; other unfinished ones are left out",
        "up",
        0.01,
        primary=True,
        floor=0.001,
        label="within the SLO",
    ),
    Metric(
        "goodput_requests_per_s",
        "requests/s",
        "requests completed inside the window within the objectives / its length",
        "up",
        primary=True,
        label="goodput",
    ),
    *_ANSWERS,
    *_BY_WORKLOAD,
    *_RULES,
    *_POOLS,
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
