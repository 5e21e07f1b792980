"""The settings of a pool of kind ``llama-swap``; the names and defaults are llama-swap's."""

from collections.abc import Iterator, Mapping
from itertools import permutations
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from sim.errors import Fault
from sim.scenario.fields import (
    DURATION,
    MAX_DURATION_S,
    Duration,
    Model,
    Name,
    Quantity,
    whole,
)
from sim.scenario.pool import Pool, Priority, never_loaded, strangers
from sim.scenario.rules import Problem, known, rule, usable
from sim.scenario.swap import Member
from sim.scenario.swaptimes import SwapTimes

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

    def doubts(self, times: Mapping[str, SwapTimes]) -> list[Fault]:
        """Loads that the health check ends, unloads that are cut off, limits that do not count."""
        limit_s, kill_s, found = self.health_check_timeout, self.unload_timeout, []
        for name, its in times.items():
            own_s = self.members[name].load_limit
            if limit_s < its.load_s:
                found.append(("healthCheckTimeout", f"{name}: {never_loaded(limit_s, its.load_s)}"))
            if own_s is not None and own_s > limit_s:
                message = f"never reached: healthCheckTimeout ends a load after {limit_s:g} s"
                found.append((f"members.{name}.loadLimit", message))
            if kill_s < its.unload_s:
                message = f"{kill_s:g} s is shorter than {name}'s unload of {its.unload_s:.4g} s"
                found.append(("unloadTimeout", f"{message}: it is killed"))
        return [
            *super().doubts(times),
            *(Fault("pool", 0, 0, path, message) for path, message in found),
        ]

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

    @rule
    def _groups_have_members(self) -> Iterator[Problem]:
        members = ", ".join(self.members)
        for name, member in self._grouped():
            if member not in self.members:
                yield "groups", f"{name}: {member!r} is none of the members ({members})"

    @rule
    def _has_one_group_each(self) -> Iterator[Problem]:
        homes: dict[str, str] = {}
        for name, member in self._grouped():
            if member in self.members and member in homes:
                yield "groups", f"{name}: {member!r} is in group {homes[member]!r} already"
            homes.setdefault(member, name)

    @rule
    def _begins_with_members(self) -> Iterator[Problem]:
        yield from strangers(self.initial, self.members)

    @rule
    def _begins_with_some_that_go_together(self) -> Iterator[Problem]:
        if any(name not in self.members for name in self.initial):
            return
        for name, other in permutations(dict.fromkeys(self.initial), 2):
            if self.unloads(name, other):
                message = f"{name!r} and {other!r} are never loaded together: groups"
                yield "initial", message
                return

    def _grouped(self) -> Iterator[tuple[str, str]]:
        """Each group with each of its members, as far as they can be read."""
        for name, group in self.groups.items():
            for member in known(_members(group)):
                yield name, member


def _members(group: Group) -> Iterator[str]:
    yield from usable(group.members)
