"""YAML that is written is YAML that reads as the same values."""

from hypothesis import given, settings
from hypothesis import strategies as st

from sim.core.document import parse
from sim.manifests.writing import WIDTH, YamlBlock, document

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
MISLEADING = st.sampled_from(["yes", "5", "1e5", "0x1", "a: b", "#", "~", "-"])
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(allow_nan=False)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXT | MISLEADING
VALUES = st.recursive(
    SCALARS,
    lambda below: (
        st.lists(below, max_size=3).map(tuple)
        | st.dictionaries(TEXT.filter(lambda key: key != "<<"), below, max_size=3)
    ),
    max_leaves=6,
)


@settings(max_examples=200, deadline=None)
@given(value=VALUES, why=TEXT)
def test_a_value_reads_as_it_was(value: object, why: str):
    """Text would become a number, or a comment a part of the value."""
    block, item = YamlBlock(), YamlBlock()
    item.remark(why)
    item.add("first", value, why)
    item.add("second", 1)
    block.add("outer", item, why)
    block.add("items", [item, item])
    inner = {"first": value, "second": 1}
    assert parse(document(block), "w") == {"outer": inner, "items": (inner, inner)}


def test_lines_are_short_and_reasons_stand_where_there_is_room():
    """Nobody would like to read it."""
    block = YamlBlock()
    block.add("short", 1, "a reason")
    block.add("long", 2, "a reason of many words " * 8)
    block.add("wide", {f"key{number}": "value" for number in range(12)})
    lines = document(block).splitlines()
    assert lines[0] == "short: 1  # a reason"
    assert all(len(line) <= WIDTH for line in lines)
    assert lines.index("long: 2") > 1
