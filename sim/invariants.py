"""Rules that every finished run obeys, numbered; each returns what breaks it.

A run that breaks one is a bug in podsim, never in a scenario. These are read
off the result. The others need the live state or more than one run:

======  ====================================================================  =================
id      rule                                                                  checked in
======  ====================================================================  =================
INV-3   free + held + cached blocks = capacity; held blocks stay              sim.extents, tests
INV-5   the clock never goes back                                             sim.kernel, tests
INV-6   same scenario, seed and version, same digest in every process         tests
INV-7   a further pod or workload changes no other workload's draws           tests
INV-8   a pod with work that can be admitted is never idle                    tests (step engine)
INV-9   decisions do not depend on true output lengths                        tests, RequestView
INV-10  metrics are as old as the view says                                   tests
INV-13  batch and token budgets are respected                                 tests (step engine)
INV-14  a span is its steps                                                   tests (step engine)
======  ====================================================================  =================
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import cached_property
from itertools import pairwise
from typing import Final, TypeAlias

import numpy as np

from sim.kernel import BOUNDARY_TOLERANCE_S
from sim.ports import PodTotals
from sim.request import DIRECT, Answer, HttpStatus, Reason, Status
from sim.results import arrow
from sim.results.arrow import Integers, Mask, Table, Texts
from sim.results.result import RunResult
from sim.stats import Floats, present_at

EXAMPLES: Final = 3
"""How many offenders a violation names."""
STATUSES: Final = (
    Status.COMPLETED,
    Status.REJECTED,
    Status.FAILED,
    Status.CANCELLED,
    Status.IN_FLIGHT,
)
NO_CONNECTION: Final = (Reason.CONNECTION_LOST, Reason.CONNECTION_REFUSED, Answer.PROXY_RESTART)
"""Why a request fails without an HTTP status."""
TOLERANCE_S: Final = 2.0 * BOUNDARY_TOLERANCE_S
"""Times may differ by the distance at which an arrival counts as at a step boundary."""
RELATIVE_TOLERANCE: Final = 1e-9


class Columns:
    """The columns of one table, by kind."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self.rows = int(table.num_rows)

    def whole(self, name: str) -> Integers:
        """A column of integers; -1 is null."""
        return arrow.whole(self._table, name)

    def numbers(self, name: str) -> Floats:
        """A column of numbers; NaN is null."""
        return arrow.numbers(self._table, name)

    def texts(self, name: str) -> Texts:
        """A column of texts."""
        return arrow.strings(self._table, name)


class Evidence:
    """A result as the rules read it."""

    def __init__(self, result: RunResult) -> None:
        self.facts = result.facts
        self.requests = Columns(result.tables.requests)
        self.placements = Columns(result.tables.placements)
        self.pods = Columns(result.tables.pods)

    @cached_property
    def status(self) -> Texts:
        """How each request ended."""
        return self.requests.texts("status")

    @cached_property
    def attempts(self) -> Integers:
        """Attempts of each request."""
        return self.requests.whole("attempts")

    @cached_property
    def drained(self) -> bool:
        """Whether every request is over."""
        return Status.IN_FLIGHT not in self.status.words

    @cached_property
    def counts_every_step(self) -> bool:
        """Whether no attempt has been given up that its pod may have been at work on."""
        errors = self.placements.texts("error").words
        left = Status.CANCELLED in self.status.words
        return not left and Reason.CONNECTION_LOST not in errors and Reason.TIMEOUT not in errors

    @cached_property
    def totals_cover_run(self) -> bool:
        """Whether the pods' totals of the window are those of the whole run."""
        return self.facts.window_start_s == 0.0 and self.facts.window_end_s >= self.facts.end_s

    def total(self, name: str) -> float:
        """Growth of a running total over the window, all pods."""
        pods = zip(self.facts.opened, self.facts.closed)
        return float(sum(getattr(closed, name) - getattr(opened, name) for opened, closed in pods))


Violations: TypeAlias = Iterator[str]


def requests_are_conserved(run: Evidence) -> Violations:
    """Requests in = completed + rejected + failed + cancelled + in flight, each id in one class."""
    ids = run.requests.whole("request_id")
    yield from _where("request id is not its row", ids != np.arange(run.requests.rows))
    yield from _where("unknown status", ~_says(run.status, STATUSES))
    ended = ~np.isnan(run.requests.numbers("end_s"))
    in_flight = run.status.equal(Status.IN_FLIGHT)
    yield from _where("has ended and is in flight, or neither", ended == in_flight)


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
    yield from _where("cached + computed is not the prompt", smooth & (read != prompt))
    yield from _where("cached + computed exceeds the prompt", admitted & (read > prompt))
    output = run.requests.whole("output_tokens")
    known = output >= 0
    yield from _where("tokens without a first token", known & ~answered & (output > 0))
    yield from _where("a first token and no tokens", known & answered & (output == 0))


def pods_and_requests_count_the_same_tokens(run: Evidence) -> Violations:
    """What pods say they emitted, computed and preempted is what their requests got.

    Over a drained run that the window covers. A client that leaves, or a proxy
    that hangs up, may stop the run in the middle of a step whose prefill no pod
    has counted yet, and a pod that is lost never counts that of its last step.
    """
    if not (run.drained and run.totals_cover_run and (run.attempts <= 1).all()):
        return
    emitted = _known_sum(run.requests.whole("output_tokens"))
    yield from _equal("tokens emitted by pods", run.total("emitted_tokens"), emitted)
    preemptions = _known_sum(run.requests.whole("preemptions"))
    yield from _equal("preemptions of pods", run.total("preemptions"), preemptions)
    if run.counts_every_step:
        computed = run.total("computed_tokens") - run.total("recomputed_tokens")
        asked = _known_sum(run.requests.whole("computed_tokens"))
        yield from _equal("prompt tokens computed by pods", computed, asked)


def life_runs_forward(run: Evidence) -> Violations:
    """Arrival <= dispatch <= scheduled <= first token <= end, and nothing after the run."""
    requests = ("arrival_s", "dispatch_s", "scheduled_s", "first_token_s", "end_s")
    yield from _in_order(run.requests, requests, run.facts.end_s)
    attempts = ("decided_s", "dispatch_s", "scheduled_s", "first_token_s", "end_s")
    yield from _in_order(run.placements, attempts, run.facts.end_s)
    arrivals = run.requests.numbers("arrival_s")
    yield from _where("arrived before the request above it", np.diff(arrivals, prepend=0.0) < 0.0)


def littles_law(run: Evidence) -> Violations:
    """Over a drained run the time integral of requests in the system is the sum of their stays."""
    if not run.drained or run.requests.rows == 0:
        return
    arrival, end = run.requests.numbers("arrival_s"), run.requests.numbers("end_s")
    changes = np.sort(np.concatenate([arrival, end]))
    inside = present_at(arrival, end, changes[:-1])
    yield from _where("fewer than no requests in the system at change", inside < 0)
    integral = float(np.sum(inside * np.diff(changes)))
    stays = float(np.sum(end - arrival))
    yield from _equal("integral of requests in the system", integral, stays, RELATIVE_TOLERANCE)


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
    yield from _where("kv_usage outside [0, 1]", ~((usage >= 0.0) & (usage <= 1.0)))
    for name in ("in_flight", "waiting", "running"):
        yield from _where(f"{name} below zero", run.pods.whole(name) < 0)
    hold_s = run.requests.numbers("hold_s")
    yield from _where("held for a negative time", hold_s < 0.0)


def proxies_count_what_is_in_flight(run: Evidence) -> Violations:
    """At each poll, a proxy's count of a pod is the number of attempts under way there.

    Attempts that start or end at the instant of the poll may count or not, as
    may those that start when the proxy restarts. It knows nothing of what it
    sent before that, nor of direct traffic.
    """
    placed, sampled = run.placements.texts("pod"), run.pods.texts("pod")
    routed = ~run.placements.texts("proxy").equal(DIRECT)
    start_s = run.placements.numbers("dispatch_s")
    end_s = np.nan_to_num(run.placements.numbers("end_s"), nan=np.inf)
    time_s, in_flight = run.pods.numbers("time_s"), run.pods.whole("in_flight")
    for since_s, until_s in pairwise((-np.inf, *run.facts.restarts_s, np.inf)):
        polled = (time_s >= since_s) & (time_s < until_s)
        counted = routed & (start_s > since_s + TOLERANCE_S)
        perhaps = routed & (start_s >= since_s - TOLERANCE_S)
        for pod in sampled.words:
            here, rows = placed.equal(pod), polled & sampled.equal(pod)
            before, after = time_s[rows] - TOLERANCE_S, time_s[rows] + TOLERANCE_S
            starts_s, ends_s = np.sort(start_s[here & counted]), np.sort(end_s[here & counted])
            least = starts_s.searchsorted(before) - ends_s.searchsorted(after, side="right")
            starts_s, ends_s = np.sort(start_s[here & perhaps]), np.sort(end_s[here & perhaps])
            most = starts_s.searchsorted(after, side="right") - ends_s.searchsorted(before)
            wrong = np.zeros(len(in_flight), dtype=bool)
            wrong[rows] = (in_flight[rows] < least) | (in_flight[rows] > most)
            yield from _where(f"in_flight of {pod} is not what is under way at poll", wrong)


def placements_belong_to_requests(run: Evidence) -> Violations:
    """One placement row per attempt, numbered from 1; the last one is the request's own."""
    request = run.placements.whole("request_id")
    number = run.placements.whole("attempt")
    yield from _where("no such request", (request < 0) | (request >= run.requests.rows))
    if run.placements.rows and not 0 <= request.min() <= request.max() < run.requests.rows:
        return
    rows = np.bincount(request, minlength=run.requests.rows)
    yield from _where("attempts are not its placement rows", rows != run.attempts)
    order = np.lexsort((number, request))
    first = np.searchsorted(request[order], request[order])
    due = np.arange(len(order)) - first + 1
    yield from _where("attempts not numbered 1, 2, ...", number[order] != due)
    dispatch_s = np.full(run.requests.rows, np.nan)
    dispatch_s[request[order]] = run.placements.numbers("dispatch_s")[order]
    given_s = run.requests.numbers("dispatch_s")
    same = (dispatch_s == given_s) | (np.isnan(dispatch_s) & np.isnan(given_s))
    yield from _where("dispatch is not that of the last attempt", ~same)


def answers_fit(run: Evidence) -> Violations:
    """Completed is 200, cancelled 499, failed an error, rejected one without a first token.

    What is in flight has no HTTP status, nor has what failed for want of a connection. A client
    that was refused in the end may have seen the first token of a try that broke.
    """
    http = run.requests.whole("http_status")
    first_token = ~np.isnan(run.requests.numbers("first_token_s"))
    completed, rejected = run.status.equal(Status.COMPLETED), run.status.equal(Status.REJECTED)
    left, in_flight = run.status.equal(Status.CANCELLED), run.status.equal(Status.IN_FLIGHT)
    failed = run.status.equal(Status.FAILED)
    once = run.requests.whole("tries") == 1
    unanswered = (http < 0) & _says(run.requests.texts("reason"), NO_CONNECTION)
    for fault, broken in (
        ("completed and not 200", completed & (http != HttpStatus.OK)),
        ("completed without a first token", completed & ~first_token),
        ("rejected after a first token", rejected & first_token & once),
        ("rejected and no error", rejected & (http < HttpStatus.BAD_REQUEST)),
        ("failed and no error", failed & ~unanswered & (http < HttpStatus.BAD_REQUEST)),
        ("cancelled and not 499", left & (http != HttpStatus.CLIENT_CLOSED_REQUEST)),
        ("in flight and answered", in_flight & (http >= 0)),
    ):
        yield from _where(fault, broken)


@dataclass(frozen=True)
class Invariant:
    """A rule: its number, what finds its violations, whether every run can afford it."""

    id: str
    violations: Callable[[Evidence], Violations]
    cheap: bool

    @property
    def statement(self) -> str:
        """The rule in one sentence."""
        return (self.violations.__doc__ or "").partition("\n")[0]


INVARIANTS: Final = (
    Invariant("INV-1", requests_are_conserved, cheap=True),
    Invariant("INV-2", tokens_are_conserved, cheap=True),
    Invariant("INV-4", life_runs_forward, cheap=True),
    Invariant("INV-11", littles_law, cheap=False),
    Invariant("INV-12", pods_are_busy_within_the_window, cheap=True),
    Invariant("INV-18", counters_stay_in_range, cheap=True),
    Invariant("INV-19", placements_belong_to_requests, cheap=False),
    Invariant("INV-20", pods_and_requests_count_the_same_tokens, cheap=True),
    Invariant("INV-21", proxies_count_what_is_in_flight, cheap=False),
    Invariant("INV-22", answers_fit, cheap=True),
)


def check_all(result: RunResult) -> list[str]:
    """What breaks any of the rules above; empty for a sound run."""
    return _check(result, INVARIANTS)


def check_cheap(result: RunResult) -> list[str]:
    """The same for the rules that cost next to nothing: a look at each column, no sorting."""
    return _check(result, tuple(rule for rule in INVARIANTS if rule.cheap))


def _check(result: RunResult, rules: tuple[Invariant, ...]) -> list[str]:
    run = Evidence(result)
    return [f"{rule.id}: {violation}" for rule in rules for violation in rule.violations(run)]


def _says(texts: Texts, words: tuple[str, ...]) -> Mask:
    """The rows that hold any of ``words``."""
    found: Mask = np.any([texts.equal(word) for word in words], axis=0)
    return found


def _where(what: str, broken: Mask) -> Violations:
    """One violation that names the first rows for which ``broken`` holds."""
    rows = np.flatnonzero(broken)
    if len(rows):
        examples = ", ".join(str(row) for row in rows[:EXAMPLES])
        yield f"{what}: {len(rows)} rows ({examples}{', ...' if len(rows) > EXAMPLES else ''})"


def _in_order(columns: Columns, names: tuple[str, ...], run_end_s: float) -> Violations:
    """Each known time is not before the known ones to its left, nor after the run.

    By at most the tolerance within which an arrival counts as at a boundary.
    """
    latest = np.zeros(columns.rows)
    for name in names:
        times_s = columns.numbers(name)
        yield from _where(f"{name} before what precedes it", times_s < latest - TOLERANCE_S)
        yield from _where(f"{name} after the end of the run", times_s > run_end_s + TOLERANCE_S)
        latest = np.fmax(latest, times_s)


def _equal(what: str, found: float, due: float, tolerance: float = 0.0) -> Violations:
    if abs(found - due) > tolerance * abs(due):
        yield f"{what}: {found}, by the tables {due}"


def _known_sum(values: Integers) -> int:
    return int(values[values >= 0].sum())
