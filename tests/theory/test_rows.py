"""When a row is ok, and when it is not."""

import pytest

from sim.validation.case import at_least, at_most, mean, negative

SEEDS = [1.0, 1.1, 0.9, 1.05, 0.95]
"""Mean 1; the half-width of the 99 % t interval is 4.604 * 0.0791 / sqrt(5) = 0.163."""


def test_a_mean_holds_the_prediction_within_its_interval():
    """An interval would be of another level, or computed over something else than seeds."""
    row = mean("s", "w", 1.1, SEEDS, precision=0.2)
    assert (row.low, row.high) == (pytest.approx(0.837, abs=1e-3), pytest.approx(1.163, abs=1e-3))
    assert (row.measured, row.ok) == (pytest.approx(1.0), True)


def test_a_mean_beyond_its_interval_is_not_ok():
    """A wrong engine would pass."""
    assert not mean("s", "w", 1.2, SEEDS, precision=0.2).ok
    assert not mean("s", "w", 0.8, SEEDS, precision=0.5).ok


def test_an_interval_that_says_nothing_is_not_ok():
    """Any engine would pass that is random enough."""
    assert not mean("s", "w", 1.0, SEEDS, precision=0.15).ok


def test_an_approximation_may_be_off_by_its_share():
    """Mean-field theory would be held to the last digit, or to none."""
    assert mean("s", "w", 1.2, SEEDS, precision=0.2, inexact=0.04).ok
    assert not mean("s", "w", 1.2, SEEDS, precision=0.2, inexact=0.02).ok


def test_the_worst_of_all_is_within_its_bound():
    """A bound would be strict, or the wrong way round."""
    assert [at_most("s", "w", 0, worst, 1e-9).ok for worst in (1e-10, 1e-9, 1e-8)] == [1, 1, 0]
    assert [at_least("s", "w", 0, worst, -1e-6).ok for worst in (-1e-5, -1e-6, 0)] == [0, 1, 1]


def test_an_order_holds_for_the_whole_interval():
    """Two policies would be ordered by luck."""
    assert negative("s", "w", [-1.0, -1.1, -0.9]).ok
    assert not negative("s", "w", [-1.0, -1.1, 0.5]).ok
