"""A client that does not take the first failure for an answer: retries and fallbacks.

Three clocks run. ``clientTimeout`` is that of one try: when it runs out, the
client hangs up and tries again (``retry.onTimeout``), asks for the next of its
models, or leaves if there is none; it cannot tell whether the server was busy
or about to answer. ``patience`` is
that of the user, from the first try on: when it runs out all is over, be a try
under way or not. In between a client waits for its next try, as ``Retries`` says.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import inf

from sim.core.kernel import Order
from sim.core.ports import WorkloadContext
from sim.core.request import Request, Status
from sim.workload.retry import Retries


@dataclass(frozen=True, slots=True)
class Habits:
    """What the clients of one workload do when they are not served."""

    context: WorkloadContext
    timeout_s: float
    retries: Retries | None
    fallback_models: tuple[str, ...]


class Errand:
    """One request of a user, sent until it is served or its client gives up."""

    __slots__ = ("_habits", "_models", "_on_end", "_patience_s", "_request", "_retried", "_waits")

    def __init__(self, habits: Habits, request: Request, patience_s: float) -> None:
        self._habits = habits
        self._request = request
        self._patience_s = patience_s
        self._models: Iterator[str] = iter(habits.fallback_models)
        self._on_end = request.on_end
        self._retried = 0
        self._waits = False  # for its next try
        request.on_end = self._answered

    def begin(self) -> None:
        """Send the first try now."""
        kernel, proxy = self._habits.context.kernel, self._habits.context.proxy
        if self._patience_s < inf:
            leave = partial(proxy.cancel, self._request)
            kernel.at_instant(kernel.now_s + self._patience_s, Order.CLIENT_TIMEOUT, leave)
        self._send()

    def _send(self) -> None:
        request, habits = self._request, self._habits
        if request.end_s is not None:
            return  # the user has left meanwhile
        self._waits = False
        kernel = habits.context.kernel
        if habits.timeout_s < inf:
            hang_up = partial(self._hang_up, request.tries + 1)
            kernel.at_instant(kernel.now_s + habits.timeout_s, Order.CLIENT_TIMEOUT, hang_up)
        habits.context.proxy.submit(request)

    def _hang_up(self, number: int) -> None:
        """Try ``number`` has taken too long, if it is still under way."""
        request = self._request
        if request.end_s is None and request.tries == number and not self._waits:
            retries = self._habits.retries
            again = retries is not None and retries.on_timeout
            request.on_end = partial(self._go_on, again)
            self._habits.context.proxy.cancel(request)

    def _answered(self, request: Request) -> None:
        """A try has been answered, or the user has left."""
        if request.status in (Status.REJECTED, Status.FAILED):
            retries = self._habits.retries
            self._go_on(retries is not None and retries.wants(request), request)
        elif self._on_end is not None:
            self._on_end(request)

    def _go_on(self, again: bool, request: Request) -> None:
        """A try was in vain: try ``again`` as long as that is allowed, then other models."""
        retries = self._habits.retries
        if retries and again and self._retried < retries.max:
            wait_s = retries.wait_s(self._retried, request.retry_after_s, self._draw())
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
        context = self._habits.context
        context.retried(request.try_again(model))
        context.kernel.at_instant(context.kernel.now_s + wait_s, Order.ARRIVAL, self._send)

    def _draw(self) -> float:
        """Uniform in [0, 1): a matter of the request and its try, whoever else tries again."""
        request, context = self._request, self._habits.context
        turn = f"{request.session_id}/{request.turn}"
        name = f"workload/{context.name}/retry/{turn}/{request.tries}"
        return (context.streams.key(name) >> 11) / 2.0**53
