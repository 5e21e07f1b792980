"""The proxy side of a model pool: who is granted, held, skipped or refused, and which swap starts.

One decision at a time: whatever a grant or a refusal brings about while others
are being looked at (an answer at once, another attempt at this pool) waits
until these have been, so that nobody gets ahead of those who joined before.
"""

from collections.abc import Iterable
from typing import Final

from sim.kernel import BOUNDARY_TOLERANCE_S, Order, instant
from sim.pool.belief import Belief, Swap
from sim.pool.decision import Decision, Verdict
from sim.pool.loading import LoadPlans
from sim.pool.reclaim import ReclaimClock
from sim.pool.slot import Slot, SlotTiming
from sim.pool.spec import ModelPool
from sim.ports import Activation, PoolContext, PoolEvent, ProcessPort
from sim.registry import family
from sim.request import PoolError

UNBUDGETED_SWAP_S: Final = 240.0
"""Bound of a swap without a swapBudget: twice the default timeout to response headers."""


@family(ModelPool)
class Activator:
    """A pool of kind ``model-pool``; a ``sim.ports.PoolPort``."""

    def __init__(self, name: str, spec: ModelPool, context: PoolContext) -> None:
        self._name = name
        self._spec = spec
        self._kernel = context.kernel
        self._events = context.recorder.pool_events
        self._processes = context.processes
        budget_s = spec.swap_budget
        self._hold_s = context.header_timeout_s if budget_s is None else budget_s
        self._bound_s = UNBUDGETED_SWAP_S if budget_s is None else budget_s
        self._plans = LoadPlans(name, spec.members, context.times, context.streams)
        self._slot = Slot(
            context.kernel,
            context.processes,
            context.times,
            self._plans,
            SlotTiming(
                spec.idle_probe_interval,
                spec.idle_probe == "always-idle",
                spec.ready_poll_interval,
            ),
            self._slot_settled,
        )
        self._belief = Belief(spec.members)
        self._decision = Decision(spec, self._belief)
        self._reclaim = ReclaimClock(
            context.kernel,
            spec.reclaim_after,
            spec.reclaim_poll_s,
            self._unwanted,
            self._reclaim_default,
        )
        self._wake = context.streams.scalar(f"pool/{name}/wake")
        self._ties = context.streams.scalar(f"pool/{name}/ties")
        self._checked_s = 0.0  # when the belief was last compared with the slot
        self._deciding = False
        self._changed = False

    # -- the proxy ------------------------------------------------------------------------

    def start(self) -> None:
        """Who is ready at the start is there; else the default, if any, begins to load."""
        spec = self._spec
        if spec.ready_at_start is not None:
            self._slot.place(spec.ready_at_start)
            self._check_belief()
        elif spec.default is not None:
            self._load_unclaimed(spec.default, None, "initial")
        if spec.reclaims:
            self._reclaim.start()
            self._reclaim.changed()

    def join(self, activation: Activation) -> None:
        """Decide for an attempt that begins now; its hold runs from here."""
        now_s = self._kernel.now_s
        if now_s - self._checked_s > self._spec.belief_recheck + BOUNDARY_TOLERANCE_S:
            self._recheck()
        if self._decision.is_full(activation.member):
            activation.refused(PoolError.QUEUE_FULL)
            return
        activation.joined_s = now_s
        activation.hold_until_s = instant(now_s + self._hold_s)
        self._belief.hold(activation)
        self._decide([activation])

    def leave(self, activation: Activation) -> None:
        """The client of a held attempt is gone."""
        self._stop_waiting(activation, "cancelled")
        self._left(activation.member)

    def release(self, activation: Activation) -> None:
        """A granted attempt is over."""
        counts = activation.counts
        self._belief.land(activation)
        is_free = counts is not None and counts.in_flight == 0
        if is_free or self._spec.max_in_flight is not None:
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
            self._stop_waiting(activation, PoolError.PROXY_RESTART)
        belief.forget_requests()
        if belief.swap is not None:
            belief.swap, belief.unclaimed = None, belief.swap
        self._check_belief()
        self._decide_all()
        for activation in held:
            activation.refused(PoolError.PROXY_RESTART)

    # -- faults ---------------------------------------------------------------------------

    def fail_loads(self, member: str, after_s: float, loads: int) -> None:
        """The next ``loads`` loads of ``member`` fail ``after_s`` after they have begun."""
        self._plans.fail_loads(member, after_s, loads)

    def lost(self, member: str) -> None:
        """The pod of ``member`` is gone; the proxy will find out."""
        self._slot.lost(member)

    # -- decisions ------------------------------------------------------------------------

    def _decide_all(self, first: Iterable[Activation] = ()) -> None:
        """The state has changed: look at ``first``, then at all who wait."""
        self._decide([*first, *self._in_waking_order()])

    def _decide(self, activations: list[Activation]) -> None:
        self._changed = True
        if self._deciding:
            return
        self._deciding = True
        while self._changed:
            self._changed = False
            for activation in activations:
                if self._belief.waits(activation):
                    self._act(activation)
            activations = self._in_waking_order()
        self._deciding = False
        self._reclaim_changed()

    def _act(self, activation: Activation) -> None:
        verdict = self._decision.verdict(activation, self._kernel.now_s)
        joins = activation.event is None
        if joins:
            self._open_row(activation, "skip" if verdict is Verdict.SKIP else "hold")
        if verdict is Verdict.GRANT:
            self._grant(activation)
        elif verdict is Verdict.SKIP:
            self._stop_waiting(activation, PoolError.INCUMBENT_BUSY)
            activation.refused(PoolError.INCUMBENT_BUSY)
        elif verdict is Verdict.SWAP:
            self._start_swap(activation.member, "request")
        if joins and self._belief.waits(activation):
            until_s = activation.hold_until_s
            self._kernel.at_instant(
                until_s, Order.HOLD_EXPIRY, lambda: self._hold_ended(activation)
            )

    def _in_waking_order(self) -> list[Activation]:
        waiting = list(self._belief.waiting)
        if self._spec.wake_order == "random":
            self._wake.shuffle(waiting)
        return waiting

    def _grant(self, activation: Activation) -> None:
        belief = self._belief
        if belief.unclaimed is not None:  # the resident is wanted, so it is not to be unloaded
            self._drop_unclaimed(belief.unclaimed)
        self._stop_waiting(activation, "granted")
        belief.take_off(activation)
        activation.granted()

    # -- holds ----------------------------------------------------------------------------

    def _open_row(self, activation: Activation, kind: str) -> None:
        activation.event = PoolEvent(
            kind,
            self._name,
            activation.joined_s,
            activation.member,
            from_member=self._belief.resident,
            request_id=activation.request.request_id,
        )
        self._events.append(activation.event)

    def _stop_waiting(self, activation: Activation, result: str) -> None:
        self._belief.drop(activation)
        if activation.event is not None:
            activation.event.end_s = self._kernel.now_s
            activation.event.result = result

    def _hold_ended(self, activation: Activation) -> None:
        if self._belief.waits(activation):
            self._stop_waiting(activation, PoolError.HOLD_BUDGET)
            self._left(activation.member)
            activation.refused(PoolError.HOLD_BUDGET)

    def _left(self, member: str) -> None:
        """Somebody waits no longer for ``member``; the last one cancels the swap to it."""
        swap = self._belief.swap
        is_last = not self._belief.counts[member].waiting
        if swap is not None and swap.target == member and swap.requesters and is_last:
            self._give_up(swap, "cancelled", None)
        else:
            self._decide_all()

    # -- swaps ----------------------------------------------------------------------------

    def _start_swap(self, member: str, cause: str) -> None:
        belief, now_s = self._belief, self._kernel.now_s
        swap, belief.unclaimed = belief.unclaimed, None
        if swap is not None and swap.target != member:
            self._end_swap(swap, "cancelled")
            swap = None
        is_new = swap is None
        if swap is None:
            swap = self._new_swap(member, belief.resident, cause)
        swap.requesters = cause == "request"
        swap.bound_s = instant(now_s + self._bound_s)
        belief.swap = swap
        self._kernel.at_instant(swap.bound_s, Order.SWAP_BOUND, lambda: self._bound_reached(swap))
        if is_new:
            self._slot.swap_to(member, swap.event)

    def _load_unclaimed(self, member: str, incumbent: str | None, cause: str) -> None:
        swap = self._new_swap(member, incumbent, cause)
        self._belief.unclaimed = swap
        self._slot.swap_to(member, swap.event)

    def _new_swap(self, member: str, incumbent: str | None, cause: str) -> Swap:
        event = PoolEvent("swap", self._name, self._kernel.now_s, member, incumbent, cause=cause)
        self._events.append(event)
        return Swap(member, incumbent, event, requesters=False)

    def _drop_unclaimed(self, swap: Swap) -> None:
        self._belief.unclaimed = None
        self._slot.abort()
        self._end_swap(swap, "cancelled")

    def _end_swap(self, swap: Swap, result: str) -> None:
        swap.event.end_s = self._kernel.now_s
        swap.event.result = result

    def _slot_settled(self, ready: bool) -> None:
        """The slot has done what it was told, or has failed to."""
        belief = self._belief
        swap = belief.swap or belief.unclaimed
        assert swap is not None
        if not ready:
            self._give_up(swap, "error", PoolError.SWAP_FAILED)
            return
        self._finish_swap(swap, "completed")
        targets = belief.waiting_for(swap.target)
        self._decide_all(targets if self._spec.grant_target_waiters_first else ())

    def _finish_swap(self, swap: Swap, result: str) -> None:
        belief = self._belief
        belief.swap = belief.unclaimed = None
        belief.swap_ended_s = self._kernel.now_s
        self._end_swap(swap, result)
        self._check_belief()

    def _bound_reached(self, swap: Swap) -> None:
        if self._is_over(swap):
            return
        ending = [each for each in self._belief.waiting if self._ends_now(each)]
        if ending and self._holds_end_first():
            for activation in ending:
                self._hold_ended(activation)
        if not self._is_over(swap):
            self._give_up(swap, "deadline", PoolError.SWAP_DEADLINE)

    def _is_over(self, swap: Swap) -> bool:
        """Whether ``swap`` no longer runs, or has got another bound."""
        early = self._kernel.now_s < swap.bound_s - BOUNDARY_TOLERANCE_S
        return self._belief.swap is not swap or early

    def _ends_now(self, activation: Activation) -> bool:
        return self._kernel.now_s > activation.hold_until_s - BOUNDARY_TOLERANCE_S

    def _holds_end_first(self) -> bool:
        order = self._spec.compat.tie_order
        return order == "hold-first" or (order == "random" and self._ties.random() < 0.5)

    def _give_up(self, swap: Swap, result: str, error: str | None) -> None:
        """A swap has failed or is not wanted: first the new state, then the errors.

        ``error`` goes to those who wait for its target, in the order in which they joined.
        """
        belief = self._belief
        failing = belief.waiting_for(swap.target) if error is not None else []
        if self._spec.swap_error_to == "first":
            del failing[1:]
        for activation in failing:
            self._stop_waiting(activation, error or "")
        self._slot.abort()
        self._finish_swap(swap, result)
        self._decide_all()
        if self._spec.reload_incumbent:
            self._reload(swap.incumbent)
        for activation in failing:
            activation.refused(error or "")

    def _reload(self, incumbent: str | None) -> None:
        belief = self._belief
        is_cold = belief.resident is None and belief.swap is None and belief.unclaimed is None
        if incumbent is not None and is_cold:
            self._load_unclaimed(incumbent, None, "reload")

    # -- who is resident ------------------------------------------------------------------

    def _check_belief(self) -> None:
        self._belief.resident = self._slot.resident
        self._checked_s = self._kernel.now_s

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
        self._start_swap(self._spec.default, "reclaim")
