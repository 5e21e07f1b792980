"""Open loop: single-shot requests that arrive whatever the cluster does.

Every request is a text of its own and belongs to no session. Gaps, lengths and
session keys come from one stream each, so that changing one distribution
shifts no other draw.
"""

from collections.abc import Iterator
from functools import partial
from typing import Annotated, Final, Literal, TypeAlias

import numpy as np
from pydantic import Field

from sim.core.content import Node, Prompt
from sim.core.fields import DURATION, MAX_DURATION_S, Model, count, number
from sim.core.kernel import Order
from sim.core.ports import WorkloadContext
from sim.core.registry import family
from sim.core.request import Request
from sim.core.rules import Problem, rule
from sim.scenario.inputs import Inputs
from sim.workload.clients import NOTABLE, Clients, ClientSpec
from sim.workload.distributions import Count, Counts, whole_microseconds

CHUNK: Final = 4096
"""Requests drawn at a time."""

MAX_REQUESTS: Final = 10**8

Rate: TypeAlias = number(1e-6, 1e6)  # type: ignore[valid-type]
Variation: TypeAlias = number(0.01, 100.0)  # type: ignore[valid-type]
RequestCount: TypeAlias = count(1, MAX_REQUESTS)  # type: ignore[valid-type]


class PoissonArrivals(Model):
    """Memoryless arrivals at ``rate`` per second."""

    kind: Literal["poisson"]
    rate: Rate = Field(description="Requests per second.")

    def gaps_us(self, generator: np.random.Generator, first: int, size: int) -> Counts:
        """Gaps before the requests ``first`` to ``first + size``, in whole µs."""
        return whole_microseconds(generator.exponential(1.0 / self.rate, size))


class ConstantArrivals(Model):
    """Equal gaps: request i, from 0, arrives at i / ``rate`` seconds."""

    kind: Literal["constant"]
    rate: Rate = Field(description="Requests per second.")

    def gaps_us(self, generator: np.random.Generator, first: int, size: int) -> Counts:
        """Gaps before the requests ``first`` to ``first + size``, in whole µs."""
        # Rounding the times and not the gaps keeps the rate: nothing adds up.
        times_us = whole_microseconds(np.arange(first - 1, first + size) / self.rate)
        return np.diff(np.maximum(times_us, 0))


class GammaArrivals(Model):
    """Gaps of mean 1 / ``rate`` and coefficient of variation ``cv``; above 1 is bursty."""

    kind: Literal["gamma"]
    rate: Rate = Field(description="Requests per second.")
    cv: Variation = Field(
        description="Coefficient of variation of the gaps: 1 is poisson, above it is bursty."
    )

    def gaps_us(self, generator: np.random.Generator, first: int, size: int) -> Counts:
        """Gaps before the requests ``first`` to ``first + size``, in whole µs."""
        shape = 1.0 / self.cv**2
        return whole_microseconds(generator.gamma(shape, 1.0 / (self.rate * shape), size))


Arrivals: TypeAlias = Annotated[
    PoissonArrivals | ConstantArrivals | GammaArrivals, Field(discriminator="kind")
]


class RequestsSpec(ClientSpec):
    """Single-shot requests at a given rate; without ``count`` until the run ends."""

    kind: Literal["requests"]
    arrivals: Arrivals = Field(description="When requests come.")
    prompt_tokens: Count = Field(description="Tokens of a prompt; no two have text in common.")
    output_tokens: Count = Field(description="Tokens of an answer.")
    count: RequestCount | None = Field(
        default=None,
        description="How many requests are sent; without end when missing, so that "
        "window.measure must end the run.",
    )
    session_keys: Literal["none", "per-request"] = Field(
        default="none",
        description="Whether each request has a session key of its own, which hashes and tables "
        "look at, or none.",
    )

    @rule
    def _ends_in_time(self) -> Iterator[Problem]:
        if self.count is not None and self.count / self.arrivals.rate > MAX_DURATION_S:
            days, limit = self.count / self.arrivals.rate / 86_400, DURATION.written(MAX_DURATION_S)
            message = f"at {self.arrivals.rate:g}/s the last one comes after {days:,.0f} days"
            yield "count", f"{message}; at most {limit} are simulated"

    def beyond(self, tokens: int, model: str, inputs: Inputs) -> Iterator[Problem]:
        """The share of its prompts, where that is more than a tail."""
        share = self.prompt_tokens.share_above(tokens)
        if share == 1.0:
            yield "promptTokens", "no prompt can ever be served"
        elif share >= NOTABLE:
            yield "promptTokens", f"{100 * share:.2g} % of the prompts can never be served"

    @property
    def finite(self) -> bool:
        """Whether the workload ends by itself."""
        return self.count is not None

    def keyless(self, inputs: Inputs) -> bool:
        """Whether no request has a session key."""
        return self.session_keys == "none"


@family(RequestsSpec)
class Requests:
    """Sends the requests of one spec; each arrival schedules the next."""

    def __init__(self, spec: RequestsSpec, context: WorkloadContext) -> None:
        self.finite = spec.finite
        self._spec = spec
        self._context = context
        self._clients = Clients(spec, context)
        self._limit = spec.count if spec.count is not None else MAX_REQUESTS
        self._over = 0
        self._sent = 0
        self._drawn = 0
        self._clock_us = 0
        self._time_s: list[float] = []
        self._prompt_tokens: list[int] = []
        self._output_tokens: list[int] = []
        self._keys: list[int] = []
        stream = partial("workload/{}/{}".format, context.name)
        self._gaps = context.streams.get(stream("arrivals"))
        self._prompts = context.streams.get(stream("prompt-tokens"))
        self._outputs = context.streams.get(stream("output-tokens"))
        self._session_keys = context.streams.get(stream("session-keys"))

    def start(self) -> None:
        """Schedule the first arrival."""
        self._draw()
        self._context.kernel.at(self._time_s[0], Order.ARRIVAL, self._send)

    def counts(self) -> dict[str, int]:
        """Nothing about drawn requests needs saying."""
        return {}

    def _draw(self) -> None:
        size = min(CHUNK, self._limit - self._drawn)
        spec = self._spec
        times_us = self._clock_us + np.cumsum(spec.arrivals.gaps_us(self._gaps, self._drawn, size))
        self._clock_us = int(times_us[-1])
        self._time_s = (times_us / 1e6).tolist()
        self._prompt_tokens = spec.prompt_tokens.draw(self._prompts, size).tolist()
        self._output_tokens = spec.output_tokens.draw(self._outputs, size).tolist()
        if spec.session_keys == "per-request":
            keys = self._session_keys.integers(0, 2**64, size, np.uint64)
            self._keys = keys.tolist()
        self._drawn += size

    def _send(self) -> None:
        """Submit every request that is due now, in order, and schedule the next."""
        kernel = self._context.kernel
        name = self._context.name
        send = self._clients.send
        on_end = self._ended if self.finite else None
        now_s = kernel.now_s
        while True:
            at = self._sent % CHUNK
            prompt = Prompt(Node(), self._prompt_tokens[at])
            request = Request(
                session_id=f"{name}/{self._sent}",
                agent_id="",
                turn=1,
                session_key=self._keys[at] if self._keys else None,
                prompt=prompt,
                answer=prompt.node,
                output_tokens=self._output_tokens[at],
                on_end=on_end,
                workload=name,
            )
            self._sent += 1
            send(request)
            if self._sent == self._limit:
                return
            if self._sent == self._drawn:
                self._draw()
            next_s = self._time_s[self._sent % CHUNK]
            if next_s > now_s:
                kernel.at(next_s, Order.ARRIVAL, self._send)
                return

    def _ended(self, request: Request) -> None:
        self._over += 1
        if self._over == self._limit:
            self._context.finished()
