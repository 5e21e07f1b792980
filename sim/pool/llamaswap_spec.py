"""The settings of a pool of kind ``llama-swap``; the names and defaults are llama-swap's."""

from collections.abc import Mapping
from itertools import permutations
from typing import Annotated, Final, Literal, Self, TypeAlias

from pydantic import Field, model_validator

from sim.scenario.fields import (
    DURATION,
    MAX_DURATION_S,
    Duration,
    Model,
    Name,
    Quantity,
    refuse,
    whole,
)
from sim.scenario.pool import Pool, Priority
from sim.scenario.swap import Member

LEAST_HEALTH_CHECK_S: Final = 15.0
MAX_CONCURRENCY: Final = 1_000_000

HealthCheckTimeout: TypeAlias = Annotated[
    float, Quantity("a duration", "120s", DURATION, LEAST_HEALTH_CHECK_S, MAX_DURATION_S)
]
"""Seconds; llama-swap takes no less than 15 s."""

IdleTime: TypeAlias = Annotated[
    float, Quantity("a duration", "300s", DURATION, 0.01, MAX_DURATION_S, or_zero=True)
]
"""Seconds of idleness after which a member is unloaded; 0 never."""


class LlamaSwapMember(Member):
    """A model of llama-swap."""

    ttl: IdleTime | None = Field(
        default=None,
        description="Idle time after which it is unloaded; 0 never, globalTTL when missing.",
    )
    concurrency_limit: Annotated[int, whole(1, MAX_CONCURRENCY)] = Field(
        default=10, description="Requests in flight; what is granted beyond gets 429."
    )
    priority: Priority = Field(
        default=0, description="Those who are queued for a member of a higher one go first."
    )


class Group(Model):
    """Members, and what they unload."""

    members: tuple[Name, ...] = Field(min_length=1, description="Members of the pool.")
    swap: bool = Field(default=True, description="Whether at most one of them is loaded.")
    exclusive: bool = Field(
        default=True, description="Whether loading one of them unloads the other groups."
    )
    persistent: bool = Field(
        default=False, description="Whether other groups leave its members alone."
    )


class LlamaSwapPool(Pool):
    """Models behind llama-swap: first come, first served, those for a loaded model at once.

    Who is held is held until its client leaves.
    """

    kind: Literal["llama-swap"]
    members: Mapping[Name, LlamaSwapMember] = Field(
        min_length=1, description="Names of backends, each of one pod, and how they are loaded."
    )
    groups: dict[Name, Group] = Field(
        default={},
        description="Groups by name; members that are in none form one with swap and exclusive.",
    )
    initial: tuple[Name, ...] = Field(
        default=(), description="Members that are ready at the start; none when missing."
    )
    health_check_timeout: HealthCheckTimeout = Field(
        default=120.0, description="A load that takes longer fails at that time."
    )
    unload_timeout: Duration = Field(
        default=10.0,
        description="Time that a member has to end what is in it and to unload; it is killed then.",
    )
    global_ttl: IdleTime = Field(
        default=0.0,
        alias="globalTTL",
        description="Idle time after which members are unloaded; 0 never.",
    )

    @model_validator(mode="after")
    def _makes_sense(self) -> Self:
        refuse([*self._misplaced(), *self._not_together()])
        return self

    @property
    def group_of(self) -> Mapping[str, Group]:
        """The group of each member."""
        grouped = {name: group for group in self.groups.values() for name in group.members}
        rest = tuple(name for name in self.members if name not in grouped)
        default = Group(members=rest) if rest else None
        return {name: grouped.get(name, default) or grouped[name] for name in self.members}

    def ttl_s(self, member: str) -> float | None:
        """Seconds of idleness after which ``member`` is unloaded; None for never."""
        own = self.members[member].ttl
        return (self.global_ttl if own is None else own) or None

    def health_checked(self) -> dict[str, Member]:
        """The members, each with its limit to a load."""
        limit_s = self.health_check_timeout
        return {
            name: member.model_copy(
                update={"load_limit": min(limit_s, member.load_limit or limit_s)}
            )
            for name, member in self.members.items()
        }

    @property
    def exclusive(self) -> bool:
        """Whether each member unloads every other."""
        pairs = permutations(self.members, 2)
        return all(self.unloads(target, other) for target, other in pairs)

    def unloads(self, target: str, other: str) -> bool:
        """Whether loading ``target`` unloads ``other``.

        A member of a group that is not exclusive leaves those of an exclusive
        one where they are: so does llama-swap.
        """
        groups = self.group_of
        mine, its = groups[target], groups[other]
        if target == other:
            return False
        return mine.swap if mine is its else mine.exclusive and not its.persistent

    def _misplaced(self) -> list[tuple[str, str]]:
        known = ", ".join(self.members)
        problems: list[tuple[str, str]] = []
        homes: dict[str, str] = {}
        for name, group in self.groups.items():
            for member in group.members:
                if member not in self.members:
                    message = f"{name}: {member!r} is none of the members ({known})"
                    problems.append(("groups", message))
                elif member in homes:
                    message = f"{name}: {member!r} is in group {homes[member]!r} already"
                    problems.append(("groups", message))
                homes.setdefault(member, name)
        unknown = [name for name in self.initial if name not in self.members]
        if unknown:
            message = f"must be members ({known}); got {', '.join(map(repr, unknown))}"
            problems.append(("initial", message))
        return problems

    def _not_together(self) -> list[tuple[str, str]]:
        if any(name not in self.members for name in self.initial):
            return []
        ready = dict.fromkeys(self.initial)
        for name in ready:
            for other in ready:
                if self.unloads(name, other):
                    message = f"{name!r} and {other!r} are never loaded together: groups"
                    return [("initial", message)]
        return []
