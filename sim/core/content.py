"""What a prompt says: a tree of conversation nodes, counted in exact tokens.

A node is the tokens ``[start, end)`` of a conversation that follow the first
``start`` tokens of its parent's path. A child may branch anywhere inside its
parent, so nodes are never split or renamed, and two prompts are equal as far
as their paths run through the same nodes. Lengths know no block size; stores
cut the same tree into blocks of their own (``sim.core.kvcache``).
"""

from collections.abc import Iterable
from typing import TypeAlias


class Node:
    """One stretch of a conversation; open-ended, a prompt says how much of it is used."""

    __slots__ = ("parent", "start")

    def __init__(self, parent: "Node | None" = None, start: int = 0) -> None:
        """Branch off ``parent`` after ``start`` tokens of its path; no parent: a new text.

        Raises ``ValueError`` when the branch point is not inside the parent.
        """
        if parent is None:
            if start != 0:
                raise ValueError(f"a text without a parent starts at 0, not at {start}")
        else:
            # A branch before the parent's own first token is a branch of its parent.
            while parent.parent is not None and start < parent.start:
                parent = parent.parent
        self.parent: Node | None = parent
        self.start: int = start


Segment: TypeAlias = tuple[Node, int]
"""A node and the position at which a path leaves it (exclusive, in tokens of the path)."""


class Prompt:
    """The first ``tokens`` tokens of the path that ends in ``node``; read-only."""

    __slots__ = ("node", "tokens")

    def __init__(self, node: Node, tokens: int) -> None:
        while node.parent is not None and tokens <= node.start:
            node = node.parent
        self.node = node
        self.tokens = tokens

    def segments(self) -> list[Segment]:
        """The nodes of the path from its root, each with the position where the path leaves it."""
        return path(self.node, self.tokens)

    def common_prefix(self, other: "Prompt") -> int:
        """Length in tokens of the longest common prefix of two prompts."""
        limits: dict[Node, int] = {}
        node: Node | None = self.node
        limit = self.tokens
        while node is not None:
            limits[node] = limit
            limit = node.start
            node = node.parent
        node, limit = other.node, other.tokens
        while node is not None:
            mine = limits.get(node)
            if mine is not None:
                return min(mine, limit)
            limit = node.start
            node = node.parent
        return 0

    def head(self, tokens: int) -> "Prompt":
        """The prompt that says only the first ``tokens`` tokens of this one."""
        return Prompt(self.node, min(tokens, self.tokens))


def longest_shared_prefix(prompts: Iterable[Prompt]) -> int:
    """How many first tokens any two of these prompts have in common, at most."""
    reached: dict[Node, int] = {}
    longest = 0
    for prompt in prompts:
        for node, leave in prompt.segments():
            earlier = reached.get(node, 0)
            longest = max(longest, min(leave, earlier))
            reached[node] = max(leave, earlier)
    return longest


def path(node: Node, tokens: int) -> list[Segment]:
    """Segments of the first ``tokens`` tokens of the path that ends in ``node``, root first."""
    segments: list[Segment] = []
    at: Node | None = node
    while at is not None:
        if tokens > at.start or at.parent is None:
            segments.append((at, tokens))
            tokens = at.start
        at = at.parent
    segments.reverse()
    return segments
