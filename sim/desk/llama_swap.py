"""llama-swap's scheduler: first come, first served, but those for a loaded model at once.

So ``A B C A B C`` becomes ``A A B B C C``. Nothing bounds how long the ones for
another model are passed, how many are queued, or how long they are held: that
is up to clients (``internal/router/scheduler/fifo.go``).
How many there may be for one member is decided when a request comes: those who
wait for it count as those in flight do (mostlygeek/llama-swap#889).
"""

from dataclasses import dataclass
from functools import partial

from sim.core.ports import Activation, PoolContext, PoolEvent
from sim.core.registry import family
from sim.core.request import PoolError
from sim.desk.llama_swap_spec import LlamaSwapPool
from sim.desk.runner import Callbacks, Idleness, State, runners
from sim.pool.loading import LoadPlans
from sim.pool.observed_state import Attempts
from sim.pool.wake_loop import WakeLoop


@dataclass(slots=True, eq=False)
class _Swap:
    """A swap under way: ``evicted`` end, then ``target`` is loaded unless it is ready already."""

    target: str
    evicted: tuple[str, ...]
    event: PoolEvent
    loading: bool = False


@family(LlamaSwapPool)
class LlamaSwap:
    """A pool of kind ``llama-swap``; a ``sim.core.ports.PoolPort``.

    Several swaps may run at a time as long as they have nothing to do with each
    other. None is ever given up: when those who have asked for it are gone, the
    member is loaded all the same.
    """

    def __init__(self, name: str, spec: LlamaSwapPool, context: PoolContext) -> None:
        self._name = name
        self._spec = spec
        self._kernel = context.kernel
        self._events = context.events
        self._plans = LoadPlans(name, spec.health_checked(), context)
        self._runners = runners(context, self._plans, Callbacks(self._loaded, self._stopped))
        self._evicts = spec.evicts()
        self._attempts = Attempts(name, context.kernel, context.events, spec.members)
        self._rounds = WakeLoop(self._attempts.waits, self._act)
        self._active: dict[str, _Swap] = {}  # by target
        self._served: dict[Activation, None] = {}  # by a swap that is over: nobody comes before
        self._ending: dict[str, PoolEvent] = {}
        self._idleness = Idleness(context.kernel, partial(self._end, cause="idle"))

    # -- the proxy ------------------------------------------------------------------------

    def start(self) -> None:
        """Some are ready."""
        for member in dict.fromkeys(self._spec.initial):
            self._runners[member].place()
            self._watch(member)

    def join(self, activation: Activation) -> None:
        """Serve, queue, or start a swap; the hold has no end. One too many is refused at once."""
        member = activation.member
        counts = self._attempts.counts[member]
        if counts.waiting + counts.in_flight >= self._spec.members[member].concurrency_limit:
            activation.refused(PoolError.CONCURRENCY_LIMIT)
            return
        self._attempts.hold(activation)
        self._attempts.open_row(activation)
        self._rounds.run([activation], self._in_order)

    def leave(self, activation: Activation) -> None:
        """Its client is gone; a swap that has begun goes on."""
        self._served.pop(activation, None)
        self._attempts.stop_waiting(activation, "cancelled")

    def release(self, activation: Activation) -> None:
        """A granted attempt is over: its member may be unloaded when it was the last."""
        self._attempts.land(activation)
        if not self._in_flight(activation.member):
            self._watch(activation.member)
            self._decide()

    def unreachable(self, member: str) -> None:
        """Nothing new: the scheduler starts the processes, and knows when one has ended."""

    def restart(self) -> None:
        """The router in front restarts; the scheduler goes on, and its clients are gone."""
        held = list(self._attempts.waiting)
        for activation in held:
            self._attempts.stop_waiting(activation, PoolError.PROXY_RESTART)
        self._attempts.forget_requests()
        self._served.clear()
        for member in self._runners:
            self._watch(member)
        for activation in held:
            activation.refused(PoolError.PROXY_RESTART)

    # -- faults ---------------------------------------------------------------------------

    def fail_loads(self, member: str, after_s: float, loads: int) -> None:
        """The next ``loads`` loads of ``member`` fail ``after_s`` after they have begun."""
        self._plans.fail_loads(member, after_s, loads)

    def lost(self, member: str) -> None:
        """The process of ``member`` has ended."""
        if self._runners[member].ready:
            self._events.append(PoolEvent.lost(self._name, member, self._kernel.now_s))
        self._runners[member].lost()
        self._watch(member)
        self._decide()

    # -- decisions ------------------------------------------------------------------------

    def _decide(self) -> None:
        self._rounds.run(self._in_order(), self._in_order)

    def _in_order(self) -> list[Activation]:
        """Those who wait: first those whose swap is over, then by priority and age."""
        members = self._spec.members
        queued = [each for each in self._attempts.waiting if each not in self._served]
        queued.sort(key=lambda activation: -members[activation.member].priority)
        return [*self._served, *queued]

    def _act(self, activation: Activation) -> None:
        member = activation.member
        if activation in self._served:
            self._grant(activation)
            return
        if member in self._active:
            return  # one swap serves all who ask for it
        evicted = self._evicts(member, tuple(filter(self._is_there, self._spec.members)))
        if self._collides(member, evicted):
            return
        if not evicted and self._runners[member].ready:
            self._grant(activation)
        elif not any(self._in_flight(other) for other in evicted):
            self._start_swap(member, evicted)

    def _is_there(self, member: str) -> bool:
        return member in self._active or self._runners[member].state is not State.DOWN

    def _collides(self, member: str, evicted: tuple[str, ...]) -> bool:
        """Whether a swap that is under way unloads ``member``, or would be undone."""
        return any(
            other in evicted or member in swap.evicted or not set(evicted).isdisjoint(swap.evicted)
            for other, swap in self._active.items()
        )

    def _grant(self, activation: Activation) -> None:
        member = activation.member
        self._served.pop(activation, None)
        self._idleness.end(member)
        self._attempts.take_off(activation)
        activation.granted()

    def _in_flight(self, member: str) -> int:
        return self._attempts.counts[member].in_flight

    # -- swaps ----------------------------------------------------------------------------

    def _start_swap(self, member: str, evicted: tuple[str, ...]) -> None:
        event = PoolEvent(
            "swap",
            self._name,
            self._kernel.now_s,
            member,
            evicted[0] if evicted else None,
            cause="request",
        )
        self._events.append(event)
        swap = self._active[member] = _Swap(member, evicted, event)
        for other in evicted:
            if self._runners[other].ready:
                self._end(other, None if other == event.from_member else "evicted")
        self._idleness.end(member)
        self._go_on(swap)

    def _stopped(self, member: str) -> None:
        """A member is down, evicted or expired."""
        if member in self._ending:
            self._ending.pop(member).unloaded(self._runners[member].drained_s, self._kernel.now_s)
        for swap in list(self._active.values()):
            if not swap.loading and member in (swap.target, *swap.evicted):
                self._go_on(swap)
        self._decide()

    def _go_on(self, swap: _Swap) -> None:
        """Load the target once nobody is stopping any more who must be down before."""
        target = self._runners[swap.target]
        runners = [target, *(self._runners[member] for member in swap.evicted)]
        if any(runner.state is State.STOPPING for runner in runners):
            return
        event, now_s = swap.event, self._kernel.now_s
        if swap.evicted or now_s > event.start_s:
            drained_s = max(runner.drained_s for runner in runners)
            event.drain_s = max(0.0, drained_s - event.start_s)
            event.unload_s = now_s - event.start_s - event.drain_s
        swap.loading = True
        if target.ready:
            self._loaded(swap.target, True)
        else:
            target.load()

    def _loaded(self, member: str, ready: bool) -> None:
        """The swap to ``member`` is over: those who wait for it are served, or told."""
        swap = self._active.pop(member)
        event, now_s = swap.event, self._kernel.now_s
        event.end_s = now_s
        event.result = "completed" if ready else "error"
        unloaded_s = (event.drain_s or 0.0) + (event.unload_s or 0.0)
        event.load_s = now_s - event.start_s - unloaded_s
        waiters = self._attempts.waiting_for(member)
        if ready:
            self._served.update(dict.fromkeys(waiters))
            self._watch(member)
            waiters = []
        for activation in waiters:
            self._attempts.stop_waiting(activation, PoolError.SWAP_FAILED)
        self._decide()
        for activation in waiters:
            activation.refused(PoolError.SWAP_FAILED)

    # -- idle members ---------------------------------------------------------------------

    def _watch(self, member: str) -> None:
        """Nobody is in flight for ``member``, or it is gone: its idle time begins, or ends."""
        ttl_s = self._spec.ttl_s(member)
        if ttl_s is None or not self._runners[member].ready or self._in_flight(member):
            self._idleness.end(member)
        else:
            self._idleness.begin(member, ttl_s)

    def _end(self, member: str, cause: str | None) -> None:
        """It stops; there is a row for it unless that of a swap names it."""
        self._idleness.end(member)
        if cause is not None:
            event = PoolEvent("unload", self._name, self._kernel.now_s, member, cause=cause)
            self._events.append(event)
            self._ending[member] = event
        self._runners[member].stop(self._spec.unload_timeout)
