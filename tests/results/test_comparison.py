import json
import math

import pytest

from sim.core.request import Status
from sim.results.comparison import compare_variants
from sim.results.result import RunResult
from tests.results.builders import Book, facts


def run(variant: str, seed: int, *ttfts_s: float, outcomes: tuple[str, ...] = ()) -> RunResult:
    book = Book()
    for at, ttft_s in enumerate(ttfts_s):
        book.answered(float(at), ttft_s)
    for outcome in outcomes:
        book.attempt(book.request(50.0, status=Status.IN_FLIGHT), 50.0, outcome=outcome)
    return book.freeze(facts(variant=variant, seed=seed))


def test_means_and_intervals_are_over_runs() -> None:
    """C60: the p95 of several seeds would be pooled over their requests, or have no interval."""
    results = [run("ring", seed, *[float(seed)] * seed) for seed in (1, 2, 3)]
    figure = compare_variants(results)["ttft_s.p95"]["ring"]
    half = 4.302652729749464 * math.sqrt(1.0 / 3.0)
    assert figure == {
        "mean": 2.0,
        "low": pytest.approx(2.0 - half, rel=1e-12),
        "high": pytest.approx(2.0 + half, rel=1e-12),
        "n": 3,
    }


def test_variants_stand_side_by_side_in_file_order() -> None:
    """The table would list variants by name, or by who finished first."""
    results = [run("ring", 1, 2.0), run("a-table", 1, 1.0)]
    figures = compare_variants(results)["ttft_s.mean"]
    assert list(figures) == ["ring", "a-table"]
    assert figures["ring"] == {"mean": 2.0, "low": None, "high": None, "n": 1}


def test_what_is_null_in_a_run_lowers_n() -> None:
    """C75: a run without a first token would count as one of 0 s, or spoil the mean with NaN."""
    results = [run("", 1, 2.0), run("", 2), run("", 3, 4.0)]
    comparison = compare_variants(results)
    assert comparison["ttft_s.p50"][""]["mean"] == 3.0
    assert comparison["ttft_s.p50"][""]["n"] == 2
    assert comparison["spill_ratio"][""] == {"mean": None, "low": None, "high": None, "n": 0}
    json.dumps(comparison, allow_nan=False)


def test_an_outcome_that_did_not_occur_counts_zero() -> None:
    """Spills would be averaged over those seeds only in which there were any."""
    results = [run("", 1, outcomes=("spill", "spill")), run("", 2, 1.0)]
    comparison = compare_variants(results)
    assert comparison["placements.by_outcome.spill"][""]["mean"] == 1.0
    assert comparison["placements.by_outcome.placed"][""]["mean"] == 0.5


def test_figures_keep_the_order_of_the_summary() -> None:
    """An outcome that only one run has would stand at the end of the table, far from its kin."""
    keys = list(compare_variants([run("", 1, 1.0), run("", 2, outcomes=("home", "spill"))]))
    at = keys.index("placements.total")
    assert keys[at + 1 : at + 5] == [
        "placements.by_outcome.home",
        "placements.by_outcome.placed",
        "placements.by_outcome.spill",
        "spill_ratio",
    ]
    assert keys[0] == "requests"


def test_pods_and_sample_sizes_are_not_compared() -> None:
    """Pod 3 of one layout would be set against pod 3 of another."""
    compared = compare_variants([run("", 1, 1.0)])
    assert not [key for key in compared if key.startswith(("pod_requests", "samples"))]
