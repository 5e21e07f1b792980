"""What travels through the cluster: a user's request and the attempts to serve it.

Both are records that the actors fill in as things happen; the recorder keeps
them and turns them into columns when the run is over. A time that has not
come yet is ``None``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf, nextafter
from typing import Any, Final, NamedTuple, Protocol

from sim.core.content import Node, Prompt


class Status:
    """How a request or an attempt ended."""

    COMPLETED: Final = "completed"
    REJECTED: Final = "rejected"  # answered without a first token
    FAILED: Final = "failed"  # broke off
    CANCELLED: Final = "cancelled"  # the client left
    IN_FLIGHT: Final = "in_flight"  # the run ended first


DIRECT: Final = "direct"
"""What stands for the proxy of an attempt that reached its pod beside the router."""


class HttpStatus:
    """What the client of a request gets to see."""

    OK: Final = 200
    BAD_REQUEST: Final = 400
    CLIENT_CLOSED_REQUEST: Final = 499  # nginx's code for a client that did not wait
    TOO_MANY_REQUESTS: Final = 429
    SERVER_ERROR: Final = 500
    BAD_GATEWAY: Final = 502
    UNAVAILABLE: Final = 503


class Outcome:
    """How a policy came to place a request where it did."""

    NEW: Final = "new"
    STICKY: Final = "sticky"
    HOME: Final = "home"
    SPILL: Final = "spill"
    MIGRATED: Final = "migrated"
    UNKEYED: Final = "unkeyed"
    PLACED: Final = "placed"  # policies without memory or home


class Reason:
    """Why a request is not where its session was, or what a pod did to it."""

    BOUND: Final = "bound"
    WAITING: Final = "waiting"
    KV_FULL: Final = "kv_full"
    NOT_READY: Final = "not_ready"
    PROMPT_TOO_LONG: Final = "prompt_too_long"  # refused by the pod: more than it can hold
    CONTEXT_EXCEEDED: Final = "context_exceeded"  # broken off by the pod: its shared KV is full
    QUEUE_FULL: Final = "queue_full"  # refused by the pod: it has as many as it may
    LENGTH: Final = "length"  # cut off by the pod: outgrew its KV cache or the model limit
    BACKEND_ERROR: Final = "backend_error"  # answered so by a scripted fault
    CONNECTION_REFUSED: Final = "connection_refused"  # there is no process
    CONNECTION_LOST: Final = "connection_lost"  # broken off: the process has ended
    TIMEOUT: Final = "timeout"  # given up by the proxy: no first token in time


class PoolError:
    """Why a pool does not let an attempt through to its member."""

    INCUMBENT_BUSY: Final = "incumbent_busy"
    HOLD_BUDGET: Final = "hold_budget_exceeded"
    SWAP_DEADLINE: Final = "swap_deadline_exceeded"
    SWAP_FAILED: Final = "swap_failed"
    QUEUE_FULL: Final = "pool_queue_full"
    CONCURRENCY_LIMIT: Final = "concurrency_limit"  # 429: an answer, nothing else is tried
    PROXY_RESTART: Final = "proxy_restart"


class RouterError:
    """Why a backend of a rule is passed over without a pod or a pool having refused."""

    NO_READY_POD: Final = "no_ready_pod"
    QUARANTINED: Final = "quarantined"


class Answer:
    """What the router calls the errors that it answers itself."""

    POOL_ACTIVATION_TIMEOUT: Final = "pool_activation_timeout"
    POOL_INCUMBENT_BUSY: Final = "pool_incumbent_busy"
    POOL_QUEUE_FULL: Final = "pool_queue_full"
    FAIL_CLOSED: Final = "fail_closed_runtime"
    ALL_BACKENDS_FAILED: Final = "all_backends_failed"
    NO_ROUTE: Final = "no_route"
    CONCURRENCY_LIMIT: Final = "concurrency_limit"
    BUDGET_EXCEEDED: Final = "budget_exceeded"
    CLIENT_CLOSED: Final = "client_closed"
    PROXY_RESTART: Final = "proxy_restart"


class RequestView(NamedTuple):
    """What a router can know of a request; the output length is not part of it."""

    session_key: int | None
    model: str
    headers: tuple[tuple[str, str], ...]
    prompt_tokens: int
    max_output_tokens: int | None
    prompt: Prompt


@dataclass(frozen=True, slots=True)
class Wait:
    """What the client of a request waited for before it sent it: then ``think_s`` passed.

    The requests that it came ``after`` had to be completed (or, with ``or_cancelled``, left by
    their clients), those that it came ``behind`` had to be over in any way. Without ``think_s``
    it waited for no other request.
    """

    after: "tuple[Request, ...]" = ()
    behind: "tuple[Request, ...]" = ()
    think_s: float | None = None
    or_cancelled: bool = False


NO_WAIT: Final = Wait()


def think_between_s(end_s: float, due_s: float) -> float | None:
    """Return the think time that leads from ``end_s`` to ``due_s`` to the bit; None without one.

    Think times are drawn in whole microseconds, so that one is tried first; else it is a
    float next to the difference, whose rounding is a few of them off at most.
    """
    drawn_s = round((due_s - end_s) * 1e6) / 1e6
    if end_s + drawn_s == due_s:
        return drawn_s
    below = above = due_s - end_s
    for _ in range(8):
        for candidate_s in (below, above):
            if candidate_s >= 0.0 and end_s + candidate_s == due_s:
                return candidate_s
        below, above = nextafter(below, -inf), nextafter(above, inf)
    return None


@dataclass(slots=True, eq=False)
class Request:
    """A user's request.

    ``answer`` is the node on which the generated tokens lie: the prompt's own
    node when the next turn sends them back, else a leaf that branches off at
    ``prompt.tokens``. ``on_end`` tells the client that the request is over.
    Of two requests the one of the lower ``priority`` is the more urgent.
    """

    session_id: str
    agent_id: str
    turn: int
    session_key: int | None
    prompt: Prompt
    answer: Node
    output_tokens: int
    on_end: "Callable[[Request], None] | None" = None
    workload: str = ""
    model: str = ""
    headers: tuple[tuple[str, str], ...] = ()
    max_output_tokens: int | None = None
    closes_session: bool = False
    priority: int = 0
    num_ctx: int | None = None  # context that the model is to be loaded with; for Ollama
    patience_s: float = inf  # when its user leaves, from its arrival; the workload's may be shorter
    due_s: float | None = None  # when its client sent it, if it then waited for the end of a step
    wait: Wait = NO_WAIT
    # filled in by the proxy; a client that tries again sends the same request
    request_id: int = -1
    tries: int = 0
    rule: str = ""
    backend: str = ""
    arrival_s: float = 0.0
    sent_s: float = 0.0  # arrival of the present try
    hold_s: float = 0.0
    end_s: float | None = None
    status: str = Status.IN_FLIGHT
    http_status: int | None = None
    reason: str | None = None
    retry_after_s: float | None = None
    routing: Any = None  # the proxy's notes on the present try
    attempts: "list[Attempt]" = field(default_factory=list)
    _view: RequestView | None = None

    def view(self) -> RequestView:
        """The part of the request that a placement policy may see."""
        if self._view is None:
            self._view = RequestView(
                self.session_key,
                self.model,
                self.headers,
                self.prompt.tokens,
                self.max_output_tokens,
                self.prompt,
            )
        return self._view

    def try_again(self, model: str) -> "Retry":
        """Be under way again, for ``model``; returns what the try that has just ended came to."""
        assert self.end_s is not None
        ended = Retry(
            self,
            self.tries,
            self.model,
            self.sent_s,
            self.end_s,
            self.status,
            self.http_status,
            self.reason,
            self.retry_after_s,
        )
        if model != self.model:
            self.model = model
            self._view = None
        self.status = Status.IN_FLIGHT
        self.end_s = self.http_status = self.reason = self.retry_after_s = None
        return ended


class AttemptListener(Protocol):
    """Who dispatched an attempt and wants to know what became of it (a proxy)."""

    def first_token(self, attempt: "Attempt") -> None:
        """The first token of the attempt has appeared."""

    def ended(self, attempt: "Attempt") -> None:
        """The attempt is over: ``attempt.status`` and ``attempt.end_s`` say how and when."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One try of a backend to serve a request: one row of the placements table."""

    request: Request
    number: int
    proxy: str
    backend: str
    pod_index: int
    pod: str
    outcome: str
    reason: str | None
    decided_s: float
    dispatch_s: float
    listener: AttemptListener
    predicted_cached_tokens: int | None = None
    # filled in by the pod
    scheduled_s: float | None = None
    first_token_s: float | None = None
    end_s: float | None = None
    cached_tokens: int = 0  # prompt tokens found in the cache at the first admission
    computed_tokens: int = 0  # prompt tokens computed, recomputation apart
    recomputed_tokens: int = 0  # tokens computed again after preemptions
    preemptions: int = 0
    emitted_tokens: int = 0
    status: str = Status.IN_FLIGHT
    http_status: int | None = None
    end_reason: str | None = None

    def end(self, status: str, end_s: float, http_status: int | None, reason: str | None) -> None:
        """The pod is through with it, and tells who dispatched it."""
        self.status = status
        self.end_s = end_s
        self.http_status = http_status
        self.end_reason = reason
        self.listener.ended(self)

    def break_off(self, end_s: float, reason: str) -> None:
        """It fails without an HTTP answer: there is nobody left, or was nobody, to give one."""
        self.end(Status.FAILED, end_s, None, reason)


class FailedAttempt(NamedTuple):
    """A backend of a rule that did not serve: one row of the failed attempts.

    ``number`` is that of the client's try. ``error`` is a word of
    ``PoolError``, ``RouterError`` or, with the pod, of ``Reason``.
    """

    request: Request
    number: int
    backend: str
    pod: str | None
    start_s: float
    end_s: float
    error: str
    http_status: int | None


class Retry(NamedTuple):
    """A try that was not the client's last: one row of the retries."""

    request: Request
    number: int
    model: str
    sent_s: float
    end_s: float
    status: str
    http_status: int | None
    reason: str | None
    retry_after_s: float | None
