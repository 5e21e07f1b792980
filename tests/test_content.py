"""What prompts share, in the tree of their texts."""

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from sim.core.content import Node, Prompt, longest_shared_prefix
from tests.engine.strategies import many

branches = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 30)), max_size=6)
ends = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), max_size=8)


@many(300)
@given(branches, ends)
def test_the_longest_shared_prefix_is_that_of_some_two(
    branches: list[tuple[int, int]], ends: list[tuple[int, int]]
) -> None:
    """A report would say that nothing is shared, or more than any two prompts have in common."""
    nodes = [Node()]
    for parent, start in branches:
        nodes.append(Node(nodes[parent], start) if parent < len(nodes) else Node())
    prompts = [Prompt(nodes[node % len(nodes)], tokens) for node, tokens in ends]
    pairs = [one.common_prefix(other) for one, other in combinations(prompts, 2)]
    assert longest_shared_prefix(prompts) == max(pairs, default=0)
