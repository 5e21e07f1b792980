"""The clock: SimPy's event heap with a documented order of the events of one instant.

Hot paths are plain callbacks at absolute times (``at``); slow actors are
generator processes that ``yield`` what ``sleep_until`` returns.
Nobody yields SimPy's own timeouts or events: SimPy gives every timeout one
priority, which would break the order below.
"""

from collections.abc import Callable, Generator
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias, cast

import simpy

from sim.core.errors import Misuse

Callback: TypeAlias = Callable[[], None]
Process: TypeAlias = Generator[simpy.Event, Any, None]

BOUNDARY_TOLERANCE_S: Final = 1e-9
"""An arrival at most this long after a step boundary counts as at the boundary."""


def instant(time_s: float) -> float:
    """``time_s`` to the nanosecond: sums of floats that mean one instant become one float."""
    return round(time_s, 9)


class Order:
    """The order of events at one instant (docs/concepts/time.md).

    Events of one order run in the order in which they were asked for.
    """

    WINDOW: Final = -1  # opens before anything else happens: the window is half-open
    STEP_END: Final = 0
    FAULT: Final = 1
    RELEASE: Final = 2  # what the ends of responses mean to rules and pools
    IDLE_PROBE: Final = 3
    READINESS: Final = 4
    SWAP_BOUND: Final = 5
    HOLD_EXPIRY: Final = 6
    LATE_SWAP_BOUND: Final = 7  # of pools that handle holds first, as some did
    RECLAIM: Final = 8
    POLL: Final = 9
    ARRIVAL: Final = 10
    PLANNING: Final = 11
    OBSERVATION: Final = 12
    CLIENT_TIMEOUT: Final = 13


class Kernel(simpy.Environment):
    """One run's clock. Times are seconds since the start of the run.

    ``phase`` is the highest order that has run at the present instant: what an
    event of a later order brings about at the same instant comes too late for
    the earlier ones.
    """

    def __init__(self) -> None:
        super().__init__()
        self._heap: list[tuple[float, int, int, Callback]] = []
        self.now_s = 0.0
        self.phase = -1
        self.events = 0
        self._stopped = False
        self._looked = (-1.0, 0)  # a time and an order before which nothing more was due then

    def at(self, time_s: float, order: int, callback: Callback) -> None:
        """Call ``callback`` at ``time_s``, after lower and before higher ``order``.

        Equal times and orders run in the order in which they were asked for.
        """
        heappush(self._heap, (time_s, order, next(self._eid), callback))

    def at_instant(self, time_s: float, order: int, callback: Callback) -> None:
        """Call ``callback`` at ``instant(time_s)``, but after what is due just behind it.

        The ends of steps are sums of floats. One of a lower ``order`` that comes
        less than the tolerance of a boundary later belongs to the same instant.
        """

        def run() -> None:
            if not self.postponed(order, run):
                callback()

        self.at(max(instant(time_s), self.now_s), order, run)

    @property
    def is_crowded(self) -> bool:
        """Whether anything is due within the tolerance of the present instant."""
        heap = self._heap
        return bool(heap) and heap[0][0] < self.now_s + BOUNDARY_TOLERANCE_S

    def postponed(self, order: int, callback: Callback) -> bool:
        """Put ``callback``, whose turn it is, behind what is due before it; False if nothing is.

        What is due before it belongs to the present instant and has a lower ``order``.
        """
        if not self.is_crowded:
            return False
        if self._looked == (self.now_s, order):
            return False  # all else at this instant: nothing was due the last time
        due_s = self._due_before(order)
        if due_s is None:
            self._looked = self.now_s, order
            return False
        self.at(due_s, order, callback)
        return True

    def _due_before(self, order: int) -> float | None:
        """When an event is due that belongs to the present instant and comes before ``order``."""
        heap, limit_s = self._heap, self.now_s + BOUNDARY_TOLERANCE_S
        places = [0]
        while places:
            place = places.pop()
            if place < len(heap) and heap[place][0] < limit_s:
                if heap[place][1] < order:
                    return heap[place][0]
                # What lies below a place of a heap is not due before it.
                places += (2 * place + 1, 2 * place + 2)
        return None

    def sleep_until(self, time_s: float, order: int) -> simpy.Event:
        """What a process yields to sleep until ``time_s``; raises ``Misuse`` for the past."""
        if not time_s >= self.now_s:
            raise Misuse(f"the clock would go back: from {self.now_s} s, to sleep until {time_s} s")
        event = simpy.Event(self)
        event._ok = True
        event._value = None
        self.at(time_s, order, lambda: _run_callbacks(event))
        return event

    def spawn(self, process: Process) -> None:
        """Start a generator process; its first step runs at the present instant."""
        self.process(process)

    def schedule(self, event: simpy.Event, priority: Any = 1, delay: float = 0) -> None:
        """SimPy's own way onto the heap (start and end of a process)."""

        def run() -> None:
            _run_callbacks(event)
            if not event.ok and not event.defused:
                raise cast(BaseException, event.value)

        self.at(self.now_s + delay, int(priority), run)

    def _gone_back(self, time_s: float, callback: Callback) -> Misuse:
        """Who has asked for ``time_s``, which is past; a time that is no number hides others."""
        for due_s, _, _, asked in self._heap:
            if due_s != due_s:
                time_s, callback = due_s, asked
        said = f"the clock would go back: something is due at {time_s} s, and it is {self.now_s} s"
        return Misuse(said, callback)

    def next_s(self) -> float:
        """Time of the next pending event; infinite when there is none."""
        return self._heap[0][0] if self._heap else float("inf")

    @property
    def pending(self) -> int:
        """How many events are on the heap."""
        return len(self._heap)

    def stop(self) -> None:
        """End the run after the present callback."""
        self._stopped = True

    def run_until(self, horizon_s: float, on_tick: Callable[[float], None] | None = None) -> None:
        """Run every event before ``horizon_s``: the horizon is half-open.

        ``on_tick(now_s)`` is called every 4,096 events (progress displays).
        The clock stands at the horizon afterwards, or where ``stop`` was called.
        """
        queue = self._heap
        count = 0
        while queue and not self._stopped:
            if queue[0][0] >= horizon_s:
                break
            time_s, order, _, callback = heappop(queue)
            if time_s != self.now_s:
                if not time_s > self.now_s:  # not a number is neither
                    raise self._gone_back(time_s, callback)
                self.now_s = self._now = time_s
                self.phase = order
            elif order > self.phase:
                self.phase = order
            callback()
            count += 1
            if on_tick is not None and not count & 4095:
                on_tick(time_s)
        self.events += count
        if not self._stopped and horizon_s != float("inf"):
            if horizon_s != self.now_s:
                self.phase = Order.WINDOW  # nothing of that instant has happened yet
            self.now_s = self._now = horizon_s


def _run_callbacks(event: simpy.Event) -> None:
    callbacks, event.callbacks = event.callbacks, None  # type: ignore[assignment]
    for callback in callbacks or ():
        callback(event)
