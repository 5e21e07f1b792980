"""The proxy side of a model pool: who is granted, held or refused, and which swap starts."""

from collections.abc import Callable
from functools import partial

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Order, instant
from sim.core.ports import Activation, PoolContext, PoolEvent, ProcessPort
from sim.core.registry import family
from sim.core.request import PoolError
from sim.pool.decision import ActivationVerdict, Decision
from sim.pool.loading import LoadPlans
from sim.pool.observed_state import ObservedState, RunningSwap
from sim.pool.slot import ExclusiveSlot, SlotTiming
from sim.pool.spec import ExclusivePool, ModelPool
from sim.pool.swaps import ReclaimClock, SwapBound, Swaps
from sim.pool.wake_loop import WakeLoop


@family(ModelPool)
class PoolScheduler:
    """A pool of kind ``model-pool``; a ``sim.core.ports.PoolPort``.

    ``decision`` makes what other kinds of one slot decide by.
    """

    def __init__(
        self,
        name: str,
        spec: ExclusivePool,
        context: PoolContext,
        decision: Callable[[ObservedState], Decision] | None = None,
    ) -> None:
        self._name = name
        self._spec = spec
        self._kernel = context.kernel
        self._events = context.events
        self._processes = context.processes
        budget_s = spec.swap_budget
        self._hold_s = context.header_timeout_s if budget_s is None else budget_s
        self._plans = LoadPlans(name, spec.members, context)
        self._slot = self._make_slot(spec, context)
        self._belief = ObservedState(name, context.kernel, context.events, spec.members)
        decide = partial(Decision, spec) if decision is None else decision
        self._decision = decide(self._belief)
        self._swaps = self._make_swaps(name, spec, context)
        after_s, poll_s = spec.reclaim_after, spec.reclaim_poll_s
        self._reclaim = ReclaimClock(
            context.kernel, after_s, poll_s, self._unwanted, self._reclaim_default
        )
        self._wake = context.streams.scalar(f"pool/{name}/wake")
        self._checked_s = 0.0  # when the belief was last compared with the slot
        self._rounds = WakeLoop(self._belief.waits, self._act)

    def _make_slot(self, spec: ExclusivePool, context: PoolContext) -> ExclusiveSlot:
        always_idle = spec.idle_probe == "always-idle"
        timing = SlotTiming(spec.idle_probe_interval, always_idle, spec.ready_poll_interval)
        kernel, processes = context.kernel, context.processes
        return ExclusiveSlot(kernel, processes, self._plans, timing, self._slot_settled)

    def _make_swaps(self, name: str, spec: ExclusivePool, context: PoolContext) -> Swaps:
        ties = context.streams.scalar(f"pool/{name}/ties")
        bound = SwapBound(spec.swap_bound_s, spec.compat.tie_order, ties)
        belief, slot, events = self._belief, self._slot, context.events
        return Swaps(name, context.kernel, events, belief, slot, bound, self._bound_reached)

    # -- the proxy ------------------------------------------------------------------------

    def start(self) -> None:
        """Who is ready at the start is there; else the default, if any, begins to load."""
        spec = self._spec
        if spec.ready_at_start is not None:
            self._slot.place(spec.ready_at_start)
            self._check_belief()
        elif spec.default is not None:
            self._swaps.load_unclaimed(spec.default, "initial")
        if spec.reclaims:
            self._reclaim.start()

    def join(self, activation: Activation) -> None:
        """Decide for an attempt that begins now; its hold runs from here."""
        now_s = self._kernel.now_s
        if now_s - self._checked_s > self._spec.belief_recheck + BOUNDARY_TOLERANCE_S:
            self._recheck()
        if self._decision.is_full(activation.member):
            activation.refused(PoolError.QUEUE_FULL)
            return
        activation.hold_until_s = instant(now_s + self._hold_s)
        self._belief.hold(activation)
        self._decide([activation])

    def leave(self, activation: Activation) -> None:
        """The client of a held attempt is gone."""
        self._belief.stop_waiting(activation, "cancelled")
        self._left(activation.member)

    def release(self, activation: Activation) -> None:
        """A granted attempt is over."""
        self._belief.land(activation)
        if not self._belief.busy or self._spec.max_in_flight is not None:
            self._decide_all()

    def unreachable(self, member: str) -> None:
        """A dispatch to ``member`` failed: the belief may be wrong."""
        if self._spec.recheck_on_error:
            self._recheck()

    def restart(self) -> None:
        """A new proxy: it has no requests, and believes the ready member.

        A swap under way goes on in the slot.
        """
        belief = self._belief
        held = list(belief.waiting)
        for activation in held:
            self._belief.stop_waiting(activation, PoolError.PROXY_RESTART)
        belief.forget_requests()
        if belief.swap is not None:
            belief.swap, belief.unclaimed = None, belief.swap
        self._check_belief()
        self._reclaim_changed()
        for activation in held:
            activation.refused(PoolError.PROXY_RESTART)

    # -- faults ---------------------------------------------------------------------------

    def fail_loads(self, member: str, after_s: float, loads: int) -> None:
        """The next ``loads`` loads of ``member`` fail ``after_s`` after they have begun."""
        self._plans.fail_loads(member, after_s, loads)

    def lost(self, member: str) -> None:
        """The pod of ``member`` is gone; the proxy will find out."""
        if self._slot.lost(member):
            self._events.append(PoolEvent.lost(self._name, member, self._kernel.now_s))

    # -- decisions ------------------------------------------------------------------------

    def _decide_all(self, first: str | None = None) -> None:
        """The state has changed: look at all who wait, at those for member ``first`` before."""
        self._decide(self._in_waking_order(first), first)

    def _decide(self, activations: list[Activation], first: str | None = None) -> None:
        if self._rounds.run(activations, lambda: self._in_waking_order(first)):
            self._reclaim_changed()

    def _act(self, activation: Activation) -> None:
        verdict = self._decision.verdict(activation, self._kernel.now_s)
        joins = activation.event is None
        if joins:
            self._belief.open_row(
                activation, "skip" if verdict is ActivationVerdict.SKIP else "hold"
            )
        if verdict is ActivationVerdict.GRANT:
            self._grant(activation)
        elif verdict is ActivationVerdict.SKIP:
            self._belief.stop_waiting(activation, PoolError.INCUMBENT_BUSY)
            self._rounds.changed()  # another one may be the oldest now
            activation.refused(PoolError.INCUMBENT_BUSY)
        elif verdict is ActivationVerdict.SWAP:
            self._swaps.start(activation.member, "request")
        if joins and self._belief.waits(activation):
            until_s = activation.hold_until_s
            self._kernel.at_instant(
                until_s, Order.HOLD_EXPIRY, lambda: self._hold_ended(activation)
            )

    def _in_waking_order(self, first: str | None) -> list[Activation]:
        waiting = list(self._belief.waiting)
        if self._spec.wake_order == "random":
            self._wake.shuffle(waiting)
        waiting.sort(key=self._decision.precedence)
        if first is not None:
            waiting.sort(key=lambda activation: activation.member != first)
        return waiting

    def _grant(self, activation: Activation) -> None:
        self._swaps.drop_unclaimed()  # the resident is wanted, so it is not to be unloaded
        self._belief.take_off(activation)
        activation.granted()

    # -- holds ----------------------------------------------------------------------------

    def _hold_ended(self, activation: Activation) -> None:
        if self._belief.waits(activation):
            self._belief.stop_waiting(activation, PoolError.HOLD_BUDGET)
            self._left(activation.member)
            activation.refused(PoolError.HOLD_BUDGET)

    def _left(self, member: str) -> None:
        """Somebody waits no longer for ``member``; the last one cancels the swap to it."""
        swap = self._belief.swap
        is_last = not self._belief.counts[member].waiting
        if swap is not None and swap.target == member and swap.requesters and is_last:
            self._go_on_without(swap, "cancelled")
        elif self._decision.heeds_others:
            self._decide_all()  # whom it stood before
        else:
            self._reclaim_changed()

    # -- swaps ----------------------------------------------------------------------------

    def _slot_settled(self, ready: bool) -> None:
        """The slot has done what it was told, or has failed to."""
        swap = self._belief.swap or self._belief.unclaimed
        assert swap is not None
        if not ready:
            self._give_up(swap, "error", PoolError.SWAP_FAILED)
            return
        self._swaps.end(swap, "completed")
        self._check_belief()
        self._decide_all(swap.target if self._spec.grant_target_waiters_first else None)

    def _bound_reached(self, swap: RunningSwap) -> None:
        self._give_up(swap, "deadline", PoolError.SWAP_DEADLINE)

    def _give_up(self, swap: RunningSwap, result: str, error: str) -> None:
        """A swap has failed: those who wait for its target get ``error``, in joining order."""
        failing = self._belief.waiting_for(swap.target)
        if self._spec.swap_error_to == "first":
            del failing[1:]
        for activation in failing:
            self._belief.stop_waiting(activation, error)
        self._go_on_without(swap, result)
        for activation in failing:
            activation.refused(error)

    def _go_on_without(self, swap: RunningSwap, result: str) -> None:
        """A swap has failed or is not wanted any more: the new state, before anybody is told."""
        self._swaps.end(swap, result)
        self._check_belief()
        self._decide_all()
        belief = self._belief
        is_cold = belief.resident is None and belief.swap is None
        if self._spec.reload_incumbent and is_cold and swap.incumbent is not None:
            self._swaps.load_unclaimed(swap.incumbent, "reload")

    # -- who is resident ------------------------------------------------------------------

    def _check_belief(self) -> None:
        self._checked_s = self._kernel.now_s
        if self._belief.sees(self._slot.resident, self._checked_s):
            kept_until_s = self._decision.kept_until_s
            if kept_until_s > self._checked_s:
                self._kernel.at_instant(kept_until_s, Order.RECLAIM, self._decide_all)

    def _recheck(self) -> None:
        if self._belief.swap is not None:
            return
        before = self._belief.resident
        self._check_belief()
        if self._belief.resident != before:
            self._decide_all()

    # -- reclaim --------------------------------------------------------------------------

    def _unwanted(self) -> ProcessPort | None:
        """The resident, if it is not the default and nobody needs it."""
        belief = self._belief
        resident = belief.resident
        if resident is None or resident == self._spec.default or belief.busy:
            return None
        if belief.oldest is not None or belief.swap is not None or belief.unclaimed is not None:
            return None
        return self._processes[resident]

    def _reclaim_changed(self) -> None:
        if self._spec.reclaims:
            self._reclaim.changed()

    def _reclaim_default(self) -> None:
        assert self._spec.default is not None
        self._swaps.start(self._spec.default, "reclaim")
