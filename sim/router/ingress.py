"""Where requests enter and answers leave: the proxy's ingress, and the Service beside it.

``DirectService`` is traffic that bypasses the router, ``CheckedIngress`` validates what workloads
of other packages send.
"""

from collections.abc import Callable
from itertools import cycle
from math import inf
from numbers import Integral
from typing import Any, Final

from sim.core.content import Prompt
from sim.core.errors import Misuse
from sim.core.kernel import Kernel
from sim.core.ports import ProxyPort
from sim.core.recorder import Recorder
from sim.core.request import DIRECT, Answer, Attempt, HttpStatus, Outcome, Request, Status
from sim.router.upstream import Upstream

MAX_KEY: Final = 2**64 - 1
"""Session keys are 64 random bits (``sim.core.rng.Streams.key``)."""


class Ingress:
    """Takes note of arrivals and answers; ``on_end`` hears of requests that are over for good."""

    def __init__(self, kernel: Kernel, recorder: Recorder) -> None:
        self._kernel = kernel
        self._recorder = recorder
        self.on_end: Callable[[Request], None] | None = None

    def arrives(self, request: Request) -> None:
        """``request`` is here, for the first time or again."""
        now_s = self._kernel.now_s
        if request.tries == 0:
            request.arrival_s = now_s
            self._recorder.arrived(request)
        else:
            request.rule = request.backend = ""
        request.tries += 1
        request.sent_s = now_s

    def answers(
        self,
        request: Request,
        status: str,
        http_status: int | None,
        reason: str | None,
        retry_after_s: float | None = None,
    ) -> None:
        """This try of ``request`` is over; its client may have it try again."""
        request.status = status
        request.http_status = http_status
        request.reason = reason
        request.retry_after_s = retry_after_s
        request.end_s = self._kernel.now_s
        request.routing = None
        if request.on_end is not None:
            request.on_end(request)
        if self.on_end is not None and request.end_s is not None:
            self.on_end(request)

    def leaves(self, request: Request) -> None:
        """The client of ``request`` leaves, and no try is under way.

        It was waiting for its next one; nothing happens if the request is over.
        """
        if request.end_s is None:
            client_closed = HttpStatus.CLIENT_CLOSED_REQUEST, Answer.CLIENT_CLOSED
            self.answers(request, Status.CANCELLED, *client_closed)


class CheckedIngress:
    """The way in for a workload of another package: what it sends is looked at.

    Integers of other libraries become plain ones; ``Misuse`` is raised for what is none.
    """

    def __init__(self, proxy: ProxyPort) -> None:
        self._proxy = proxy
        self.cancel = proxy.cancel

    def submit(self, request: Request) -> None:
        """A request arrives now, for the first time or again."""
        prompt = request.prompt
        tokens = _whole("the tokens of a prompt", prompt.tokens, 1)
        if tokens is not prompt.tokens:
            request.prompt = Prompt(prompt.node, tokens)
        request.output_tokens = _whole("the output_tokens of a request", request.output_tokens, 1)
        if request.session_key is not None:
            key = _whole("the session_key of a request", request.session_key, 0, MAX_KEY)
            request.session_key = key
        self._proxy.submit(request)


def _whole(what: str, value: Any, low: int, high: float = inf) -> int:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        top = "" if high == inf else f" to {high}"
        raise Misuse(f"{what} must be a whole number from {low}{top}; got {value!r}")
    return int(value)


class DirectService:
    """The service of a backend: its pods in turn, no rule, no pool, no deadline, no retries.

    A pod that is not there refuses the connection, which is the client's answer.
    """

    def __init__(
        self, upstream: Upstream, ingress: Ingress, kernel: Kernel, recorder: Recorder
    ) -> None:
        self._upstream = upstream
        self._turns = cycle(range(len(upstream.pods)))
        self._ingress = ingress
        self._kernel = kernel
        self._recorder = recorder

    def submit(self, request: Request) -> None:
        """A request arrives now, for the first time or again."""
        now_s = self._kernel.now_s
        self._ingress.arrives(request)
        request.backend = self._upstream.name
        pod = next(self._turns)
        attempt = Attempt(
            request=request,
            number=len(request.attempts) + 1,
            proxy=DIRECT,
            backend=self._upstream.name,
            pod_index=pod,
            pod=self._upstream.pods[pod].name,
            outcome=Outcome.PLACED,
            reason=None,
            decided_s=now_s,
            dispatch_s=now_s,
            listener=self,
        )
        request.attempts.append(attempt)
        self._recorder.dispatched(attempt)
        self._upstream.send(attempt)

    def cancel(self, request: Request) -> None:
        """The client leaves; nothing happens if the request is over already."""
        attempt = request.attempts[-1]
        if attempt.end_s is not None:
            self._ingress.leaves(request)
            return
        attempt.status = Status.CANCELLED
        attempt.end_s = self._kernel.now_s
        attempt.http_status = HttpStatus.CLIENT_CLOSED_REQUEST
        self._upstream.pods[attempt.pod_index].cancel(attempt)
        self.ended(attempt)

    def first_token(self, attempt: Attempt) -> None:
        """Nobody but the client hears of it."""

    def ended(self, attempt: Attempt) -> None:
        """A pod reports the end of an attempt, however it ended."""
        gone = attempt.status == Status.CANCELLED
        reason = Answer.CLIENT_CLOSED if gone else attempt.end_reason
        self._ingress.answers(attempt.request, attempt.status, attempt.http_status, reason)
