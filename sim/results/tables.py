"""The tables of a run: one declaration per column says what it means and what it reads.

What is not known is null: a time that never came, tokens of an attempt that was
never admitted, everything about the attempt of a request that no pod ever got.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, Final, TypeAlias

import numpy as np

from sim.core.recorder import Recorder
from sim.core.request import Attempt, Request
from sim.results import arrow
from sim.results.arrow import FLOAT, INTEGER, TEXT, Array, Table
from sim.results.figures import to_ns

Getter: TypeAlias = Callable[[Any], Any]


@dataclass(frozen=True)
class Column:
    """A column: its name, its type, its unit (empty for names and numbers of things), its meaning.

    ``nullable`` says whether a row may lack the value. ``get`` reads it from what the row is
    about, ``of_attempt`` from the last attempt of that request.
    """

    name: str
    dtype: Any
    unit: str
    meaning: str
    nullable: bool
    get: Getter
    of_attempt: bool = False


def text(name: str, meaning: str, nullable: bool = False, get: Getter | None = None) -> Column:
    """A column of names; an empty one is null where there may be nulls."""
    return Column(name, TEXT, "", meaning, nullable, get or attrgetter(name))


def number(
    name: str, unit: str, meaning: str, nullable: bool = False, get: Getter | None = None
) -> Column:
    """A column of whole numbers; -1 is null where there may be nulls."""
    return Column(name, INTEGER, unit, meaning, nullable, get or attrgetter(name))


def time(name: str, meaning: str, nullable: bool = False, get: Getter | None = None) -> Column:
    """A column of times in seconds since the start of the run, or of how long something took."""
    return Column(name, FLOAT, "s", meaning, nullable, get or attrgetter(name))


def duration(name: str, meaning: str) -> Column:
    """A column of differences of times, without their float noise."""
    return time(name, meaning, nullable=True, get=lambda row: _to_ns(getattr(row, name)))


def of_attempt(column: Column) -> Column:
    """The same column of a request's last attempt."""
    return replace(column, of_attempt=True)


def when_admitted(name: str) -> Getter:
    """Read a count of an attempt that only an admitted one has."""
    value = attrgetter(name)
    return lambda attempt: -1 if attempt.scheduled_s is None else value(attempt)


def _to_ns(lasted_s: float | None) -> float | None:
    return None if lasted_s is None else float(to_ns(np.array(lasted_s)))


def _why(request: Request) -> str | None:
    """Why it was refused or cut off, else why it was moved."""
    last = request.attempts[-1] if request.attempts else _NO_ATTEMPT
    return request.reason or last.end_reason or last.reason


CACHED_TOKENS: Final = number(
    *("cached_tokens", "tokens", "prompt tokens in the cache when admitted", True),
    when_admitted("cached_tokens"),
)

REQUESTS: Final = (
    number("request_id", "", "row number, in order of arrival at the router"),
    text("session_id", "conversation the request belongs to", nullable=True),
    text("agent_id", "agent that sent it; null for open-loop and scripted traffic", nullable=True),
    text("workload", "workload that sent it", nullable=True),
    text("model", "model it asks for; null for any", nullable=True),
    number("turn", "", "place of the request in its session"),
    text("variant", "variant of the scenario; empty without variants"),
    number("seed", "", "seed of the run"),
    text(
        "rule",
        "rule of the router that took it, (default) for its default route; null without one",
        nullable=True,
    ),
    text("backend", "backend that was tried last", nullable=True),
    of_attempt(text("pod", "pod of the last attempt", nullable=True)),
    of_attempt(text("outcome", "how the policy came to its place, last attempt", nullable=True)),
    text("reason", "why it was refused or cut off, else why it was moved", True, _why),
    text("status", "completed, rejected, failed, cancelled or in_flight"),
    number("http_status", "", "what the client got; 499 when it left, null if it broke", True),
    number("tries", "tries", "how often its client sent it"),
    number(
        "attempts",
        "attempts",
        "how often it was dispatched to a pod",
        get=lambda request: len(request.attempts),
    ),
    time("arrival_s", "first arrival at the router"),
    time("hold_s", "time it was held in the proxy, all attempts together"),
    of_attempt(time("dispatch_s", "last attempt: left for the pod", nullable=True)),
    of_attempt(time("scheduled_s", "last attempt: first admitted by the engine", nullable=True)),
    of_attempt(time("first_token_s", "last attempt: first token", nullable=True)),
    time("end_s", "the request was over for its client", nullable=True),
    number("prompt_tokens", "tokens", "length of the prompt", get=attrgetter("prompt.tokens")),
    of_attempt(CACHED_TOKENS),
    of_attempt(
        number(
            *("computed_tokens", "tokens", "prompt tokens computed, recomputation apart", True),
            when_admitted("computed_tokens"),
        )
    ),
    # A pod says how much it has generated when an attempt is over.
    of_attempt(
        number(
            *("output_tokens", "tokens", "tokens generated; null while in flight", True),
            lambda attempt: -1 if attempt.end_s is None else attempt.emitted_tokens,
        )
    ),
    of_attempt(number("preemptions", "", "times the last attempt was preempted", nullable=True)),
)

ROW_OF_REQUESTS: Final = number(
    "request_id", "", "row of the requests table", get=attrgetter("request.request_id")
)

PLACEMENTS: Final = (
    ROW_OF_REQUESTS,
    number("attempt", "", "number of the attempt at its request, from 1", get=attrgetter("number")),
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
    number(
        "prompt_tokens", "tokens", "length of the prompt", get=attrgetter("request.prompt.tokens")
    ),
    CACHED_TOKENS,
    number("predicted_cached_tokens", "tokens", "what the policy expected of the cache", True),
    text("status", "how the attempt ended"),
    number("http_status", "", "what the pod answered; null when the connection broke", True),
    text(
        *("error", "why the pod refused it, broke it off or cut it short", True),
        attrgetter("end_reason"),
    ),
)

PODS: Final = (
    time("time_s", "time of the poll"),
    text("pod", "pod that was read"),
    number("in_flight", "requests", "dispatched and not over, as the proxy counts"),
    number("waiting", "requests", "wait queue as the pod last published it"),
    number("running", "requests", "running requests as the pod last published them"),
    replace(time("kv_usage", "KV blocks held by requests / all, as last published"), unit="ratio"),
)

FAILED_ATTEMPTS: Final = (
    ROW_OF_REQUESTS,
    number("try", "", "which of its client's tries, from 1", get=attrgetter("number")),
    text("backend", "backend of the rule that did not serve it"),
    text("pod", "pod it was dispatched to; null when there was none", nullable=True),
    time("start_s", "the rule came to this backend"),
    time("end_s", "and left it"),
    text("error", "what the backend's failure was to the router"),
    number("http_status", "", "what the pod answered, if anything", nullable=True),
)

RETRIES: Final = (
    ROW_OF_REQUESTS,
    text("workload", "workload that sent it", True, attrgetter("request.workload")),
    number("try", "", "which of its client's tries ended here, from 1", get=attrgetter("number")),
    text("model", "model that was asked for; null for any", nullable=True),
    time("sent_s", "arrival of this try at the router"),
    time("end_s", "answer, or the client gave this try up"),
    text("status", "how the try ended: rejected, failed or cancelled"),
    number("http_status", "", "what the client got; 499 when it left", nullable=True),
    text("reason", "why it was refused or broken off", nullable=True),
    time("retry_after_s", "Retry-After of the answer", nullable=True),
)

POOLS: Final = (
    text("pool", "name of the pool"),
    text("kind", "hold (an attempt for a member), skip (of a busy pool), swap or unload"),
    number("request_id", "", "row of the requests table; null for swaps, unloads", nullable=True),
    text("member", "member that is wanted, loaded or unloaded"),
    text("from_member", "of a swap: the first member that it evicts, or none", nullable=True),
    text(
        "cause",
        "of a swap: request, reclaim or initial; of an unload: idle, evicted or lost",
        nullable=True,
    ),
    time("start_s", "begin"),
    time("end_s", "end; null while it goes on", nullable=True),
    text("result", "of a hold granted, or why not; of a swap completed, or why not", True),
    duration("drain_s", "of a swap: waiting for the member before to be idle"),
    duration("unload_s", "of a swap: unloading it"),
    duration("load_s", "of a swap: loading, until the pool knows"),
)


@dataclass(frozen=True)
class Tables:
    """The tables of one run."""

    requests: Table
    placements: Table
    pods: Table
    failed_attempts: Table
    retries: Table
    pools: Table

    def emptied(self) -> "Tables":
        """The same tables without their rows."""
        return Tables(*(getattr(self, name).slice(0, 0) for name in DECLARED))


DECLARED: Final = {
    "requests": REQUESTS,
    "placements": PLACEMENTS,
    "pods": PODS,
    "failed_attempts": FAILED_ATTEMPTS,
    "retries": RETRIES,
    "pools": POOLS,
}
"""The columns of each table."""


def schema(columns: Sequence[Column]) -> list[arrow.Field]:
    """The schema of a declared table."""
    return [arrow.field(column.name, column.dtype, column.nullable) for column in columns]


def without_rows() -> Tables:
    """The declared tables, empty."""
    return Tables(*(arrow.empty(schema(columns)) for columns in DECLARED.values()))


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
    preemptions: int = -1


_NO_ATTEMPT: Final = _NoAttempt()


def recorded(recorder: Recorder, variant: str, seed: int, pods: Sequence[str]) -> Tables:
    """Return the tables of what ``recorder`` has collected, each in the order of its events."""
    requests = recorder.requests
    last = [request.attempts[-1] if request.attempts else _NO_ATTEMPT for request in requests]
    rows = len(requests)
    return Tables(
        filled(
            REQUESTS,
            requests,
            last,
            variant=arrow.texts(arrow.Texts(np.zeros(rows, dtype=np.int32), (variant,))),
            seed=arrow.integers(np.full(rows, seed, dtype=np.int64)),
        ),
        filled(PLACEMENTS, recorder.attempts),
        _polls(recorder, pods),
        filled(FAILED_ATTEMPTS, recorder.failed_attempts),
        filled(RETRIES, recorder.retries),
        filled(POOLS, recorder.pool_events),
    )


def filled(
    declared: Sequence[Column],
    rows: Sequence[object],
    last: Sequence[Attempt | _NoAttempt] = (),
    **given: Array,
) -> Table:
    """Return the declared table of ``rows``; columns of the last attempts read ``last``."""
    columns = [
        given[column.name]
        if column.name in given
        else _column(column, map(column.get, last if column.of_attempt else rows))
        for column in declared
    ]
    return arrow.table(schema(declared), columns)


def _column(column: Column, values: Iterable[Any]) -> Array:
    if column.dtype == TEXT:
        named = [value or None for value in values] if column.nullable else values
        return arrow.texts(arrow.encode(named))
    if column.dtype == FLOAT:
        return arrow.floats(np.array(list(values), dtype=np.float64))  # None becomes NaN
    if column.nullable:
        values = [-1 if value is None else value for value in values]
    return arrow.integers(np.fromiter(values, dtype=np.int64))


def _polls(recorder: Recorder, pods: Sequence[str]) -> Table:
    """One row per pod and poll, in order of polling."""
    named = arrow.Texts(np.array(recorder.sample_pod, dtype=np.int32), tuple(pods))
    given: Mapping[str, Array] = {
        "time_s": arrow.floats(np.array(recorder.sample_time_s, dtype=np.float64)),
        "pod": arrow.texts(named),
        "in_flight": arrow.integers(np.array(recorder.sample_in_flight, dtype=np.int64)),
        "waiting": arrow.integers(np.array(recorder.sample_waiting, dtype=np.int64)),
        "running": arrow.integers(np.array(recorder.sample_running, dtype=np.int64)),
        "kv_usage": arrow.floats(np.array(recorder.sample_kv_usage, dtype=np.float64)),
    }
    return filled(PODS, (), **given)
