"""The scenario in a report: every setting, the variants as changes, and the same simulation."""

from pathlib import Path
from typing import Any

import pytest

from sim.report.scenario import differences, resolved_yaml
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


ENGINE = {"batch": 9, "frontEnd": None}


@pytest.mark.parametrize(
    ("change", "paths"),
    [
        ({"policy": {"kind": "table", "idle": 5}}, {"policy": {"kind": "table", "idle": 5}}),
        ({"engine": ENGINE}, {"engine.batch": 9}),
        ({"engine": {"batch": 8}}, {"engine": {"batch": 8}}),
        ({"rules": [{"name": "any"}]}, {"rules": [{"name": "any"}]}),
        ({"name": "y", "description": "z", "seeds": [2], "variant": "b"}, {}),
    ],
)
def test_differences_go_down_to_the_setting_and_stop_at_blocks_of_another_kind(
    change: dict[str, Any], paths: dict[str, Any]
):
    """Settings of two policies would be mixed, or one number be lost in a block of twenty."""
    found = differences({"a": scenario(), "b": scenario(**change)})
    assert {path: values["b"] for path, values in found.items()} == paths


def test_keys_with_dots_are_not_taken_for_paths():
    """A header called a.b would be put at the path a, b."""
    first, second = scenario(engine={"x.y": 1}), scenario(engine={"x.y": 2})
    assert list(differences({"a": first, "b": second})) == ["engine"]
