"""``sim.run``: what scripts and notebooks call."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sim
from sim.core.errors import UserError
from tests.cluster.scenarios import fleet

ROWS = [{"arrival": 0.0, "promptTokens": 100, "outputTokens": 2}] * 3
SCENARIO = fleet({"kind": "script", "rows": ROWS}, {"kind": "round-robin"})


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"seeds": (-1,)}, "seeds: must be whole numbers from 0 to .*; got -1"),
        ({"seeds": (2**64,)}, "seeds: must be whole numbers"),
        ({"seeds": (1.5,)}, "seeds: must be whole numbers .*; got 1.5"),
        ({"seeds": "12"}, "seeds: must be whole numbers .*; got '1'"),
        ({"seeds": (True,)}, "seeds: must be whole numbers .*; got True"),
        ({"seeds": 3}, "seeds: must be a list; got 3"),
        ({"seeds": (1, 1)}, r"seeds: must be distinct; got \[1, 1\]"),
        ({"seeds": ()}, "seeds: must name at least one seed"),
        ({"jobs": 0}, "jobs: must be a whole number from 1; got 0"),
        ({"variants": (1,)}, "variants: must be text"),
        ({"variants": "no-such"}, "no-such"),
        ({"settings": "backends.b.replicas=0"}, "replicas"),
        ({"scenario": 3}, "scenario: must be a file name, a mapping or what sim.load returns"),
    ],
)
def test_arguments_that_cannot_be_meant(arguments: dict[str, Any], words: str) -> None:
    """C73: the same checks as on the command line, before anything is simulated."""
    with pytest.raises(UserError, match=words):
        sim.run(**{"scenario": SCENARIO, **arguments})


def test_settings_are_not_ignored(tmp_path: Path) -> None:
    """A loaded scenario is checked already: settings beside it would be lost in silence."""
    runs = sim.run(SCENARIO, settings="backends.b.replicas=3")
    assert len(runs.runs[0].facts.pods) == 3
    with pytest.raises(UserError, match="settings: a loaded scenario takes none"):
        sim.run(runs.scenario, settings=["backends.b.replicas=4"])


def test_seeds_may_come_from_numpy() -> None:
    """``np.arange`` is what a notebook has at hand."""
    assert [run.seed for run in sim.run(SCENARIO, seeds=np.arange(2)).runs] == [0, 1]


def test_runs_print_as_what_they_are() -> None:
    """A notebook shows the last value of a cell: hundreds of lines of tables, if nobody says."""
    runs = sim.run(SCENARIO, seeds=(1, 2))
    assert repr(runs) == "Runs(small: 1 variant, seeds 1 and 2)"
    assert repr(runs.runs[0]) == "RunResult(small, seed 1: 3 requests)"


def test_a_folder_may_be_given_as_text(tmp_path: Path) -> None:
    """What the README calls ``store=``."""
    sim.run(SCENARIO, seeds=(7,), store=str(tmp_path))
    assert [path.name for path in tmp_path.glob("*/*/seed-7")] == ["seed-7"]


def test_rows_of_several_runs_can_be_told_apart() -> None:
    """Request ids begin anew in every run, so without variant and seed nothing could be joined."""
    runs = sim.run(SCENARIO, seeds=(1, 2))
    keys = ["variant", "seed", "request_id"]
    joined = runs.requests.merge(runs.placements, on=keys)
    assert len(joined) == len(runs.requests) == len(runs.placements) == 6


def test_every_table_is_stacked_over_runs() -> None:
    """Who wants the swaps or the polls of all seeds would have to stack them by hand."""
    runs = sim.run(SCENARIO, seeds=(1, 2))
    for name in ("pods", "failed_attempts", "retries", "pools"):
        frame = getattr(runs, name)
        own = getattr(runs.runs[0], name)
        assert list(frame.columns) == ["variant", "seed", *own.columns]
        assert len(frame) == sum(len(getattr(run, name)) for run in runs.runs)
    assert sorted(set(runs.pods["seed"])) == [1, 2]
