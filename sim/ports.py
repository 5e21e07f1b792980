"""How siblings call each other without importing each other; ``sim.cluster`` wires them."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from sim.kernel import Kernel
from sim.request import Attempt, Request
from sim.rng import Streams


class Published(NamedTuple):
    """What a pod's metrics endpoint says: the state after its last finished step."""

    waiting: int
    running: int
    kv_usage: float


@dataclass(frozen=True, slots=True)
class PodTotals:
    """Running totals of one pod since the start of the run."""

    emitted_tokens: int = 0
    computed_tokens: int = 0  # prefill tokens computed, recomputation included
    recomputed_tokens: int = 0
    preemptions: int = 0
    steps: int = 0
    busy_s: float = 0.0


class PodPort(Protocol):
    """A pod as a proxy sees it."""

    name: str

    def submit(self, attempt: Attempt) -> None:
        """Take an attempt; a refusal ends it before this returns."""

    def cancel(self, attempt: Attempt) -> None:
        """The client has left; what the attempt holds is freed at the end of the step in flight."""

    def published(self, now_s: float) -> Published:
        """Answer a metrics poll."""

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of all before ``now_s``, which must be the present instant."""


class ProxyPort(Protocol):
    """The router as a client sees it."""

    def submit(self, request: Request) -> None:
        """A request arrives now; ``request.on_end`` is called once when it is over."""

    def cancel(self, request: Request) -> None:
        """The client leaves; nothing happens if the request is over already."""


@dataclass(frozen=True)
class WorkloadContext:
    """What a workload is given: its name, the clock, its random streams and the front door.

    ``directory`` is where relative file names of the scenario start.
    ``finished`` must be called once when a finite workload has sent its last
    request and that request is over; an endless workload never calls it.
    ``models`` are the names that backends serve, empty when they serve any: a
    workload that asks for another one is refused when it is built.
    """

    name: str
    kernel: Kernel
    streams: Streams
    proxy: ProxyPort
    directory: Path
    finished: Callable[[], None]
    models: tuple[str, ...] = ()


class Workload(Protocol):
    """Anything that sends requests.

    Built as ``Implementation(spec, context)``; ``start`` is called once, at
    time 0, and schedules everything else on the kernel.
    """

    finite: bool

    def start(self) -> None:
        """Schedule the first arrivals."""

    def counts(self) -> dict[str, int]:
        """Facts about the input that a reader should know (ignored model changes, moved rows)."""
