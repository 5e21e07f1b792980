"""The figures of one run, from its tables and facts; ``sim.results.metrics`` defines each."""

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sim.ports import PodTotals
from sim.request import Outcome, Status
from sim.results import arrow
from sim.results.arrow import Mask, Table, Texts
from sim.results.metrics import DISTRIBUTIONS
from sim.results.result import RunFacts
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
    reason: Texts
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
            arrow.strings(table, "reason"),
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
    of each request whether it is the last of a session, which a single-shot one
    is not. A figure that cannot be known is ``None``.
    """
    window = Window.of(facts)
    here = window.contains(requests.arrival_s)
    hits = _Hits.of(tables.placements, here)
    samples = {
        **_latencies(requests, here),
        "prompt_tokens": Sample(requests.prompt_tokens[here]),
        "prompt_cache_hit_ratio": Sample(hits.shares),
        "kv_usage": _kv_usage(window, tables.pods),
        "session_s": _sessions(requests, window, closes_session),
    }
    summary: dict[str, Any] = {
        **_counts(requests, here),
        **{
            quantity: _spread(samples[quantity], figures)
            for quantity, figures in DISTRIBUTIONS.items()
        },
        **_flows(facts, requests, window),
        **hits.ratios,
        **_placements(facts, window, tables.placements),
    }
    if facts.slo_ttft_s is not None or facts.slo_tpot_s is not None:
        attained = _attained(facts, requests)
        samples["slo_attainment"] = _decided(facts, requests, attained, here)
        fates = samples["slo_attainment"].observed
        summary["slo_attainment"] = _ratio(float(fates.sum()), len(fates))
        summary["goodput_requests_per_s"] = window.per_s(
            _count(attained & window.contains(requests.end_s))
        )
    summary["samples"] = {
        name: {"observed": len(sample.observed), "censored": sample.censored}
        for name, sample in samples.items()
    }
    return summary


def _counts(requests: RequestColumns, here: Mask) -> dict[str, Any]:
    total = _count(here)
    rejected, failed = (
        _count(here & requests.were(status)) for status in (Status.REJECTED, Status.FAILED)
    )
    return {
        "requests": total,
        "requests_completed": _count(here & requests.were(Status.COMPLETED)),
        "requests_censored": _count(here & requests.were(Status.IN_FLIGHT)),
        "requests_rejected": rejected,
        "requests_failed": failed,
        "requests_cancelled": _count(here & requests.were(Status.CANCELLED)),
        "requests_outside_window": _count(~here),
        "error_ratio": _ratio(rejected + failed, total),
    }


def _latencies(requests: RequestColumns, here: Mask) -> dict[str, Sample]:
    growing = requests.were(Status.IN_FLIGHT)
    ended = requests.were(Status.COMPLETED) | growing
    # An arrival a nanosecond after a step boundary counts as at it.
    queue_s = np.maximum(requests.scheduled_s - requests.dispatch_s, 0.0)
    streamed = here & (requests.stream_s > 0.0)  # steps may be shorter than the clock resolves
    tokens_per_s = requests.gaps[streamed] / requests.stream_s[streamed]
    return {
        "ttft_s": _sample(requests.ttft_s, here, growing),
        "tpot_s": Sample(_known(requests.tpot_s[here])),
        "e2e_s": _sample(requests.end_s - requests.arrival_s, here & ended, growing),
        "queue_s": _sample(queue_s, here, growing),
        "stream_tokens_per_s": Sample(_known(tokens_per_s)),
    }


@dataclass(frozen=True)
class _Hits:
    """First admissions of the window's requests: tokens found in the cache, tokens asked for."""

    cached: Floats
    prompt: Floats

    @staticmethod
    def of(placements: Table, here: Mask) -> "_Hits":
        """Read them: of several attempts of a request, the first that was admitted."""
        request = arrow.whole(placements, "request_id")
        cached = arrow.numbers(placements, "cached_tokens")
        prompt = arrow.numbers(placements, "prompt_tokens")
        admitted = np.flatnonzero(~np.isnan(cached) & (prompt > 0.0) & here[request])
        _, first = np.unique(request[admitted], return_index=True)
        rows = admitted[first]
        return _Hits(cached[rows], prompt[rows])

    @property
    def shares(self) -> Floats:
        """The cached share of each prompt."""
        return self.cached / self.prompt

    @property
    def ratios(self) -> dict[str, float | None]:
        """Three figures that are all called "hit rate" elsewhere."""
        return {
            "prompt_cache_hit_ratio": _ratio(float(self.cached.sum()), float(self.prompt.sum())),
            "prompt_cache_hit_ratio_mean": Sample(self.shares).mean(),
            "requests_with_hit_ratio": _ratio(_count(self.cached > 0.0), len(self.cached)),
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


def _flows(facts: RunFacts, requests: RequestColumns, window: Window) -> dict[str, Any]:
    """What passed inside the window, whenever its requests came."""
    tokens_per_s = window.per_s(_growth(facts, "emitted_tokens"))
    turns = (
        requests.were(Status.COMPLETED)
        & (requests.agent.codes >= 0)
        & window.contains(requests.end_s)
    )
    covered = window.length_s > 0.0
    return {
        "output_tokens_per_s": tokens_per_s,
        "output_tokens_per_gpu_s": None if tokens_per_s is None else tokens_per_s / facts.gpus,
        "turns_per_agent_hour": (
            window.per_s(_count(turns) * HOUR_S / facts.agents) if facts.agents else None
        ),
        "preemptions": _growth(facts, "preemptions") if covered else None,
        "recomputed_tokens": _growth(facts, "recomputed_tokens") if covered else None,
    }


def _kv_usage(window: Window, pods: Table) -> Sample:
    here = window.contains(arrow.numbers(pods, "time_s"))
    return Sample(arrow.numbers(pods, "kv_usage")[here])


def _sessions(requests: RequestColumns, window: Window, closes: Mask) -> Sample:
    """Sessions whose closing request was completed and whose last end lies in the window."""
    session = requests.session.codes
    slots = len(requests.session.words) + 1  # requests without a session share the last one
    first_s, last_s = np.full(slots, np.inf), np.full(slots, -np.inf)
    np.minimum.at(first_s, session, requests.arrival_s)
    np.maximum.at(last_s, session, np.where(np.isnan(requests.end_s), np.inf, requests.end_s))
    closed = np.zeros(slots, dtype=bool)
    closed[session[closes & requests.were(Status.COMPLETED)]] = True
    closed[-1] = False
    over = closed & np.isfinite(last_s) & window.contains(last_s)
    return Sample(last_s[over] - first_s[over])


def _attained(facts: RunFacts, requests: RequestColumns) -> Mask:
    """Completed within the objectives; an answer of one token has no time per token to miss."""
    attained = requests.were(Status.COMPLETED)
    if facts.slo_ttft_s is not None:
        attained &= requests.ttft_s <= facts.slo_ttft_s
    if facts.slo_tpot_s is not None:
        attained &= ~(requests.tpot_s > facts.slo_tpot_s)
    return attained


def _decided(facts: RunFacts, requests: RequestColumns, attained: Mask, here: Mask) -> Sample:
    """1 for each request that attained the objectives, 0 for each that is known to miss them."""
    growing = requests.were(Status.IN_FLIGHT)
    late = np.zeros_like(growing)
    if facts.slo_ttft_s is not None:
        waiting_s = facts.end_s - requests.arrival_s
        waited_s = np.where(np.isnan(requests.first_token_s), waiting_s, requests.ttft_s)
        late = growing & (waited_s > facts.slo_ttft_s)
    decided = here & (~growing | late)
    return Sample(attained[decided].astype(np.float64), _count(here & growing & ~late))


def _sample(values: Floats, where: Mask, growing: Mask) -> Sample:
    """The known values of ``where``, and how many of the unknown ones are still growing."""
    return Sample(_known(values[where]), _count(where & growing & np.isnan(values)))


def _known(values: Floats) -> Floats:
    return values[~np.isnan(values)]


def _spread(sample: Sample, figures: tuple[str, ...]) -> dict[str, float | None]:
    """Mean and percentiles under the names ``mean``, ``p50`` and so on."""
    percents = [float(figure[1:]) for figure in figures if figure != "mean"]
    percentiles = iter(sample.percentiles(*percents))
    return {figure: sample.mean() if figure == "mean" else next(percentiles) for figure in figures}


def _growth(facts: RunFacts, name: str) -> int:
    """Growth of a running total over the window, all pods."""

    def at(totals: tuple[PodTotals, ...]) -> int:
        return sum(getattr(pod, name) for pod in totals)

    return at(facts.closed) - at(facts.opened)


def _count(mask: Mask) -> int:
    return int(np.count_nonzero(mask))


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
