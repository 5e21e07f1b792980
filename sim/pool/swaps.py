"""Swaps as the proxy sees them: started, joined, dropped and ended, each with its row."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order, instant
from sim.core.ports import PoolEvent
from sim.pool.observed_state import ObservedState, Swap
from sim.pool.slot import Slot


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
        slot: Slot,
        bound: SwapBound,
        bound_reached: Callable[[Swap], None],
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

    def end(self, swap: Swap, result: str) -> None:
        """``swap`` is over; unless it has come to its end, what is under way for it is aborted."""
        self._slot.abort()
        belief = self._belief
        belief.swap = belief.unclaimed = None
        belief.swap_ended_s = self._kernel.now_s
        self._close(swap, result)

    def _check_bound(self, swap: Swap) -> None:
        # One that was joined after a restart of the proxy has got a later bound.
        is_due = self._kernel.now_s > swap.bound_s - BOUNDARY_TOLERANCE_S
        if self._belief.swap is swap and is_due:
            self._bound_reached(swap)

    def _begun(self, member: str, incumbent: str | None, cause: str) -> Swap:
        event = PoolEvent("swap", self._pool, self._kernel.now_s, member, incumbent, cause=cause)
        self._events.append(event)
        self._slot.swap_to(member, event)
        return Swap(member, incumbent, event)

    def _close(self, swap: Swap, result: str) -> None:
        swap.event.end_s = self._kernel.now_s
        swap.event.result = result
