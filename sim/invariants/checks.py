"""The invariants, one function each: of requests and attempts, of pods, of model pools."""

from dataclasses import fields
from itertools import pairwise
from typing import Final

import numpy as np

from sim.core.ports import PodTotals
from sim.core.request import DIRECT, Answer, HttpStatus, PoolError, Reason, Status
from sim.core.stats import Floats, present_at
from sim.invariants.evidence import (
    TOLERANCE_S,
    Columns,
    RunEvidence,
    Violations,
    equal,
    in_order,
    known_sum,
    says,
    where,
)
from sim.results.arrow import Mask
from sim.results.pools import stays

STATUSES: Final = (
    Status.COMPLETED,
    Status.REJECTED,
    Status.FAILED,
    Status.CANCELLED,
    Status.IN_FLIGHT,
)
NO_ANSWER: Final = (Reason.CONNECTION_LOST, Reason.CONNECTION_REFUSED, Answer.PROXY_RESTART)
"""Why a request fails without an HTTP status."""
RELATIVE_TOLERANCE: Final = 1e-9


def requests_are_conserved(run: RunEvidence) -> Violations:
    """Requests in = completed + rejected + failed + cancelled + in flight, each id in one class."""
    ids = run.requests.whole("request_id")
    yield from where("request id is not its row", ids != np.arange(run.requests.rows))
    yield from where("unknown status", ~says(run.status, STATUSES))
    ended = ~np.isnan(run.requests.numbers("end_s"))
    in_flight = run.status.equal(Status.IN_FLIGHT)
    yield from where("has ended and is in flight, or neither", ended == in_flight)


def tokens_are_conserved(run: RunEvidence) -> Violations:
    """Prompt tokens = cached + computed for every request past its first token.

    After a preemption a request may find more in the cache than it had
    computed, so that its sum falls short, but never exceeds.
    """
    prompt = run.requests.whole("prompt_tokens")
    read = run.requests.whole("cached_tokens") + run.requests.whole("computed_tokens")
    admitted = ~np.isnan(run.requests.numbers("scheduled_s"))
    answered = ~np.isnan(run.requests.numbers("first_token_s"))
    smooth = answered & (run.requests.whole("preemptions") == 0)
    yield from where("cached + computed is not the prompt", smooth & (read != prompt))
    yield from where("cached + computed exceeds the prompt", admitted & (read > prompt))
    output = run.requests.whole("output_tokens")
    known = output >= 0
    yield from where("tokens without a first token", known & ~answered & (output > 0))
    yield from where("a first token and no tokens", known & answered & (output == 0))


def life_runs_forward(run: RunEvidence) -> Violations:
    """Arrival <= dispatch <= scheduled <= first token <= end, and nothing after the run."""
    requests = ("arrival_s", "dispatch_s", "scheduled_s", "first_token_s", "end_s")
    yield from in_order(run.requests, requests, run.facts.end_s)
    attempts = ("decided_s", "dispatch_s", "scheduled_s", "first_token_s", "end_s")
    yield from in_order(run.placements, attempts, run.facts.end_s)
    arrivals = run.requests.numbers("arrival_s")
    yield from where("arrived before the request above it", np.diff(arrivals, prepend=0.0) < 0.0)


def littles_law(run: RunEvidence) -> Violations:
    """Over a drained run the time integral of requests in the system is the sum of their stays."""
    if not run.drained or run.requests.rows == 0:
        return
    arrival, end = run.requests.numbers("arrival_s"), run.requests.numbers("end_s")
    changes = np.sort(np.concatenate([arrival, end]))
    inside = present_at(arrival, end, changes[:-1])
    yield from where("fewer than no requests in the system at change", inside < 0)
    integral = float(np.sum(inside * np.diff(changes)))
    stays = float(np.sum(end - arrival))
    yield from equal("integral of requests in the system", integral, stays, RELATIVE_TOLERANCE)


def placements_belong_to_requests(run: RunEvidence) -> Violations:
    """One placement row per attempt, numbered from 1; the last one is the request's own."""
    request = run.placements.whole("request_id")
    number = run.placements.whole("attempt")
    yield from where("no such request", (request < 0) | (request >= run.requests.rows))
    if run.placements.rows and not 0 <= request.min() <= request.max() < run.requests.rows:
        return
    rows = np.bincount(request, minlength=run.requests.rows)
    yield from where("attempts are not its placement rows", rows != run.attempts)
    order = np.lexsort((number, request))
    first = np.searchsorted(request[order], request[order])
    due = np.arange(len(order)) - first + 1
    yield from where("attempts not numbered 1, 2, ...", number[order] != due)
    dispatch_s = np.full(run.requests.rows, np.nan)
    dispatch_s[request[order]] = run.placements.numbers("dispatch_s")[order]
    given_s = run.requests.numbers("dispatch_s")
    same = (dispatch_s == given_s) | (np.isnan(dispatch_s) & np.isnan(given_s))
    yield from where("dispatch is not that of the last attempt", ~same)


def answers_fit(run: RunEvidence) -> Violations:
    """Completed is 200, cancelled 499, failed an error, rejected one without a first token.

    What is in flight has no HTTP status, nor has what broke with its connection. The
    first token of an earlier try does not count against a last one without an attempt.
    """
    http, tries = run.requests.whole("http_status"), run.requests.whole("tries")
    first_token = ~np.isnan(run.requests.numbers("first_token_s"))
    completed, rejected = run.status.equal(Status.COMPLETED), run.status.equal(Status.REJECTED)
    left, in_flight = run.status.equal(Status.CANCELLED), run.status.equal(Status.IN_FLIGHT)
    failed = run.status.equal(Status.FAILED)
    unanswered = (http < 0) & says(run.requests.texts("reason"), NO_ANSWER)
    for fault, broken in (
        ("completed and not 200", completed & (http != HttpStatus.OK)),
        ("completed without a first token", completed & ~first_token),
        ("rejected after a first token", rejected & first_token & (tries == 1)),
        ("rejected and no error", rejected & (http < HttpStatus.BAD_REQUEST)),
        ("failed and no error", failed & ~unanswered & (http < HttpStatus.BAD_REQUEST)),
        ("cancelled and not 499", left & (http != HttpStatus.CLIENT_CLOSED_REQUEST)),
        ("in flight and answered", in_flight & (http >= 0)),
    ):
        yield from where(fault, broken)


def tries_follow_each_other(run: RunEvidence) -> Violations:
    """Tries of a request are numbered, each is sent after the one before it is over.

    The last one is the request's own, unless the client has not tried again yet or gave up.
    """
    request, number = run.retries.whole("request_id"), run.retries.whole("try")
    unknown = (request < 0) | (request >= run.requests.rows)
    yield from where("a try of no request", unknown)
    if unknown.any():
        return
    order = np.lexsort((number, request))
    request, number = request[order], number[order]
    due = np.arange(len(request)) - np.searchsorted(request, request) + 1
    yield from where("tries not numbered 1, 2, ...", number != due)
    sent_s = run.retries.numbers("sent_s")[order]
    end_s = run.retries.numbers("end_s")[order]
    yield from where("a try that ends before it is sent", end_s < sent_s - TOLERANCE_S)
    again = request[1:] == request[:-1]
    early = sent_s[1:] < end_s[:-1] - TOLERANCE_S
    yield from where("sent again before the try above was over", again & early)
    earlier = np.bincount(request, minlength=run.requests.rows)
    tries = run.requests.whole("tries")
    fit = (tries == np.maximum(earlier, 1)) | (tries == earlier + 1)
    yield from where("tries are not its rows of retries", ~fit)


def pods_and_requests_count_the_same_tokens(run: RunEvidence) -> Violations:
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


def pods_are_busy_within_the_window(run: RunEvidence) -> Violations:
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


def counters_stay_in_range(run: RunEvidence) -> Violations:
    """No count is below zero and no usage outside [0, 1].

    An integer below zero would be stored as a null, which no pod sample may hold.
    """
    usage = run.pods.numbers("kv_usage")
    yield from where("kv_usage outside [0, 1]", ~((usage >= 0.0) & (usage <= 1.0)))
    for name in ("in_flight", "waiting", "running"):
        yield from where(f"{name} below zero", run.pods.whole(name) < 0)
    hold_s = run.requests.numbers("hold_s")
    yield from where("held for a negative time", hold_s < 0.0)


def proxies_count_what_is_in_flight(run: RunEvidence) -> Violations:
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


RESULTS: Final = {
    "hold": (
        "granted",
        "cancelled",
        PoolError.INCUMBENT_BUSY,
        PoolError.HOLD_BUDGET,
        PoolError.SWAP_DEADLINE,
        PoolError.SWAP_FAILED,
        PoolError.QUEUE_FULL,
        PoolError.PROXY_RESTART,
    ),
    "skip": (PoolError.INCUMBENT_BUSY,),
    "swap": ("completed", "deadline", "error", "cancelled"),
    "unload": ("completed",),
}
"""How each kind of row of the pools table may end."""


def pools_have_one_member_at_a_time(run: RunEvidence) -> Violations:
    """Members of a pool take turns: at most one is ready, and swaps follow one another.

    That is so in exclusive pools. In all of them a member is down, loading or
    ready at any time, and busy only while it is ready.
    """
    facts = run.facts
    window_s = max(0.0, min(facts.window_end_s, facts.end_s) - facts.window_start_s)
    for pool, members in facts.pools.items():
        spent_s, changes = 0.0, 1
        for member, pod in members.items():
            at = facts.pods.index(pod)
            opened, closed = facts.opened[at], facts.closed[at]
            ready_s, busy_s = closed.ready_s - opened.ready_s, closed.busy_s - opened.busy_s
            its_s, loads = ready_s + closed.loading_s - opened.loading_s, 1 + closed.loads
            spent_s, changes = spent_s + its_s, changes + loads
            if busy_s > ready_s + TOLERANCE_S * loads:
                yield f"{pool}: {member} busy for {busy_s} s, ready for {ready_s} s"
            if its_s > window_s + TOLERANCE_S * loads:
                yield f"{pool}: {member} loading or ready for {its_s} s of {window_s} s"
        if pool in facts.exclusive_pools:
            if spent_s > window_s + TOLERANCE_S * changes:
                yield f"{pool}: members loading or ready for {spent_s} s of {window_s} s"
            yield from _swaps_follow_each_other(run.pools, pool)
            for before, after in pairwise(stays(facts, pool)):
                if after.start_s < before.end_s - TOLERANCE_S:
                    yield f"{pool}: {before.member} and {after.member} at {after.start_s} s"


def _swaps_follow_each_other(pools: Columns, pool: str) -> Violations:
    rows = np.flatnonzero(pools.texts("pool").equal(pool) & pools.texts("kind").equal("swap"))
    start_s = pools.numbers("start_s")[rows]
    end_s = np.nan_to_num(pools.numbers("end_s")[rows], nan=np.inf)
    together = np.zeros(pools.rows, dtype=bool)
    together[rows[1:]] = start_s[1:] < end_s[:-1] - TOLERANCE_S
    yield from where(f"{pool}: a swap before the one above is over", together)


def holds_end_once(run: RunEvidence) -> Violations:
    """What a pool has begun ends with one result, unless the run ended; a request's hold covers it.

    The hold of a request may be longer than those of its pools: policies hold, too.
    """
    pools, kind, result = run.pools, run.pools.texts("kind"), run.pools.texts("result")
    start_s, end_s = pools.numbers("start_s"), pools.numbers("end_s")
    fits = np.zeros(pools.rows, dtype=bool)
    for name, results in RESULTS.items():
        fits |= kind.equal(name) & (says(result, results) | (result.codes < 0))
    yield from where("a result that its kind cannot have", ~fits)
    ended = ~np.isnan(end_s)
    yield from where("ended without a result, or not ended with one", ended == (result.codes < 0))
    yield from where("ended before it began", end_s < start_s - TOLERANCE_S)
    request, held = pools.whole("request_id"), kind.equal("hold")
    asked = held | kind.equal("skip")
    unknown = asked & ((request < 0) | (request >= run.requests.rows))
    yield from where("a hold of no request", unknown)
    if not unknown.any():
        yield from _holds_of_requests(run, held, ended)


def _holds_of_requests(run: RunEvidence, held: Mask, ended: Mask) -> Violations:
    request = run.pools.whole("request_id")
    over = ~run.status.equal(Status.IN_FLIGHT)
    still_held = np.zeros(run.pools.rows, dtype=bool)
    still_held[held & ~ended] = over[request[held & ~ended]]
    yield from where("still held for a request that is over", still_held)
    lasted_s = (run.pools.numbers("end_s") - run.pools.numbers("start_s"))[held & ended]
    holds_s = np.bincount(request[held & ended], lasted_s, minlength=run.requests.rows)
    rows = np.bincount(request[held], minlength=run.requests.rows)
    hold_s = run.requests.numbers("hold_s")
    yield from where("held for less than by pools", hold_s < holds_s - TOLERANCE_S * (1 + rows))
