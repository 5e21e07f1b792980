"""Rules about requests, their tries and their attempts."""

from typing import Final

import numpy as np

from sim.core.request import Answer, HttpStatus, Reason, Status
from sim.core.stats import present_at
from sim.invariants.evidence import (
    TOLERANCE_S,
    Evidence,
    Violations,
    equal,
    in_order,
    says,
    where,
)

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


def requests_are_conserved(run: Evidence) -> Violations:
    """Requests in = completed + rejected + failed + cancelled + in flight, each id in one class."""
    ids = run.requests.whole("request_id")
    yield from where("request id is not its row", ids != np.arange(run.requests.rows))
    yield from where("unknown status", ~says(run.status, STATUSES))
    ended = ~np.isnan(run.requests.numbers("end_s"))
    in_flight = run.status.equal(Status.IN_FLIGHT)
    yield from where("has ended and is in flight, or neither", ended == in_flight)


def tokens_are_conserved(run: Evidence) -> Violations:
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


def life_runs_forward(run: Evidence) -> Violations:
    """Arrival <= dispatch <= scheduled <= first token <= end, and nothing after the run."""
    requests = ("arrival_s", "dispatch_s", "scheduled_s", "first_token_s", "end_s")
    yield from in_order(run.requests, requests, run.facts.end_s)
    attempts = ("decided_s", "dispatch_s", "scheduled_s", "first_token_s", "end_s")
    yield from in_order(run.placements, attempts, run.facts.end_s)
    arrivals = run.requests.numbers("arrival_s")
    yield from where("arrived before the request above it", np.diff(arrivals, prepend=0.0) < 0.0)


def littles_law(run: Evidence) -> Violations:
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


def placements_belong_to_requests(run: Evidence) -> Violations:
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


def answers_fit(run: Evidence) -> Violations:
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


def tries_follow_each_other(run: Evidence) -> Violations:
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
