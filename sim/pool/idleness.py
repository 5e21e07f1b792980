"""Members that have had nothing to do for some time."""

from collections.abc import Callable

from sim.core.kernel import Kernel, Order


class Idleness:
    """Calls ``expired(member)`` when a member has been idle for as long as was said."""

    def __init__(self, kernel: Kernel, expired: Callable[[str], None]) -> None:
        self._kernel = kernel
        self._expired = expired
        self._spells: dict[str, int] = {}  # the idle spell of each member that is idle
        self._number = 0

    def begin(self, member: str, lasts_s: float) -> None:
        """It is idle from now on; a spell that was running is over."""
        self._number += 1
        number = self._spells[member] = self._number

        def due() -> None:
            if self._spells.get(member) == number:
                del self._spells[member]
                self._expired(member)

        self._kernel.at_instant(self._kernel.now_s + lasts_s, Order.RECLAIM, due)

    def end(self, member: str) -> None:
        """It has something to do, or is not there any more."""
        self._spells.pop(member, None)
