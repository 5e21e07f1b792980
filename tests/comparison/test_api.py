"""``sim.compare``: what scripts and notebooks call."""

from pathlib import Path
from typing import Any

import pytest

import sim
import sim.comparison
from sim.core.errors import UserError
from sim.execution.runner import Runs
from tests.comparison.conftest import TINY


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    path = tmp_path_factory.mktemp("api") / "tiny.yaml"
    path.write_text(TINY, encoding="utf-8")
    return sim.run(path)


def test_the_name_is_a_function_whatever_has_been_imported() -> None:
    """A room of the same name would take its place as soon as something imports it."""
    assert callable(sim.compare)
    assert sim.compare.__module__ == "sim.api"


def test_fresh_runs_and_stored_ones_are_the_same(runs: Runs, stored: Path) -> None:
    """A notebook could not compare what it has just run with what is kept."""
    comparison = sim.compare(stored / "base", runs)
    assert comparison.verdict == "identical"
    assert comparison.pairs == 10


def test_two_variants_of_one_set_of_runs(runs: Runs) -> None:
    """The first question of every notebook would need two sets of runs."""
    comparison = sim.compare(runs, variants=("two", "one"))
    assert comparison.verdict == "worse"
    table = comparison.table.set_index("key")
    assert table.loc["ttft_s.p50", "verdict"] == "worse"
    assert table.loc["ttft_s.p50", "change"] > 0.0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({}, "variants: name two, or give a second set of runs"),
        ({"variants": ("two", "three")}, "no 'three'; known: two, one"),
        ({"variants": ("two", "oen")}, "no 'oen'; did you mean 'one'?"),
        ({"variants": "two"}, "variants: must be two names"),
        ({"variants": ("a", "b", "c")}, "variants: must be two names"),
        ({"new": 3}, "new: must be a folder or what sim.run returns; got int"),
        ({"new": "nowhere"}, "nowhere: must hold runs of one scenario; found none"),
    ],
)
def test_arguments_that_cannot_be_meant(runs: Runs, arguments: dict[str, Any], words: str) -> None:
    """C73: a traceback from somewhere inside."""
    with pytest.raises(UserError, match=words):
        sim.compare(runs, **arguments)
