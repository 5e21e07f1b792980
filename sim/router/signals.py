"""What a proxy knows of its pods: its own exact counts, and polled metrics with an age."""

from collections.abc import Collection, Sequence
from copy import copy
from math import inf
from typing import Final, Protocol

from sim.kernel import Kernel, Order, Process
from sim.ports import PodPort, Published
from sim.record import Recorder

NOBODY: Final = Published(0, 0, 0.0)
"""What there is to sample of a pod without a process."""


class PodColumns:
    """The columns behind ``sim.router.views.PodView``, indexed by pod slot.

    ``in_flight`` is exact and immediate; ``waiting``, ``running`` and
    ``kv_usage`` are what the last poll read.
    """

    def __init__(self, names: list[str]) -> None:
        pods = len(names)
        self.names = names
        self.ready = [True] * pods
        self.in_flight = [0] * pods
        self.waiting = [0] * pods
        self.running = [0] * pods
        self.kv_usage = [0.0] * pods
        self.polled_s = [-inf] * pods

    def forget(self) -> None:
        """Nothing has been dispatched or polled, as far as anybody knows."""
        pods = len(self.names)
        self.in_flight[:] = [0] * pods
        self.waiting[:] = [0] * pods
        self.running[:] = [0] * pods
        self.kv_usage[:] = [0.0] * pods
        self.polled_s[:] = [-inf] * pods

    def without(self, pods: Collection[int]) -> "PodColumns":
        """The same columns for a request that ``pods`` have failed: to it they do not serve."""
        others = copy(self)
        others.ready = [ready and pod not in pods for pod, ready in enumerate(self.ready)]
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
                    columns.waiting[slot] = published.waiting
                    columns.running[slot] = published.running
                    columns.kv_usage[slot] = published.kv_usage
                    columns.polled_s[slot] = now_s
                sampled(now_s, number, columns.in_flight[slot], *(published or NOBODY))
                number += 1
