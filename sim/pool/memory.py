"""The memory that members share, and when what one has left is seen to be free again."""

from collections.abc import Callable, Mapping
from math import ceil, fsum
from typing import Final

from sim.core.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order, instant

POLL_S: Final = 0.25
"""How often Ollama looks whether memory is free again."""

LIMIT_S: Final = 5.0
"""How long Ollama waits for that; then it goes on as if it were."""

MOST_PERCENT: Final = 80
"""Share of what is free that a further model may need at most (``server/sched.go``, ``load``)."""


class Memory:
    """Who has how much of ``total_bytes``.

    What a member has left is free ``recovery_s`` later. ``settled(member)`` is
    called when that is seen, or is waited for no longer.
    """

    def __init__(
        self,
        kernel: Kernel,
        total_bytes: float,
        bytes_of: Mapping[str, float],
        recovery_s: float,
        settled: Callable[[str], None],
    ) -> None:
        self._kernel = kernel
        self._total_bytes = total_bytes
        self._bytes_of = bytes_of
        self._recovery_s = recovery_s
        self._settled = settled
        self._taken: dict[int, float] = {}
        self._leases: dict[str, int] = {}  # of members that are there
        self._number = 0
        self._settling: dict[str, int] = {}

    @property
    def taken_bytes(self) -> float:
        """What is not free, whether somebody still has it or not."""
        return fsum(self._taken.values())

    @property
    def settling(self) -> bool:
        """Whether memory that somebody has left is still waited for."""
        return bool(self._settling)

    def fits(self, member: str) -> bool:
        """Whether there is room for ``member`` beside others, with Ollama's headroom."""
        free_bytes = self._total_bytes - self.taken_bytes
        return self._bytes_of[member] * 100 <= free_bytes * MOST_PERCENT

    def take(self, member: str) -> None:
        """It is about to be loaded, or is there."""
        self._number += 1
        self._leases[member] = self._number
        self._taken[self._number] = self._bytes_of[member]

    def leave(self, member: str, since_s: float, at_once: bool = False) -> None:
        """It is gone, and has been on its way out since ``since_s``; its memory may be free
        ``at_once``.
        """
        lease, now_s = self._leases.pop(member), self._kernel.now_s
        if at_once or self._recovery_s == 0:
            del self._taken[lease]
            self._settled(member)
            return
        free_s = instant(now_s + self._recovery_s)
        polls = ceil((free_s - since_s - BOUNDARY_TOLERANCE_S) / POLL_S)
        seen_s = since_s + min(polls * POLL_S, max(LIMIT_S, now_s - since_s))
        self._settling[member] = lease
        self._kernel.at_instant(free_s, Order.STEP_END, lambda: self._free(lease))
        self._kernel.at_instant(seen_s, Order.READINESS, lambda: self._seen(member, lease))

    def _free(self, lease: int) -> None:
        del self._taken[lease]

    def _seen(self, member: str, lease: int) -> None:
        if self._settling.get(member) == lease:
            del self._settling[member]
            self._settled(member)
