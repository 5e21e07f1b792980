"""What the proxy knows of a pool: held and in-flight attempts, the resident member, the swap."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from sim.core.kernel import Kernel
from sim.core.ports import Activation, PoolEvent


@dataclass(slots=True, eq=False)
class Counts:
    """What the proxy counts of a member."""

    waiting: int = 0
    in_flight: int = 0


class Attempts:
    """Those who are held, in the order of joining, and those who are in flight, by member."""

    def __init__(
        self, pool: str, kernel: Kernel, events: list[PoolEvent], members: Iterable[str]
    ) -> None:
        self._pool = pool
        self._kernel = kernel
        self._events = events
        self._members = tuple(members)
        self._waiting: dict[Activation, None] = {}
        self._in_flight: set[Activation] = set()  # whom a restart has forgotten is not in it
        self.counts: dict[str, Counts] = {}
        self.forget_requests()

    @property
    def waiting(self) -> Iterator[Activation]:
        """Those who are held, the oldest first."""
        return iter(self._waiting)

    @property
    def waiting_count(self) -> int:
        """How many are held."""
        return len(self._waiting)

    @property
    def oldest(self) -> Activation | None:
        """The one who waits since before the others."""
        return next(iter(self._waiting), None)

    def waits(self, activation: Activation) -> bool:
        """Whether it is held."""
        return activation in self._waiting

    def waiting_for(self, member: str) -> list[Activation]:
        """Those who are held for ``member``, the oldest first."""
        if not self.counts[member].waiting:
            return []
        return [activation for activation in self._waiting if activation.member == member]

    def hold(self, activation: Activation) -> None:
        """An attempt joins now."""
        activation.joined_s = self._kernel.now_s
        self._waiting[activation] = None
        self.counts[activation.member].waiting += 1

    def open_row(self, activation: Activation, kind: str = "hold") -> PoolEvent:
        """Record that it is held, or skipped."""
        activation.event = event = PoolEvent(
            kind,
            self._pool,
            activation.joined_s,
            activation.member,
            request_id=activation.request.request_id,
        )
        self._events.append(event)
        return event

    def stop_waiting(self, activation: Activation, result: str) -> None:
        """It is held no longer; ``result`` is what its row says of it."""
        del self._waiting[activation]
        self.counts[activation.member].waiting -= 1
        event = activation.event or self.open_row(activation)
        event.end_s = self._kernel.now_s
        event.result = result

    def take_off(self, activation: Activation) -> None:
        """It has been held, and is in flight from now on."""
        self.stop_waiting(activation, "granted")
        self._in_flight.add(activation)
        self.counts[activation.member].in_flight += 1

    def land(self, activation: Activation) -> None:
        """Its response is over; one that a restart has made uncounted changes no count."""
        if activation in self._in_flight:
            self._in_flight.remove(activation)
            self.counts[activation.member].in_flight -= 1

    def forget_requests(self) -> None:
        """Nobody waits and nobody is counted, though some may be in flight."""
        self._waiting = {}
        self._in_flight = set()
        self.counts = {member: Counts() for member in self._members}


@dataclass(slots=True, eq=False)
class RunningSwap:
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
        self.swap: RunningSwap | None = None
        self.unclaimed: RunningSwap | None = None
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
