"""What a proxy believes of a pool, and what it counts: all that a decision depends on."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf

from sim.core.kernel import Kernel
from sim.core.ports import Activation, PoolEvent
from sim.pool.attempts import Attempts


@dataclass(slots=True, eq=False)
class Swap:
    """A swap to ``target``; ``event`` is its row.

    ``incumbent`` was resident when it started. One with ``requesters`` is
    cancelled when the last of them leaves. ``bound_s`` is when it is abandoned.
    """

    target: str
    incumbent: str | None
    event: PoolEvent
    requesters: bool = False
    bound_s: float = inf


class ObservedState(Attempts):
    """Who is resident and which swap runs, beside who waits and who is in flight.

    ``unclaimed`` is a load that the machine does of itself: a swap that a
    restarted proxy knows nothing of, the default of a cold pool, an incumbent
    that is loaded again. It holds nobody: a request for its target joins it,
    one for another member drops it.
    """

    def __init__(
        self, pool: str, kernel: Kernel, events: list[PoolEvent], members: Iterable[str]
    ) -> None:
        super().__init__(pool, kernel, events, members)
        self.resident: str | None = None
        self.resident_since_s = 0.0
        self.granted = 0  # to the resident, since it is that
        self.swap: Swap | None = None
        self.unclaimed: Swap | None = None
        self.swap_ended_s = -inf

    @property
    def busy(self) -> bool:
        """Whether there is a resident with attempts in flight."""
        return self.resident is not None and self.counts[self.resident].in_flight > 0

    def sees(self, resident: str | None, now_s: float) -> bool:
        """Who is resident now; returns whether that is news."""
        if resident == self.resident:
            return False
        self.resident, self.resident_since_s, self.granted = resident, now_s, 0
        return True

    def take_off(self, activation: Activation) -> None:
        """It is granted."""
        self.granted += 1
        super().take_off(activation)
