"""What is common to all kinds of pools: backends that take turns on the same GPUs."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, Final, TypeAlias

from pydantic import Field

from sim.core.errors import Fault
from sim.core.fields import Model, Name, whole
from sim.core.rules import Problem
from sim.hardware.engine import Engine
from sim.hardware.loading import Member, SwapTimes

MAX_PRIORITY: Final = 1000

Priority: TypeAlias = Annotated[int, whole(-MAX_PRIORITY, MAX_PRIORITY)]
"""Of a member; those of a higher one go first."""


def strangers(initial: Iterable[str], members: Collection[str]) -> Iterator[Problem]:
    """The problem of ``initial`` of a pool that names others than its ``members``; or none."""
    unknown = [name for name in initial if name not in members]
    if unknown:
        named = ", ".join(members)
        yield "initial", f"must be members ({named}); got {', '.join(map(repr, unknown))}"


def never_loaded(limit_s: float, load_s: float) -> str:
    """What is said of a limit that ends every load."""
    return f"{limit_s:.4g} s is shorter than the load of {load_s:.4g} s, which fails every time"


@dataclass(frozen=True)
class RouterSide:
    """What a router does with members of a pool in its own way.

    ``quarantine`` says whether a member that fails is avoided as other pods
    are; the statuses are those of two answers that were others before they were
    mended.
    """

    quarantine: bool = False
    swap_deadline_status: int = 503
    all_busy_status: int = 503


class Pool(Model):
    """Members that share the memory of the same GPUs.

    A kind of pool is a subclass with its settings and a ``kind`` of its own,
    bound to its implementation, a ``sim.core.ports.PoolPort``, by
    ``sim.core.registry.family`` and built as ``Implementation(name, spec, context)``.
    """

    knows_if_idle: ClassVar[bool] = False
    """Whether an attempt may be skipped: rules with ``poolActivation: IfIdle``."""

    kind: str = "model-pool"
    members: Mapping[Name, Member] = Field(
        min_length=1, description="Names of backends, each of one pod, and how they are loaded."
    )

    @property
    def exclusive(self) -> bool:
        """Whether no more than one member is loaded at a time."""
        return False

    @property
    def probes_idle(self) -> bool:
        """Whether it asks its members whether anybody is in them, and does not only count."""
        return False

    @property
    def samples_for_ever(self) -> bool:
        """Whether one event of its own is always pending: a look at its members now and then."""
        return False

    @property
    def router_side(self) -> RouterSide:
        """How the router treats the members."""
        return RouterSide()

    def resident_bytes(self, engines: Mapping[str, Engine]) -> dict[str, float]:
        """What each member takes of the memory that they share, given its engine.

        Nothing of a pool to which that is all one. Raises ``ScenarioError`` when
        it is not known or does not fit; the path of a fault is the key of the pool.
        """
        return {}

    def contexts(self, engines: Mapping[str, Engine]) -> dict[str, int]:
        """Tokens of context that each member is loaded with, where requests may ask for others."""
        return {}

    def warnings(self, times: Mapping[str, SwapTimes]) -> list[Fault]:
        """What is possible and hardly meant, given how long each member takes.

        The path of each is a key of the pool.
        """
        found = []
        for name, its in times.items():
            swap, limit_s = self.members[name].swap, self.members[name].load_limit
            if limit_s is not None and limit_s < its.load_s:
                found.append(("loadLimit", name, never_loaded(limit_s, its.load_s)))
            if swap is not None and swap.disk is not None and swap.disk > its.bytes_per_s:
                rate = f"{its.bytes_per_s / 1e9:.3g} GB/s"
                message = f"weights are taken in at {rate} (loader, hostToDevice, host), not faster"
                found.append(("swap.disk", name, message))
        return [Fault("pool", 0, 0, f"members.{name}.{key}", said) for key, name, said in found]
