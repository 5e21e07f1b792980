"""Rules about model pools."""

from itertools import pairwise
from typing import Final

import numpy as np

from sim.core.request import PoolError, Status
from sim.invariants.evidence import TOLERANCE_S, Columns, Evidence, Violations, says, where
from sim.results.arrow import Mask
from sim.results.pools import stays

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


def pools_have_one_member_at_a_time(run: Evidence) -> Violations:
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


def holds_end_once(run: Evidence) -> Violations:
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


def _holds_of_requests(run: Evidence, held: Mask, ended: Mask) -> Violations:
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
