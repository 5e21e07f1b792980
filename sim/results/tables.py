"""The tables of a run: one declaration per column (``sim.results.rows`` fills them).

What is not known is null: a time that never came, tokens of an attempt that was
never admitted, everything about the attempt of a request that no pod ever got.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from sim.results import arrow
from sim.results.arrow import FLOAT, INTEGER, TEXT, Table


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
    text("pod", "pod of the last attempt", nullable=True),
    text("outcome", "how the policy came to its place, last attempt", nullable=True),
    text("reason", "why it was refused or cut off, else why it was moved", nullable=True),
    text("status", "completed, rejected, failed, cancelled or in_flight"),
    number("http_status", "", "what the client got; 499 when it left, null if it broke", True),
    number("tries", "tries", "how often its client sent it"),
    number("attempts", "attempts", "how often it was dispatched to a pod"),
    time("arrival_s", "first arrival at the router"),
    Column("hold_s", FLOAT, "s", "time it was held in the proxy, all attempts together"),
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
    number("http_status", "", "what the pod answered; null when the connection broke", True),
    text("error", "why the pod refused it, broke it off or cut it short", nullable=True),
)

PODS: Final = (
    time("time_s", "time of the poll"),
    text("pod", "pod that was read"),
    number("in_flight", "requests", "dispatched and not over, as the proxy counts"),
    number("waiting", "requests", "wait queue as the pod last published it"),
    number("running", "requests", "running requests as the pod last published them"),
    Column("kv_usage", FLOAT, "ratio", "KV blocks held by requests / all, as last published"),
)


FAILED_ATTEMPTS: Final = (
    number("request_id", "", "row of the requests table"),
    number("try", "", "which of its client's tries, from 1"),
    text("backend", "backend of the rule that did not serve it"),
    text("pod", "pod it was dispatched to; null when there was none", nullable=True),
    time("start_s", "the rule came to this backend"),
    time("end_s", "and left it"),
    text("error", "what the backend's failure was to the router"),
    number("http_status", "", "what the pod answered, if anything", nullable=True),
)

RETRIES: Final = (
    number("request_id", "", "row of the requests table"),
    text("workload", "workload that sent it", nullable=True),
    number("try", "", "which of its client's tries ended here, from 1"),
    text("model", "model that was asked for; null for any", nullable=True),
    time("sent_s", "arrival of this try at the router"),
    time("end_s", "answer, or the client gave this try up"),
    text("status", "how the try ended: rejected, failed or cancelled"),
    number("http_status", "", "what the client got; 499 when it left", nullable=True),
    text("reason", "why it was refused or broken off", nullable=True),
    Column("retry_after_s", FLOAT, "s", "Retry-After of the answer", nullable=True),
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
    Column("drain_s", FLOAT, "s", "of a swap: waiting for the member before to be idle", True),
    Column("unload_s", FLOAT, "s", "of a swap: unloading it", True),
    Column("load_s", FLOAT, "s", "of a swap: loading, until the pool knows", True),
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
