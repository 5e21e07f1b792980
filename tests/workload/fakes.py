"""A front door that answers every request after a given time, and notes what came in."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from sim.core.kernel import Kernel, Order
from sim.core.ports import WorkloadContext
from sim.core.request import Request, Retry, Status
from sim.core.rng import Streams


def after(seconds: float) -> Callable[[Request], tuple[float, str]]:
    """Every request is completed after the same time."""
    return lambda request: (seconds, Status.COMPLETED)


@dataclass
class Ingress:
    """Answers a request after the time, and with the status, that ``service`` says."""

    kernel: Kernel
    service: Callable[[Request], tuple[float, str]]
    requests: list[Request] = field(default_factory=list)
    finished_s: list[float] = field(default_factory=list)
    retries: list[Retry] = field(default_factory=list)

    def submit(self, request: Request) -> None:
        request.request_id = len(self.requests)
        request.arrival_s = self.kernel.now_s
        self.requests.append(request)
        service_s, status = self.service(request)
        if service_s == 0.0:
            self._end(request, status)
        else:
            end = partial(self._end, request, status)
            self.kernel.at(self.kernel.now_s + service_s, Order.STEP_END, end)

    def cancel(self, request: Request) -> None:
        self._end(request, Status.CANCELLED)

    def _end(self, request: Request, status: str) -> None:
        if request.end_s is not None:
            return
        request.end_s = self.kernel.now_s
        request.status = status
        if request.on_end is not None:
            request.on_end(request)


@dataclass
class Ran:
    """What a run of workloads came to."""

    requests: list[Request]
    finished_s: list[float]
    counts: dict[str, dict[str, int]]

    def arrivals(self) -> list[float]:
        return [request.arrival_s for request in self.requests]


def run(
    workloads: Mapping[str, tuple[Any, Any]],
    seed: int = 1,
    service: Callable[[Request], tuple[float, str]] | None = None,
    horizon_s: float = 1e9,
    directory: Path = Path(),
    models: tuple[str, ...] = (),
) -> Ran:
    """Run workloads, each a family and its spec, against the fake front door."""
    kernel = Kernel()
    door = Ingress(kernel, service or after(1.0))
    built = {}
    for name, (kind, spec) in workloads.items():
        context = WorkloadContext(
            name,
            kernel,
            Streams(seed),
            door,
            directory,
            lambda: door.finished_s.append(kernel.now_s),
            door.retries.append,
            models,
        )
        built[name] = kind(spec, context)
    for workload in built.values():
        workload.start()
    kernel.run_until(horizon_s)
    counts = {name: workload.counts() for name, workload in built.items()}
    return Ran(door.requests, door.finished_s, counts)


def content(requests: list[Request]) -> list[tuple[Any, ...]]:
    """What requests say, independent of when and of object identity.

    Nodes are numbered as they are first met, so equal lists mean equal trees.
    """
    numbers: dict[Any, int] = {}

    def number(node: Any) -> int:
        if node is None:
            return -1
        if node not in numbers:
            number(node.parent)
            numbers[node] = len(numbers)
        return numbers[node]

    rows = []
    for request in requests:
        path = tuple((number(node), node.start, end) for node, end in request.prompt.segments())
        rows.append(
            (
                request.session_id,
                request.agent_id,
                request.turn,
                request.session_key,
                request.prompt.tokens,
                request.output_tokens,
                request.closes_session,
                path,
                number(request.answer),
                request.answer.start,
            )
        )
    return rows
