"""How siblings call each other without importing each other; ``sim.cluster`` wires them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf
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


class StepReport(NamedTuple):
    """What a pod did in one step, or in a span of decode steps; times are seconds.

    ``decoders`` sequences decoded in each of the steps, and read
    ``context_tokens`` in the first. ``chunks`` are request ids and the prompt
    tokens that were computed for them, ``preempted`` the ids of the requests
    that the scheduling of the step threw out. ``waiting`` and ``running`` are
    as that scheduling left them; ``kv_usage`` is the share of the KV blocks that
    requests held at the end, before those that ended gave theirs back.
    """

    pod: str
    start_s: float
    end_s: float
    steps: int
    prefill_tokens: int
    decoders: int
    context_tokens: int
    waiting: int
    running: int
    kv_usage: float
    chunks: tuple[tuple[int, int], ...]
    preempted: tuple[int, ...]


class PodObserver(Protocol):
    """Who watches pods at work: told once a step or span, never per token; changes nothing."""

    def stepped(self, report: StepReport) -> None:
        """A step or span is over, or is cut off in flight by the end of the run."""


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
    """A pod as a proxy sees it, and as an observer watches it."""

    name: str

    def submit(self, attempt: Attempt) -> None:
        """Take an attempt; a refusal ends it before this returns."""

    def cancel(self, attempt: Attempt) -> None:
        """The client has left; what the attempt holds is freed at the end of the step in flight."""

    def published(self, now_s: float) -> Published:
        """Answer a metrics poll."""

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of all that has happened up to ``now_s``, the present instant."""

    def watch(self, observer: PodObserver) -> None:
        """Tell ``observer`` of every step or span when it is over."""

    def report(self) -> None:
        """Tell the observer, if any, of the step or span in flight, up to its planned end."""


class ProcessPort(Protocol):
    """A pod that can be down, loading or ready, as a pool sees it."""

    name: str

    @property
    def ready(self) -> bool:
        """Whether it serves."""

    @property
    def idle(self) -> bool:
        """Whether nobody runs or waits, and nobody who has left is still being computed."""

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call once, at the end of the step after which it is idle; at once if it is."""

    def when_busy(self, callback: Callable[[], None]) -> None:
        """Call once, when somebody is next sent here."""

    def begin_loading(self) -> None:
        """A load begins; it must be down."""

    def start(self) -> None:
        """It is ready, with a fresh engine: empty KV, empty queue."""

    def stop(self) -> None:
        """It is down, whatever it was; what is in it breaks off."""


@dataclass(slots=True, eq=False)
class PoolEvent:
    """A row of the pools table: appended when it begins, filled in when it ends; times in seconds.

    An attempt at a pooled backend has one row, unless it was refused for a
    full queue: ``skip`` if it was told at once that the incumbent is busy,
    else ``hold``, of no length when it was granted at once. ``result`` of a
    hold is ``granted``, ``cancelled`` or one of ``PoolError``; of a swap
    ``completed``, ``deadline``, ``error`` or ``cancelled``. ``drain_s``,
    ``unload_s`` and ``load_s`` are what a swap has taken of each so far, None
    where it has not come to that.
    """

    kind: str  # hold, skip, swap
    pool: str
    start_s: float
    member: str  # the one wanted, or swapped to
    from_member: str | None = None
    request_id: int | None = None
    cause: str | None = None  # of swaps: request, reclaim, initial, reload
    end_s: float | None = None
    result: str | None = None
    drain_s: float | None = None
    unload_s: float | None = None
    load_s: float | None = None


@dataclass(slots=True, eq=False)
class MemberCounts:
    """What a proxy counts of a member of a pool."""

    waiting: int = 0
    in_flight: int = 0


@dataclass(slots=True, eq=False)
class Activation:
    """An attempt of a rule at a pooled backend, from its joining to its release.

    Either ``granted`` or ``refused``, with one of ``PoolError``, is called
    once, unless the attempt leaves before.
    """

    request: Request
    member: str
    if_idle: bool
    granted: Callable[[], None]
    refused: Callable[[str], None]
    # kept by the pool
    joined_s: float = 0.0
    hold_until_s: float = inf
    event: PoolEvent | None = None
    counts: MemberCounts | None = None  # where it is counted as in flight


class PoolPort(Protocol):
    """A pool as proxy and cluster see it."""

    def start(self) -> None:
        """Called once, at time 0, before anything else."""

    def join(self, activation: Activation) -> None:
        """An attempt begins; it may be granted or refused before this returns."""

    def leave(self, activation: Activation) -> None:
        """The client of a held attempt is gone."""

    def release(self, activation: Activation) -> None:
        """The response of a granted attempt is over, has failed or was cancelled."""

    def unreachable(self, member: str) -> None:
        """A dispatch to a granted member could not connect."""

    def restart(self) -> None:
        """The proxy restarts: held attempts are refused, nobody is counted any more."""

    def fail_loads(self, member: str, after_s: float, loads: int) -> None:
        """The next ``loads`` loads of ``member`` fail ``after_s`` after they have begun."""

    def lost(self, member: str) -> None:
        """The pod of ``member`` is gone; its process has been stopped already."""


class MemberTimes(Protocol):
    """How long a member of a pool unloads and loads; seconds."""

    @property
    def unload_s(self) -> float:
        """From drained to gone."""

    @property
    def load_s(self) -> float:
        """From down to ready."""


class PoolEvents(Protocol):
    """Where a pool writes its events."""

    pool_events: list[PoolEvent]


@dataclass(frozen=True)
class PoolContext:
    """What a pool is given; ``header_timeout_s`` is the router's timeout to response headers."""

    kernel: Kernel
    recorder: PoolEvents
    streams: Streams
    processes: Mapping[str, ProcessPort]
    times: Mapping[str, MemberTimes]
    header_timeout_s: float


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
