"""Clients of a workload: what every workload may say of them, and how they send a request.

A client may not take the first failure for an answer. Three clocks run. ``clientTimeout``
is that of one try: when it runs out, the client hangs up and tries again
(``retry.onTimeout``), asks for the next of its models, or leaves if there is none; it
cannot tell whether the server was busy or about to answer. ``patience`` is that of the
user, from the first try on: when it runs out all is over, be a try under way or not. In
between a client waits for its next try, as ``RetryPolicy`` says.
"""

from collections.abc import Callable, Collection, Iterator
from functools import partial
from math import inf
from typing import Annotated, Final, TypeAlias

from pydantic import Field

from sim.core.errors import Fault
from sim.core.fields import (
    HeaderName,
    Model,
    Name,
    PositiveDuration,
    PositiveTokens,
    Probability,
    Text,
    count,
    real,
    whole,
)
from sim.core.kernel import Order
from sim.core.ports import WorkloadContext
from sim.core.request import Request, Status
from sim.core.rules import Problem, rule
from sim.scenario.inputs import Inputs
from sim.scenario.routing import Label

NOTABLE: Final = 0.01
"""A smaller share of prompts, or of the sessions that begin with them, is a distribution's tail."""

PAUSE_S: Final = 1.0
"""The least time between a turn that was not completed and the agent's next request."""

Priority: TypeAlias = count(-1000, 1000)  # type: ignore[valid-type]


class Backoff(Model):
    """How long a client waits of its own accord: longer from retry to retry."""

    initial: PositiveDuration = Field(default=1.0, description="Before the first retry.")
    factor: Annotated[float, real(1.0, 100.0)] = Field(
        default=2.0, description="What each wait is of the one before."
    )
    max: PositiveDuration = Field(default=60.0, description="The longest wait, before jitter.")
    jitter: Probability = Field(
        default=0.0,
        description="The largest part of a wait that is left out, drawn uniformly for each "
        "retry: 0 for none, 1 for anything down to no wait (full jitter).",
    )

    @rule
    def _grows(self) -> Iterator[Problem]:
        if self.max < self.initial:
            yield "max", f"must not be below initial, {self.initial:g} s; got {self.max:g} s"

    def wait_s(self, retry: int, draw: float) -> float:
        """Before retry ``retry``, from 0; ``draw`` is uniform in [0, 1)."""
        return min(self.max, self.initial * self.factor**retry) * (1.0 - self.jitter * draw)


class RetryPolicy(Model):
    """Which errors a client takes for passing ones, and how it comes back.

    The same request is sent again, all of its tries together at most ``max``
    times more.
    """

    on: tuple[Annotated[int, whole(400, 599)], ...] = Field(
        default=(503,),
        description="HTTP statuses after which it tries again. Well-behaved clients take 502 for "
        "an outage and do not.",
    )
    on_connection_error: bool = Field(
        default=False,
        description="Try again as well when the connection was refused, or broke before the "
        "answer was complete.",
    )
    on_timeout: bool = Field(
        default=False,
        description="Try again as well when clientTimeout has run out; what becomes of the try "
        "before is router.proxy.abandoned.",
    )
    max: Annotated[int, whole(1, 100)] = Field(
        default=3, description="The most retries of one request."
    )
    honour_retry_after: bool = Field(
        default=True, description="Wait at least as long as Retry-After says."
    )
    backoff: Backoff = Field(
        default=Backoff(), description="How long a client waits of its own accord."
    )

    @rule
    def _happen(self) -> Iterator[Problem]:
        if not (self.on or self.on_connection_error or self.on_timeout):
            yield "on", "empty: give statuses, onConnectionError: true or onTimeout: true"

    def wants(self, request: Request) -> bool:
        """Whether the error that ``request`` was answered with may pass."""
        if request.http_status is None:
            return self.on_connection_error and request.status == Status.FAILED
        return request.http_status in self.on

    def wait_s(self, retry: int, retry_after_s: float | None, draw: float) -> float:
        """From the answer to retry ``retry``, from 0; ``draw`` is uniform in [0, 1)."""
        wait_s = self.backoff.wait_s(retry, draw)
        if self.honour_retry_after and retry_after_s is not None:
            return max(wait_s, retry_after_s)
        return wait_s


class ClientSpec(Model):
    """Keys of all workloads."""

    priority: Priority = Field(
        default=0,
        description="Of two waiting requests the one of the lower number is the more urgent, for "
        "engines with `schedulingPolicy: priority`.",
    )
    num_ctx: PositiveTokens | None = Field(
        default=None,
        description="Context that the model is to be loaded with, which pools of kind ollama heed: "
        "one that is loaded with another is loaded again; the member's numCtx when missing.",
    )
    model: Label | None = Field(
        default=None, description="The model that requests ask for; any when missing."
    )
    headers: dict[HeaderName, Text] = Field(
        default={}, description="Headers of every request, which rules and budgets may look at."
    )
    direct: Name | None = Field(
        default=None,
        description="Requests go straight to the pods of this backend, beside the router.",
    )
    client_timeout: PositiveDuration | None = Field(
        default=None,
        description="A client gives up a try whose answer is not complete so long after it was "
        "sent, and tries again with retry.onTimeout, goes on to the next of fallbackModels or "
        "leaves; it waits for ever when missing.",
    )
    patience: PositiveDuration | None = Field(
        default=None,
        description="The user leaves when there is no complete answer so long after the first "
        "try was sent, whatever tries are left; never when missing.",
    )
    retry: RetryPolicy | None = Field(
        default=None, description="When and how often a try is repeated; never when missing."
    )
    fallback_models: tuple[Label, ...] = Field(
        default=(),
        description="Models that a client asks for, one after the other, when a try times out "
        "or ends in an error and is not repeated.",
    )

    @rule
    def _clients_make_sense(self) -> Iterator[Problem]:
        if self.fallback_models and self.direct is not None:
            said = "not with direct: beside the router there is one backend, whatever the model"
            yield "fallbackModels", said
        if self.retry is not None and self.retry.on_timeout and self.client_timeout is None:
            yield "retry.onTimeout", "needs clientTimeout: without it no try runs out of time"

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself."""
        return True

    @property
    def agents_total(self) -> int:
        """Closed-loop agents."""
        return 0

    def files(self) -> tuple[str, ...]:
        """Return the files that the workload reads, relative to the scenario: its key ``file``."""
        file = getattr(self, "file", None)
        return () if file is None else (file,)

    def warnings(self) -> list[Fault]:
        """What is possible and hardly meant; the path of each is a key of the workload."""
        timeout, patience = self.client_timeout, self.patience
        if timeout is None or patience is None or timeout < patience:
            return []
        message = f"never runs out: patience ends before, after {patience:g} s"
        return [Fault("workload", 0, 0, "clientTimeout", message)]

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """What of its prompts for ``model`` exceeds ``tokens``, with the key that says so."""
        yield from ()

    def asks_for(self) -> tuple[str, ...]:
        """Models that its requests are for, as far as the scenario says it; "" for any."""
        return (self.model or "", *self.fallback_models)


def share_beyond(prompts: Collection[int], tokens: int) -> Iterator[str]:
    """In words how many of ``prompts``, lengths, are longer than ``tokens``; nothing if none is."""
    longer = sum(length > tokens for length in prompts)
    if longer:
        yield f"{longer:,} of {len(prompts):,} prompts are longer, up to {max(prompts):,} tokens"


class RetryingRequest:
    """A request of a user, sent until it is served or its client gives up."""

    __slots__ = ("_clients", "_models", "_on_end", "_request", "_retried", "_waits")

    def __init__(self, clients: "Clients", request: Request) -> None:
        self._clients = clients
        self._request = request
        self._models: Iterator[str] = iter(clients.fallback_models)
        self._on_end = request.on_end
        self._retried = 0
        self._waits = False  # for its next try
        request.on_end = self._answered

    def send(self) -> None:
        """Send the next try now, unless the user has left meanwhile."""
        request, clients = self._request, self._clients
        if request.end_s is not None:
            return
        self._waits = False
        if clients.timeout_s < inf:
            clients.later(clients.timeout_s, partial(self._hang_up, request.tries + 1))
        clients.context.proxy.submit(request)

    def _hang_up(self, number: int) -> None:
        """Try ``number`` has taken too long, if it is still under way."""
        request = self._request
        if request.end_s is None and request.tries == number and not self._waits:
            policy = self._clients.retry
            again = policy is not None and policy.on_timeout
            request.on_end = partial(self._failed, again)
            self._clients.context.proxy.cancel(request)

    def _answered(self, request: Request) -> None:
        """A try has been answered, or the user has left."""
        if request.status in (Status.REJECTED, Status.FAILED):
            policy = self._clients.retry
            self._failed(policy is not None and policy.wants(request), request)
        elif self._on_end is not None:
            self._on_end(request)

    def _failed(self, again: bool, request: Request) -> None:
        """Try ``again`` as often as that is allowed, then ask for other models."""
        policy = self._clients.retry
        if policy and again and self._retried < policy.max:
            wait_s = policy.wait_s(self._retried, request.retry_after_s, self._draw())
            self._retried += 1
            self._try_again(request.model, wait_s, request)
            return
        model = next(self._models, None)
        if model is not None:
            self._try_again(model, 0.0, request)
        elif self._on_end is not None:
            self._on_end(request)

    def _try_again(self, model: str, wait_s: float, request: Request) -> None:
        request.on_end = self._answered
        self._waits = True
        context = self._clients.context
        context.retried(request.try_again(model))
        context.kernel.at_instant(context.kernel.now_s + wait_s, Order.ARRIVAL, self.send)

    def _draw(self) -> float:
        """Uniform in [0, 1): a matter of the request and its try, whoever else tries again."""
        request, context = self._request, self._clients.context
        turn = f"{request.session_id}/{request.turn}"
        name = f"workload/{context.name}/retry/{turn}/{request.tries}"
        return (context.streams.key(name) >> 11) / 2.0**53


class Clients:
    """The clients of one workload."""

    def __init__(self, spec: ClientSpec, context: WorkloadContext) -> None:
        self.context = context
        self.retry = spec.retry
        self.fallback_models = spec.fallback_models
        self.timeout_s = inf if spec.client_timeout is None else spec.client_timeout
        self._patience_s = inf if spec.patience is None else spec.patience
        self._tries_again = spec.retry is not None or bool(spec.fallback_models)
        # Without a second try the end of the first one is the end of all.
        self._leaves_s = (
            self._patience_s if self._tries_again else min(self._patience_s, self.timeout_s)
        )
        self._kernel = context.kernel
        self._priority = spec.priority
        self._num_ctx = spec.num_ctx
        self._model = spec.model or ""
        self._headers = tuple(spec.headers.items())

    def send(self, request: Request, priority: int | None = None, patience_s: float = inf) -> None:
        """Submit ``request`` now; its user leaves after ``patience_s``, or before.

        ``request.on_end`` is called once, when no further try will be made.
        """
        kernel = self._kernel
        if kernel.is_crowded:
            again = partial(self.send, request, priority, patience_s)
            if request.due_s is None:
                request.due_s = kernel.now_s
            if kernel.postponed(Order.ARRIVAL, again):
                return  # a step or a fault of this very instant is still to come
        request.model = request.model or self._model
        request.headers = request.headers or self._headers
        request.priority = self._priority if priority is None else priority
        request.num_ctx = request.num_ctx or self._num_ctx
        request.patience_s = patience_s
        leaves_s = patience_s if patience_s < self._leaves_s else self._leaves_s
        proxy = self.context.proxy
        first = RetryingRequest(self, request) if self._tries_again else None
        if leaves_s < inf:
            self.later(leaves_s, partial(proxy.cancel, request))
        if first is None:
            proxy.submit(request)
        else:
            first.send()

    def later(self, after_s: float, callback: Callable[[], None]) -> None:
        """Call ``callback`` in ``after_s``, when a client that has waited so long gives up."""
        self._kernel.at_instant(self._kernel.now_s + after_s, Order.CLIENT_TIMEOUT, callback)
