"""What a proxy believes of a pool, and what it counts: all that a decision depends on."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from math import inf

from sim.ports import Activation, PoolEvent


@dataclass(slots=True, eq=False)
class Counts:
    """What the proxy counts of a member."""

    waiting: int = 0
    in_flight: int = 0


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


class Belief:
    """Who is resident, which swap runs, who waits in the order of joining, who is in flight.

    ``unclaimed`` is a load that the machine does of itself: a swap that a
    restarted proxy knows nothing of, the default of a cold pool, an incumbent
    that is loaded again. It holds nobody: a request for its target joins it,
    one for another member drops it.
    """

    def __init__(self, members: Iterable[str]) -> None:
        self._members = tuple(members)
        self.resident: str | None = None
        self.swap: Swap | None = None
        self.unclaimed: Swap | None = None
        self.swap_ended_s = -inf
        self._waiting: dict[Activation, None] = {}
        self._in_flight: set[Activation] = set()  # whom a restart has forgotten is not in it
        self.counts: dict[str, Counts] = {}
        self.forget_requests()

    @property
    def busy(self) -> bool:
        """Whether there is a resident with attempts in flight."""
        return self.resident is not None and self.counts[self.resident].in_flight > 0

    @property
    def waiting(self) -> Iterator[Activation]:
        """Those who are held, the oldest first."""
        return iter(self._waiting)

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
        """An attempt joins."""
        self._waiting[activation] = None
        self.counts[activation.member].waiting += 1

    def drop(self, activation: Activation) -> None:
        """It waits no longer."""
        del self._waiting[activation]
        self.counts[activation.member].waiting -= 1

    def take_off(self, activation: Activation) -> None:
        """It is in flight."""
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
