"""YAML text to nodes: YAML 1.2 values, places, and what is refused before it is expanded (C77)."""

import math
import sys
import tracemalloc

import pytest

from sim.core.document import Place, PlacedMap, at, parse, place_of, resolve
from sim.core.errors import ScenarioError


def faults(text: str) -> list[str]:
    with pytest.raises(ScenarioError) as caught:
        parse(text, "f.yaml")
    return str(caught.value).split("\n")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e5", 1e5),
        ("1.0e+5", 1e5),
        ("1.", 1.0),
        (".5", 0.5),
        ("+5", 5),
        ("-5", -5),
        ("010", 10),
        ("0x1F", 31),
        ("0o17", 15),
        ("1e309", math.inf),
        (".inf", math.inf),
        ("+.INF", math.inf),
        ("-.Inf", -math.inf),
        ("null", None),
        ("~", None),
        ("", None),
        ("true", True),
        ("False", False),
        ("yes", "yes"),
        ("no", "no"),
        ("on", "on"),
        ("off", "off"),
        ("1_000", "1_000"),
        ("1:30", "1:30"),
        ("2026-01-01", "2026-01-01"),
        ("0b1", "0b1"),
        ("-", "-"),
        (".", "."),
        ("1e", "1e"),
        ("9" * 5000, math.inf),
    ],
)
def test_plain_scalars_mean_what_yaml_1_2_says(text: str, value: object) -> None:
    """A switch would be read from "no", a time from "1:30", or 1e5 would be text."""
    found = resolve(text)
    assert found == value
    assert type(found) is type(value)


def test_not_a_number_is_read_as_such() -> None:
    """.nan as text would be refused as a word, and its range never looked at."""
    assert math.isnan(resolve(".nan"))  # type: ignore[arg-type]


def test_quotes_make_text_and_tags_of_the_core_schema_hold() -> None:
    """A quoted number would lose its quotes, or an honest tag would be refused."""
    text = "{a: '5', b: \"true\", c: !!str 5, d: !!int 5, e: !!float 5, f: ! 5, g: !!map {}}"
    assert parse(text, "f.yaml") == {
        "a": "5",
        "b": "true",
        "c": "5",
        "d": 5,
        "e": 5.0,
        "f": "5",
        "g": {},
    }


def test_keys_are_text_whatever_they_look_like() -> None:
    """A variant called 1.10 would be renamed 1.1, and a model called null lost."""
    assert parse("{1.10: a, true: b, null: c, 1: d}", "f.yaml") == {
        "1.10": "a",
        "true": "b",
        "null": "c",
        "1": "d",
    }


def test_json_is_read() -> None:
    """JSON is YAML; a scenario written by a program would be refused."""
    assert parse('{"a":1,"b":[1.5e3,"x",null,true]}', "f.yaml") == {
        "a": 1,
        "b": (1500.0, "x", None, True),
    }


def test_places_are_those_of_the_file() -> None:
    """Faults would point at the wrong line; columns count characters, not bytes."""
    root = parse("é: 1\nb:\n  - x\n  - {c: ü, d: 5}\n", "f.yaml")
    item = at(root, "b", 1)
    assert isinstance(item, PlacedMap)
    assert item.keys_at["d"] == Place("f.yaml", 4, 12)
    assert place_of(root, ("b", 1, "d")) == Place("f.yaml", 4, 15)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "f.yaml:1:1: the file is empty"),
        ("# only this\n", "f.yaml:2:1: the file is empty"),
        ("a: !env X", "f.yaml:1:4: a: unknown tag !env; remove it"),
        ("a: !!python/name:os.x ''", "f.yaml:1:4: a: unknown tag !!python/name:os.x; remove it"),
        ("a: !!set {x}", "f.yaml:1:4: a: unknown tag !!set; remove it"),
        ("!!int a: 1", "f.yaml:1:1: unknown tag !!int; remove it"),
        ("a: !!int x", "f.yaml:1:4: a: 'x' is not what its tag !!int says"),
        ("a: !!bool 'yes'", "f.yaml:1:4: a: 'yes' is not what its tag !!bool says"),
        (
            "%YAML 1.1\n---\na: 1",
            "f.yaml:1:1: podsim reads YAML 1.2; remove the %YAML line",
        ),
        (
            "a: 1\n---\nb: 1",
            "f.yaml:2:1: a second document begins here; one file holds one scenario",
        ),
        ("? [a]\n: 1", "f.yaml:1:3: a key must be text"),
        ("a: b: c", "f.yaml:1:5: not YAML: mapping values are not allowed in this context"),
        (
            "a: 'x\n",
            "f.yaml:2:1: not YAML: while scanning a quoted scalar, found unexpected end of stream",
        ),
        (
            "\ta: 1",
            "f.yaml:1:1: not YAML: a tab stands here; indent with spaces",
        ),
        ("é\n: \x07", "f.yaml:2:3: character 0x0007 is not allowed in YAML"),
        ("a: \ud800", "f.yaml:1:4: character 0xd800 is half of a surrogate pair, not text"),
        (
            "base: &base 1\na: *bse",
            "f.yaml:2:4: a: *bse repeats nothing: no anchor &bse stands before it; "
            "did you mean 'base'?",
        ),
        (
            "a: {<<: 5}",
            "f.yaml:1:5: a: << takes in a mapping or a list of mappings, such as *template",
        ),
        ("{a: 1, a: 2}", "f.yaml:1:8: a: the key 'a' stands here twice; first at line 1, column 2"),
        (
            "a:\n  'b': 1\n  b: 2",
            "f.yaml:3:3: a.b: the key 'b' stands here twice; first at line 2, column 3",
        ),
    ],
)
def test_one_fault_one_line(text: str, message: str) -> None:
    """The user would not be told where it is, what is wrong or what would be right."""
    assert faults(text) == [message]


def test_faults_before_a_syntax_fault_are_reported_with_it() -> None:
    """The user would have to mend the file twice."""
    assert faults("a: 1\na: 2\nb: !x 1\nc: [1\n") == [
        "f.yaml:2:1: a: the key 'a' stands here twice; first at line 1, column 1",
        "f.yaml:3:4: b: unknown tag !x; remove it",
        "f.yaml:5:1: not YAML: while parsing a flow sequence, did not find expected ',' or ']'",
    ]


def test_an_anchor_and_a_merge_key_work() -> None:
    """C77: an honest file with one template would be refused. Own keys win, then the first."""
    text = """
base: &base {a: 1, b: 2}
more: &more {b: 5, c: 6}
one: *base
two: {b: 3, <<: *base}
three: {<<: [*base, *more], d: 4}
four: {'<<': 1}
&key five: *key
"""
    found = parse(text, "f.yaml")
    assert found["one"] == {"a": 1, "b": 2}
    assert found["two"] == {"a": 1, "b": 3}
    assert found["three"] == {"a": 1, "b": 2, "c": 6, "d": 4}
    assert found["four"] == {"<<": 1}
    assert found["five"] == "five"


def bomb(levels: int, width: int) -> str:
    lines = [f"a: &a [{','.join('x' * width)}]"]
    for level in range(1, levels):
        name, below = chr(97 + level), chr(96 + level)
        lines.append(f"{name}: &{name} [{','.join([f'*{below}'] * width)}]")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            bomb(9, 9),
            "f.yaml:6:8: f.0: the aliases up to here stand for 141164 values, in a file of 16; "
            "write them out or use fewer",
        ),
        ("a: &x [*x]", "f.yaml:1:8: a.0: *x stands inside &x, the very thing it repeats"),
        ("a: &x {<<: *x}", "f.yaml:1:12: a.<<: *x stands inside &x, the very thing it repeats"),
        ("[" * 100_000, "f.yaml:1:65: 0.0.0.0: nested deeper than 64 levels"),
        (
            "a:\n" + "".join("  " * n + " b:\n" for n in range(500)),
            "f.yaml:65:128: a.b.b.b: nested deeper than 64 levels",
        ),
    ],
    ids=["bomb", "itself", "merges-itself", "deep-flow", "deep-block"],
)
def test_bombs_are_refused_before_they_go_off(text: str, message: str) -> None:
    """C77: 306 bytes would stand for 387 million values, or the stack would overflow."""
    calls = 0

    def count(*_: object) -> None:
        nonlocal calls
        calls += 1

    tracemalloc.start()
    sys.setprofile(count)
    try:
        found = faults(text)
    finally:
        sys.setprofile(None)
        _, peak_bytes = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert found == [message]
    assert calls < 20_000  # a thousandth of a second, whatever the file is
    assert peak_bytes < 200e6


def test_a_template_may_be_used_often() -> None:
    """C77: the guard against bombs would refuse a large honest file with aliases."""
    text = "base: &base {a: 1, b: 2, c: [1, 2, 3]}\n" + "".join(
        f"x{n}: *base\n" for n in range(10_000)
    )
    assert len(parse(text, "f.yaml")) == 10_001
