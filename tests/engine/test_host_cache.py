"""The host cache on extents of a tree does what the one on lists of tokens does."""

from hypothesis import given
from hypothesis import strategies as st

from sim.core.content import Node, Prompt
from sim.engine.llamacpp.hostcache import HostCache
from tests import slot_oracle
from tests.engine.strategies import many

LONGEST = 12
TEXTS = ("a", "aa", "ab", "b", "ba")
"""Two texts, and others that follow one of them for three tokens."""


def said(text: str, tokens: int) -> list[int]:
    """The first tokens of a text."""
    return [TEXTS.index(text[:1] if position < 3 else text) for position in range(tokens)]


def nodes() -> dict[str, Node]:
    """The texts as content nodes."""
    made = {text: Node() for text in TEXTS if len(text) == 1}
    return made | {text: Node(made[text[0]], 3) for text in TEXTS if len(text) == 2}


contexts = st.tuples(st.sampled_from(TEXTS), st.integers(0, LONGEST))
operations = st.tuples(st.sampled_from(("save", "take", "trim")), contexts, contexts)


@many(500)
@given(st.integers(0, 40), st.lists(operations, max_size=25))
def test_it_keeps_and_gives_what_the_list_of_lists_does(
    room: int, steps: list[tuple[str, tuple[str, int], tuple[str, int]]]
) -> None:
    """A context would be lost, kept twice, or taken by a prompt that reuses too little of it."""
    tree, fast, slow = nodes(), HostCache(room), slot_oracle.HostCache(room)
    for operation, (text, tokens), (asked, asked_tokens) in steps:
        context = Prompt(tree[text], tokens)
        if operation == "save":
            fast.save(context)
            slow.save(said(text, tokens))
        elif operation == "trim":
            fast.trim()
            slow.trim()
        elif asked_tokens:
            taken = fast.take(context, Prompt(tree[asked], asked_tokens))
            expected = slow.swap(said(text, tokens), said(asked, asked_tokens))
            assert taken.tokens == len(expected)
        assert (len(fast), fast.tokens) == (len(slow.saved), sum(map(len, slow.saved)))
