"""The three tables of a run: one declaration per column, and how rows become columns.

The recorder keeps requests and attempts as objects; here they are read once,
column by column. What is not known is null: a time that never came, tokens of
an attempt that was never admitted, everything about the attempt of a request
that no pod ever got.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sim.request import Attempt, Request
from sim.results import arrow
from sim.results.arrow import FLOAT, INTEGER, TEXT, Array, Table


@dataclass(frozen=True)
class Column:
    """A column: its name, its type, its unit (empty for names and numbers of things), its meaning.

    ``nullable`` says whether a row may lack the value.
    """

    name: str
    dtype: Any
    unit: str
    meaning: str
    nullable: bool = False


def text(name: str, meaning: str, nullable: bool = False) -> Column:
    """A column of names."""
    return Column(name, TEXT, "", meaning, nullable)


def number(name: str, unit: str, meaning: str, nullable: bool = False) -> Column:
    """A column of whole numbers."""
    return Column(name, INTEGER, unit, meaning, nullable)


def time(name: str, meaning: str, nullable: bool = False) -> Column:
    """A column of times in seconds since the start of the run."""
    return Column(name, FLOAT, "s", meaning, nullable)


REQUESTS: Final = (
    number("request_id", "", "row number, in order of arrival at the router"),
    text("session_id", "conversation the request belongs to", nullable=True),
    text("agent_id", "agent that sent it; null for open-loop and scripted traffic", nullable=True),
    number("turn", "", "place of the request in its session"),
    text("variant", "variant of the scenario; empty without variants"),
    number("seed", "", "seed of the run"),
    text("backend", "backend that served or refused it", nullable=True),
    text("pod", "pod of the last attempt", nullable=True),
    text("outcome", "how the policy came to its place, last attempt", nullable=True),
    text("reason", "why it was refused or cut off, else why it was moved", nullable=True),
    text("status", "completed, rejected, failed, cancelled or in_flight"),
    number("http_status", "", "what the client got; 499 when it left", nullable=True),
    number("attempts", "attempts", "how often it was dispatched to a pod"),
    time("arrival_s", "arrival at the router"),
    Column("hold_s", FLOAT, "s", "time it was held in the proxy"),
    time("dispatch_s", "last attempt: left for the pod", nullable=True),
    time("scheduled_s", "last attempt: first admitted by the engine", nullable=True),
    time("first_token_s", "last attempt: first token", nullable=True),
    time("end_s", "the request was over for its client", nullable=True),
    number("prompt_tokens", "tokens", "length of the prompt"),
    number("cached_tokens", "tokens", "prompt tokens in the cache when admitted", nullable=True),
    number("computed_tokens", "tokens", "prompt tokens computed, recomputation apart", True),
    number("output_tokens", "tokens", "tokens generated; null while in flight", nullable=True),
    number("preemptions", "", "times the last attempt was preempted", nullable=True),
)

PLACEMENTS: Final = (
    number("request_id", "", "row of the requests table"),
    number("attempt", "", "number of the attempt at its request, from 1"),
    text("proxy", "proxy that placed it"),
    text("backend", "backend it was placed in"),
    text("pod", "pod it was placed on"),
    text("outcome", "new, sticky, home, spill, migrated, unkeyed or placed"),
    text("reason", "why it is not where its session was", nullable=True),
    time("decided_s", "decision of the policy"),
    time("dispatch_s", "left for the pod"),
    time("scheduled_s", "first admitted by the engine", nullable=True),
    time("first_token_s", "first token", nullable=True),
    time("end_s", "end of the attempt on the pod", nullable=True),
    number("prompt_tokens", "tokens", "length of the prompt"),
    number("cached_tokens", "tokens", "prompt tokens in the cache when admitted", nullable=True),
    number("predicted_cached_tokens", "tokens", "what the policy expected of the cache", True),
    text("status", "how the attempt ended"),
)

PODS: Final = (
    time("time_s", "time of the poll"),
    text("pod", "pod that was read"),
    number("in_flight", "requests", "dispatched and not over, as the proxy counts"),
    number("waiting", "requests", "wait queue as the pod last published it"),
    number("running", "requests", "running requests as the pod last published them"),
    Column("kv_usage", FLOAT, "ratio", "KV blocks held by requests / all, as last published"),
)


@dataclass(frozen=True)
class Tables:
    """The tables of one run."""

    requests: Table
    placements: Table
    pods: Table


@dataclass(frozen=True, slots=True)
class _NoAttempt:
    """What the columns of an attempt say of a request that never got one."""

    pod: None = None
    outcome: None = None
    reason: None = None
    end_reason: None = None
    dispatch_s: None = None
    scheduled_s: None = None
    first_token_s: None = None
    end_s: None = None
    cached_tokens: int = -1
    computed_tokens: int = -1
    emitted_tokens: int = -1
    preemptions: int = -1


_NO_ATTEMPT: Final = _NoAttempt()


def requests_table(requests: Sequence[Request], variant: str, seed: int) -> Table:
    """One row per user request, in order of arrival."""
    last: list[Attempt | _NoAttempt] = [
        request.attempts[-1] if request.attempts else _NO_ATTEMPT for request in requests
    ]
    columns = {
        "request_id": _whole([request.request_id for request in requests]),
        "session_id": _texts([request.session_id or None for request in requests]),
        "agent_id": _texts([request.agent_id or None for request in requests]),
        "turn": _whole([request.turn for request in requests]),
        "variant": _constant_text(variant, len(requests)),
        "seed": arrow.integers(np.full(len(requests), seed, dtype=np.int64)),
        "backend": _texts([request.backend or None for request in requests]),
        "pod": _texts([attempt.pod for attempt in last]),
        "outcome": _texts([attempt.outcome for attempt in last]),
        "reason": _texts(
            [
                request.reason or attempt.end_reason or attempt.reason
                for request, attempt in zip(requests, last)
            ]
        ),
        "status": _texts([request.status for request in requests]),
        "http_status": _whole_or_null([request.http_status for request in requests]),
        "attempts": _whole([len(request.attempts) for request in requests]),
        "arrival_s": _times([request.arrival_s for request in requests]),
        "hold_s": _times([request.hold_s for request in requests]),
        "dispatch_s": _times([attempt.dispatch_s for attempt in last]),
        "scheduled_s": _times([attempt.scheduled_s for attempt in last]),
        "first_token_s": _times([attempt.first_token_s for attempt in last]),
        "end_s": _times([request.end_s for request in requests]),
        "prompt_tokens": _whole([request.prompt.tokens for request in requests]),
        "cached_tokens": _whole(
            [-1 if attempt.scheduled_s is None else attempt.cached_tokens for attempt in last]
        ),
        "computed_tokens": _whole(
            [-1 if attempt.scheduled_s is None else attempt.computed_tokens for attempt in last]
        ),
        # A pod says how much it has generated when an attempt is over.
        "output_tokens": _whole(
            [-1 if attempt.end_s is None else attempt.emitted_tokens for attempt in last]
        ),
        "preemptions": _whole([attempt.preemptions for attempt in last]),
    }
    return _table(REQUESTS, columns)


def placements_table(attempts: Sequence[Attempt]) -> Table:
    """One row per attempt, in order of dispatch."""
    columns = {
        "request_id": _whole([attempt.request.request_id for attempt in attempts]),
        "attempt": _whole([attempt.number for attempt in attempts]),
        "proxy": _texts([attempt.proxy for attempt in attempts]),
        "backend": _texts([attempt.backend for attempt in attempts]),
        "pod": _texts([attempt.pod for attempt in attempts]),
        "outcome": _texts([attempt.outcome for attempt in attempts]),
        "reason": _texts([attempt.reason for attempt in attempts]),
        "decided_s": _times([attempt.decided_s for attempt in attempts]),
        "dispatch_s": _times([attempt.dispatch_s for attempt in attempts]),
        "scheduled_s": _times([attempt.scheduled_s for attempt in attempts]),
        "first_token_s": _times([attempt.first_token_s for attempt in attempts]),
        "end_s": _times([attempt.end_s for attempt in attempts]),
        "prompt_tokens": _whole([attempt.request.prompt.tokens for attempt in attempts]),
        "cached_tokens": _whole(
            [-1 if attempt.scheduled_s is None else attempt.cached_tokens for attempt in attempts]
        ),
        "predicted_cached_tokens": _whole_or_null(
            [attempt.predicted_cached_tokens for attempt in attempts]
        ),
        "status": _texts([attempt.status for attempt in attempts]),
    }
    return _table(PLACEMENTS, columns)


@dataclass(frozen=True)
class Polls:
    """What the metrics polls have read, one entry per poll and pod; ``pod`` indexes the pods."""

    time_s: Sequence[float]
    pod: Sequence[int]
    in_flight: Sequence[int]
    waiting: Sequence[int]
    running: Sequence[int]
    kv_usage: Sequence[float]


def pods_table(polls: Polls, pods: Sequence[str]) -> Table:
    """One row per pod and poll, in order of polling."""
    columns = {
        "time_s": _times(polls.time_s),
        "pod": arrow.texts(arrow.Texts(np.array(polls.pod, dtype=np.int32), tuple(pods))),
        "in_flight": _whole(polls.in_flight),
        "waiting": _whole(polls.waiting),
        "running": _whole(polls.running),
        "kv_usage": _times(polls.kv_usage),
    }
    return _table(PODS, columns)


def fields(columns: Sequence[Column]) -> list[arrow.Field]:
    """The schema of a declared table."""
    return [arrow.field(column.name, column.dtype, column.nullable) for column in columns]


def _table(declared: Sequence[Column], columns: dict[str, Array]) -> Table:
    return arrow.table(fields(declared), [columns[column.name] for column in declared])


def _whole(values: Sequence[int]) -> Array:
    return arrow.integers(np.array(values, dtype=np.int64))


def _whole_or_null(values: Sequence[int | None]) -> Array:
    return _whole([-1 if value is None else value for value in values])


def _times(values: Sequence[float | None]) -> Array:
    return arrow.floats(np.array(values, dtype=np.float64))  # None becomes NaN


def _texts(values: Sequence[str | None]) -> Array:
    return arrow.texts(arrow.encode(values))


def _constant_text(value: str, rows: int) -> Array:
    return arrow.texts(arrow.Texts(np.zeros(rows, dtype=np.int32), (value,)))
