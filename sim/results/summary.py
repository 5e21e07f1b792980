"""The figures of one run, from its tables and facts; ``sim.results.metrics`` defines each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sim.core.ports import PodTotals
from sim.core.recorder import RunFacts
from sim.core.request import DIRECT, Attempt, Outcome, Status
from sim.core.stats import Floats, Sample
from sim.results import arrow
from sim.results.arrow import Mask, Table
from sim.results.figures import MeasuredWindow, count, ratio, spread
from sim.results.metrics import DISTRIBUTIONS
from sim.results.pools import of_pools
from sim.results.requests import RequestColumns, latencies
from sim.results.served import of_answers, of_rules, of_workloads
from sim.results.tables import Tables

HOUR_S: Final = 3600.0


def summarise(
    facts: RunFacts,
    tables: Tables,
    requests: RequestColumns,
    closes_session: Mask,
    abandoned: Sequence[tuple[Attempt, Attempt]] = (),
) -> dict[str, Any]:
    """Every figure of a run, under the keys of ``sim.results.metrics``.

    ``requests`` are the columns of ``tables.requests``; ``closes_session`` says
    of each request whether it is the last of a session, which a single-shot one
    is not. ``abandoned`` are attempts that went on when their clients had left,
    as they ended and as they stood then. A figure that cannot be known is ``None``.
    """
    window = MeasuredWindow.of(facts)
    here = window.contains(requests.arrival_s)
    hits = _Hits.of(tables.placements, here)
    samples = {
        **latencies(requests, here),
        "prompt_tokens": Sample(requests.prompt_tokens[here]),
        "prompt_cache_hit_ratio": Sample(hits.shares),
        "kv_usage": _kv_usage(window, tables.pods),
        "session_s": _sessions(requests, window, closes_session),
    }
    summary: dict[str, Any] = {
        **_counts(requests, here),
        **_rates(requests, window, here),
        **{
            quantity: spread(samples[quantity], figures)
            for quantity, figures in DISTRIBUTIONS.items()
        },
        **_flows(facts, requests, window),
        **hits.ratios,
        **_placements(facts, window, tables.placements),
        **of_answers(tables, requests, here),
        **of_workloads(facts, tables, requests, here),
        **of_rules(facts, tables, requests, here),
        **of_pools(facts, tables, window),
    }
    if abandoned:
        summary["abandoned_tokens"] = _abandoned(abandoned, here)
    if facts.has_slo:
        attained = _attained(facts, requests)
        samples["slo_attainment"] = _decided(facts, requests, attained, here)
        fates = samples["slo_attainment"].observed
        summary["slo_attainment"] = ratio(float(fates.sum()), len(fates))
        summary["goodput_requests_per_s"] = window.per_s(
            count(attained & window.contains(requests.end_s))
        )
    summary["samples"] = {
        name: {"observed": len(sample.observed), "censored": sample.censored}
        for name, sample in samples.items()
    }
    return summary


def _counts(requests: RequestColumns, here: Mask) -> dict[str, Any]:
    total = count(here)
    rejected, failed = (
        count(here & requests.were(status)) for status in (Status.REJECTED, Status.FAILED)
    )
    return {
        "requests": total,
        "requests_completed": count(here & requests.were(Status.COMPLETED)),
        "requests_censored": count(here & requests.were(Status.IN_FLIGHT)),
        "requests_rejected": rejected,
        "requests_failed": failed,
        "requests_cancelled": count(here & requests.were(Status.CANCELLED)),
        "requests_outside_window": count(~here),
        "error_ratio": ratio(rejected + failed, total),
    }


def _rates(requests: RequestColumns, window: MeasuredWindow, here: Mask) -> dict[str, Any]:
    """What was asked for beside what was achieved: apart where a queue grows."""
    arrivals_s = requests.arrival_s[here]
    asked_over_s = float(np.ptp(arrivals_s)) if len(arrivals_s) else 0.0
    answered = requests.were(Status.COMPLETED) & window.contains(requests.end_s)
    return {
        "offered_requests_per_s": ratio(len(arrivals_s) - 1, asked_over_s),
        "completed_requests_per_s": window.per_s(count(answered)),
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
            "prompt_cache_hit_ratio": ratio(float(self.cached.sum()), float(self.prompt.sum())),
            "prompt_cache_hit_ratio_mean": Sample(self.shares).mean(),
            "requests_with_hit_ratio": ratio(count(self.cached > 0.0), len(self.cached)),
        }


def _placements(facts: RunFacts, window: MeasuredWindow, placements: Table) -> dict[str, Any]:
    arrived = window.contains(arrow.numbers(placements, "dispatch_s"))
    here = arrived & ~arrow.strings(placements, "proxy").equal(DIRECT)
    total = count(here)
    by_outcome = arrow.strings(placements, "outcome").counts(here)
    by_pod = arrow.strings(placements, "pod").counts(arrived)
    spills, migrations = by_outcome.get(Outcome.SPILL, 0), by_outcome.get(Outcome.MIGRATED, 0)
    return {
        "placements": {
            "total": total,
            "by_outcome": by_outcome,
            "by_reason": arrow.strings(placements, "reason").counts(here),
        },
        "spill_ratio": ratio(spills, total) if facts.has_home else None,
        "migration_ratio": ratio(migrations, total) if facts.has_home else None,
        "pod_requests": {pod: by_pod.get(pod, 0) for pod in facts.pods},
    }


def _abandoned(abandoned: Sequence[tuple[Attempt, Attempt]], here: Mask) -> dict[str, int]:
    """What was computed for nobody."""
    ours = [pair for pair in abandoned if here[pair[0].request.request_id]]
    return {
        "prompt": sum(ended.computed_tokens - left.computed_tokens for ended, left in ours),
        "output": sum(ended.emitted_tokens - left.emitted_tokens for ended, left in ours),
    }


def _flows(facts: RunFacts, requests: RequestColumns, window: MeasuredWindow) -> dict[str, Any]:
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
            window.per_s(count(turns) * HOUR_S / facts.agents) if facts.agents else None
        ),
        "preemptions": _growth(facts, "preemptions") if covered else None,
        "recomputed_tokens": _growth(facts, "recomputed_tokens") if covered else None,
    }


def _kv_usage(window: MeasuredWindow, pods: Table) -> Sample:
    here = window.contains(arrow.numbers(pods, "time_s"))
    return Sample(arrow.numbers(pods, "kv_usage")[here])


def _sessions(requests: RequestColumns, window: MeasuredWindow, closes: Mask) -> Sample:
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
    if facts.slo_e2e_s is not None:
        attained &= requests.end_s - requests.arrival_s <= facts.slo_e2e_s
    return attained


def _decided(facts: RunFacts, requests: RequestColumns, attained: Mask, here: Mask) -> Sample:
    """1 for each request that attained the objectives, 0 for each that is known to miss them."""
    growing = requests.were(Status.IN_FLIGHT)
    late = np.zeros_like(growing)
    so_far_s = facts.end_s - requests.arrival_s
    if facts.slo_ttft_s is not None:
        waited_s = np.where(np.isnan(requests.first_token_s), so_far_s, requests.ttft_s)
        late |= growing & (waited_s > facts.slo_ttft_s)
    if facts.slo_e2e_s is not None:
        late |= growing & (so_far_s > facts.slo_e2e_s)
    decided = here & (~growing | late)
    return Sample(attained[decided].astype(np.float64), count(here & growing & ~late))


def _growth(facts: RunFacts, name: str) -> int:
    """Growth of a running total over the window, all pods."""

    def at(totals: tuple[PodTotals, ...]) -> int:
        return sum(getattr(pod, name) for pod in totals)

    return at(facts.closed) - at(facts.opened)
