"""Settings of a pool of kind ``llama-swap``, under llama-swap's names and with its defaults.

A set of its matrix is an expression of members: ``&`` together, ``|`` one of them, ``()``,
and ``+name`` for what another set says. Each way to read it is a set of members that
may be loaded together, or any part of it. Source: ``matrix`` of
``config.example.yaml`` and ``internal/matrix`` of mostlygeek/llama-swap.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import partial
from itertools import permutations, product
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, StringConstraints

from sim.core.errors import Fault
from sim.core.fields import (
    DURATION,
    MAX_DURATION_S,
    Duration,
    Model,
    Name,
    Quantity,
    Text,
    whole,
)
from sim.core.rules import Problem, rule
from sim.hardware.loading import Member, SwapTimes
from sim.scenario.pool import Pool, Priority, never_loaded, strangers

MAX_COMBINATIONS: Final = 10_000
MAX_COST: Final = 1_000_000
TOKEN: Final = re.compile(r"\s*([&|()]|\+?[A-Za-z0-9_.-]+)")

Identifier: TypeAlias = Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9_.-]{1,32}$")]
Together: TypeAlias = tuple[frozenset[str], ...]
"""Combinations of members, in the order in which they are written."""


class _FaultError(ValueError):
    """A set cannot be read; the words say why."""


class Matrix(Model):
    """Sets of members that may be loaded together; a member of none is loaded alone."""

    vars: dict[Identifier, Name] = Field(
        default={}, description="Short names of members, for sets and evictCosts."
    )
    evict_costs: dict[Identifier, Annotated[int, whole(1, MAX_COST)]] = Field(
        default={},
        description="Cost of losing a member, 1 when missing. Of the sets with the wanted member "
        "the one is chosen whose absent members, as far as they are loaded, cost least together; "
        "of equals the first.",
    )
    sets: dict[Identifier, Text] = Field(
        min_length=1,
        description="Sets by name, such as (a | b) & c: & together, | one of them, +name another "
        "set.",
    )

    def together(self, members: Collection[str]) -> tuple[Together, list[Problem]]:
        """The combinations of all sets, and what is wrong with the matrix of ``members``."""
        named = {**dict.fromkeys(members, ""), **self.vars}
        names = {short: member or short for short, member in named.items()}
        problems = list(self._strangers(members, names))
        reader = _Reader(self.sets, names)
        for name in self.sets:
            try:
                reader.read(name)
            except _FaultError as fault:
                problems.append((f"sets.{name}", str(fault)))
        found = (each for combinations in reader.known.values() for each in combinations)
        return tuple(dict.fromkeys(found)), problems

    def costs(self) -> Mapping[str, int]:
        """What it costs to lose a member, of those that do not cost 1."""
        return {self.vars.get(name, name): cost for name, cost in self.evict_costs.items()}

    def _strangers(self, members: Collection[str], names: Mapping[str, str]) -> Iterator[Problem]:
        listed = ", ".join(members)
        for short, member in self.vars.items():
            if member not in members:
                yield f"vars.{short}", f"must be one of the members ({listed}); got {member!r}"
        for name in self.evict_costs:
            if name not in names:
                yield f"evictCosts.{name}", f"is none of vars or members ({listed})"


def evicted(
    target: str, there: tuple[str, ...], together: Together, costs: Mapping[str, int]
) -> tuple[str, ...]:
    """Who of those that are ``there`` must go for ``target``: nobody if it is there itself."""
    if target in there:
        return ()

    def cost(combination: frozenset[str]) -> int:
        return sum(costs.get(name, 1) for name in there if name not in combination)

    candidates = (combination for combination in together if target in combination)
    best = min(candidates, key=cost, default=frozenset[str]())
    return tuple(name for name in there if name not in best)


class _Reader:
    """Reads sets; one that another refers to is ``known`` before that one."""

    def __init__(self, sets: Mapping[str, str], names: Mapping[str, str]) -> None:
        self.known: dict[str, Together] = {}
        self._sets = sets
        self._names = names
        self._reading: list[str] = []
        self._tokens: list[str] = []

    def read(self, name: str) -> Together:
        if name in self.known:
            return self.known[name]
        if name in self._reading:
            raise _FaultError(f"refers to itself: {' -> '.join([*self._reading, name])}")
        outer, self._tokens = self._tokens, _tokens(self._sets[name])
        self._reading.append(name)
        try:
            combinations = self._either()
            if self._tokens:
                raise _FaultError(f"{self._tokens[0]!r} is not expected there")
        finally:
            self._reading.pop()
            self._tokens = outer
        self.known[name] = combinations
        return combinations

    def _either(self) -> Together:
        found = list(self._both())
        while self._skips("|"):
            found += self._both()
        return tuple(dict.fromkeys(found))

    def _both(self) -> Together:
        found = self._one()
        while self._skips("&"):
            pairs = product(found, self._one())
            found = tuple(dict.fromkeys(left | right for left, right in pairs))
            if len(found) > MAX_COMBINATIONS:
                raise _FaultError(f"stands for more than {MAX_COMBINATIONS} combinations")
        return found

    def _one(self) -> Together:
        token = self._tokens.pop(0) if self._tokens else ""
        if token == "(":
            found = self._either()
            if not self._skips(")"):
                raise _FaultError("a ')' is missing")
            return found
        if token.startswith("+") and token[1:] in self._sets:
            return self.read(token[1:])
        if token in self._names:
            return (frozenset({self._names[token]}),)
        if token in ("", "&", "|", ")"):
            raise _FaultError(f"a member is missing before {token or 'the end'!r}")
        known = ", ".join(f"+{name}" for name in self._sets if token.startswith("+"))
        known = known or ", ".join(self._names)
        raise _FaultError(f"{token!r} is unknown; known: {known}")

    def _skips(self, token: str) -> bool:
        if self._tokens[:1] != [token]:
            return False
        del self._tokens[0]
        return True


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = TOKEN.match(text, position)
        if match is None:
            raise _FaultError(f"{text[position:].lstrip()[0]!r} means nothing there")
        tokens.append(match[1])
        position = match.end()
    return tokens


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

    def warnings(self, times: Mapping[str, SwapTimes]) -> list[Fault]:
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
            *super().warnings(times),
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
            together, _ = self.matrix.together(self.members)
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
        if any(name not in self.members for name in self.initial) or [
            *self._has_a_matrix_of_its_members()
        ]:
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
        """Each group with each of its members."""
        for name, group in self.groups.items():
            for member in group.members:
                yield name, member
