"""What a proxy knows of its pods: its own exact counts, and polled metrics with an age."""

from collections.abc import Callable, Collection, Sequence
from copy import copy
from math import inf
from operator import setitem
from typing import Any, Final, Protocol, TypeVar

from sim.core.errors import Misuse
from sim.core.kernel import Kernel, Order, Process
from sim.core.ports import PodPort, Published
from sim.core.recorder import Recorder

Value = TypeVar("Value")

READ_ONLY: Final = "changes a column of the pods; policies only read them"

NOBODY: Final = Published(0, 0, 0.0)
"""What there is to sample of a pod without a process."""


class PodColumn(list[Value]):
    """A list for policies of other packages: podsim changes it, and nobody else.

    Slices and copies are plain lists.
    """

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Misuse(READ_ONLY)

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> Any:
        return list, (list(self),)


class PodColumns:
    """The columns behind ``sim.router.views.PodView``, indexed by pod slot.

    ``in_flight`` is exact and immediate; ``waiting``, ``running`` and
    ``kv_usage`` are what the last poll read, at ``polled_s``. Only podsim writes,
    by ``put(column, slot, value)``; ``guarded`` columns refuse all else.
    """

    names: tuple[str, ...]
    ready: list[bool]
    in_flight: list[int]
    waiting: list[int]
    running: list[int]
    kv_usage: list[float]
    polled_s: list[float]
    put: Callable[[Any, Any, Any], None]

    def __init__(self, names: Sequence[str], guarded: bool = False) -> None:
        column, pods = PodColumn if guarded else list, len(names)
        columns = {
            "names": tuple(names),
            "ready": column([True] * pods),
            "in_flight": column([0] * pods),
            "waiting": column([0] * pods),
            "running": column([0] * pods),
            "kv_usage": column([0.0] * pods),
            "polled_s": column([-inf] * pods),
            # C functions both, and the one that does not pass by the class is the faster one.
            "put": list.__setitem__ if guarded else setitem,
        }
        for name, value in columns.items():
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise Misuse(READ_ONLY)

    def forget(self) -> None:
        """Nothing has been dispatched or polled, as far as anybody knows."""
        pods = len(self.names)
        for column in (self.in_flight, self.waiting, self.running):
            self.put(column, slice(None), [0] * pods)
        self.put(self.kv_usage, slice(None), [0.0] * pods)
        self.put(self.polled_s, slice(None), [-inf] * pods)

    def without(self, pods: Collection[int]) -> "PodColumns":
        """The same columns for a request that ``pods`` have failed: to it they do not serve."""
        others = copy(self)
        ready = (ready and pod not in pods for pod, ready in enumerate(self.ready))
        object.__setattr__(others, "ready", type(self.ready)(ready))
        return others

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
                    columns.put(columns.waiting, slot, published.waiting)
                    columns.put(columns.running, slot, published.running)
                    columns.put(columns.kv_usage, slot, published.kv_usage)
                    columns.put(columns.polled_s, slot, now_s)
                sampled(now_s, number, columns.in_flight[slot], *(published or NOBODY))
                number += 1
