"""Ollama's scheduler: several models in one memory, one decision to load at a time.

Requests for a model that is loaded, or being loaded, pass; the others
queue, and only the first of them is looked at until its model
is ready. So ``A B C B C`` is five loads where llama-swap needs three. If there
is no room, one model ends as soon as it has no request, and the next look
comes when one has ended (``server/sched.go``). A
model that is loaded with another context than a request asks for ends and is loaded
again (``needsReload``). Nothing bounds how long a request is held: that is up to clients.
``Memory`` is what the members share; freed memory is seen with a delay.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, fsum, inf
from typing import Final

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order, instant
from sim.core.ports import Activation, PoolContext, PoolEvent
from sim.core.registry import family
from sim.core.request import PoolError
from sim.desk.ollama_spec import OllamaPool
from sim.desk.runner import Callbacks, Idleness, State, runners
from sim.pool.loading import LoadPlans
from sim.pool.observed_state import Attempts
from sim.pool.wake_loop import WakeLoop

POLL_S: Final = 0.25
"""How often Ollama looks whether memory is free again."""

LIMIT_S: Final = 5.0
"""How long Ollama waits for that; then it goes on as if it were."""

MOST_PERCENT: Final = 80
"""Share of what is free that a further model may need at most (``server/sched.go``, ``load``)."""


class Memory:
    """Who has how much of ``total_bytes``.

    What a member has left is free ``recovery_s`` later. ``settled(member)`` is
    called when that is seen, or is waited for no longer.
    """

    def __init__(
        self,
        kernel: Kernel,
        total_bytes: float,
        bytes_of: Mapping[str, float],
        recovery_s: float,
        settled: Callable[[str], None],
    ) -> None:
        self._kernel = kernel
        self._total_bytes = total_bytes
        self._bytes_of = bytes_of
        self._recovery_s = recovery_s
        self._settled = settled
        self._taken: dict[int, float] = {}
        self._leases: dict[str, int] = {}  # of members that are there
        self._number = 0
        self._settling: dict[str, int] = {}

    @property
    def taken_bytes(self) -> float:
        """What is not free, whether somebody still has it or not."""
        return fsum(self._taken.values())

    @property
    def settling(self) -> bool:
        """Whether memory that somebody has left is still waited for."""
        return bool(self._settling)

    def fits(self, member: str) -> bool:
        """Whether there is room for ``member`` beside others, with Ollama's headroom."""
        free_bytes = self._total_bytes - self.taken_bytes
        return self._bytes_of[member] * 100 <= free_bytes * MOST_PERCENT

    def take(self, member: str) -> None:
        """It is about to be loaded, or is there."""
        self._number += 1
        self._leases[member] = self._number
        self._taken[self._number] = self._bytes_of[member]

    def leave(self, member: str, since_s: float, at_once: bool = False) -> None:
        """It is gone, and has been on its way out since ``since_s``; its memory may be free
        ``at_once``.
        """
        lease, now_s = self._leases.pop(member), self._kernel.now_s
        if at_once or self._recovery_s == 0:
            del self._taken[lease]
            self._settled(member)
            return
        free_s = instant(now_s + self._recovery_s)
        polls = ceil((free_s - since_s - BOUNDARY_TOLERANCE_S) / POLL_S)
        seen_s = since_s + min(polls * POLL_S, max(LIMIT_S, now_s - since_s))
        self._settling[member] = lease
        self._kernel.at_instant(free_s, Order.STEP_END, lambda: self._free(lease))
        self._kernel.at_instant(seen_s, Order.READINESS, lambda: self._seen(member, lease))

    def _free(self, lease: int) -> None:
        del self._taken[lease]

    def _seen(self, member: str, lease: int) -> None:
        if self._settling.get(member) == lease:
            del self._settling[member]
            self._settled(member)


@dataclass(slots=True, eq=False)
class _Turn:
    """The attempt that is looked at, whose model is to be loaded; ``event`` is its row.

    ``victim`` has been told to end for it, at ``told_s``; ``loading_since_s`` is
    None until there is room.
    """

    activation: Activation
    event: PoolEvent
    victim: str | None = None
    told_s: float = 0.0
    loading_since_s: float | None = None


@family(OllamaPool)
class Ollama:
    """A pool of kind ``ollama``; a ``sim.core.ports.PoolPort``."""

    def __init__(self, name: str, spec: OllamaPool, context: PoolContext) -> None:
        self._name = name
        self._spec = spec
        self._kernel = context.kernel
        self._events = context.events
        self._plans = LoadPlans(name, spec.members, context, spec.load_timeout)
        self._runners = runners(context, self._plans, Callbacks(self._loaded, self._stopped))
        self._keep_alive_s = {member: spec.keep_alive_s(member) for member in spec.members}
        self._default_ctx = context.contexts
        self._loaded_ctx = dict(context.contexts)  # of a member that is there
        self._memory = Memory(
            context.kernel, spec.memory, context.resident_bytes, spec.vram_recovery, self._settled
        )
        self._attempts = Attempts(name, context.kernel, context.events, spec.members)
        self._rounds = WakeLoop(self._attempts.waits, self._act)
        self._idleness = Idleness(context.kernel, self._end)
        self._ending: dict[str, PoolEvent] = {}
        self._pending: dict[Activation, None] = {}  # those that wait for no model that is there
        self._turn: _Turn | None = None

    # -- the proxy ------------------------------------------------------------------------

    def start(self) -> None:
        """Some are ready."""
        for member in dict.fromkeys(self._spec.initial):
            self._memory.take(member)
            self._runners[member].place()
            self._watch(member)

    def join(self, activation: Activation) -> None:
        """Serve, queue, or refuse; the hold has no end."""
        if self._is_full(activation):
            activation.refused(PoolError.QUEUE_FULL)
            return
        self._attempts.hold(activation)
        self._attempts.open_row(activation)
        if self._needs_load(activation):
            self._pending[activation] = None
        self._rounds.run([activation], self._oldest_first)

    def leave(self, activation: Activation) -> None:
        """Its client is gone, and with it the load that was for it."""
        self._attempts.stop_waiting(activation, "cancelled")
        self._pending.pop(activation, None)
        if self._turn is not None and self._turn.activation is activation:
            self._give_up(self._turn)
        self._decide()

    def release(self, activation: Activation) -> None:
        """A granted attempt is over: the next one for its member comes, or it is idle."""
        self._attempts.land(activation)
        self._decide()
        self._watch(activation.member)

    def unreachable(self, member: str) -> None:
        """Nothing new: the scheduler starts the processes, and knows when one has ended."""

    def restart(self) -> None:
        """The router in front restarts; the scheduler goes on, and its clients are gone."""
        held = self._oldest_first()
        for activation in held:
            self._attempts.stop_waiting(activation, PoolError.PROXY_RESTART)
        self._attempts.forget_requests()
        self._pending.clear()
        if self._turn is not None:
            self._give_up(self._turn)
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
        was_ready = self._runners[member].ready
        self._runners[member].lost()
        if was_ready:
            self._events.append(PoolEvent.lost(self._name, member, self._kernel.now_s))
            self._idleness.end(member)
            self._queue_again(member)
            self._memory.leave(member, self._kernel.now_s)
            self._decide()

    # -- decisions ------------------------------------------------------------------------

    def _is_full(self, activation: Activation) -> bool:
        """Whether an attempt would wait, and as many wait already as may: maxQueue.

        The one that is looked at has left the queue.
        """
        member = activation.member
        if self._needs_load(activation):
            at_once = self._turn is None and not self._pending
        else:
            at_once = self._runners[member].ready and self._has_slot(member)
        queued = self._attempts.waiting_count - (self._turn is not None)
        return not at_once and queued >= self._spec.max_queue

    def _needs_load(self, activation: Activation) -> bool:
        """Whether its member is not there, or is loaded with another context than it asks for.

        One that is being loaded is waited for whatever it is loaded with.
        """
        member = activation.member
        state = self._runners[member].state
        if state is State.READY:
            return self._context(activation) != self._loaded_ctx[member]
        return state is not State.LOADING

    def _context(self, activation: Activation) -> int:
        asked = activation.request.num_ctx
        return self._default_ctx[activation.member] if asked is None else asked

    def _has_slot(self, member: str) -> bool:
        return self._attempts.counts[member].in_flight < self._spec.num_parallel

    def _oldest_first(self) -> list[Activation]:
        return list(self._attempts.waiting)

    def _decide(self) -> None:
        self._rounds.run(self._oldest_first(), self._oldest_first)

    def _act(self, activation: Activation) -> None:
        member = activation.member
        if activation in self._pending:
            if activation is not next(iter(self._pending)):
                return
            if self._needs_load(activation):
                self._take_turn(activation)
                return
            del self._pending[activation]
            self._rounds.changed()  # there is another first one
        elif self._needs_load(activation):  # what it has waited for has another context
            self._pending[activation] = None
            self._rounds.changed()
            return
        if self._runners[member].ready and self._has_slot(member):
            self._idleness.end(member)
            self._attempts.take_off(activation)
            activation.granted()

    def _queue_again(self, member: str) -> None:
        """``member`` is not there, or will not be: those that have counted on it queue again."""
        for activation in self._attempts.waiting_for(member):
            self._pending.setdefault(activation)

    # -- loads ----------------------------------------------------------------------------

    def _take_turn(self, activation: Activation) -> None:
        """Look at the first of the queue unless another model is being loaded."""
        if self._turn is None:
            now_s = self._kernel.now_s
            event = PoolEvent("swap", self._name, now_s, activation.member, cause="request")
            self._events.append(event)
            self._turn = _Turn(activation, event)
        if self._turn.activation is activation:
            self._make_room(self._turn)

    def _make_room(self, turn: _Turn) -> None:
        """Load, or have somebody end first; nothing is decided while somebody is ending."""
        ending = any(runner.state is State.STOPPING for runner in self._runners.values())
        if turn.victim is not None or ending or self._memory.settling:
            return
        member = turn.activation.member
        if self._runners[member].ready:
            self._evict(turn, [member])
            return
        loaded = [name for name, runner in self._runners.items() if runner.ready]
        # An empty memory is loaded into, whatever is seen to be free there.
        if loaded and not (
            len(loaded) < self._spec.max_loaded_models and self._memory.fits(member)
        ):
            self._evict(turn, loaded)
            return
        turn.loading_since_s = self._kernel.now_s
        del self._pending[turn.activation]
        self._memory.take(member)
        self._loaded_ctx[member] = self._context(turn.activation)
        self._runners[member].load()

    def _evict(self, turn: _Turn, loaded: list[str]) -> None:
        """The one to be kept for the shortest time ends, of those that are idle if there are any.

        Who was used last does not matter.
        """
        loaded.sort(key=lambda name: (self._keep_alive_s[name], name))
        victim = next((name for name in loaded if not self._references(name)), loaded[0])
        turn.victim, turn.told_s = victim, self._kernel.now_s
        turn.event.from_member = turn.event.from_member or victim
        self._keep_alive_s[victim] = 0.0
        if not self._references(victim):
            self._end(victim)

    def _references(self, member: str) -> int:
        """Who is in flight for ``member``, or waits for one of its slots."""
        waiting = self._attempts.waiting_for(member)
        queued = sum(activation not in self._pending for activation in waiting)
        return self._attempts.counts[member].in_flight + queued

    def _loaded(self, member: str, ready: bool) -> None:
        """The load is over; only the one that it was for is told when it has failed."""
        turn = self._turn
        assert turn is not None
        self._close(turn, "completed" if ready else "error")
        if ready:
            self._keep_alive_s[member] = self._spec.keep_alive_s(member)
            self._decide()
            return
        self._attempts.stop_waiting(turn.activation, PoolError.SWAP_FAILED)
        self._queue_again(member)
        self._memory.leave(member, self._kernel.now_s)
        self._decide()
        turn.activation.refused(PoolError.SWAP_FAILED)

    def _give_up(self, turn: _Turn) -> None:
        """Nobody waits for what is being done: a load is aborted, a victim ends all the same."""
        self._close(turn, "cancelled")
        if turn.loading_since_s is not None:
            member = turn.activation.member
            self._runners[member].abort()
            self._queue_again(member)
            self._memory.leave(member, self._kernel.now_s)

    def _close(self, turn: _Turn, result: str) -> None:
        event, now_s = turn.event, self._kernel.now_s
        event.end_s, event.result = now_s, result
        if turn.loading_since_s is not None:
            event.load_s = now_s - turn.loading_since_s
        self._turn = None

    # -- ends -----------------------------------------------------------------------------

    def _watch(self, member: str) -> None:
        """What follows for ``member`` if nobody needs it any more."""
        if not self._runners[member].ready or self._references(member):
            self._idleness.end(member)
        elif self._keep_alive_s[member] == 0:
            self._end(member)
        elif self._keep_alive_s[member] < inf:
            self._idleness.begin(member, self._keep_alive_s[member])

    def _end(self, member: str) -> None:
        """It ends, for the turn or because nobody has needed it for so long.

        There is a row for it unless that of a swap names it.
        """
        self._idleness.end(member)
        turn = self._turn
        is_victim = turn is not None and turn.victim == member
        if turn is None or not is_victim or turn.event.from_member != member:
            cause = "evicted" if is_victim else "idle"
            event = PoolEvent("unload", self._name, self._kernel.now_s, member, cause=cause)
            self._events.append(event)
            self._ending[member] = event
        self._runners[member].stop()

    def _stopped(self, member: str) -> None:
        drained_s = self._runners[member].drained_s
        if member in self._ending:
            self._ending.pop(member).unloaded(drained_s, self._kernel.now_s)
        # What is reported of a reload, 5 to 6 s, has this wait in it (ollama/ollama#18129).
        turn = self._turn
        reloads = turn is not None and turn.victim == turn.activation.member == member
        self._memory.leave(member, drained_s, at_once=reloads)

    def _settled(self, member: str) -> None:
        """The memory of ``member`` is seen to be free, or no longer waited for."""
        turn = self._turn
        if turn is not None and turn.victim is not None:
            if turn.victim == member:
                self._note_room(turn, self._runners[member].drained_s)
            turn.victim = None
        self._decide()

    def _note_room(self, turn: _Turn, drained_s: float) -> None:
        event = turn.event
        drain_s = max(0.0, drained_s - turn.told_s)
        event.drain_s = (event.drain_s or 0.0) + drain_s
        event.unload_s = (event.unload_s or 0.0) + self._kernel.now_s - turn.told_s - drain_s
