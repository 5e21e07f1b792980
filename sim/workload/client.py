"""What every workload may say of its clients, and how a client sends a request."""

from collections.abc import Collection, Iterator
from functools import partial
from math import inf
from typing import Final, TypeAlias

from pydantic import Field

from sim.core.errors import Fault
from sim.core.fields import (
    HeaderName,
    Model,
    Name,
    PositiveDuration,
    PositiveTokens,
    Text,
    count,
)
from sim.core.kernel import Order
from sim.core.ports import WorkloadContext
from sim.core.request import Request
from sim.core.rules import Problem, rule
from sim.scenario.inputs import Inputs
from sim.scenario.routing import Label
from sim.workload.errand import Errand, Habits
from sim.workload.retry import Retries

NOTABLE: Final = 0.01
"""A smaller share of prompts, or of the sessions that begin with them, is a distribution's tail."""

Priority: TypeAlias = count(-1000, 1000)  # type: ignore[valid-type]


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
    retry: Retries | None = Field(
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

    @rule
    def _retries_what_can_happen(self) -> Iterator[Problem]:
        if self.retry is not None and self.retry.on_timeout and self.client_timeout is None:
            yield "retry.onTimeout", "needs clientTimeout: without it no try runs out of time"

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


class Clients:
    """The clients of one workload."""

    def __init__(self, spec: ClientSpec, context: WorkloadContext) -> None:
        self._kernel = context.kernel
        self._proxy = context.proxy
        self._priority = spec.priority
        self._num_ctx = spec.num_ctx
        self._model = spec.model or ""
        self._headers = tuple(spec.headers.items())
        self._timeout_s = inf if spec.client_timeout is None else spec.client_timeout
        self._patience_s = inf if spec.patience is None else spec.patience
        self._waits_s = min(self._patience_s, self._timeout_s)
        self._habits: Habits | None = None  # of clients that try more than once
        if spec.retry is not None or spec.fallback_models:
            self._habits = Habits(context, self._timeout_s, spec.retry, spec.fallback_models)

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
        if self._habits is not None:
            Errand(self._habits, request, min(patience_s, self._patience_s)).begin()
            return
        waits_s = patience_s if patience_s < self._waits_s else self._waits_s
        if waits_s < inf:
            leave = partial(self._proxy.cancel, request)
            kernel.at_instant(kernel.now_s + waits_s, Order.CLIENT_TIMEOUT, leave)
        self._proxy.submit(request)
