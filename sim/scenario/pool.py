"""What is common to all kinds of pools: backends that take turns on the same GPUs."""

from dataclasses import dataclass

from pydantic import Field

from sim.scenario.fields import Model, Name
from sim.scenario.swap import Member


@dataclass(frozen=True)
class RouterSide:
    """What a router does with members of a pool in its own way.

    ``quarantine`` says whether a member that fails is avoided as other pods
    are; the statuses are those of two answers that were others before they were
    mended (router and pools, 6).
    """

    quarantine: bool = False
    swap_deadline_status: int = 503
    all_busy_status: int = 503


class Pool(Model):
    """Members that cannot all be in memory at once.

    A kind of pool is a subclass with its settings and a ``kind`` of its own,
    bound to its implementation, a ``sim.ports.PoolPort``, by
    ``sim.registry.family`` and built as ``Implementation(name, spec, context)``.
    """

    kind: str = "model-pool"
    members: dict[Name, Member] = Field(
        min_length=1, description="Names of backends, each of one pod, and how they are loaded."
    )

    @property
    def router_side(self) -> RouterSide:
        """How the router treats the members."""
        return RouterSide()
