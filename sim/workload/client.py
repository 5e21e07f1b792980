"""What every workload may say of its clients, and how a client sends a request."""

from functools import partial
from math import inf
from typing import TypeAlias

from pydantic import Field

from sim.kernel import Order
from sim.ports import WorkloadContext
from sim.request import Request
from sim.scenario.fields import Model, Name, PositiveDuration, Text, count
from sim.scenario.routing import HeaderName, Label

Priority: TypeAlias = count(-1000, 1000)  # type: ignore[valid-type]


class ClientSpec(Model):
    """Keys of all workloads."""

    priority: Priority = Field(
        default=0,
        description="Of two waiting requests the one of the lower number is the more urgent, for "
        "engines with `schedulingPolicy: priority`.",
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
        description="A client leaves when its answer is not complete so long after the request "
        "was sent; clients wait for ever when missing.",
    )


class Clients:
    """The clients of one workload."""

    def __init__(self, spec: ClientSpec, context: WorkloadContext) -> None:
        self._context = context
        self._priority = spec.priority
        self._model = spec.model or ""
        self._headers = tuple(spec.headers.items())
        self._timeout_s = inf if spec.client_timeout is None else spec.client_timeout

    def send(
        self, request: Request, priority: int | None = None, leaves_after_s: float = inf
    ) -> None:
        """Submit ``request`` now; its client leaves at its timeout, or before."""
        again = partial(self.send, request, priority, leaves_after_s)
        if self._context.kernel.postponed(Order.ARRIVAL, again):
            return  # a step or a fault of this very instant is still to come
        request.model = request.model or self._model
        request.headers = request.headers or self._headers
        request.priority = self._priority if priority is None else priority
        proxy, kernel = self._context.proxy, self._context.kernel
        waits_s = self._timeout_s if self._timeout_s < leaves_after_s else leaves_after_s
        if waits_s < inf:
            leave = partial(proxy.cancel, request)
            kernel.at_instant(kernel.now_s + waits_s, Order.CLIENT_TIMEOUT, leave)
        proxy.submit(request)
