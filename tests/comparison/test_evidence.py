import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import ttest_1samp

from sim.comparison.judging import MOST_SEEDS, MeanDifference, holm_levels

DIFFERENCES = [0.3, -0.1, 0.4, 0.2, 0.05, 0.6]


def test_the_t_test_is_the_one_of_scipy() -> None:
    """Verdicts would rest on a test of our own making."""
    evidence, known = MeanDifference.of(DIFFERENCES), ttest_1samp(DIFFERENCES, 0.0)
    assert evidence.p_value == pytest.approx(known.pvalue, rel=1e-12)
    interval = known.confidence_interval(0.95)
    assert evidence.mean - evidence.half_width(0.05) == pytest.approx(interval.low, rel=1e-12)
    assert evidence.mean + evidence.half_width(0.05) == pytest.approx(interval.high, rel=1e-12)


def test_differences_without_any_spread_leave_no_doubt() -> None:
    """Workloads without chance would divide by zero, or never be judged."""
    assert MeanDifference.of([2.0, 2.0]).p_value == 0.0
    assert MeanDifference.of([0.0, 0.0]).p_value == 1.0
    assert MeanDifference.of([2.0, 2.0]).half_width(1e-6) == 0.0


def test_one_difference_is_no_evidence() -> None:
    """A single pair of runs would pass for a proof."""
    with pytest.raises(ValueError, match="two differences; got 1"):
        MeanDifference.of([1.0])


def test_holm_by_hand() -> None:
    """The procedure would be Bonferroni's, or none: 0.01 <= 0.05/4, 0.013 <= 0.05/3, then stop."""
    levels = holm_levels([0.03, 0.01, 0.04, 0.013], 0.05)
    assert levels == [0.025, 0.0125, 0.025, pytest.approx(0.05 / 3)]


def test_holm_stops_for_good() -> None:
    """A p that fails would not hold back a later one that its own level would let through."""
    assert holm_levels([0.02, 0.026, 0.04], 0.05) == [0.05 / 3] * 3


@given(st.lists(st.floats(0.0, 1.0), max_size=12))
def test_holm_lets_through_what_its_textbook_lets_through(p_values: list[float]) -> None:
    """Levels that belong to metrics could be given to others when p values are out of order."""
    passed = {at for at, level in enumerate(holm_levels(p_values, 0.05)) if p_values[at] <= level}
    expected: set[int] = set()
    for rank, at in enumerate(sorted(range(len(p_values)), key=p_values.__getitem__)):
        if p_values[at] > 0.05 / (len(p_values) - rank):
            break
        expected.add(at)
    assert passed == expected


@given(
    st.lists(st.floats(-1.0, 1.0).map(lambda x: round(x, 6)), min_size=2, max_size=30),
    st.sampled_from([0.05, 0.01, 0.001]),
)
def test_significant_is_what_the_interval_leaves_zero_out_of(
    differences: list[float], level: float
) -> None:
    """A table would show an interval that contradicts its own verdict."""
    evidence = MeanDifference.of(differences)
    distance = abs(evidence.mean) - evidence.half_width(level)
    if abs(distance) > 1e-9:
        assert (evidence.p_value <= level) == (distance > 0.0)


@given(st.floats(-1.0, 1.0), st.floats(1e-3, 1.0), st.sampled_from([0.0, 0.05, 0.3]), st.just(0.05))
def test_the_seeds_that_would_decide_are_the_fewest(
    mean: float, deviation: float, margin: float, level: float
) -> None:
    """Users would run too few seeds and ask again, or far too many."""
    needed = MeanDifference(mean, deviation, 5).seeds_needed(level, margin)

    def decided(n: int) -> bool:
        half = MeanDifference(mean, deviation, n).half_width(level)
        return half < abs(mean) if abs(mean) > margin else abs(mean) + half <= margin

    if needed is None:
        assert not decided(MOST_SEEDS)
    else:
        assert decided(needed)
        assert needed == 2 or not decided(needed - 1)


def test_what_no_number_of_seeds_decides_says_so() -> None:
    """A mean at its very margin would ask for a number of seeds that nobody can run."""
    assert MeanDifference(0.05, 0.1, 5).seeds_needed(0.05, 0.05) is None
    assert MeanDifference(0.0, 0.1, 5).seeds_needed(0.05, 0.0) is None
    assert math.isinf(MeanDifference(0.1, 0.1, 1).half_width(0.05))
