"""llama-swap's matrix: which members may be loaded together, and whom a load evicts.

A set is an expression of members: ``&`` together, ``|`` one of them, ``()``,
and ``+name`` for what another set says; each way to read it is members that
may be loaded together, or any of them. Source: ``matrix`` of
``config.example.yaml`` and ``internal/matrix`` of mostlygeek/llama-swap.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from itertools import product
from typing import Annotated, Final, TypeAlias

from pydantic import Field, StringConstraints

from sim.core.fields import Model, Name, Text, whole
from sim.core.rules import Problem

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
