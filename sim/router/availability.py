"""Which pods of a backend may be chosen (router and pools, 5)."""

from collections.abc import Callable
from math import inf

from sim.core.kernel import Kernel, Order, instant
from sim.router.signals import PodColumns


class Availability:
    """Pods that are up and not in quarantine; if there is none, those that are up.

    Who that is stands in the column ``ready``; ``changed`` is called with
    the pods for which it is not as before.
    """

    def __init__(
        self, columns: PodColumns, kernel: Kernel, changed: Callable[[list[int]], None]
    ) -> None:
        self._columns = columns
        self._ready = ready = columns.ready
        self._kernel = kernel
        self._changed = changed
        self._up = list(ready)
        self._quarantined_until_s = [-inf] * len(ready)

    def set_up(self, pod: int, up: bool) -> None:
        """A pod has died, or serves again."""
        self._up[pod] = up
        self._refresh()

    def quarantine(self, pod: int, duration_s: float) -> None:
        """Avoid a pod from now on; it is tried again when the time is over."""
        until_s = instant(self._kernel.now_s + duration_s)
        self._quarantined_until_s[pod] = until_s
        self._refresh()
        self._kernel.at_instant(until_s, Order.HOLD_EXPIRY, self._refresh)

    def quarantined(self, pod: int) -> bool:
        """Whether it is avoided for what it did, even if there is no other."""
        return self._quarantined_until_s[pod] > instant(self._kernel.now_s)

    def forget(self) -> None:
        """Nobody has done anything."""
        self._quarantined_until_s = [-inf] * len(self._up)
        self._refresh()

    def _refresh(self) -> None:
        sound = [up and not self.quarantined(pod) for pod, up in enumerate(self._up)]
        before = list(self._ready)
        self._columns.put(self._ready, slice(None), sound if any(sound) else self._up)
        self._changed([pod for pod, was in enumerate(before) if self._ready[pod] != was])
