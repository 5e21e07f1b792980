"""How often a comparison cries wolf, and how often it sees one.

Unchanged code gives the same digests and is identical. What is measured here is
harder: changes that move every figure by chance and none in the mean.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from scipy.stats import binomtest

import sim
from sim.comparison.paired import compare
from sim.comparison.sides import Figures, Side, fresh_side
from sim.results.metrics import METRICS
from tests.comparison.harness import base, only, seeds, side

PRIMARY = [declared.key.replace("*", "some") for declared in METRICS if declared.primary]
SEEDS = 20
REPETITIONS = 100

Draw = Callable[[np.random.Generator, tuple[int, int]], Any]

NOISES: dict[str, Draw] = {
    "normal": lambda rng, shape: 1.0 + 0.3 * rng.standard_normal(shape),
    # Half of all p95s of a loaded system are far from the others.
    "skewed": lambda rng, shape: rng.lognormal(0.0, 1.0, shape),
    "counts": lambda rng, shape: rng.poisson(2.0, shape) / 100.0,
    "mostly zero": lambda rng, shape: rng.poisson(0.05, shape) / 100.0,
}
"""What chance does to a figure: always more than a margin, so that no margin hides an alarm."""


def summaries(values: Any) -> list[dict[str, float]]:
    return [dict(zip(PRIMARY, map(float, row), strict=True)) for row in values]


def verdicts(
    draw: Draw, rng: np.random.Generator, seeds: int, factor: float = 1.0
) -> list[set[str]]:
    """The verdicts of each comparison; its sides share each seed's workload and nothing else."""
    found = []
    for _ in range(REPETITIONS):
        shape = (seeds, len(PRIMARY))
        workload = 1.0 + rng.random((seeds, 1))
        old, new = workload * draw(rng, shape), workload * draw(rng, shape)
        comparison = compare(base(*summaries(old)), side(*summaries(new * factor)))
        found.append({each.verdict for each in comparison.judged})
    return found


@cache
def alarms(noise: str, seeds: int) -> dict[str, int]:
    """How many comparisons of nothing but noise have found any primary metric worse, or better."""
    rng = np.random.default_rng([seeds, *noise.encode()])
    found = verdicts(NOISES[noise], rng, seeds)
    assert sum("inconclusive" in each for each in found) > REPETITIONS / 2  # it is loud enough
    return {alarm: sum(alarm in each for each in found) for alarm in ("worse", "better")}


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("seeds", [5, SEEDS])
def test_no_kind_of_noise_is_worse_more_often_than_it_may_be(noise: str, seeds: int) -> None:
    """One kind of figure would raise most alarms: half of 5 % may be worse, half better."""
    for count in alarms(noise, seeds).values():
        assert binomtest(count, REPETITIONS, 0.025, alternative="greater").pvalue > 1e-3


def test_noise_is_worse_in_less_than_one_comparison_of_twenty() -> None:
    """Reviewers would learn to ignore a check that is red without a reason."""
    cases = [alarms(noise, seeds) for noise in NOISES for seeds in (5, SEEDS)]
    for alarm in ("worse", "better"):
        assert sum(each[alarm] for each in cases) / (REPETITIONS * len(cases)) < 0.05


def test_two_seeds_that_differ_by_the_same_are_no_proof() -> None:
    """Two equal differences have no spread: with p = 0, counts were worse in every third pair."""
    rng = np.random.default_rng(2)
    counts = [rng.poisson(2.0, (2, 2, len(PRIMARY))) / 100.0 for _ in range(REPETITIONS)]
    found = [compare(base(*summaries(old)), side(*summaries(new))) for old, new in counts]
    assert sum(each.verdict == "worse" for each in found) < 0.05 * REPETITIONS
    before, after = [3, 5], [4, 6]
    judged = only(
        compare(base(*seeds("error_ratio", before)), side(*seeds("error_ratio", after))),
        "error_ratio",
    )
    assert judged.verdict == "inconclusive"
    assert judged.reason.startswith("two seeds that differ by the same")


def test_a_change_that_is_there_is_seen() -> None:
    """A comparison that never cries wolf is of no use: a tenth more, a twentieth noise."""

    def noise(rng: np.random.Generator, shape: tuple[int, int]) -> Any:
        return 1.0 + 0.05 * rng.standard_normal(shape)

    found = verdicts(noise, np.random.default_rng(1), SEEDS, factor=1.1)
    assert sum("worse" in each for each in found) / REPETITIONS > 0.95


RING: dict[str, Any] = {
    "name": "salted",
    "window": {"warmup": "5s", "measure": "20s"},
    "slo": {"ttft": "1s"},
    "engines": {"e": {"kvBlocks": 400, "stepTime": {"a": 20.0, "b": 100.0, "f": 20.0}}},
    "backends": {
        "fleet": {
            "engine": "e",
            "replicas": 4,
            "policy": {"kind": "bounded-ring", "maxLoadPercent": 125},
        }
    },
    "router": {"rules": [{"name": "all", "backends": ["fleet"]}]},
    "workloads": {
        "w": {
            "kind": "requests",
            "arrivals": {"kind": "poisson", "rate": 4},
            "sessionKeys": "per-request",
            "promptTokens": {"lognormal": {"median": 500, "sigma": 0.8, "max": 2000}},
            "outputTokens": {"lognormal": {"median": 40, "sigma": 0.8, "max": 300}},
        }
    },
}


def salted(salt: str, seeds: int = SEEDS) -> Side:
    """Real runs whose ring is laid out by ``salt`` and seed: which pod is whose home is chance."""
    runs: list[Figures] = []
    for seed in range(1, seeds + 1):
        setting = f"ringSalt={salt}-{seed}"
        runs += fresh_side(salt, sim.run(RING, seeds=(seed,), settings=setting)).runs
    return Side(salt, "salted", tuple(replace(run, variant_hash="") for run in runs))


@cache
def salts() -> tuple[Side, ...]:
    return tuple(salted(f"salt-{at}") for at in range(3))


def test_another_layout_of_the_ring_is_not_worse() -> None:
    """Real runs are not normal, and their figures move together."""
    found = [
        compare(old, new, across=True)
        for one, other in combinations(salts(), 2)
        for old, new in ((one, other), (other, one))
    ]
    assert len(found) == 6
    assert [each for each in found if each.verdict == "worse"] == []
    assert all(each.identical < SEEDS for each in found)


def test_the_same_layout_is_identical() -> None:
    """The runs above would differ for want of determinism, not by their salt."""
    assert compare(salts()[0], salted("salt-0", 2), across=True).verdict == "identical"
