"""What a reader must know before believing a summary, one sentence each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Final

import numpy as np

from sim.core.content import Prompt, longest_shared_prefix
from sim.core.recorder import RunFacts
from sim.core.request import Answer, Outcome, Reason, Status
from sim.core.stats import mann_kendall, mser5, time_average
from sim.core.text import share
from sim.results import arrow
from sim.results.arrow import Mask
from sim.results.figures import MeasuredWindow, count
from sim.results.pools import PoolColumns
from sim.results.requests import RequestColumns
from sim.results.served import answered_last, of_last_try
from sim.results.survivors import WORTH_SAYING
from sim.results.tables import Tables

SLICES: Final = 10
"""Equal parts of the window whose mean backlogs are searched for a trend."""
TREND: Final = 33
"""Mann and Kendall's S of ten slices that a run without trend exceeds once in a thousand."""
GROWTH: Final = 1.5
"""A trend matters when the last slices hold this many times the requests of the first."""
NOISE: Final = 3.0
"""... and the growth exceeds this many standard deviations of a Poisson number."""
CENSORED_SHARE: Final = 0.05
"""Share of the window's requests without an end that is worth a warning."""
LEAST_IN_SLICE: Final = 20
"""The median of fewer requests says little."""
LEAST_TTFTS: Final = 500
"""On fewer values MSER-5 cuts independent ones every third time."""
UNSETTLED_SHARE: Final = 0.05
"""Share of the window's requests before MSER-5's cut that is worth a warning: on 2,000
independent values its cut is above 0 in 31 % of cases and above a twentieth in 1 %."""
KEYLESS_SHARE: Final = 0.01
"""Share of the placements of a backend without a session key that is worth a warning."""
MOSTLY_SWAPPING: Final = 0.5
"""Share of the window in swaps that is worth a warning."""
ENDLESS: Final = 0.1
"""Share of the window for which a swap has not ended that is worth one."""


@dataclass(frozen=True)
class _Run:
    """A finished run."""

    facts: RunFacts
    tables: Tables
    requests: RequestColumns
    summary: Mapping[str, Any]
    prompts: Iterable[Prompt]

    @cached_property
    def window(self) -> MeasuredWindow:
        return MeasuredWindow.of(self.facts)

    @cached_property
    def here(self) -> Mask:
        """Which requests arrived in the window."""
        return self.window.contains(self.requests.arrival_s)


def run_warnings(
    facts: RunFacts,
    tables: Tables,
    requests: RequestColumns,
    summary: dict[str, Any],
    prompts: Iterable[Prompt],
) -> tuple[str, ...]:
    """Return what is wrong with a run: nothing measured, refused, given up, cut off and so on.

    ``prompts`` are those of all requests; they are looked at only when no cache had any.
    """
    run = _Run(facts, tables, requests, summary, prompts)
    if summary["requests"] == 0:
        return (_nothing_arrived(run),)
    checks = (
        *(_refused, _gave_up, _computed_in_vain, _first_backend_idle, _pools, _without_session_key),
        *(_cut_off, _nothing_cached, _many_censored, _not_stationary, _warm_up_too_short),
    )
    return tuple(warning for check in checks for warning in check(run))


def _nothing_arrived(run: _Run) -> str:
    start_s, end_s = run.window.start_s, run.facts.end_s
    if end_s <= start_s:
        return (
            f"nothing was measured: the warm-up lasts {start_s:g} s and the run ended at "
            f"{end_s:g} s; every percentile is null"
        )
    return (
        f"nothing was measured: no request arrived from {start_s:g} s to "
        f"{min(run.window.end_s, end_s):g} s; every percentile is null"
    )


def _refused(run: _Run) -> Iterator[str]:
    """Requests that were refused or broken off, and why."""
    summary, total = run.summary, run.summary["requests"]
    refused = summary["requests_rejected"] + summary["requests_failed"]
    if not refused:
        return
    gone = run.requests.were(Status.REJECTED) | run.requests.were(Status.FAILED)
    gone &= run.here
    reasons = run.requests.reason.counts(gone)
    why = ", ".join(
        f"{reason} {times}{_errors(run, gone & run.requests.reason.equal(reason), reason)}"
        for reason, times in sorted(reasons.items())
    )
    many = "every one" if refused == total else str(refused)
    ended = f"{many} of the {total} requests of the window refused or broken off"
    text = f"{ended}: {why}" if why else ended
    if WORTH_SAYING * total < refused < total:
        text += f"; times and speeds say nothing of these {share(refused / total)}"
    yield text


def _errors(run: _Run, these: Mask, reason: str) -> str:
    """What the backends of these requests answered in their last try, where the answer hides it."""
    if reason not in (Answer.ALL_BACKENDS_FAILED, Answer.FAIL_CLOSED):
        return ""
    failed = run.tables.failed_attempts
    concerned = of_last_try(run.tables, run.requests) & these[arrow.whole(failed, "request_id")]
    return f" (backends: {_counts(arrow.strings(failed, 'error').counts(concerned))})"


def _counts(counts: Mapping[str, int]) -> str:
    """As "queue_full 4, timeout 2"."""
    return ", ".join(f"{word} {times}" for word, times in sorted(counts.items()))


def _gave_up(run: _Run) -> Iterator[str]:
    """Clients that left, and which figures leave them out."""
    left, total = run.summary["requests_cancelled"], run.summary["requests"]
    if not left:
        return
    cancelled = run.requests.were(Status.CANCELLED) & run.here
    unanswered = count(cancelled & np.isnan(run.requests.first_token_s))
    idle = count(cancelled & ~answered_last(run.tables, run.requests))
    between = f" ({idle} between two tries)" if idle else ""
    yield (
        f"clients gave up on {left} of the {total} requests of the window, {unanswered} before "
        f"their first token{between} and {left - unanswered} after it: percentiles of TTFT cover "
        "only those that got one, figures over completed requests none of them; both flatter"
    )


def _computed_in_vain(run: _Run) -> Iterator[str]:
    """Tokens for clients that had left, beside all that pods have computed."""
    if wasted := run.summary.get("abandoned_tokens"):
        yield (
            f"{wasted['prompt']} prompt tokens and {wasted['output']} output tokens were computed "
            "for clients that had left (abandoned: runs-on); output_tokens_per_s counts them"
        )


def _first_backend_idle(run: _Run) -> Iterator[str]:
    """Rules whose first backend served none of the requests that it was meant for."""
    failed = run.tables.failed_attempts
    errors, backend = arrow.strings(failed, "error"), arrow.strings(failed, "backend")
    for rule, figures in run.summary.get("rules", {}).items():
        first = next(iter(run.facts.rules[rule]), None)
        if first is None or figures["backends"][first]["served_ratio"] != 0.0:
            continue
        concerned = (run.here & run.requests.rule.equal(rule))[arrow.whole(failed, "request_id")]
        concerned &= backend.equal(first) & of_last_try(run.tables, run.requests)
        yield (
            f"rule {rule}: {first}, its first backend, served none of its "
            f"{figures['requests_completed']} completed requests "
            f"({_counts(errors.counts(concerned))})"
        )


def _without_session_key(run: _Run) -> Iterator[str]:
    """Backends whose policy looks for sessions in requests that name none, over several pods."""
    placements = run.tables.placements
    outcome, backend, pod = (
        arrow.strings(placements, name) for name in ("outcome", "backend", "pod")
    )
    here = run.window.contains(arrow.numbers(placements, "dispatch_s"))
    for name, times in backend.counts(here & outcome.equal(Outcome.UNKEYED)).items():
        own = here & backend.equal(name)
        total = count(own)
        if times > KEYLESS_SHARE * total and len(pod.counts(own)) > 1:
            yield (
                f"backend {name}: {times} of its {total} placements were of requests without a "
                "session key, which go to the least-loaded pod wherever their prefix is cached; a "
                "script's rows name theirs in the column session"
            )


def _pools(run: _Run) -> Iterator[str]:
    """Pools that were busy with themselves, and members that were wanted in vain."""
    columns = PoolColumns.of(run.tables.pools)
    wanted = columns.kind.equal("hold") | columns.kind.equal("skip")
    wanted &= run.window.contains(columns.start_s)
    for pool, figures in run.summary.get("pool", {}).items():
        swapping = figures["swapping_ratio"] or 0.0
        if swapping > MOSTLY_SWAPPING:
            yield (
                f"pool {pool}: {swapping:.0%} of the window passed in swaps, "
                f"{figures['swaps']['total']} of which were completed in it"
            )
        yield from _endless_swaps(run, columns, pool)
        for member, its in figures["members"].items():
            attempts = wanted & columns.pool.equal(pool) & columns.member.equal(member)
            if attempts.any() and its["ready_ratio"] == 0.0:
                ends = columns.result.counts(attempts)
                held = count(attempts) - sum(ends.values())
                why = _counts(ends | ({"still held": held} if held else {}))
                yield (
                    f"pool {pool}: {member} was wanted by {count(attempts)} attempts and was "
                    f"never resident in the window: {why}"
                )


def _endless_swaps(run: _Run, columns: PoolColumns, pool: str) -> Iterator[str]:
    """A swap that goes on when the run ends, as one does whose load hangs."""
    end_s = run.facts.end_s
    goes_on = columns.swaps(pool) & np.isnan(columns.end_s)
    goes_on &= columns.start_s < end_s - ENDLESS * min(run.window.length_s, end_s)
    for at in np.flatnonzero(goes_on):
        member = columns.member.words[columns.member.codes[at]]
        held = columns.pool.equal(pool) & columns.kind.equal("hold") & np.isnan(columns.end_s)
        yield (
            f"pool {pool}: the swap to {member} that began at {columns.start_s[at]:g} s had not "
            f"ended when the run did, at {end_s:g} s; "
            f"{count(held & columns.member.equal(member))} attempts were held for it"
        )


def _cut_off(run: _Run) -> Iterator[str]:
    """Answers that are shorter than they would have been."""
    here = run.requests.were(Status.COMPLETED) & run.here
    if cut := run.requests.reason.counts(here).get(Reason.LENGTH, 0):
        yield (
            f"{cut} answers were cut off ({Reason.LENGTH}): the model limit, the context of a "
            "slot, or all KV blocks of a pod left no room for more tokens"
        )


def _nothing_cached(run: _Run) -> Iterator[str]:
    """A hit rate of 0 although there is something to share; without this there is not."""
    if run.summary["prompt_cache_hit_ratio"] != 0.0:
        return
    if shared_tokens := longest_shared_prefix(run.prompts):
        yield (
            f"no prompt was found in a cache, though some have their first {shared_tokens} tokens "
            "in common: only whole KV blocks are found, and only on the pod that has them"
        )


def _many_censored(run: _Run) -> Iterator[str]:
    censored, total = run.summary["requests_censored"], run.summary["requests"]
    if censored > CENSORED_SHARE * total:
        yield (
            f"{censored} of the {total} requests of the window had not ended when the run did, "
            f"{run.summary['samples']['ttft_s']['censored']} of them without a first token; "
            "percentiles among them are null, figures over completed requests flatter"
        )


def _not_stationary(run: _Run) -> list[str]:
    return [warning for warning in (_saturated(run) or _drifts(run),) if warning]


def _saturated(run: _Run) -> str | None:
    """A backlog that grows all along the window.

    The window is cut into ten slices; the run counts as saturated when the
    time averages of the requests in the system rise almost without exception
    (a trend test at the level of one in a thousand), the last two slices hold
    half again as many as the first two, and the growth is more than the noise
    of a system in which nobody waits. A closed loop that is still filling up
    looks the same and is no steadier. Measured on M/M/1 queues of 2,000
    customers: never at a load of 0.5 or 0.8, 2 % at 0.9, 87 % at 1.1, always at 1.3.
    """
    window, requests = run.window, run.requests
    if window.length_s <= 0.0:
        return None
    ends_s = np.where(np.isnan(requests.end_s), np.inf, requests.end_s)
    edges_s = np.linspace(window.start_s, window.start_s + window.length_s, SLICES + 1)
    backlog = [
        time_average(requests.arrival_s, ends_s, float(start_s), float(end_s)) or 0.0
        for start_s, end_s in pairwise(edges_s)
    ]
    first, last = (backlog[0] + backlog[1]) / 2.0, (backlog[-2] + backlog[-1]) / 2.0
    grown = last > GROWTH * first and last - first > NOISE * np.sqrt(max(first, 1.0))
    if mann_kendall(backlog) < TREND or not grown:
        return None
    return (
        f"the run ends saturated or still filling up: requests in the system grew from "
        f"{first:.1f} (first fifth of the window) to {last:.1f} (last fifth), so every figure "
        "depends on the length of the window"
    )


def _drifts(run: _Run) -> str | None:
    """A TTFT that goes one way all along the window, up or down, and far enough to matter.

    The medians of ten slices by arrival, so that a few slow requests are none of
    it, are searched for a trend as backlogs are, and the first and the last fifth
    must be a factor of ``GROWTH`` apart. In 186 runs of shipped scenarios it does so
    once; in 33 MSER-5 finds no steady state, for a few slow requests near the end.
    """
    window, requests = run.window, run.requests
    if window.length_s <= 0.0 or np.isinf(window.end_s):
        return None
    seen = ~np.isnan(requests.ttft_s) & run.here
    ttft_s = requests.ttft_s[seen]
    slices = ((requests.arrival_s[seen] - window.start_s) / window.length_s * SLICES).astype(int)
    parts = [ttft_s[slices == at] for at in range(SLICES)]
    if min(map(len, parts)) < LEAST_IN_SLICE:
        return None
    medians_s = [float(np.median(part)) for part in parts]
    first_s, last_s = sum(medians_s[:2]) / 2.0, sum(medians_s[-2:]) / 2.0
    apart = max(first_s, last_s) > GROWTH * min(first_s, last_s)
    if abs(mann_kendall(medians_s)) < TREND or not apart:
        return None
    return (
        f"the run is not long enough: half of the requests of the first fifth of the window had "
        f"their first token within {first_s:.3g} s, of the last fifth within {last_s:.3g} s, and "
        f"it goes on; figures hold for this window only"
    )


def _warm_up_too_short(run: _Run) -> Iterator[str]:
    """MSER-5 on the TTFTs of the whole run in order of arrival, against the warm-up given.

    A run to the end of a finite workload has no steady state to reach and is
    not tested. That MSER-5 finds no cut is not said: a few slow requests near the
    end make it so in every fifth run that is fine, and what drifts ``_drifts`` finds.
    """
    seen = ~np.isnan(run.requests.ttft_s)
    ttft_s, arrival_s = run.requests.ttft_s[seen], run.requests.arrival_s[seen]
    if np.isinf(run.window.end_s) or len(ttft_s) < LEAST_TTFTS:
        return
    cut = mser5(ttft_s)
    here = run.here[seen]
    if cut is not None and count(here[:cut]) > UNSETTLED_SHARE * count(here):
        yield (
            "the warm-up may be too short: times to the first token settle at "
            f"{arrival_s[cut]:.1f} s only, the window begins at {run.window.start_s:g} s"
        )
