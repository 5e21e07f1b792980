"""Waiting until nobody is in a member any more."""

from collections.abc import Callable
from math import inf

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order
from sim.core.ports import ProcessPort


class Drain:
    """Calls ``drained`` once the process is idle or gone, at an idle probe; router and pools, 6.

    The first probe is at the instant of its making, the next ones every
    ``interval_s`` while somebody is there. With an interval of 0 the end is
    seen when it comes. While the process does not answer its idle probe
    somebody may be there, so it counts as busy (LLMKube's fails closed).
    """

    def __init__(
        self,
        kernel: Kernel,
        process: ProcessPort,
        interval_s: float,
        always_idle: bool,
        drained: Callable[[], None],
    ) -> None:
        self._kernel = kernel
        self._process = process
        self._interval_s = interval_s
        self._always_idle = always_idle
        self._drained = drained
        self._start_s = kernel.now_s
        self._probes = 0
        self._over = False
        self._probe_now()

    def cancel(self) -> None:
        """Nobody wants to know any more."""
        self._over = True

    def lost(self) -> None:
        """The process is gone, and with it whoever was there."""
        if not self._over:
            self._over = True
            self._drained()

    def _probe_now(self) -> None:
        # Never within the callback that made it idle, which may be a step of the process itself.
        self._kernel.at(self._kernel.now_s, Order.IDLE_PROBE, self._probe)

    def _probe(self) -> None:
        if self._over:
            return
        silent_s = self._process.silent_until_s["idle"]
        silent = silent_s > self._kernel.now_s + BOUNDARY_TOLERANCE_S
        if self._always_idle or not self._process.ready or (self._process.idle and not silent):
            self._over = True
            self._drained()
        elif self._interval_s == 0 and not silent:
            self._process.when_idle(self._probe_now)
        elif self._interval_s == 0:
            if silent_s < inf:
                self._kernel.at_instant(silent_s, Order.IDLE_PROBE, self._probe)
        else:
            self._probes += 1
            next_s = self._start_s + self._probes * self._interval_s
            self._kernel.at_instant(next_s, Order.IDLE_PROBE, self._probe)
