"""A model pool with priorities and a least residency: another decision, the same activator.

A member of a low priority is starved by those of higher ones unless ``maxWait``
bounds that: an attempt that has waited for so long comes before all others.
"""

from functools import partial

from sim.core.kernel import BOUNDARY_TOLERANCE_S
from sim.core.ports import Activation, PoolContext
from sim.core.registry import family
from sim.pool.decision import Decision
from sim.pool.fair_spec import FairPool
from sim.pool.observed_state import ObservedState
from sim.pool.scheduler import PoolScheduler


class FairDecision(Decision):
    """Decides as in a model pool, but for who must leave when, and who comes first."""

    def __init__(self, spec: FairPool, belief: ObservedState) -> None:
        super().__init__(spec, belief)
        self._min_residency_s = spec.min_residency
        self._min_served = spec.min_served
        self._priorities = {name: member.priority for name, member in spec.members.items()}

    @property
    def kept_until_s(self) -> float:
        """The end of minResidency."""
        return super().kept_until_s + self._min_residency_s

    @property
    def heeds_others(self) -> bool:
        """Priorities do."""
        return True

    def precedence(self, activation: Activation) -> int:
        """Higher priorities come first."""
        return -self._priorities[activation.member]

    def _is_kept(self, now_s: float) -> bool:
        return super()._is_kept(now_s) or self._has_just_come(now_s) or not self._has_its_share

    @property
    def _has_its_share(self) -> bool:
        """Whether the resident has served minServed, or nobody asks for it any more."""
        belief = self._belief
        if belief.resident is None or belief.granted >= self._min_served:
            return True
        return not belief.busy and not belief.counts[belief.resident].waiting

    def _has_just_come(self, now_s: float) -> bool:
        is_there = self._belief.resident is not None
        return is_there and now_s < self.kept_until_s - BOUNDARY_TOLERANCE_S

    def _another_is_due(self, now_s: float) -> bool:
        if not self._has_its_share or self._has_just_come(now_s):
            return False
        return super()._another_is_due(now_s) or self._is_outranked()

    def _is_outranked(self) -> bool:
        """Whether somebody of a higher priority waits; a member that is loaded serves at least one.

        Else a member would be loaded for nothing.
        """
        belief = self._belief
        if belief.resident is None or not belief.granted:
            return False
        own = self._priorities[belief.resident]
        return any(self._priorities[each.member] > own for each in belief.waiting)

    def _may_start_swap(self, activation: Activation, now_s: float) -> bool:
        """Nobody comes before who waits for a member that is not there either."""
        belief = self._belief
        mine = self._rank(activation, now_s)
        return super()._may_start_swap(activation, now_s) and not any(
            self._rank(each, now_s) > mine
            for each in belief.waiting
            if each.member != belief.resident
        )

    def _rank(self, activation: Activation, now_s: float) -> tuple[bool, float]:
        """Whoever has waited for maxWait comes first, the oldest before others; then priority."""
        limit_s = self._spec.max_wait
        waited_s = now_s - activation.joined_s
        if limit_s is not None and waited_s > limit_s - BOUNDARY_TOLERANCE_S:
            return True, waited_s
        return False, self._priorities[activation.member]


@family(FairPool)
class Fair(PoolScheduler):
    """A pool of kind ``fair``; a ``sim.core.ports.PoolPort``."""

    def __init__(self, name: str, spec: FairPool, context: PoolContext) -> None:
        super().__init__(name, spec, context, partial(FairDecision, spec))
