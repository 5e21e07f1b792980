"""What is said of faulty and doubtful scenarios, line by line: ``messages.yaml`` has the cases.

A case changes one of the scenarios in ``bases.yaml``, or is a ``text`` of its own; it
``says`` the lines of its faults, or ``warns`` of something without being refused.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from sim.core.errors import ScenarioError
from sim.scenario.load import ScenarioSet


def read(name: str) -> dict[str, Any]:
    found = YAML(typ="safe").load(Path(__file__).with_name(name).read_text("utf-8"))
    assert isinstance(found, dict)
    return found


BASES = read("bases.yaml")


def cases() -> Iterator[Any]:
    for name, group in read("messages.yaml").items():
        for number, case in enumerate(group["cases"]):
            yield pytest.param(case, id=f"{name}-{number}")


def text_of(case: dict[str, Any]) -> str:
    text = case.get("text") or BASES[case.get("base", "good")]
    changes = iter(case.get("change", ()))
    for old, new in zip(changes, changes):
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return str(text)


@pytest.mark.parametrize("case", [*cases()])
def test_a_scenario_is_answered_line_by_line(
    loaded: Callable[..., ScenarioSet], case: dict[str, Any]
) -> None:
    """The user would have to guess what is wrong, where, or what would be right."""
    try:
        found = loaded(text_of(case), case.get("set", ()), case.get("variants", ()))
        said = "warns", list(found.warnings)
    except ScenarioError as error:
        said = "says", str(error).split("\n")
    wanted = "says" if "says" in case else "warns"
    assert (said[0], [line.removeprefix("f.yaml:") for line in said[1]]) == (wanted, case[wanted])
