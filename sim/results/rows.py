"""How what the actors leave behind becomes the tables of a run.

The recorder keeps requests, attempts and events as objects; here they are read
once, column by column.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from sim.core.ports import PoolEvent
from sim.core.request import Attempt, FailedAttempt, Request, Retry
from sim.results import arrow
from sim.results.arrow import Array, Table
from sim.results.figures import to_ns
from sim.results.tables import (
    FAILED_ATTEMPTS,
    PLACEMENTS,
    PODS,
    POOLS,
    REQUESTS,
    RETRIES,
    Column,
    schema,
)


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
        "workload": _texts([request.workload or None for request in requests]),
        "model": _texts([request.model or None for request in requests]),
        "turn": _whole([request.turn for request in requests]),
        "variant": _constant_text(variant, len(requests)),
        "seed": arrow.integers(np.full(len(requests), seed, dtype=np.int64)),
        "rule": _texts([request.rule or None for request in requests]),
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
        "tries": _whole([request.tries for request in requests]),
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
        "http_status": _whole_or_null([attempt.http_status for attempt in attempts]),
        "error": _texts([attempt.end_reason for attempt in attempts]),
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


def failed_attempts_table(failures: Sequence[FailedAttempt]) -> Table:
    """One row per backend that a rule tried in vain, in the order in which they failed."""
    columns = {
        "request_id": _whole([failure.request.request_id for failure in failures]),
        "try": _whole([failure.number for failure in failures]),
        "backend": _texts([failure.backend for failure in failures]),
        "pod": _texts([failure.pod for failure in failures]),
        "start_s": _times([failure.start_s for failure in failures]),
        "end_s": _times([failure.end_s for failure in failures]),
        "error": _texts([failure.error for failure in failures]),
        "http_status": _whole_or_null([failure.http_status for failure in failures]),
    }
    return _table(FAILED_ATTEMPTS, columns)


def retries_table(retries: Sequence[Retry]) -> Table:
    """One row per answer after which the client tried again, in order of the answers."""
    columns = {
        "request_id": _whole([retry.request.request_id for retry in retries]),
        "workload": _texts([retry.request.workload or None for retry in retries]),
        "try": _whole([retry.number for retry in retries]),
        "model": _texts([retry.model or None for retry in retries]),
        "sent_s": _times([retry.sent_s for retry in retries]),
        "end_s": _times([retry.end_s for retry in retries]),
        "status": _texts([retry.status for retry in retries]),
        "http_status": _whole_or_null([retry.http_status for retry in retries]),
        "reason": _texts([retry.reason for retry in retries]),
        "retry_after_s": _times([retry.retry_after_s for retry in retries]),
    }
    return _table(RETRIES, columns)


def pools_table(events: Sequence[PoolEvent]) -> Table:
    """One row per hold, skip, swap and unload, in order of their beginnings."""
    columns = {
        "pool": _texts([event.pool for event in events]),
        "kind": _texts([event.kind for event in events]),
        "request_id": _whole_or_null([event.request_id for event in events]),
        "member": _texts([event.member for event in events]),
        "from_member": _texts([event.from_member for event in events]),
        "cause": _texts([event.cause for event in events]),
        "start_s": _times([event.start_s for event in events]),
        "end_s": _times([event.end_s for event in events]),
        "result": _texts([event.result for event in events]),
        "drain_s": _durations([event.drain_s for event in events]),
        "unload_s": _durations([event.unload_s for event in events]),
        "load_s": _durations([event.load_s for event in events]),
    }
    return _table(POOLS, columns)


def _table(declared: Sequence[Column], columns: dict[str, Array]) -> Table:
    return arrow.table(schema(declared), [columns[column.name] for column in declared])


def _whole(values: Sequence[int]) -> Array:
    return arrow.integers(np.array(values, dtype=np.int64))


def _whole_or_null(values: Sequence[int | None]) -> Array:
    return _whole([-1 if value is None else value for value in values])


def _times(values: Sequence[float | None]) -> Array:
    return arrow.floats(np.array(values, dtype=np.float64))  # None becomes NaN


def _durations(values: Sequence[float | None]) -> Array:
    return arrow.floats(to_ns(np.array(values, dtype=np.float64)))


def _texts(values: Sequence[str | None]) -> Array:
    return arrow.texts(arrow.encode(values))


def _constant_text(value: str, rows: int) -> Array:
    return arrow.texts(arrow.Texts(np.zeros(rows, dtype=np.int32), (value,)))
