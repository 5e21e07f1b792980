"""How siblings call each other without importing each other; ``sim.cluster`` wires them."""

from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass, field
from math import inf
from pathlib import Path
from typing import NamedTuple, Protocol

from sim.core.content import Prompt
from sim.core.kernel import Kernel
from sim.core.request import Attempt, Request, Retry
from sim.core.rng import Streams


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
    requests held at the end, before those that ended gave theirs back. ``starts``
    are the tokens of each of the ``chunks`` that had KV before it; an engine that
    does not say leaves them empty.
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
    starts: tuple[int, ...] = ()


def peek(holder: object, prompt: Prompt) -> int | None:
    """Leading tokens of ``prompt`` that a request admitted at this instant would find.

    Nothing changes by it, the order of eviction included. Pods, their front ends and
    schedulers say it by a method ``cached_prefix_tokens``, which engines need not have; None
    when nobody knows.
    """
    ask: Callable[[Prompt], int | None] | None = getattr(holder, "cached_prefix_tokens", None)
    return None if ask is None else ask(prompt)


def lacking(thing: object, protocol: type) -> list[str]:
    """The public names of ``protocol`` that ``thing`` does not have."""
    names = (*getattr(protocol, "__annotations__", ()), *vars(protocol))
    return [name for name in names if not name.startswith("_") and not hasattr(thing, name)]


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
    # counted by a process; of a pod that has always been there they stay 0
    ready_s: float = 0.0
    loading_s: float = 0.0
    loads: int = 0  # that have begun

    def __add__(self, other: "PodTotals") -> "PodTotals":
        """What both have counted."""
        return PodTotals(*(mine + its for mine, its in zip(astuple(self), astuple(other))))


class PodPort(Protocol):
    """A pod as a proxy sees it, and as an observer watches it."""

    name: str

    @property
    def idle(self) -> bool:
        """Whether the engine has nobody: nobody runs or waits, and for nobody who has left or is
        served a step is still computing.
        """

    def submit(self, attempt: Attempt) -> None:
        """Take an attempt; a refusal ends it before this returns."""

    def cancel(self, attempt: Attempt) -> None:
        """The client has left; what the attempt holds is freed at the end of the step in flight."""

    def given_tokens(self, attempt: Attempt) -> int:
        """Tokens of its answer so far, of an attempt that is under way here."""

    def published(self, now_s: float) -> Published | None:
        """Answer a metrics poll; None when there is nobody to answer it."""

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of all that has happened up to ``now_s``, the present instant."""

    def watch(self, observer: PodObserver) -> None:
        """Tell ``observer`` of every step or span when it is over."""

    def report(self) -> None:
        """Tell the observer, if any, of the step or span in flight, up to its planned end."""

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call once: before this returns if it is idle, else when that is the case first.

        That is at the end of a step, after its clients have been told. If the pod is stopped
        before, nobody is called.
        """

    def stop(self) -> None:
        """The process ends at this instant: nothing ever happens here again.

        What is in it breaks off, the step in flight included: ``failed`` without an HTTP
        status, ``connection_lost``. Their listeners are told one after another, in the order of
        submission, when nobody is here any more. Totals keep what finished steps gave. Ranks
        that step together end together.
        """


class ProcessPort(Protocol):
    """A pod that can be down, loading or ready, as a pool and the faults of a run see it.

    ``silent_until_s`` is when its ``readiness`` and its ``idle`` probe answer again.
    """

    name: str
    silent_until_s: dict[str, float]

    @property
    def ready(self) -> bool:
        """Whether it serves."""

    @property
    def idle(self) -> bool:
        """As of a pod; one that is not ready has nobody."""

    def when_idle(self, callback: Callable[[], None]) -> None:
        """As of a pod."""

    def when_busy(self, callback: Callable[[], None]) -> None:
        """Call once, before the next attempt that is sent here is taken."""

    def begin_loading(self) -> None:
        """A load begins; it must be down."""

    def start(self) -> None:
        """It is ready, with a fresh engine: empty KV, empty queue; it must not be ready yet."""

    def stop(self) -> None:
        """It is down, whatever it was; what is in it breaks off."""


@dataclass(slots=True, eq=False)
class PoolEvent:
    """A hold, a skip, a swap or an unload of a pool: one row of the pools table.

    It is recorded when it begins and filled in when it ends. ``member`` is the
    one that is wanted or loaded, ``cause`` that of a swap: ``request``,
    ``reclaim`` or ``initial``; that of an unload, after which nothing is loaded
    for it, ``idle``, ``evicted`` (beside the one that a swap names) or ``lost``.
    ``from_member`` is the first that a swap evicts. ``result`` of a hold is ``granted``,
    ``cancelled`` or a ``PoolError``, of a swap ``completed``, ``deadline``,
    ``error`` or ``cancelled``, of an unload ``completed``.
    """

    kind: str
    pool: str
    start_s: float
    member: str
    from_member: str | None = None
    request_id: int | None = None
    cause: str | None = None
    end_s: float | None = None
    result: str | None = None
    drain_s: float | None = None
    unload_s: float | None = None
    load_s: float | None = None

    @staticmethod
    def lost(pool: str, member: str, now_s: float) -> "PoolEvent":
        """The pod of a member that was ready has gone by itself."""
        return PoolEvent(
            "unload", pool, now_s, member, cause="lost", end_s=now_s, result="completed"
        )

    def unloaded(self, drained_s: float, end_s: float) -> None:
        """An unload is over, whose member had nobody any more since ``drained_s``."""
        self.drain_s = drained_s - self.start_s
        self.unload_s = end_s - drained_s
        self.end_s = end_s
        self.result = "completed"


@dataclass(slots=True, eq=False)
class Activation:
    """An attempt of a rule at a pooled backend, from its joining to its release.

    The pool calls ``granted`` or ``refused(error)`` once, a ``PoolError``,
    perhaps before ``join`` returns.
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


class PoolPort(Protocol):
    """The pool as the proxy sees it."""

    def start(self) -> None:
        """Called once, at time 0, before anything else."""

    def join(self, activation: Activation) -> None:
        """An attempt wants its member."""

    def leave(self, activation: Activation) -> None:
        """The client of a held attempt is gone."""

    def release(self, activation: Activation) -> None:
        """The response of a granted attempt is over, however it ended."""

    def unreachable(self, member: str) -> None:
        """A granted attempt could not connect to ``member``."""

    def restart(self) -> None:
        """The proxy has restarted: those held are refused, the counts are 0."""

    def fail_loads(self, member: str, after_s: float, loads: int) -> None:
        """The next ``loads`` loads of ``member`` fail ``after_s`` after they begin.

        If that is infinite they hang.
        """

    def lost(self, member: str) -> None:
        """The pod of ``member`` is gone; its process has been stopped already."""


@dataclass(frozen=True)
class PoolContext:
    """What a pool is given: the clock, where rows go, its random streams, its members.

    ``processes`` and ``unload_s`` and ``load_s`` (how long it takes when it
    works) are by member, in the order of the scenario, ``resident_bytes`` and
    ``contexts`` too where the pool asks for them. ``pinning_s`` is what the first
    unload of a process takes more, where it does. ``header_timeout_s`` is the
    proxy's, infinite for none.
    """

    kernel: Kernel
    streams: Streams
    events: list[PoolEvent]
    processes: Mapping[str, ProcessPort]
    unload_s: Mapping[str, float]
    load_s: Mapping[str, float]
    header_timeout_s: float
    resident_bytes: Mapping[str, float]
    contexts: Mapping[str, int]
    pinning_s: Mapping[str, float] = field(default_factory=dict)


class ProxyPort(Protocol):
    """The router as a client sees it."""

    def submit(self, request: Request) -> None:
        """A request arrives now, for the first time or again.

        ``request.on_end`` is called when this try is over; a client that wants
        another one says so there, by ``request.try_again``.
        """

    def cancel(self, request: Request) -> None:
        """The client leaves, be a try under way or not; nothing happens if the request is over."""


@dataclass(frozen=True)
class WorkloadContext:
    """What a workload is given: its name, the clock, its random streams and the front door.

    ``directory`` is where relative file names of the scenario start.
    ``finished`` must be called once when a finite workload has sent its last
    request and that request is over; an endless workload never calls it.
    ``models`` are the names that backends serve, empty when they serve any: a
    workload that asks for another one is refused when it is built. ``retried``
    hears of each try of a client that was not its last.
    """

    name: str
    kernel: Kernel
    streams: Streams
    proxy: ProxyPort
    directory: Path
    finished: Callable[[], None]
    retried: Callable[[Retry], None]
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
