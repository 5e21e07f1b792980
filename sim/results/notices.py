"""What a reader must know before believing a summary, one sentence each."""

from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final

import numpy as np

from sim.core.content import Prompt, longest_shared_prefix
from sim.core.recorder import RunFacts
from sim.core.request import Answer, Reason, Status
from sim.core.stats import mann_kendall, mser5, time_average
from sim.core.text import share
from sim.results import arrow
from sim.results.arrow import Mask
from sim.results.figures import Window
from sim.results.notices_by_name import fell_through_only, keyless, listed, of_pools
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


def notices(
    facts: RunFacts,
    tables: Tables,
    requests: RequestColumns,
    summary: dict[str, Any],
    prompts: Iterable[Prompt],
) -> tuple[str, ...]:
    """Warnings about a run: nothing measured, refused, given up, cut off, saturated and so on.

    ``prompts`` are those of all requests; they are looked at only when no cache had any.
    """
    window = Window.of(facts)
    if summary["requests"] == 0:
        return (_nothing_arrived(facts, window),)
    return tuple(
        notice
        for notice in (
            _refused(requests, window, summary, tables),
            _gave_up(requests, window, summary, tables),
            _for_nobody(facts, summary),
            *fell_through_only(facts, tables, requests, summary),
            *of_pools(facts, tables, summary),
            *keyless(facts, tables),
            _cut_off(requests, window),
            _nothing_found(summary, prompts),
            _many_censored(summary),
            _saturated(requests, window) or _drifts(requests, window),
            _warm_up_too_short(requests, window),
        )
        if notice
    )


def _nothing_arrived(facts: RunFacts, window: Window) -> str:
    if facts.end_s <= window.start_s:
        return (
            f"nothing was measured: the warm-up lasts {window.start_s:g} s and the run ended at "
            f"{facts.end_s:g} s; every percentile is null"
        )
    return (
        f"nothing was measured: no request arrived from {window.start_s:g} s to "
        f"{min(window.end_s, facts.end_s):g} s; every percentile is null"
    )


def _refused(
    requests: RequestColumns, window: Window, summary: dict[str, Any], tables: Tables
) -> str | None:
    """Who was refused or broke off, and why."""
    refused, total = summary["requests_rejected"] + summary["requests_failed"], summary["requests"]
    if not refused:
        return None
    gone = requests.were(Status.REJECTED) | requests.were(Status.FAILED)
    gone &= window.contains(requests.arrival_s)
    reasons = requests.reason.counts(gone)
    why = ", ".join(
        f"{reason} {times}{_errors(requests, tables, gone & requests.reason.equal(reason), reason)}"
        for reason, times in sorted(reasons.items())
    )
    many = "every one" if refused == total else str(refused)
    ended = f"{many} of the {total} requests of the window refused or broken off"
    said = f"{ended}: {why}" if why else ended
    if WORTH_SAYING * total < refused < total:
        said += f"; times and speeds say nothing of these {share(refused / total)}"
    return said


def _errors(requests: RequestColumns, tables: Tables, these: Mask, reason: str) -> str:
    """What the backends of these requests said in their last try, where the answer hides it."""
    if reason not in (Answer.ALL_BACKENDS_FAILED, Answer.FAIL_CLOSED):
        return ""
    last = of_last_try(tables, requests)
    concerned = last & these[arrow.whole(tables.failed_attempts, "request_id")]
    return (
        f" (backends: {listed(arrow.strings(tables.failed_attempts, 'error').counts(concerned))})"
    )


def _gave_up(
    requests: RequestColumns, window: Window, summary: dict[str, Any], tables: Tables
) -> str | None:
    """Clients that left, and which figures know nothing of them."""
    left, total = summary["requests_cancelled"], summary["requests"]
    if not left:
        return None
    here = requests.were(Status.CANCELLED) & window.contains(requests.arrival_s)
    unanswered = int(np.count_nonzero(here & np.isnan(requests.first_token_s)))
    idle = int(np.count_nonzero(here & ~answered_last(tables, requests)))
    between = f" ({idle} between two tries)" if idle else ""
    return (
        f"clients gave up on {left} of the {total} requests of the window, {unanswered} before "
        f"their first token{between} and {left - unanswered} after it: percentiles of TTFT cover "
        "only those that got one, figures over completed requests none of them; both flatter"
    )


def _for_nobody(facts: RunFacts, summary: dict[str, Any]) -> str | None:
    """Work that nobody waited for, beside all that pods have done."""
    wasted = summary.get("abandoned_tokens")
    if not wasted:
        return None
    return (
        f"{wasted['prompt']} prompt tokens and {wasted['output']} output tokens were computed for "
        "clients that had left (abandoned: runs-on); output_tokens_per_s counts them"
    )


def _cut_off(requests: RequestColumns, window: Window) -> str | None:
    """Answers that are shorter than they would have been."""
    here = requests.were(Status.COMPLETED) & window.contains(requests.arrival_s)
    cut = requests.reason.counts(here).get(Reason.LENGTH, 0)
    if not cut:
        return None
    return (
        f"{cut} answers were cut off ({Reason.LENGTH}): the model limit, the context of a "
        "slot, or all KV blocks of a pod left no room for more tokens"
    )


def _nothing_found(summary: dict[str, Any], prompts: Iterable[Prompt]) -> str | None:
    """A hit rate of 0 although there is something to share; without this there is not."""
    if summary["prompt_cache_hit_ratio"] != 0.0:
        return None
    shared_tokens = longest_shared_prefix(prompts)
    if not shared_tokens:
        return None
    return (
        f"no prompt was found in a cache, though some have their first {shared_tokens} tokens in "
        "common: only whole KV blocks are found, and only on the pod that has them"
    )


def _many_censored(summary: dict[str, Any]) -> str | None:
    censored, total = summary["requests_censored"], summary["requests"]
    if censored <= CENSORED_SHARE * total:
        return None
    return (
        f"{censored} of the {total} requests of the window had not ended when the run did, "
        f"{summary['samples']['ttft_s']['censored']} of them without a first token; percentiles "
        "among them are null, figures over completed requests flatter"
    )


def _saturated(requests: RequestColumns, window: Window) -> str | None:
    """A backlog that grows all along the window.

    The window is cut into ten slices; the run counts as saturated when the
    time averages of the requests in the system rise almost without exception
    (a trend test at the level of one in a thousand), the last two slices hold
    half again as many as the first two, and the growth is more than the noise
    of a system in which nobody waits. A closed loop that is still filling up
    looks the same and is no steadier. Measured on M/M/1 queues of 2,000
    customers: never at a load of 0.5 or 0.8, 2 % at 0.9, 87 % at 1.1, always at 1.3.
    """
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


def _drifts(requests: RequestColumns, window: Window) -> str | None:
    """A TTFT that goes one way all along the window, up or down, and far enough to matter.

    The medians of ten slices by arrival, so that a few slow requests are none of
    it, are searched for a trend as backlogs are, and the first and the last fifth
    must be a factor of ``GROWTH`` apart. In 186 runs of shipped scenarios it does so
    once; in 33 MSER-5 finds no steady state, for a few slow requests near the end.
    """
    if window.length_s <= 0.0 or np.isinf(window.end_s):
        return None
    seen = ~np.isnan(requests.ttft_s) & window.contains(requests.arrival_s)
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


def _warm_up_too_short(requests: RequestColumns, window: Window) -> str | None:
    """MSER-5 on the TTFTs of the whole run in order of arrival, against the warm-up given.

    A run to the end of a finite workload has no steady state to reach and is
    not tested. That MSER-5 finds no cut is not said: a few slow requests near the
    end make it so in every fifth run that is fine, and what drifts ``_drifts`` finds.
    """
    seen = ~np.isnan(requests.ttft_s)
    ttft_s, arrival_s = requests.ttft_s[seen], requests.arrival_s[seen]
    if np.isinf(window.end_s) or len(ttft_s) < LEAST_TTFTS:
        return None
    cut = mser5(ttft_s)
    here = window.contains(arrival_s)
    if cut is None or np.count_nonzero(here[:cut]) <= UNSETTLED_SHARE * np.count_nonzero(here):
        return None
    return (
        f"the warm-up may be too short: times to the first token settle at {arrival_s[cut]:.1f} s "
        f"only, the window begins at {window.start_s:g} s"
    )
