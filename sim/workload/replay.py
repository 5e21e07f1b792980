"""Requests that are sent at their times, or when those that they wait for are over.

A script, a recording, recorded sessions and a trace are files of different forms. Each
is made into ``ReplayItem``s, a graph of who waits for whom, which ``Replay`` sends.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heapify, heappop, heappush
from math import inf

from sim.core.kernel import Kernel, Order, instant
from sim.core.request import NO_WAIT, Request, Status, Wait, think_between_s
from sim.workload.clients import PAUSE_S, Clients


@dataclass(slots=True, eq=False)
class ReplayItem:
    """One request, and when it is sent.

    That is at ``arrival_s``, or ``think_s`` after the last end of the items that it waits
    for. Those ``after`` which it comes must be completed (with ``or_cancelled`` their clients
    may have left), else it is not sent; those ``behind`` which it comes must be over in any
    way. An item that waits for nobody's completion opens a session of an agent: it comes
    ``PAUSE_S`` at least after ``behind[0]``, the last turn of the session before, if that was
    not completed, lest a cluster that refuses at once be asked for ever at one instant.

    What follows may be added late: ``then`` is called with an item that is completed.

    Of the items that are due at one instant the one with the lowest ``number`` goes first;
    without numbers they go in the order in which they became due.
    """

    make: Callable[[], Request]
    number: int | None = None
    arrival_s: float | None = None
    think_s: float = 0.0
    after: "Sequence[ReplayItem]" = ()
    behind: "Sequence[ReplayItem]" = ()
    or_cancelled: bool = False
    priority: int | None = None
    patience_s: float = inf
    then: "Callable[[ReplayItem], Sequence[ReplayItem]] | None" = None
    wait: Wait = NO_WAIT  # what its request says that it waited for
    request: Request | None = None  # once it is sent
    followers: "list[ReplayItem]" = field(default_factory=list)
    awaited: int = 0  # of those that it waits for, how many are not over
    over: bool = False
    graph: "Graph | None" = None

    @property
    def completed(self) -> bool:
        """Whether it was sent and served to the end."""
        return self._ended_as(Status.COMPLETED)

    @property
    def dropped(self) -> bool:
        """Whether it is not to be sent, those that it waits for being over."""
        for each in self.after:
            if not each.completed and not (self.or_cancelled and each._ended_as(Status.CANCELLED)):
                return True
        return False

    @property
    def delay_s(self) -> float:
        """From the last end that it waits for to when it is sent."""
        if self.after or self.behind[0].completed:
            return self.think_s
        return max(self.think_s, PAUSE_S)

    def _ended_as(self, status: str) -> bool:
        return self.request is not None and self.request.status == status


@dataclass(slots=True, eq=False)
class Graph:
    """Items that are played together; ``on_over`` is called once, when none is ``open``."""

    on_over: Callable[[], None]
    open: int = 0


def requests_of(items: Iterable[ReplayItem]) -> tuple[Request, ...]:
    """Return the requests of items that are over; of one that was dropped, what it waited for."""
    requests = []
    for item in items:
        while item.request is None:
            item = item.after[-1]
        requests.append(item.request)
    return tuple(requests)


class ArrivalQueue:
    """Sends numbered items when they are due; at one instant by their numbers, low ones first.

    What becomes due by what a sending has brought about, at the same instant, goes after it.
    """

    def __init__(self, kernel: Kernel, send: Callable[[ReplayItem], None]) -> None:
        self._kernel = kernel
        self._send = send
        self._due: list[tuple[float, int, ReplayItem]] = []
        self._arrivals_s: Iterator[float] = iter(())

    def __len__(self) -> int:
        """Items that have not been due."""
        return len(self._due)

    def fill(self, items: Iterable[ReplayItem]) -> None:
        """Take the items with an arrival; once, at the start of the run."""
        self._due = [
            (item.arrival_s, item.number or 0, item) for item in items if item.arrival_s is not None
        ]
        self._arrivals_s = iter(sorted(arrival_s for arrival_s, _, _ in self._due))
        heapify(self._due)
        self._await_arrival()

    def add(self, due_s: float, number: int, item: ReplayItem) -> None:
        """Send an item at ``due_s``."""
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


class Replay:
    """Sends the items of one workload, and counts those that came to nothing."""

    def __init__(self, kernel: Kernel, clients: Clients, to_the_nanosecond: bool = False) -> None:
        """Begin; what waits for others is due at floats, or ``to_the_nanosecond``."""
        self.not_sent = 0  # because one that they come after was not completed
        self.not_completed = 0
        self.queue = ArrivalQueue(kernel, self._send)
        self._kernel = kernel
        self._clients = clients
        self._rounded = to_the_nanosecond

    def play(self, items: Sequence[ReplayItem], on_over: Callable[[], None]) -> None:
        """Send the items of a graph; call ``on_over`` when all of them are over."""
        graph = Graph(on_over)
        self._add(graph, items)
        if items and items[0].number is not None:
            self.queue.fill(items)
        if not items:
            on_over()

    def counts(self) -> dict[str, int]:
        """Return how many items were not sent, and whose time had not come when the run ended."""
        late = {"rows_after_the_end": len(self.queue)} if len(self.queue) else {}
        return {"rows_not_sent": self.not_sent, **late}

    def _add(self, graph: Graph, items: Sequence[ReplayItem]) -> None:
        graph.open += len(items)
        for item in items:
            item.graph = graph
            for each in (*item.after, *item.behind):
                if not each.over:
                    item.awaited += 1
                    each.followers.append(item)
            if item.arrival_s is None and not item.awaited:
                self._follow_up(item)
            elif item.arrival_s is not None and item.number is None:
                self._send_at(item.arrival_s, item)

    def _follow_up(self, item: ReplayItem) -> None:
        """Schedule an item of which all that it waits for is over."""
        now_s = self._kernel.now_s
        think_s: float | None = item.delay_s
        due_s = now_s + item.delay_s
        if self._rounded:
            due_s = max(instant(due_s), now_s)
            think_s = think_between_s(now_s, due_s)
        after, behind = requests_of(item.after), requests_of(item.behind)
        item.wait = Wait(after, behind, think_s, item.or_cancelled)
        self._send_at(due_s, item)

    def _send_at(self, due_s: float, item: ReplayItem) -> None:
        if item.number is None:
            self._kernel.at(due_s, Order.ARRIVAL, partial(self._send, item))
        else:
            self.queue.add(due_s, item.number, item)

    def _send(self, item: ReplayItem) -> None:
        """Make and submit the request of an item, be it an arrival or a follow-up."""
        item.request = item.make()
        item.request.wait = item.wait
        item.request.on_end = partial(self._ended, item)
        self._clients.send(item.request, item.priority, item.patience_s)

    def _ended(self, item: ReplayItem, request: Request) -> None:
        graph = item.graph
        assert graph is not None
        request.on_end = None  # a request stays to the end of the run, what it was made of not
        self._release(graph, item)
        if not item.completed:
            self.not_completed += 1
        elif item.then is not None:
            self._add(graph, item.then(item))
        if graph.open == 0:
            graph.on_over()

    def _release(self, graph: Graph, ended: ReplayItem) -> None:
        """Schedule those who have waited for this one last; who is dropped is over as well."""
        over = [ended]
        while over:
            item = over.pop()
            graph.open -= 1
            item.over = True
            followers, item.followers = item.followers, []
            for follower in followers:
                follower.awaited -= 1
                if follower.awaited:
                    continue
                if follower.dropped:
                    self.not_sent += 1
                    over.append(follower)
                else:
                    self._follow_up(follower)
