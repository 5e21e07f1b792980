"""A model pool of kind ``fair``: priorities and a least residency, as LLMKube's users asked for.

A member of low priority starves behind higher ones unless ``maxWait``
bounds that: an attempt that has waited for so long comes before all others.
"""

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import Field

from sim.core.fields import Duration, Name, whole
from sim.core.kernel import BOUNDARY_TOLERANCE_S
from sim.core.ports import Activation, PoolContext
from sim.core.registry import family
from sim.core.rules import Problem, rule
from sim.hardware.loading import Member
from sim.pool.decision import Decision
from sim.pool.observed_state import ObservedState
from sim.pool.scheduler import PoolScheduler
from sim.pool.spec import ExclusivePool
from sim.scenario.pool import Priority

MAX_SERVED: Final = 1_000_000


class FairMember(Member):
    """A member of a pool of kind ``fair``."""

    priority: Priority = Field(
        default=0,
        description="While an attempt for a member of a higher one waits, nothing more is granted "
        "to the resident, and nobody else starts a swap.",
    )


class FairPool(ExclusivePool):
    """A model pool whose members have priorities, and a time or a share before they must leave."""

    kind: Literal["fair"]
    members: Mapping[Name, FairMember] = Field(
        min_length=1, description="Names of backends, each of one pod, and how they are loaded."
    )
    min_residency: Duration = Field(
        default=0.0,
        description="Time from becoming ready for which a member is not swapped out, idle or not.",
    )
    min_served: Annotated[int, whole(0, MAX_SERVED)] = Field(
        default=0,
        description="Attempts granted to a member since it is ready before maxWait or priority "
        "keep others from it, as long as somebody asks for it.",
    )

    @rule
    def _leaves_a_choice(self) -> Iterator[Problem]:
        if self.order == "fifo":
            yield "order", "fifo leaves no choice to priorities; use kind model-pool"

    @rule
    def _reclaims_after_residency(self) -> Iterator[Problem]:
        if self.reclaims and self.reclaim_after < self.min_residency:
            yield "reclaimAfter", f"must be minResidency, {self.min_residency:g}s, or longer"


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
