"""What a workload sends when: arrivals that are known from the start, and what becomes due."""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from typing import Generic, TypeVar

from sim.core.kernel import Kernel, Order

Item = TypeVar("Item")


class Agenda(Generic[Item]):
    """Hands items to ``send`` when they are due; at one instant by their numbers, low ones first.

    What becomes due by what a sending has brought about, at the same instant, goes after it.
    ``arrivals`` are (time in seconds, number, item); no two items have one number.
    """

    def __init__(
        self,
        kernel: Kernel,
        arrivals: Iterable[tuple[float, int, Item]],
        send: Callable[[Item], None],
    ) -> None:
        self._kernel = kernel
        self._send = send
        self._due = list(arrivals)
        self._arrivals_s = iter(sorted(arrival_s for arrival_s, _, _ in self._due))
        heapify(self._due)

    def counts(self) -> dict[str, int]:
        """What has not been due when the run is over, if anything."""
        return {"rows_after_the_end": len(self._due)} if self._due else {}

    def start(self) -> None:
        """Schedule the first arrival."""
        self._await_arrival()

    def add(self, due_s: float, number: int, item: Item) -> None:
        """An item is due at ``due_s``."""
        heappush(self._due, (due_s, number, item))
        self._kernel.at(due_s, Order.ARRIVAL, self._send_due)

    def _await_arrival(self) -> None:
        """Wake at the next arrival; one after the other, so that the clock's heap stays small."""
        arrival_s = next(self._arrivals_s, None)
        if arrival_s is not None:
            self._kernel.at(arrival_s, Order.ARRIVAL, self._arrived)

    def _arrived(self) -> None:
        self._send_due()
        self._await_arrival()

    def _send_due(self) -> None:
        """Send what is due; of several wake-ups at one instant the first finds it all."""
        due, now_s = self._due, self._kernel.now_s
        while due and due[0][0] <= now_s:
            self._send(heappop(due)[2])
