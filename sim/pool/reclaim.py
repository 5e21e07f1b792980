"""When the default comes back: router and pools, 6, "reclaim"."""

from collections.abc import Callable
from math import inf

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order, instant
from sim.core.ports import ProcessPort


class ReclaimClock:
    """Calls ``reclaim`` when one member has had nothing to do for ``after_s``.

    ``unwanted`` names the member that the proxy has no use for, None if there
    is no such. It is idle while nobody is in it, whoever sent them. That is
    looked at every ``poll_s`` from time 0: a busy spell between two looks is
    not seen. With 0 the clock is exact. An idle probe that does not answer
    counts as a busy look; the exact clock asks it at the beginning and the end.
    """

    def __init__(
        self,
        kernel: Kernel,
        after_s: float,
        poll_s: float,
        unwanted: Callable[[], ProcessPort | None],
        reclaim: Callable[[], None],
    ) -> None:
        self._kernel = kernel
        self._after_s = after_s
        self._poll_s = poll_s
        self._unwanted = unwanted
        self._reclaim = reclaim
        self._idle: ProcessPort | None = None  # whose idle time counts
        self._since_s = 0.0
        self._looks = 0

    def start(self) -> None:
        """The run begins."""
        if self._poll_s > 0:
            self._look()
        else:
            self.changed()

    def changed(self) -> None:
        """Something may have happened to what the proxy has use for."""
        if self._poll_s > 0:
            return
        process = self._unwanted()
        if process is None or not process.ready:
            self._idle = None
        elif not process.idle:
            self._idle = None
            process.when_idle(self.changed)
        elif self._is_silent(process):
            self._idle = None
            answers_s = process.silent_until_s["idle"]
            if answers_s < inf:
                self._kernel.at_instant(answers_s, Order.RECLAIM, self.changed)
        elif process is not self._idle:
            self._count_from_now(process)
            process.when_busy(self._interrupted)
            self._kernel.at_instant(self._since_s + self._after_s, Order.RECLAIM, self._due)

    def _interrupted(self) -> None:
        self._idle = None
        # Whoever comes is in it only when this has returned.
        self._kernel.at(self._kernel.now_s, Order.RECLAIM, self.changed)

    def _due(self) -> None:
        if self._idle is not None and self._has_lasted:
            if self._is_silent(self._idle):
                self.changed()
            else:
                self._take()

    def _is_silent(self, process: ProcessPort) -> bool:
        return process.silent_until_s["idle"] > self._kernel.now_s + BOUNDARY_TOLERANCE_S

    def _look(self) -> None:
        process = self._unwanted()
        if process is None or not process.ready or not process.idle or self._is_silent(process):
            self._idle = None
        elif process is not self._idle:
            self._count_from_now(process)
        elif self._has_lasted:
            self._take()
        self._looks += 1
        self._kernel.at_instant(self._looks * self._poll_s, Order.RECLAIM, self._look)

    def _count_from_now(self, process: ProcessPort) -> None:
        self._idle = process
        self._since_s = instant(self._kernel.now_s)

    @property
    def _has_lasted(self) -> bool:
        return self._kernel.now_s - self._since_s > self._after_s - BOUNDARY_TOLERANCE_S

    def _take(self) -> None:
        idle, self._idle = self._idle, None
        if idle is not None and idle.ready:
            self._reclaim()
