"""Swaps as the proxy sees them, each with its row, and the reclaim of the default member."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from random import Random

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order, instant
from sim.core.ports import PoolEvent, ProcessPort
from sim.pool.observed_state import ObservedState, RunningSwap
from sim.pool.slot import ExclusiveSlot


class ReclaimClock:
    """Calls ``reclaim`` when one member has had nothing to do for ``after_s``.

    ``unwanted`` names the member that the proxy has no use for, None if there
    is no such. It is idle while nobody is in it, whoever sent them. That is
    looked at every ``poll_s`` from time 0: a busy spell between two looks is
    not seen. With 0 the clock is exact. An idle probe that does not answer
    counts as a busy look; the exact clock asks it at the beginning and the end.
    """

    def __init__(
        self,
        kernel: Kernel,
        after_s: float,
        poll_s: float,
        unwanted: Callable[[], ProcessPort | None],
        reclaim: Callable[[], None],
    ) -> None:
        self._kernel = kernel
        self._after_s = after_s
        self._poll_s = poll_s
        self._unwanted = unwanted
        self._reclaim = reclaim
        self._idle: ProcessPort | None = None  # whose idle time counts
        self._since_s = 0.0
        self._looks = 0

    def start(self) -> None:
        """The run begins."""
        if self._poll_s > 0:
            self._look()
        else:
            self.changed()

    def changed(self) -> None:
        """Something may have happened to what the proxy has use for."""
        if self._poll_s > 0:
            return
        process = self._unwanted()
        if process is None or not process.ready:
            self._idle = None
        elif not process.idle:
            self._idle = None
            process.when_idle(self.changed)
        elif self._is_silent(process):
            self._idle = None
            answers_s = process.silent_until_s["idle"]
            if answers_s < inf:
                self._kernel.at_instant(answers_s, Order.RECLAIM, self.changed)
        elif process is not self._idle:
            self._count_from_now(process)
            process.when_busy(self._interrupted)
            self._kernel.at_instant(self._since_s + self._after_s, Order.RECLAIM, self._due)

    def _interrupted(self) -> None:
        self._idle = None
        # Whoever comes is in it only when this has returned.
        self._kernel.at(self._kernel.now_s, Order.RECLAIM, self.changed)

    def _due(self) -> None:
        if self._idle is not None and self._has_lasted:
            if self._is_silent(self._idle):
                self.changed()
            else:
                self._take()

    def _is_silent(self, process: ProcessPort) -> bool:
        return process.silent_until_s["idle"] > self._kernel.now_s + BOUNDARY_TOLERANCE_S

    def _look(self) -> None:
        process = self._unwanted()
        if process is None or not process.ready or not process.idle or self._is_silent(process):
            self._idle = None
        elif process is not self._idle:
            self._count_from_now(process)
        elif self._has_lasted:
            self._take()
        self._looks += 1
        self._kernel.at_instant(self._looks * self._poll_s, Order.RECLAIM, self._look)

    def _count_from_now(self, process: ProcessPort) -> None:
        self._idle = process
        self._since_s = instant(self._kernel.now_s)

    @property
    def _has_lasted(self) -> bool:
        return self._kernel.now_s - self._since_s > self._after_s - BOUNDARY_TOLERANCE_S

    def _take(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None and idle.ready:
            self._reclaim()


@dataclass(frozen=True)
class SwapBound:
    """How long a swap may run, and whether that ends before a hold that ends with it."""

    bound_s: float
    tie_order: str  # swap-first, hold-first, random
    draws: Random

    def order(self) -> int:
        """Where the bound of a new swap stands among the events of its instant."""
        late = self.tie_order == "hold-first"
        if self.tie_order == "random":
            late = self.draws.random() < 0.5
        return Order.LATE_SWAP_BOUND if late else Order.SWAP_BOUND


class Swaps:
    """Keeps ``belief.swap`` and ``belief.unclaimed``, and tells the slot what to do.

    ``bound_reached(swap)`` is called when a swap still runs at its bound.
    """

    def __init__(
        self,
        pool: str,
        kernel: Kernel,
        events: list[PoolEvent],
        belief: ObservedState,
        slot: ExclusiveSlot,
        bound: SwapBound,
        bound_reached: Callable[[RunningSwap], None],
    ) -> None:
        self._pool = pool
        self._kernel = kernel
        self._events = events
        self._belief = belief
        self._slot = slot
        self._bound = bound
        self._bound_reached = bound_reached

    def start(self, member: str, cause: str) -> None:
        """Swap to ``member``: join a load of it that is under way unclaimed, drop another one."""
        belief = self._belief
        swap = belief.unclaimed
        if swap is None or swap.target != member:
            self.drop_unclaimed()
            swap = self._begun(member, belief.resident, cause)
        belief.swap, belief.unclaimed = swap, None
        swap.requesters = cause == "request"
        swap.bound_s = instant(self._kernel.now_s + self._bound.bound_s)
        self._kernel.at_instant(swap.bound_s, self._bound.order(), lambda: self._check_bound(swap))

    def load_unclaimed(self, member: str, cause: str) -> None:
        """The machine loads ``member`` of itself into the cold slot."""
        self._belief.unclaimed = self._begun(member, None, cause)

    def drop_unclaimed(self) -> None:
        """What the machine does of itself, if anything, is not wanted."""
        swap, self._belief.unclaimed = self._belief.unclaimed, None
        if swap is not None:
            self._slot.abort()
            self._close(swap, "cancelled")

    def end(self, swap: RunningSwap, result: str) -> None:
        """``swap`` is over; unless it has come to its end, what is under way for it is aborted."""
        self._slot.abort()
        belief = self._belief
        belief.swap = belief.unclaimed = None
        belief.swap_ended_s = self._kernel.now_s
        self._close(swap, result)

    def _check_bound(self, swap: RunningSwap) -> None:
        # One that was joined after a restart of the proxy has got a later bound.
        is_due = self._kernel.now_s > swap.bound_s - BOUNDARY_TOLERANCE_S
        if self._belief.swap is swap and is_due:
            self._bound_reached(swap)

    def _begun(self, member: str, incumbent: str | None, cause: str) -> RunningSwap:
        event = PoolEvent("swap", self._pool, self._kernel.now_s, member, incumbent, cause=cause)
        self._events.append(event)
        self._slot.swap_to(member, event)
        return RunningSwap(member, incumbent, event)

    def _close(self, swap: RunningSwap, result: str) -> None:
        swap.event.end_s = self._kernel.now_s
        swap.event.result = result
