"""Pods that can end and start again: one name and one account over any number of engines.

A replica is down, loading or ready. Each time that it becomes ready it gets
fresh engines: empty KV cache, empty queue, nobody at the front end. Its ranks,
mostly one, are processes of their own for the router, but live together: what
is done to one of them is done to all.
"""

from collections.abc import Callable, Sequence

from sim.core.content import Prompt
from sim.core.errors import InvariantError
from sim.core.kernel import Kernel
from sim.core.ports import PodObserver, PodPort, PodTotals, Published, peek
from sim.core.request import Attempt, Reason


class ReplicaLifecycle:
    """The life that its processes share; down until it is loaded or started.

    ``build`` makes the engines of one life, one for each process, behind
    their front ends if they have any.
    """

    def __init__(self, build: Callable[[], Sequence[PodPort]], kernel: Kernel) -> None:
        self._build = build
        self._kernel = kernel
        self._engines = tuple(build())  # of the next life, if there are any yet
        self.processes = tuple(RankProcess(engine.name, self, kernel) for engine in self._engines)
        self.ready = False
        self._lives: list[tuple[float, float]] = []  # of what is over
        self._loading = False
        self._since_s = 0.0  # ready or loading
        self._ready_s = 0.0  # of what is over
        self._loading_s = 0.0
        self._loads = 0

    def begin_loading(self) -> None:
        """A load begins; raises ``InvariantError`` unless it is down."""
        if self.ready or self._loading:
            raise InvariantError(f"{self._names()} cannot load: not down")
        self._loading = True
        self._loads += 1
        self._since_s = self._kernel.now_s

    def start(self) -> None:
        """It is ready, after a load or without one; raises ``InvariantError`` if it was before."""
        if self.ready:
            raise InvariantError(f"{self._names()} cannot start: ready already")
        self._settle()
        self.ready = True
        engines, self._engines = self._engines or tuple(self._build()), ()
        for process, engine in zip(self.processes, engines, strict=True):
            process.serve_with(engine)

    def stop(self) -> None:
        """It is down, whatever it was; what is in it breaks off, when no rank serves any more."""
        self._settle()
        engines = [process.retire() for process in self.processes]
        for engine in engines:
            if engine is not None:
                engine.stop()

    def life(self, now_s: float) -> PodTotals:
        """Time ready and loading up to ``now_s``, and loads; of each process."""
        present_s = now_s - self._since_s
        ready_s = self._ready_s + (present_s if self.ready else 0.0)
        loading_s = self._loading_s + (present_s if self._loading else 0.0)
        return PodTotals(ready_s=ready_s, loading_s=loading_s, loads=self._loads)

    def lives(self, now_s: float) -> tuple[tuple[float, float], ...]:
        """When it was ready, from and to, up to ``now_s``."""
        present = ((self._since_s, now_s),) if self.ready else ()
        return (*self._lives, *present)

    def _settle(self) -> None:
        """What it has been since ``_since_s`` is over."""
        now_s = self._kernel.now_s
        if self.ready:
            self._lives.append((self._since_s, now_s))
        life = self.life(now_s)
        self._ready_s, self._loading_s = life.ready_s, life.loading_s
        self._since_s = now_s
        self.ready = self._loading = False

    def _names(self) -> str:
        return ", ".join(process.name for process in self.processes)


class RankProcess:
    """One rank of a replica, or all of it: a pod for the router, a process for pool and faults."""

    def __init__(self, name: str, replica: ReplicaLifecycle, kernel: Kernel) -> None:
        self.name = name
        self._replica = replica
        self._kernel = kernel
        self._engine: PodPort | None = None
        self._observer: PodObserver | None = None
        self.silent_until_s = {"readiness": 0.0, "idle": 0.0}  # its probes
        self._past = PodTotals()  # of engines that have ended
        self._on_busy: list[Callable[[], None]] = []

    # -- a life ---------------------------------------------------------------------------

    @property
    def ready(self) -> bool:
        """Whether it serves, and answers polls."""
        return self._engine is not None

    def begin_loading(self) -> None:
        """A load of the replica begins."""
        self._replica.begin_loading()

    def start(self) -> None:
        """The replica is ready."""
        self._replica.start()

    def stop(self) -> None:
        """The replica is down."""
        self._replica.stop()

    def serve_with(self, engine: PodPort) -> None:
        """A life begins."""
        self._engine = engine
        if self._observer is not None:
            engine.watch(self._observer)

    def retire(self) -> PodPort | None:
        """A life ends: takes nothing any more; returns the engine that is to be stopped, if any."""
        engine, self._engine = self._engine, None
        if engine is not None:
            self._past += engine.totals(self._kernel.now_s)
        return engine

    # -- as a pod -------------------------------------------------------------------------

    def submit(self, attempt: Attempt) -> None:
        """Take an attempt; nobody listens while it is not ready."""
        if self._engine is None:
            attempt.break_off(self._kernel.now_s, Reason.CONNECTION_REFUSED)
            return
        if self._on_busy:
            callbacks, self._on_busy = self._on_busy, []
            for callback in callbacks:
                callback()
        self._engine.submit(attempt)

    def cancel(self, attempt: Attempt) -> None:
        """The client has left; one that leaves while the process ends has nothing here any more."""
        if self._engine is not None:
            self._engine.cancel(attempt)

    def given_tokens(self, attempt: Attempt) -> int:
        """Tokens of its answer so far; those it had when its process ended."""
        if self._engine is None:
            return attempt.emitted_tokens
        return self._engine.given_tokens(attempt)

    def published(self, now_s: float) -> Published | None:
        """What its engine says; nobody answers when there is none."""
        return None if self._engine is None else self._engine.published(now_s)

    def totals(self, now_s: float) -> PodTotals:
        """Running totals over all its lives."""
        totals = self._past + self._replica.life(now_s)
        return totals if self._engine is None else totals + self._engine.totals(now_s)

    def watch(self, observer: PodObserver) -> None:
        """The steps are those of its engines."""
        self._observer = observer
        if self._engine is not None:
            self._engine.watch(observer)

    def report(self) -> None:
        """Tell the observer of what its engine has in flight."""
        if self._engine is not None:
            self._engine.report()

    def cached_prefix_tokens(self, prompt: Prompt) -> int | None:
        """Leading tokens of ``prompt`` that the cache of its engine holds; none without one."""
        return 0 if self._engine is None else peek(self._engine, prompt)

    @property
    def idle(self) -> bool:
        """Whether nobody is in it: always when it is not ready."""
        return self._engine is None or self._engine.idle

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call once when it is idle; a life that ends before calls nobody."""
        if self._engine is None:
            callback()
        else:
            self._engine.when_idle(callback)

    def when_busy(self, callback: Callable[[], None]) -> None:
        """Call once, before it takes the next attempt, in this life or a later one."""
        self._on_busy.append(callback)
