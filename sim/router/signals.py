"""What a proxy knows of its pods: its own exact counts, and polled metrics with an age."""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from sim.errors import Misuse
from sim.kernel import Kernel, Order, Process
from sim.ports import PodPort, Published
from sim.record import Recorder

Value = TypeVar("Value")

NOBODY: Final = Published(0, 0, 0.0)
"""What there is to sample of a pod without a process."""


class Column(list[Value]):
    """A list that podsim changes by ``put``, and nobody otherwise: policies hold it, too.

    Slices and copies are plain lists.
    """

    put = list.__setitem__

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Misuse("changes a column of the pods, and they are podsim's: policies only read them")

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> Any:
        return list, (list(self),)


class PodColumns(NamedTuple):
    """The columns behind ``sim.router.views.PodView``, indexed by pod slot.

    ``in_flight`` is exact and immediate; ``waiting``, ``running`` and
    ``kv_usage`` are what the last poll read, at ``polled_s``.
    """

    names: tuple[str, ...]
    ready: Column[bool]
    in_flight: Column[int]
    waiting: Column[int]
    running: Column[int]
    kv_usage: Column[float]
    polled_s: Column[float]

    @staticmethod
    def of(names: Iterable[str]) -> "PodColumns":
        """Those of idle pods that nobody has polled yet."""
        names = tuple(names)
        ready = Column([True] * len(names))
        columns = PodColumns(names, ready, *(Column[Any]() for _ in range(5)))
        columns.forget()
        return columns

    def forget(self) -> None:
        """Nothing has been dispatched or polled, as far as anybody knows."""
        everything = slice(None)
        pods = len(self.names)
        for column in (self.in_flight, self.waiting, self.running):
            column.put(everything, [0] * pods)
        self.kv_usage.put(everything, [0.0] * pods)
        self.polled_s.put(everything, [-inf] * pods)

    def metrics_age_s(self, pod: int, now_s: float) -> float:
        """Seconds since the last poll that the pod answered; infinite before the first."""
        return now_s - self.polled_s[pod]


class Fleet(Protocol):
    """Pods and what a proxy knows of them, slot by slot."""

    @property
    def pods(self) -> Sequence[PodPort]:
        """Those that are polled."""

    @property
    def columns(self) -> PodColumns:
        """Where the readings go."""


class Poller:
    """Reads the metrics of every pod once per interval, from time 0 on.

    A pod without a process does not answer: what was read of it grows old.
    """

    def __init__(
        self,
        fleets: Sequence[Fleet],
        interval_s: float,
        kernel: Kernel,
        recorder: Recorder,
    ) -> None:
        self._fleets = fleets
        self._interval_s = interval_s
        self._kernel = kernel
        self._recorder = recorder

    def run(self) -> Process:
        """Poll for ever."""
        polls = 0
        while True:
            yield self._kernel.sleep_until(polls * self._interval_s, Order.POLL)
            self._read()
            polls += 1

    def _read(self) -> None:
        now_s = self._kernel.now_s
        sampled = self._recorder.sampled
        number = 0
        for fleet in self._fleets:
            columns = fleet.columns
            for slot, pod in enumerate(fleet.pods):
                published = pod.published(now_s)
                if published is not None:
                    columns.waiting.put(slot, published.waiting)
                    columns.running.put(slot, published.running)
                    columns.kv_usage.put(slot, published.kv_usage)
                    columns.polled_s.put(slot, now_s)
                sampled(now_s, number, columns.in_flight[slot], *(published or NOBODY))
                number += 1
