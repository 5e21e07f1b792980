"""Rules about pods: what they count, and what others count of them."""

from dataclasses import fields
from typing import Final

import numpy as np

from sim.core.ports import PodTotals
from sim.core.request import DIRECT
from sim.core.stats import Floats
from sim.invariants.evidence import TOLERANCE_S, Evidence, Violations, equal, known_sum, where

RELATIVE_TOLERANCE: Final = 1e-9


def pods_and_requests_count_the_same_tokens(run: Evidence) -> Violations:
    """What pods say they emitted, computed and preempted is what their requests got.

    Over a drained run that the window covers. A client that leaves, or a proxy
    that hangs up, may stop the run in the middle of a step whose prefill no pod
    has counted yet, and a pod that is lost never counts that of its last step.
    """
    if not (run.drained and run.totals_cover_run and (run.attempts <= 1).all()):
        return
    emitted = known_sum(run.requests.whole("output_tokens")) + run.abandoned("output")
    yield from equal("tokens emitted by pods", run.total("emitted_tokens"), emitted)
    preemptions = known_sum(run.requests.whole("preemptions"))
    yield from equal("preemptions of pods", run.total("preemptions"), preemptions)
    if run.counts_every_step:
        computed = run.total("computed_tokens") - run.total("recomputed_tokens")
        asked = known_sum(run.requests.whole("computed_tokens")) + run.abandoned("prompt")
        yield from equal("prompt tokens computed by pods", computed, asked)


def pods_are_busy_within_the_window(run: Evidence) -> Violations:
    """No pod is busy for longer than the window; totals only grow."""
    facts = run.facts
    covered_s = max(0.0, min(facts.window_end_s, facts.end_s) - facts.window_start_s)
    for pod, opened, closed in zip(facts.pods, facts.opened, facts.closed):
        for total in fields(PodTotals):
            growth = getattr(closed, total.name) - getattr(opened, total.name)
            if growth < 0:
                yield f"{pod}: {total.name} falls by {-growth}"
        busy_s = closed.busy_s - opened.busy_s
        if covered_s > 0.0 and busy_s > covered_s * (1.0 + RELATIVE_TOLERANCE):
            yield f"{pod}: busy for {busy_s} s of {covered_s} s"


def counters_stay_in_range(run: Evidence) -> Violations:
    """No count is below zero and no usage outside [0, 1].

    An integer below zero would be stored as a null, which no pod sample may hold.
    """
    usage = run.pods.numbers("kv_usage")
    yield from where("kv_usage outside [0, 1]", ~((usage >= 0.0) & (usage <= 1.0)))
    for name in ("in_flight", "waiting", "running"):
        yield from where(f"{name} below zero", run.pods.whole(name) < 0)
    hold_s = run.requests.numbers("hold_s")
    yield from where("held for a negative time", hold_s < 0.0)


def proxies_count_what_is_in_flight(run: Evidence) -> Violations:
    """At each poll, a proxy's count of a pod is the number of its attempts under way there.

    Attempts that start or end at the instant of the poll may count or not. What
    came beside the router was never counted; after a restart the proxy knows
    nothing of what was under way, and of what was dispatched at that very
    instant it may or may not.
    """
    routed = ~run.placements.texts("proxy").equal(DIRECT)
    placed, sampled = run.placements.texts("pod"), run.pods.texts("pod")
    start_s = run.placements.numbers("dispatch_s")
    over_s = np.nan_to_num(run.placements.numbers("end_s"), nan=np.inf)
    restarts_s = np.array([*run.facts.restarts_s, np.inf])
    sure_s = np.minimum(over_s, _next(restarts_s, start_s - TOLERANCE_S))
    end_s = np.minimum(over_s, _next(restarts_s, start_s + TOLERANCE_S))
    time_s, in_flight = run.pods.numbers("time_s"), run.pods.whole("in_flight")
    for pod in sampled.words:
        here, rows = placed.equal(pod) & routed, sampled.equal(pod)
        times_s, starts_s = time_s[rows], np.sort(start_s[here])
        before, after = times_s - TOLERANCE_S, times_s + TOLERANCE_S
        surely_over = np.sort(sure_s[here]).searchsorted(after, side="right")
        over = np.sort(end_s[here]).searchsorted(before)
        least = starts_s.searchsorted(before) - surely_over
        most = starts_s.searchsorted(after, side="right") - over
        wrong = (in_flight[rows] < least) | (in_flight[rows] > most)
        yield from where(f"in_flight of {pod} is not what is under way at poll", wrong)


def _next(times_s: Floats, after_s: Floats) -> Floats:
    """The first of the times that is not before each of ``after_s``."""
    found: Floats = times_s[np.searchsorted(times_s, after_s)]
    return found
