"""The settings of a pool of kind ``fair``: what users of LLMKube have asked for beside it."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final, Literal

from pydantic import Field

from sim.core.fields import Duration, Name, whole
from sim.core.rules import Problem, rule
from sim.hardware.swap import Member
from sim.pool.spec import ExclusiveSlot
from sim.scenario.pool import Priority

MAX_SERVED: Final = 1_000_000


class FairMember(Member):
    """A member of a pool of kind ``fair``."""

    priority: Priority = Field(
        default=0,
        description="While an attempt for a member of a higher one waits, nothing more is granted "
        "to the resident, and nobody else starts a swap.",
    )


class FairPool(ExclusiveSlot):
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
