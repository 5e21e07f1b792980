"""The figures of one run, from its tables and facts; ``sim.results.metrics`` defines each."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sim.request import Outcome, Status
from sim.results import arrow
from sim.results.arrow import Mask, Table, Texts
from sim.results.metrics import LATENCY_KEYS
from sim.results.result import PodTotals, RunFacts
from sim.results.tables import Tables
from sim.stats import Floats, Sample

HOUR_S: Final = 3600.0


@dataclass(frozen=True)
class Window:
    """The measured interval [start, end) in seconds; ``length_s`` is what of it the run covered.

    ``end_s`` is infinite for a finite workload that is run to its end.
    """

    start_s: float
    end_s: float
    length_s: float

    @staticmethod
    def of(facts: RunFacts) -> "Window":
        """The window of a run; its length is 0 when the run ended before it began."""
        covered_s = min(facts.window_end_s, facts.end_s) - facts.window_start_s
        return Window(facts.window_start_s, facts.window_end_s, max(0.0, covered_s))

    def contains(self, times_s: Floats) -> Mask:
        """Which times lie in the window; a time that never came (NaN) does not."""
        return (times_s >= self.start_s) & (times_s < self.end_s)

    def per_s(self, amount: float) -> float | None:
        """A rate over the covered part; ``None`` when nothing was covered."""
        return amount / self.length_s if self.length_s > 0.0 else None


@dataclass(frozen=True)
class RequestColumns:
    """The columns of the requests table that figures need; unknown numbers are NaN."""

    session: Texts
    agent: Texts
    status: Texts
    arrival_s: Floats
    dispatch_s: Floats
    scheduled_s: Floats
    first_token_s: Floats
    end_s: Floats
    prompt_tokens: Floats
    output_tokens: Floats

    @staticmethod
    def of(table: Table) -> "RequestColumns":
        """Read them."""
        return RequestColumns(
            arrow.strings(table, "session_id"),
            arrow.strings(table, "agent_id"),
            arrow.strings(table, "status"),
            *(
                arrow.numbers(table, name)
                for name in (
                    "arrival_s",
                    "dispatch_s",
                    "scheduled_s",
                    "first_token_s",
                    "end_s",
                    "prompt_tokens",
                    "output_tokens",
                )
            ),
        )

    def were(self, status: str) -> Mask:
        """The requests that ended, or did not, in this way."""
        return self.status.equal(status)

    @property
    def ttft_s(self) -> Floats:
        """First token - arrival."""
        return self.first_token_s - self.arrival_s

    @property
    def stream_s(self) -> Floats:
        """From first token to end."""
        return self.end_s - self.first_token_s

    @property
    def gaps(self) -> Floats:
        """Tokens after the first; unknown unless completed with two tokens or more."""
        streamed = self.were(Status.COMPLETED) & (self.output_tokens >= 2.0)
        return np.where(streamed, self.output_tokens - 1.0, np.nan)

    @property
    def tpot_s(self) -> Floats:
        """Time per output token after the first; unknown where ``gaps`` is."""
        return self.stream_s / self.gaps


def summarise(
    facts: RunFacts, tables: Tables, requests: RequestColumns, closes_session: Mask
) -> dict[str, Any]:
    """Every figure of a run, under the keys of ``sim.results.metrics``.

    ``requests`` are the columns of ``tables.requests``; ``closes_session`` says
    of each request whether it is the last of its session. A figure that cannot
    be known is ``None``.
    """
    window = Window.of(facts)
    here = window.contains(requests.arrival_s)
    summary: dict[str, Any] = dict(_counts(requests, here))
    summary |= _latencies(requests, here)
    summary |= _throughput(facts, window)
    summary["prompt_tokens"] = _spread(Sample(requests.prompt_tokens[here]), ("mean", "p50", "p95"))
    summary |= _hit_ratios(tables.placements, here)
    summary |= _placements(facts, window, tables.placements)
    refused = summary["requests_rejected"] + summary["requests_failed"]
    summary["error_ratio"] = _ratio(refused, summary["requests"])
    summary |= _pods(facts, window, tables.pods)
    summary |= _sessions(requests, window, closes_session)
    summary["turns_per_agent_hour"] = _turns_per_agent_hour(facts, requests, window)
    if facts.slo_ttft_s is not None or facts.slo_tpot_s is not None:
        summary |= _objectives(facts, requests, here, window)
    return summary


def _counts(requests: RequestColumns, here: Mask) -> dict[str, int]:
    open_ = here & requests.were(Status.IN_FLIGHT)
    return {
        "requests": _count(here),
        "requests_completed": _count(here & requests.were(Status.COMPLETED)),
        "requests_censored": _count(open_),
        "requests_censored_before_first_token": _count(open_ & np.isnan(requests.first_token_s)),
        "requests_rejected": _count(here & requests.were(Status.REJECTED)),
        "requests_failed": _count(here & requests.were(Status.FAILED)),
        "requests_cancelled": _count(here & requests.were(Status.CANCELLED)),
    }


def _latencies(requests: RequestColumns, here: Mask) -> dict[str, Any]:
    growing = requests.were(Status.IN_FLIGHT)
    ended = requests.were(Status.COMPLETED) | growing
    # An arrival a nanosecond after a step boundary counts as at it.
    queue_s = np.maximum(requests.scheduled_s - requests.dispatch_s, 0.0)
    e2e_s = requests.end_s - requests.arrival_s
    streamed = here & (requests.stream_s > 0.0)  # an engine without cost takes no time
    tokens_per_s = requests.gaps[streamed] / requests.stream_s[streamed]
    return {
        "ttft_s": _spread(_sample(requests.ttft_s, here, growing), LATENCY_KEYS),
        "tpot_s": _spread(_sample(requests.tpot_s, here), LATENCY_KEYS),
        "e2e_s": _spread(_sample(e2e_s, here & ended, growing), LATENCY_KEYS),
        "queue_s": _spread(_sample(queue_s, here, growing), LATENCY_KEYS),
        "stream_tokens_per_s": _spread(Sample(_known(tokens_per_s)), ("p50", "p5")),
    }


def _throughput(facts: RunFacts, window: Window) -> dict[str, float | None]:
    tokens_per_s = window.per_s(_total(facts, "emitted_tokens"))
    per_gpu_s = None if tokens_per_s is None else _ratio(tokens_per_s, facts.gpus)
    return {"output_tokens_per_s": tokens_per_s, "output_tokens_per_gpu_s": per_gpu_s}


def _hit_ratios(placements: Table, here: Mask) -> dict[str, float | None]:
    """Three figures that are all called "hit rate" elsewhere; each request counts once."""
    request = arrow.whole(placements, "request_id")
    cached = arrow.numbers(placements, "cached_tokens")
    prompt = arrow.numbers(placements, "prompt_tokens")
    admitted = np.flatnonzero(~np.isnan(cached) & here[request])
    _, first = np.unique(request[admitted], return_index=True)
    cached, prompt = cached[admitted[first]], prompt[admitted[first]]
    return {
        "prompt_cache_hit_ratio": _ratio(float(cached.sum()), float(prompt.sum())),
        "prompt_cache_hit_ratio_mean": Sample((cached / prompt)[prompt > 0.0]).mean(),
        "requests_with_hit_ratio": _ratio(_count(cached > 0.0), len(cached)),
    }


def _placements(facts: RunFacts, window: Window, placements: Table) -> dict[str, Any]:
    here = window.contains(arrow.numbers(placements, "dispatch_s"))
    total = _count(here)
    by_outcome = arrow.strings(placements, "outcome").counts(here)
    by_pod = arrow.strings(placements, "pod").counts(here)
    spills, migrations = by_outcome.get(Outcome.SPILL, 0), by_outcome.get(Outcome.MIGRATED, 0)
    return {
        "placements": {
            "total": total,
            "by_outcome": by_outcome,
            "by_reason": arrow.strings(placements, "reason").counts(here),
        },
        "spill_ratio": _ratio(spills, total) if facts.has_home else None,
        "migration_ratio": _ratio(migrations, total) if facts.has_home else None,
        "pod_requests": {pod: by_pod.get(pod, 0) for pod in facts.pods},
    }


def _pods(facts: RunFacts, window: Window, pods: Table) -> dict[str, Any]:
    here = window.contains(arrow.numbers(pods, "time_s"))
    covered = window.length_s > 0.0
    return {
        "preemptions": _total(facts, "preemptions") if covered else None,
        "recomputed_tokens": _total(facts, "recomputed_tokens") if covered else None,
        "kv_usage": _spread(Sample(arrow.numbers(pods, "kv_usage")[here]), ("mean", "p95")),
    }


def _sessions(requests: RequestColumns, window: Window, closes: Mask) -> dict[str, Any]:
    """Sessions whose last request has ended, and whose last end lies in the window."""
    session = requests.session.codes
    slots = len(requests.session.words) + 1  # requests without a session share the last one
    first_s, last_s = np.full(slots, np.inf), np.full(slots, -np.inf)
    np.minimum.at(first_s, session, requests.arrival_s)
    np.maximum.at(last_s, session, np.where(np.isnan(requests.end_s), np.inf, requests.end_s))
    closed = np.zeros(slots, dtype=bool)
    closed[session[closes]] = True
    closed[-1] = False
    over = closed & np.isfinite(last_s) & window.contains(last_s)
    return {"session_s": _spread(Sample(last_s[over] - first_s[over]), ("p50", "p95"))}


def _turns_per_agent_hour(
    facts: RunFacts, requests: RequestColumns, window: Window
) -> float | None:
    turns = (
        requests.were(Status.COMPLETED)
        & (requests.agent.codes >= 0)
        & window.contains(requests.end_s)
    )
    return window.per_s(_count(turns) * HOUR_S / facts.agents) if facts.agents else None


def _objectives(
    facts: RunFacts, requests: RequestColumns, here: Mask, window: Window
) -> dict[str, float | None]:
    ttft_limit_s = np.inf if facts.slo_ttft_s is None else facts.slo_ttft_s
    tpot_limit_s = np.inf if facts.slo_tpot_s is None else facts.slo_tpot_s
    completed = requests.were(Status.COMPLETED)
    # A single token has no time per output token, so it cannot miss that objective.
    attained = completed & (requests.ttft_s <= ttft_limit_s) & ~(requests.tpot_s > tpot_limit_s)
    waited_s = np.where(
        np.isnan(requests.first_token_s), facts.end_s - requests.arrival_s, requests.ttft_s
    )
    late = requests.were(Status.IN_FLIGHT) & (waited_s > ttft_limit_s)
    refused = requests.were(Status.REJECTED) | requests.were(Status.FAILED)
    decided = here & (completed | refused | late)
    return {
        "slo_attainment": _ratio(_count(here & attained), _count(decided)),
        "goodput_requests_per_s": window.per_s(_count(attained & window.contains(requests.end_s))),
    }


def _sample(values: Floats, where: Mask, growing: Mask | None = None) -> Sample:
    """The known values of ``where``, and how many of the unknown ones are still growing."""
    censored = 0 if growing is None else _count(where & growing & np.isnan(values))
    return Sample(_known(values[where]), censored)


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _spread(sample: Sample, keys: tuple[str, ...]) -> dict[str, float | None]:
    """Mean and percentiles under the names ``mean``, ``p50`` and so on."""
    percents = [float(key[1:]) for key in keys if key != "mean"]
    percentiles = iter(sample.percentiles(*percents))
    return {key: sample.mean() if key == "mean" else next(percentiles) for key in keys}


def _total(facts: RunFacts, name: str) -> int:
    """Growth of a running total over the window, all pods."""

    def at(totals: tuple[PodTotals, ...]) -> int:
        return sum(getattr(pod, name) for pod in totals)

    return at(facts.closed) - at(facts.opened)


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
