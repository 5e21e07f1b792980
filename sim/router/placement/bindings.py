"""The session table itself: which session is bound to which pod, and until when."""

from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from typing import Final

SAME_INSTANT_S: Final = 1e-9
"""Times closer than this are one instant: both are sums of floats."""


@dataclass(slots=True)
class Binding:
    """One session's entry.

    ``placed_s`` is its last placement. From ``movable_s`` on, load may move it
    (rule R9): long ago for a session that has never moved.
    """

    pod: int
    placed_s: float
    movable_s: float = 0.0


class Bindings:
    """Entries keyed by the 64-bit session key, in order of last placement.

    The front entry is the one that expires first, so what its age allows is
    dropped without looking at any other: neither a full table nor the sweeper
    scans (rules R13, R14). An expired entry counts until it is dropped.
    """

    def __init__(self, idle_timeout_s: float, max_sessions: int) -> None:
        self._idle_timeout_s = idle_timeout_s + SAME_INSTANT_S
        self._max_sessions = max_sessions
        self._entries: OrderedDict[int, Binding] = OrderedDict()
        self._per_pod: defaultdict[int, int] = defaultdict(int)

    def __len__(self) -> int:
        return len(self._entries)

    def on_pod(self, pod: int) -> int:
        """Entries that are bound to ``pod``."""
        return self._per_pod[pod]

    def renew(self, key: int, now_s: float) -> Binding | None:
        """The entry of a session that is placed now, None without a live one.

        The idle timeout starts again (it slides); an expired entry is dropped
        and never used, swept or not (rules R11, R14).
        """
        entry = self._entries.get(key)
        if entry is None:
            return None
        if now_s - entry.placed_s > self._idle_timeout_s:
            del self._entries[key]
            self._per_pod[entry.pod] -= 1
            return None
        entry.placed_s = now_s
        self._entries.move_to_end(key)
        return entry

    def has_room(self, now_s: float) -> bool:
        """Whether one more session can be remembered (rules R12, R13)."""
        if len(self._entries) >= self._max_sessions:
            self.sweep(now_s)
        return len(self._entries) < self._max_sessions

    def bind(self, key: int, pod: int, now_s: float) -> None:
        """Remember a session that has no entry."""
        self._entries[key] = Binding(pod, now_s)
        self._per_pod[pod] += 1

    def rebind(self, entry: Binding, pod: int, movable_s: float) -> None:
        """Move a session for good; load may move it again from ``movable_s`` on (rules R8, R9)."""
        self._per_pod[entry.pod] -= 1
        self._per_pod[pod] += 1
        entry.pod = pod
        entry.movable_s = movable_s

    def sweep(self, now_s: float) -> None:
        """Drop every expired entry."""
        entries = self._entries
        while entries:
            entry = next(iter(entries.values()))
            if now_s - entry.placed_s <= self._idle_timeout_s:
                return
            entries.popitem(last=False)
            self._per_pod[entry.pod] -= 1
