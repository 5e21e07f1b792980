"""Runs to be explained, and what must hold of every explanation."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from sim.execution.repetition import Recipe
from sim.execution.runner import run_one
from sim.explain.explanation import Explanation, explained
from sim.explain.kinds import NAMES, PARTS
from sim.invariants import check_all
from sim.scenario.load import load, load_dict
from sim.scenario.schema import Scenario

ROOT = Path(__file__).parents[2]
STEP_S = 0.125
PER_TOKEN_S = 1.0 / 1024.0

BINARY = {"a": 1e3 * STEP_S, "b": 1e6 * PER_TOKEN_S}
"""An eighth of a second a step and 1/1024 s a prompt token: sums are exact."""


def explain(scenario: Mapping[str, Any] | Scenario, seed: int = 1) -> Explanation:
    """Run a scenario, run it again and divide its times; what must hold of it has been checked."""
    if not isinstance(scenario, Scenario):
        (scenario,) = load_dict(scenario).variants
    result = run_one(scenario, seed)
    assert check_all(result) == []
    explanation = explained(result, Recipe(scenario, seed))
    check(explanation)
    return explanation


def variant(path: str, name: str = "", *settings: str) -> Scenario:
    """One variant of a shipped scenario."""
    (found,) = load(ROOT / "scenarios" / path, settings, variants=[name] if name else []).variants
    return found


def check(explanation: Explanation) -> None:
    """Parts add up, none is negative, and of what was served nothing is left over."""
    assert explanation.why_not == ""
    parts_s, total_s = explanation.breakdown.parts_s, explanation.breakdown.total_s
    assert tuple(parts_s) == NAMES
    added_s = np.sum(list(parts_s.values()), axis=0)
    assert np.abs(added_s - total_s).max(initial=0.0) <= 1e-9
    assert min(part_s.min(initial=0.0) for part_s in parts_s.values()) >= 0.0
    served = ~np.isnan(explanation.breakdown.ttft_s)
    assert np.array_equal(total_s[served], explanation.breakdown.ttft_s[served])
    for name in ("queue_unsplit_s", "service_unsplit_s"):
        assert parts_s[name][served].max(initial=0.0) <= 1e-9, name


def parts(explanation: Explanation, request: int) -> dict[str, float]:
    """The parts of a request that there are, to the picosecond."""
    found = {
        part.name: round(float(explanation.breakdown.parts_s[part.name][request]), 12)
        for part in PARTS
    }
    return {name: seconds for name, seconds in found.items() if seconds}


def mean_s(explanation: Explanation, name: str) -> float:
    """Mean of a part over all requests of the run."""
    return float(explanation.breakdown.parts_s[name].mean())
