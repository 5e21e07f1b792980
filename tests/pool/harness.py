"""A pool without proxy and engines: fake pods with jobs of known length, clients with rules."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.core.content import Node, Prompt
from sim.core.kernel import Kernel, Order
from sim.core.ports import Activation, PoolContext, PoolEvent
from sim.core.registry import load
from sim.core.request import Request
from sim.core.rng import Streams
from sim.pool.spec import ExclusivePool

EXACT = {"idleProbeInterval": 0, "readyPollInterval": 0, "reclaimPoll": 0}


@dataclass(eq=False)
class Job:
    """What a pod works on; ``over(result)`` is called with ``ok`` or ``broken``."""

    service_s: float
    over: Callable[[str], None] = lambda result: None
    result: str = ""


class Pod:
    """A process with jobs instead of an engine; at most ``parallel`` run at a time."""

    def __init__(self, name: str, desk: "Desk", parallel: int | None) -> None:
        self.name = name
        self.ready = False
        self.loading = False
        self.silent_until_s = {"readiness": 0.0, "idle": 0.0}
        self.log: list[tuple[float, str]] = []
        self._desk = desk
        self._kernel = desk.kernel
        self._parallel = parallel
        self._running: dict[Job, None] = {}
        self._queued: dict[Job, None] = {}
        self._on_idle: list[Callable[[], None]] = []
        self._on_busy: list[Callable[[], None]] = []

    @property
    def idle(self) -> bool:
        return not self._running and not self._queued

    def when_idle(self, callback: Callable[[], None]) -> None:
        self._on_idle.append(callback)
        self._tell_idle()

    def when_busy(self, callback: Callable[[], None]) -> None:
        self._on_busy.append(callback)

    def begin_loading(self) -> None:
        assert not self.ready and not self.loading
        self._desk.assert_nobody_else_is_there(self)
        self.loading = True
        self._note("load")

    def start(self) -> None:
        assert not self.ready
        self._desk.assert_nobody_else_is_there(self)
        self.loading, self.ready = False, True
        self._note("ready")

    def stop(self) -> None:
        if self.ready or self.loading:
            self._note("stop")
        self.loading = self.ready = False
        jobs = [*self._running, *self._queued]
        self._running, self._queued, self._on_idle = {}, {}, []
        for job in jobs:
            self._end(job, "broken")

    def submit(self, job: Job) -> None:
        if not self.ready:
            self._end(job, "refused")
            return
        callbacks, self._on_busy = self._on_busy, []
        for callback in callbacks:
            callback()
        self._queued[job] = None
        self._serve()

    def cancel(self, job: Job) -> None:
        """The client is gone; the engine notices at once."""
        self._running.pop(job, None)
        self._queued.pop(job, None)
        self._serve()
        self._tell_idle()

    def _serve(self) -> None:
        while self._queued and (self._parallel is None or len(self._running) < self._parallel):
            job = next(iter(self._queued))
            del self._queued[job]
            self._running[job] = None
            self._kernel.at(
                self._kernel.now_s + job.service_s, Order.STEP_END, lambda job=job: self._done(job)
            )

    def _done(self, job: Job) -> None:
        if job in self._running:
            # As in an engine: nobody else is idle before the clients of the step have been told.
            self._end(job, "ok")
            self._running.pop(job, None)
            self._serve()
            self._tell_idle()

    def _end(self, job: Job, result: str) -> None:
        job.result = result
        job.over(result)

    def _tell_idle(self) -> None:
        if self.idle:
            callbacks, self._on_idle = self._on_idle, []
            for callback in callbacks:
                callback()

    def _note(self, what: str) -> None:
        self.log.append((round(self._kernel.now_s, 6), what))


@dataclass(eq=False)
class Client:
    """A request with a rule, and what became of it; ``log`` has a line per answer of the pool."""

    desk: "Desk"
    rule: tuple[str, ...]
    if_idle: bool
    service_s: float
    request: Request
    log: list[tuple[str, str, float]] = field(default_factory=list)
    outcome: str = ""
    end_s: float = -1.0
    activation: Activation | None = None
    held: bool = False
    left_a_hold: bool = False
    job: Job | None = None
    member: str = ""
    on_end: Callable[[], None] = lambda: None

    @property
    def told(self) -> tuple[str, float]:
        """The outcome, and when."""
        return self.outcome, self.end_s

    def try_next(self) -> None:
        tried = len(self.log)
        if tried == len(self.rule):
            self._end(self.log[-1][1])
            return
        self.member = self.rule[tried]
        self.activation = Activation(
            self.request, self.member, self.if_idle, self._granted, self._refused
        )
        self.held = True
        self.desk.pool.join(self.activation)

    def leave(self) -> None:
        """The client is gone, wherever its request is."""
        if self.outcome:
            return
        assert self.activation is not None
        if self.held:
            self.held, self.left_a_hold = False, True
            self._end("gone")
            self.desk.pool.leave(self.activation)
        else:
            assert self.job is not None
            self._end("gone")
            self.desk.pods[self.member].cancel(self.job)
            self.desk.pool.release(self.activation)

    def _granted(self) -> None:
        assert self.held and not self.outcome
        self.held = False
        self._note("granted")
        self.desk.on_grant(self)
        self.job = Job(self.service_s, self._ended)
        self.desk.pods[self.member].submit(self.job)

    def _refused(self, error: str) -> None:
        assert self.held and not self.outcome
        self.held = False
        self._note(error)
        self.try_next()

    def _ended(self, result: str) -> None:
        """As a proxy: what the end of a response means is found out when all of them have ended.

        Only that nobody listens is known at once, which is the harder case for the pool.
        """
        if result == "refused":
            self._answered(result)
        else:
            kernel = self.desk.kernel
            kernel.at(kernel.now_s, Order.RELEASE, lambda: self._answered(result))

    def _answered(self, result: str) -> None:
        if self.outcome:
            return
        assert self.activation is not None
        self.desk.pool.release(self.activation)
        if result == "refused":
            self.desk.pool.unreachable(self.member)
        if result == "ok" or len(self.log) == len(self.rule):
            self._end({"ok": "served"}.get(result, result))
        else:
            self.try_next()

    def _note(self, what: str) -> None:
        self.log.append((self.member, what, round(self.desk.kernel.now_s, 6)))

    def _end(self, outcome: str) -> None:
        self.outcome, self.end_s = outcome, round(self.desk.kernel.now_s, 6)
        self.on_end()


class Desk:
    """One pool on one clock; ``times`` are (load, unload) by member. Sees at once unless told."""

    def __init__(
        self,
        times: dict[str, tuple[float, float]],
        header_timeout_s: float = 120.0,
        parallel: int | None = None,
        seed: int = 1,
        members: dict[str, dict[str, Any]] | None = None,
        failures: Sequence[tuple[str, float]] = (),
        kind: str = "model-pool",
        pinning_s: dict[str, float] | None = None,
        **options: Any,
    ) -> None:
        family = load().pools[kind]
        self._exclusive = issubclass(family.spec, ExclusivePool)
        self.kernel = Kernel()
        self.events: list[PoolEvent] = []
        self.clients: list[Client] = []
        self.pods = {name: Pod(name, self, parallel) for name in times}
        more = members or {}
        written = {
            name: {"load": load_s, "unload": unload_s, **more.get(name, {})}
            for name, (load_s, unload_s) in times.items()
        }
        exact = EXACT if self._exclusive else {}
        spec = family.spec.model_validate({"kind": kind, "members": written, **exact, **options})
        self.context = PoolContext(
            kernel=self.kernel,
            streams=Streams(seed),
            events=self.events,
            processes=self.pods,
            unload_s={name: unload_s for name, (_, unload_s) in times.items()},
            load_s={name: load_s for name, (load_s, _) in times.items()},
            header_timeout_s=header_timeout_s,
            resident_bytes=spec.resident_bytes({}),
            contexts=spec.contexts({}),
            pinning_s=pinning_s or {},
        )
        self.pool = family.implementation("desk", spec, self.context)
        for name, after_s in failures:
            self.pool.fail_loads(name, after_s, 1)
        self.pool.start()

    # -- what happens -----------------------------------------------------------------------

    def ask(
        self,
        at_s: float,
        *rule: str,
        if_idle: bool = False,
        service_s: float = 2.0,
        leaves_s: float | None = None,
        order: int = Order.ARRIVAL,
        num_ctx: int | None = None,
    ) -> Client:
        """A request for the members of ``rule``, in this order."""
        client = self._client(rule, if_idle, service_s)
        client.request.num_ctx = num_ctx
        self.kernel.at(at_s, order, client.try_next)
        if leaves_s is not None:
            self.kernel.at(leaves_s, Order.CLIENT_TIMEOUT, client.leave)
        return client

    def ask_now(self, *rule: str, if_idle: bool = False, service_s: float = 2.0) -> Client:
        """A request that arrives within the present callback."""
        client = self._client(rule, if_idle, service_s)
        client.try_next()
        return client

    def direct(self, at_s: float, member: str, service_s: float) -> Job:
        """A request that goes past the router."""
        job = Job(service_s)
        self.kernel.at(at_s, Order.ARRIVAL, lambda: self.pods[member].submit(job))
        return job

    def lose(self, at_s: float, member: str) -> None:
        """The pod of a member is gone."""

        def lose() -> None:
            self.pods[member].stop()
            self.pool.lost(member)

        self.kernel.at(at_s, Order.FAULT, lose)

    def restart(self, at_s: float) -> None:
        """The proxy restarts."""
        self.kernel.at(at_s, Order.FAULT, self.pool.restart)

    def run(self, until_s: float) -> None:
        self.kernel.run_until(until_s)

    def on_grant(self, client: Client) -> None:
        """For tests that watch."""

    # -- what was seen ----------------------------------------------------------------------

    @property
    def swaps(self) -> list[tuple[float, str | None, str, float | None, str | None]]:
        """(start, from, to, end, result) of every swap."""
        return [
            (
                round(event.start_s, 6),
                event.from_member,
                event.member,
                None if event.end_s is None else round(event.end_s, 6),
                event.result,
            )
            for event in self.events
            if event.kind == "swap"
        ]

    def rows(self, kind: str) -> list[PoolEvent]:
        """Rows of one kind."""
        return [event for event in self.events if event.kind == kind]

    def loads(self, member: str) -> int:
        """How many loads of a member have begun."""
        return sum(what == "load" for _, what in self.pods[member].log)

    def assert_nobody_else_is_there(self, pod: Pod) -> None:
        if not self._exclusive:
            return
        others = [each.name for each in self.pods.values() if each is not pod]
        assert not any(self.pods[name].ready or self.pods[name].loading for name in others)

    def _client(self, rule: tuple[str, ...], if_idle: bool, service_s: float) -> Client:
        number = len(self.clients)
        node = Node()
        request = Request(
            session_id=f"s{number}",
            agent_id="",
            turn=0,
            session_key=None,
            prompt=Prompt(node, 1),
            answer=node,
            output_tokens=1,
            request_id=number,
        )
        client = Client(self, rule, if_idle, service_s, request)
        self.clients.append(client)
        return client
