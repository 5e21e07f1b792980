"""The parts of every request of a run, from its tables and, if there is one, its repetition."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final

import numpy as np

from sim.core.stats import Floats
from sim.explain.instrumentation import Instrumentation, RequestTrace
from sim.explain.kinds import NAMES
from sim.results import arrow
from sim.results.result import RunResult

WAITS: Final = ("queue_places_s", "queue_tokens_s", "queue_kv_s")
"""The parts that ``RequestTrace.waited_s`` tells apart."""

SHARES: Final = ("decodes_s", "other_prefills_s", "other_ranks_s")
"""The parts of ``RequestTrace.shares_s``."""

COLUMNS: Final = (
    *("request_id", "tries", "arrival_s", "dispatch_s", "scheduled_s", "first_token_s", "end_s"),
)
ROUNDING_S: Final = 1e-9
"""What sums of floats may miss."""

# How far a request has come.
SERVED: Final = "served"
BACKOFF: Final = "waiting for its next try"
HELD: Final = "in the proxy"
QUEUED: Final = "in the queue of its pod"
COMPUTED: Final = "in prefill"


@dataclass
class Split:
    """The parts of one request up to ``at_s``: every call of ``until`` adds what follows."""

    at_s: float
    end_s: float
    parts: dict[str, float] = field(default_factory=lambda: dict.fromkeys(NAMES, 0.0))

    def until(self, name: str, time_s: float) -> float:
        """All up to ``time_s`` is ``name``, which may be nothing; returns how much it was."""
        time_s = min(max(time_s, self.at_s), self.end_s)
        lasted_s = time_s - self.at_s
        self.parts[name] += lasted_s
        self.at_s = time_s
        return lasted_s

    def move(self, name: str, to: str, seconds: float) -> None:
        """So much of ``name``, at most all of it, is ``to``."""
        seconds = min(max(seconds, 0.0), self.parts[name])
        self.parts[name] -= seconds
        self.parts[to] += seconds


@dataclass(frozen=True)
class Breakdown:
    """The parts of all requests of a run, in the order of the requests table.

    ``parts_s`` are seconds by the names of ``sim.explain.kinds``, and add up to
    ``total_s``: the TTFT, or for a request without a first token (``ttft_s`` is NaN)
    the time up to its end or that of the run, and ``states`` say how far it came.
    """

    arrival_s: Floats
    parts_s: dict[str, Floats]
    total_s: Floats
    ttft_s: Floats
    states: tuple[str, ...]


@dataclass(frozen=True)
class Repetition:
    """A run that was observed. ``sent_s`` is when the last try of each request was sent."""

    result: RunResult
    instrumentation: Instrumentation
    sent_s: list[float]


def breakdown(result: RunResult, repetition: Repetition | None) -> Breakdown:
    """Divide the time of every request."""
    tries = _Tries(result, None if repetition is None else repetition.sent_s)
    traces = {} if repetition is None else repetition.instrumentation.traces
    splits, states = [], []
    for row in arrow.records(result.tables.requests, COLUMNS):
        split = Split(row["arrival_s"], _end_s(row, result))
        state = _divide(split, row, tries, traces.get(row["request_id"]))
        splits.append(split)
        states.append(state)
    rows = [list(split.parts.values()) for split in splits]
    table = np.array(rows, dtype=np.float64).reshape(len(rows), len(NAMES))
    first_s = arrow.numbers(result.tables.requests, "first_token_s")
    arrival_s = arrow.numbers(result.tables.requests, "arrival_s")
    return Breakdown(
        arrival_s=arrival_s,
        parts_s={name: table[:, column] for column, name in enumerate(NAMES)},
        total_s=np.array([split.end_s for split in splits], dtype=np.float64) - arrival_s,
        ttft_s=first_s - arrival_s,
        states=tuple(states),
    )


def _end_s(row: dict[str, Any], result: RunResult) -> float:
    """First token, else the end of the request, else that of the run."""
    known = (time_s for time_s in (row["first_token_s"], row["end_s"]) if time_s is not None)
    return float(next(known, result.facts.end_s))


def _divide(split: Split, row: dict[str, Any], tries: "_Tries", trace: RequestTrace | None) -> str:
    """Fill in the parts of one request; returns its state."""
    arrival_s = split.at_s
    sent_s, earlier_s, failed_s = tries.of(row)
    split.until("backoff_s", sent_s)
    split.move("backoff_s", "earlier_tries_s", earlier_s)
    if sent_s == inf:
        return BACKOFF
    split.until("failed_backends_s", failed_s)
    if not _is_sent(row, max(arrival_s, sent_s, failed_s), trace):
        split.until("hold_s", inf)
        return HELD
    split.until("hold_s", row["dispatch_s"])
    if trace is None:
        return _by_columns(split, row)
    return _on_pod(split, row, trace)


def _is_sent(row: dict[str, Any], since_s: float, trace: RequestTrace | None) -> bool:
    """Whether its last attempt is one since then, and not over while the request goes on."""
    if row["first_token_s"] is not None:
        return True
    if row["dispatch_s"] is None or row["dispatch_s"] < since_s:
        return False
    over_s = None if trace is None else trace.attempt.end_s
    return over_s is None or (row["end_s"] is not None and over_s >= row["end_s"])


def _by_columns(split: Split, row: dict[str, Any]) -> str:
    """Queue and the rest, as the tables have them; the front end counts as queue."""
    scheduled_s = row["scheduled_s"]
    split.until("queue_unsplit_s", inf if scheduled_s is None else scheduled_s)
    split.until("service_unsplit_s", inf)
    if row["first_token_s"] is not None:
        return SERVED
    return QUEUED if scheduled_s is None else COMPUTED


def _on_pod(split: Split, row: dict[str, Any], trace: RequestTrace) -> str:
    """From the dispatch to the first token, as the pod was watched."""
    split.until("front_end_s", trace.ready_s)
    if trace.boundary_s is not None:
        split.until("step_in_flight_s", trace.boundary_s)
    scheduled_s = row["scheduled_s"]
    if scheduled_s is None:
        split.until("queue_unsplit_s", inf)
        return QUEUED
    split.until("queue_unsplit_s", scheduled_s)
    for name, waited_s in zip(WAITS, trace.waited_s):
        split.move("queue_unsplit_s", name, waited_s)
    if split.parts["queue_unsplit_s"] <= ROUNDING_S:
        longest = max(WAITS, key=lambda name: split.parts[name])
        split.move("queue_unsplit_s", longest, inf)
    split.until(
        "planned_ahead_s" if trace.ahead else "no_share_s",
        inf if trace.first_s is None else trace.first_s,
    )
    split.until("preempted_s", trace.restart_s)
    served_s = split.until("service_unsplit_s", inf)
    if row["first_token_s"] is None:
        return COMPUTED
    idle_s = served_s - trace.stepped_s
    split.move("service_unsplit_s", "no_share_s", idle_s if idle_s > ROUNDING_S else 0.0)
    if trace.priced and trace.first_s is not None:
        for name, share_s in zip(SHARES, trace.shares_s):
            split.move("service_unsplit_s", name, share_s)
        split.move("service_unsplit_s", "prefill_s", inf)
    return SERVED


class _Tries:
    """The tries of requests that had several, and what their backends did before the last one."""

    def __init__(self, result: RunResult, sent_s: Sequence[float] | None) -> None:
        tables = result.tables
        self._sent_s = sent_s
        self._before: defaultdict[int, list[tuple[float, float]]] = defaultdict(list)
        self._failed: defaultdict[tuple[int, int], list[tuple[float, float]]] = defaultdict(list)
        self._held: defaultdict[int, list[float]] = defaultdict(list)
        for row in arrow.records(tables.retries, ("request_id", "sent_s", "end_s")):
            self._before[row["request_id"]].append((row["sent_s"], row["end_s"]))
        columns = ("request_id", "try", "start_s", "end_s")
        for row in arrow.records(tables.failed_attempts, columns):
            key = row["request_id"], row["try"]
            self._failed[key].append((row["start_s"], row["end_s"]))
        if sent_s is None and self._before:
            for row in arrow.records(tables.pools, ("request_id", "kind", "start_s")):
                if row["kind"] == "hold":
                    self._held[row["request_id"]].append(row["start_s"])

    def of(self, row: dict[str, Any]) -> tuple[float, float, float]:
        """The try that was served, or is the last: when it was sent, how long those before it took
        without the waits between them, when the last backend failed in it.

        The first is infinite for a client that waits for its next try.
        """
        request = row["request_id"]
        before = self._before.get(request, [])
        if not before:
            sent_s, number = row["arrival_s"], 1
        elif len(before) == row["tries"] and row["first_token_s"] is None:
            return inf, sum(end_s - sent_s for sent_s, end_s in before), -inf
        else:
            sents_s = [sent_s for sent_s, _ in before]
            if len(before) < row["tries"]:
                sents_s.append(self._last_sent_s(row, before[-1][1]))
            due_s = inf if row["first_token_s"] is None else row["dispatch_s"]
            number = max(sum(sent_s <= due_s for sent_s in sents_s), 1)
            sent_s = sents_s[number - 1]
        earlier_s = sum(end_s - sent_s for sent_s, end_s in before[: number - 1])
        failed = self._failed.get((request, number), ())
        return sent_s, earlier_s, max((end_s for _, end_s in failed), default=-inf)

    def _last_sent_s(self, row: dict[str, Any], after_s: float) -> float:
        """When its last try was sent; without a repetition the first that is known of it."""
        request: int = row["request_id"]
        if self._sent_s is not None:
            return self._sent_s[request]
        failed = self._failed.get((request, row["tries"]), ())
        known_s: list[float] = [start_s for start_s, _ in failed] + self._held.get(request, [])
        known_s += [time_s for time_s in (row["dispatch_s"], row["end_s"]) if time_s is not None]
        return float(min((time_s for time_s in known_s if time_s >= after_s), default=after_s))
