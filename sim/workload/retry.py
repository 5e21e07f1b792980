"""After which answers a client sends its request again, and when."""

from collections.abc import Iterator
from typing import Annotated

from pydantic import Field

from sim.core.fields import Model, PositiveDuration, Probability, real, whole
from sim.core.request import Request, Status
from sim.core.rules import Problem, rule


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


class Retries(Model):
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
