"""The scenario in a report: every setting, the variants as changes, and the same simulation."""

from pathlib import Path
from typing import Any

import pytest

from sim.report.resolved import differences, resolved_yaml
from sim.scenario.load import load, load_text

ROOT = Path(__file__).parents[2]
SHIPPED = sorted((ROOT / "scenarios").rglob("*.yaml"))


@pytest.mark.parametrize("file", SHIPPED, ids=lambda file: file.stem)
def test_it_says_the_same_as_the_file(file: Path):
    """Whoever runs the scenario of a report would get other figures than the report has."""
    given = load(file)
    plain = {each.variant: each.model_dump(mode="json", by_alias=True) for each in given.variants}
    again = load_text(resolved_yaml(plain, given.seeds, "a remark"), directory=file.parent)
    assert again.scenario_hash == given.scenario_hash
    assert again.seeds == given.seeds
    assert [each.variant for each in again.variants] == list(plain)
    assert again.description == given.description


def test_the_text_may_hold_anything():
    """A description could end the comment, the string or the file."""
    text = "a: b # 'c' \"d\"\n---\n- {e}\n\ttab, \u2028 and <script>"
    plain = {"": {"name": "x", "description": text, "seeds": [1], "flag": "yes", "empty": None}}
    from sim.core.document import parse

    written = resolved_yaml(plain, (3,), "one\ntwo")
    assert written.startswith("# one\n# two\nname: x\n")
    assert parse(written, "text") == {**plain[""], "seeds": (3,)}


def scenario(**changes: Any) -> dict[str, Any]:
    """A resolved scenario that is as small as it can be."""
    return {
        "name": "x",
        "description": "",
        "seeds": [1],
        "variant": "",
        "policy": {"kind": "ring", "percent": 125},
        "engine": {"batch": 8, "frontEnd": None},
        "rules": [{"name": "all"}],
    } | changes


def test_differences_stop_where_blocks_are_of_another_kind():
    """Settings of two policies would be mixed, in a block that neither has."""
    found = differences(
        {
            "a": scenario(),
            "b": scenario(policy={"kind": "table", "idle": 5}),
            "c": scenario(policy={"kind": "ring", "percent": 110}),
        }
    )
    assert list(found) == ["policy"]
    assert found["policy"]["b"] == {"kind": "table", "idle": 5}


def test_differences_go_down_to_the_setting():
    """A reader would have to look for one number in a block of twenty."""
    found = differences({"a": scenario(), "b": scenario(engine={"batch": 9, "frontEnd": None})})
    assert found == {"engine.batch": {"a": 8, "b": 9}}


def test_names_seeds_and_descriptions_are_no_differences():
    """What no variant changes would be listed as if it had been."""
    other = scenario(name="y", description="z", seeds=[2], variant="b")
    assert differences({"a": scenario(), "b": other}) == {}


def test_keys_with_dots_are_not_taken_for_paths():
    """A header called a.b would be put at the path a, b."""
    found = differences(
        {"a": scenario(engine={"x.y": 1}), "b": scenario(engine={"x.y": 2})},
    )
    assert found == {"engine": {"a": {"x.y": 1}, "b": {"x.y": 2}}}
