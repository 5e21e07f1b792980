"""The settings of a pool of kind ``llama-swap``; the names and defaults are llama-swap's."""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from itertools import permutations
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field

from sim.core.errors import Fault
from sim.core.fields import (
    DURATION,
    MAX_DURATION_S,
    Duration,
    Model,
    Name,
    Quantity,
    whole,
)
from sim.core.rules import Problem, Unusable, known, rule, usable
from sim.hardware.swap import Member
from sim.hardware.swaptimes import SwapTimes
from sim.pool.matrix import Matrix, evicted
from sim.scenario.pool import Pool, Priority, never_loaded, strangers

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

Evicts: TypeAlias = Callable[[str, tuple[str, ...]], tuple[str, ...]]
"""Of those that are there, who must go for a member."""


class LlamaSwapMember(Member):
    """A model of llama-swap."""

    ttl: IdleTime | None = Field(
        default=None,
        description="Idle time after which it is unloaded; 0 never, globalTTL when missing.",
    )
    concurrency_limit: Annotated[int, whole(1, MAX_CONCURRENCY)] = Field(
        default=10,
        description="Requests that wait or are in flight; one more gets 429 when it comes.",
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
    matrix: Matrix | None = Field(
        default=None, description="Instead of groups: sets of members that may be loaded together."
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
        evicts = self.evicts()
        return all(evicts(target, (other,)) for target, other in permutations(self.members, 2))

    def evicts(self) -> Evicts:
        """Says who of those that are there must go before a member is loaded.

        A member of a group that is not exclusive leaves those of an exclusive
        one where they are: so does llama-swap.
        """
        if self.matrix is not None:
            together, problems = self.matrix.together(self.members)
            if problems:
                raise Unusable
            return partial(evicted, together=together, costs=self.matrix.costs())
        groups = self.group_of

        def by_groups(target: str, there: tuple[str, ...]) -> tuple[str, ...]:
            mine = groups[target]
            others = ((name, groups[name]) for name in there if name != target)
            return tuple(
                name
                for name, its in others
                if (mine.swap if mine is its else mine.exclusive and not its.persistent)
            )

        return by_groups

    @rule
    def _has_groups_or_a_matrix(self) -> Iterator[Problem]:
        if self.matrix is not None and self.groups:
            yield "groups", "not beside matrix, which says itself who may be loaded together"

    @rule
    def _has_a_matrix_of_its_members(self) -> Iterator[Problem]:
        if self.matrix is not None:
            for key, message in self.matrix.together(self.members)[1]:
                yield f"matrix.{key}", message

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
        evicts, initial = self.evicts(), tuple(dict.fromkeys(self.initial))
        for name in initial:
            gone = evicts(name, tuple(other for other in initial if other != name))
            if gone:
                where = "groups" if self.matrix is None else "matrix"
                message = f"{name!r} and {gone[0]!r} are never loaded together: {where}"
                yield "initial", message
                return

    def _grouped(self) -> Iterator[tuple[str, str]]:
        """Each group with each of its members, as far as they can be read."""
        for name, group in self.groups.items():
            for member in known(_members(group)):
                yield name, member


def _members(group: Group) -> Iterator[str]:
    yield from usable(group.members)
