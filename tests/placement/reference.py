"""Slow, literal readings of the placement rules, to hold the fast policies against.

They share no code with ``sim.router.placement``: everything is looked up by
scanning, and shares are exact fractions.
"""

from fractions import Fraction
from math import ceil

import xxhash

from sim.testing import FakeFleet


def clockwise(key: int, salt: str, members: dict[int, str], virtual_nodes: int) -> list[int]:
    """The distinct pods of a ring in the order in which a walk from ``key`` meets them."""
    points = sorted(
        (xxhash.xxh3_64_intdigest(f"{salt}/{name}-{index}".encode()), pod)
        for pod, name in members.items()
        for index in range(virtual_nodes)
    )
    start = xxhash.xxh3_64_intdigest(key.to_bytes(8, "little"))
    after = [pod for position, pod in points if position >= start]
    before = [pod for position, pod in points if position < start]
    return list(dict.fromkeys(after + before))


def bounded_ring(
    walk: list[int], fleet: FakeFleet, percent: int, strict: bool, floor: int
) -> tuple[int, str, str | None]:
    """Pod, outcome and reason of the bounded ring for a key whose walk is given."""
    ready = [pod for pod in walk if fleet.ready[pod]]
    total = sum(fleet.in_flight[pod] for pod in ready)
    bound = Fraction(percent, 100) * max(Fraction(total + 1, len(ready)), Fraction(floor))
    if not strict:
        bound = Fraction(ceil(bound))
    fitting = [pod for pod in ready if fleet.in_flight[pod] + 1 <= bound]
    pod = (fitting or ready)[0]
    owner = walk[0]
    if pod == owner:
        return pod, "home", None
    if fleet.ready[owner]:
        return pod, "spill", "bound"
    return pod, "migrated", "not_ready"


class ReferenceTable:
    """Rules R1-R16 read aloud, one entry per session: [pod, last placed, last moved]."""

    def __init__(
        self,
        idle_timeout: float,
        max_sessions: int,
        fresh_for: float,
        kv_full_at: float,
        waiting_gap: int,
        stale_gap: int,
        cooldown: float,
    ) -> None:
        self.idle_timeout = idle_timeout
        self.max_sessions = max_sessions
        self.fresh_for = fresh_for
        self.kv_full_at = kv_full_at
        self.waiting_gap = waiting_gap
        self.stale_gap = stale_gap
        self.cooldown = cooldown
        self.entries: dict[int, tuple[int, float, float | None]] = {}

    def judge(
        self, key: int | None, fleet: FakeFleet, now_s: float, walk: list[int]
    ) -> tuple[str, str | None, set[int]]:
        """Outcome, reason and the pods among which only chance may choose.

        ``walk`` is the ring's order of pods from this key. Drops what the
        rules drop; the caller then reports the decision to ``note``.
        """
        best = self._least_loaded(fleet, now_s)
        spread = self._fewest_bindings(best)
        if key is None:
            return "unkeyed", None, spread
        if key in self.entries and now_s - self.entries[key][1] > self.idle_timeout:
            del self.entries[key]
            spread = self._fewest_bindings(best)
        if key not in self.entries:
            if len(self.entries) >= self.max_sessions:
                self.sweep(now_s)
                spread = self._fewest_bindings(best)
            if len(self.entries) >= self.max_sessions:
                return "home", None, {next(pod for pod in walk if fleet.ready[pod])}
            return "new", None, spread
        own, _, moved_s = self.entries[key]
        if not fleet.ready[own]:
            return "migrated", "not_ready", spread
        stay = ("sticky", None, {own})
        if sum(fleet.ready) == 1:
            return stay
        if moved_s is not None and now_s - moved_s < self.cooldown:
            return stay
        gap = fleet.in_flight[own] - min(fleet.in_flight[pod] for pod in best)
        if not self._fresh(own, fleet, now_s):
            return ("spill", "waiting", spread) if gap >= self.stale_gap else stay
        if fleet.waiting[own] > 0 and gap >= self.waiting_gap:
            return "spill", "waiting", spread
        if fleet.waiting[own] > 0 and self._kv_full(own, fleet, now_s):
            refuges = [
                pod
                for pod, ready in enumerate(fleet.ready)
                if ready and pod != own
                if not self._kv_full(pod, fleet, now_s)
                if fleet.in_flight[pod] <= fleet.in_flight[own]
            ]
            if refuges:
                least = min(fleet.in_flight[pod] for pod in refuges)
                tied = {pod for pod in refuges if fleet.in_flight[pod] == least}
                return "spill", "kv_full", self._fewest_bindings(tied)
        return stay

    def note(self, key: int | None, outcome: str, pod: int, now_s: float) -> None:
        if key is None or outcome == "home":
            return
        moved_s = self.entries[key][2] if key in self.entries else None
        if outcome in ("spill", "migrated"):
            moved_s = now_s
        self.entries[key] = (pod, now_s, moved_s)

    def sweep(self, now_s: float) -> None:
        self.entries = {
            key: entry
            for key, entry in self.entries.items()
            if now_s - entry[1] <= self.idle_timeout
        }

    def _fresh(self, pod: int, fleet: FakeFleet, now_s: float) -> bool:
        return now_s - fleet.polled_s[pod] <= self.fresh_for

    def _kv_full(self, pod: int, fleet: FakeFleet, now_s: float) -> bool:
        return self._fresh(pod, fleet, now_s) and fleet.kv_usage[pod] >= self.kv_full_at

    def _least_loaded(self, fleet: FakeFleet, now_s: float) -> set[int]:
        ready = [pod for pod, serves in enumerate(fleet.ready) if serves]
        candidates = [pod for pod in ready if not self._kv_full(pod, fleet, now_s)] or ready
        least = min(fleet.in_flight[pod] for pod in candidates)
        return {pod for pod in candidates if fleet.in_flight[pod] == least}

    def _fewest_bindings(self, tied: set[int]) -> set[int]:
        bound = {pod: sum(entry[0] == pod for entry in self.entries.values()) for pod in tied}
        return {pod for pod in tied if bound[pod] == min(bound.values())}
