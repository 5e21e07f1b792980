"""What a proxy knows of its pods: its own exact counts, and polled metrics with an age."""

from math import inf

from sim.kernel import Kernel, Order, Process
from sim.ports import PodPort
from sim.record import Recorder


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

    def metrics_age_s(self, pod: int, now_s: float) -> float:
        """Seconds since the last poll that the pod answered; infinite before the first."""
        return now_s - self.polled_s[pod]


class Poller:
    """Reads the metrics of every pod once per interval, from time 0 on."""

    def __init__(
        self,
        pods: list[PodPort],
        columns: PodColumns,
        interval_s: float,
        kernel: Kernel,
        recorder: Recorder,
    ) -> None:
        self._pods = pods
        self._columns = columns
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
        columns = self._columns
        sampled = self._recorder.sampled
        for index, pod in enumerate(self._pods):
            published = pod.published(now_s)
            columns.waiting[index] = published.waiting
            columns.running[index] = published.running
            columns.kv_usage[index] = published.kv_usage
            columns.polled_s[index] = now_s
            sampled(
                now_s,
                index,
                columns.in_flight[index],
                published.waiting,
                published.running,
                published.kv_usage,
            )
