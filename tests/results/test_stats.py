import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.stats import (
    Interval,
    Sample,
    arrival_average,
    mann_kendall,
    mser5,
    present_at,
    step_average,
    t_interval,
    time_average,
)

PUBLISHED_FORTY = [
    *(-9, -5, -3, -1, -1, -1, 0, 0, 0, 2, 2, 2, 3, 4, 6, 6, 6, 7, 7, 7),
    *(7, 8, 8, 8, 8, 9, 10, 10, 10, 10, 10, 10, 11, 12, 12, 14, 16, 21, 25, 35),
]


def sample(values: list[float], censored: int = 0) -> Sample:
    return Sample(np.array(values, dtype=float), censored)


@pytest.mark.parametrize(
    ("values", "p95"),
    [
        (list(range(1, 21)), 19.05),
        (PUBLISHED_FORTY, 21.2),
        ([5], 5.0),
        ([1, 2], 1.95),
        ([], None),
    ],
)
def test_percentiles_are_type_7(values: list[float], p95: float | None) -> None:
    """C58: another definition (nearest rank, n + 1) would report 19 or 19.95 for 1...20."""
    found = sample(values).percentile(95.0)
    assert found == (None if p95 is None else pytest.approx(p95, rel=1e-12))


def test_percentiles_end_at_the_extremes() -> None:
    """C58: p0 and p100 would not be the smallest and the largest value."""
    assert sample([3.0, 1.0, 2.0]).percentiles(0.0, 100.0) == [1.0, 3.0]


@pytest.mark.parametrize("percent", [-1.0, 100.5, math.nan])
def test_percentages_outside_the_range_are_refused(percent: float) -> None:
    """C73: p105 or NaN would index beyond the sample instead of being refused."""
    with pytest.raises(ValueError, match="percentage"):
        sample([1.0]).percentile(percent)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50),
    st.sampled_from([0.0, 5.0, 50.0, 90.0, 95.0, 99.0, 100.0]),
)
def test_percentiles_are_numpys_to_the_bit(values: list[float], percent: float) -> None:
    """C58: the command line and a notebook would print different floats."""
    assert sample(values).percentile(percent) == np.percentile(values, percent)


def test_censored_values_come_last_and_hide_what_looks_at_them() -> None:
    """Requests still waiting at the end would be left out, so that a hung fleet looks fast."""
    some = sample([1.0, 2.0, 3.0], censored=1)
    assert some.percentiles(50.0, 100.0) == [2.5, None]
    assert sample([1.0, 2.0, 3.0], censored=2).percentiles(50.0, 75.0) == [3.0, None]
    assert sample([], censored=4).percentile(50.0) is None


def test_the_mean_of_survivors_is_withheld_when_many_are_missing() -> None:
    """A mean over the few that came through a jam would be printed as if it were all."""
    assert sample([1.0] * 97 + [5.0] * 2, censored=1).mean() == pytest.approx(107.0 / 99.0)
    assert sample([1.0] * 94, censored=6).mean() is None
    assert sample([]).mean() is None


def test_percentiles_are_pooled_never_averaged() -> None:
    """C60: averaging the p95s of pods would give 5.5 s, weighting them by requests 1.9 s."""
    pooled = sample([1.0] * 900 + [10.0] * 100)
    assert pooled.percentile(95.0) == 10.0


def test_t_interval_has_the_tabulated_width() -> None:
    """A normal quantile, or n for n - 1, would make intervals of five seeds a third too narrow."""
    interval = t_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    half = 2.7764451051977987 * math.sqrt(2.5 / 5.0)
    assert interval.n == 5
    assert interval.mean == 3.0
    assert interval.low == pytest.approx(3.0 - half, rel=1e-12)
    assert interval.high == pytest.approx(3.0 + half, rel=1e-12)


def test_one_run_or_none_has_no_interval() -> None:
    """One seed would be given an interval of width 0 or NaN."""
    assert t_interval([2.5]) == Interval(2.5, None, None, 1)
    assert t_interval([]) == Interval(None, None, None, 0)


def test_mser5_cuts_where_a_start_up_ends() -> None:
    """The warning about a short warm-up would point at the wrong time, or never come."""
    start_up = np.linspace(50.0, 2.0, 100)
    steady = np.random.default_rng(1).normal(1.0, 0.2, 900)
    cut = mser5(np.concatenate([start_up, steady]))
    assert cut is not None
    assert 90 <= cut <= 100


def test_mser5_leaves_a_constant_series_alone() -> None:
    """Rounding noise would be taken for a start-up: equal requests would warn at random."""
    assert mser5(np.full(1000, 0.06)) == 0
    assert mser5(np.zeros(1000)) == 0


def test_mser5_says_when_nothing_settles() -> None:
    """A series that climbs all along would be called steady from some point on."""
    assert mser5(np.arange(500.0)) is None


def test_mser5_refuses_what_is_too_short() -> None:
    """A verdict would be given on nine batches."""
    with pytest.raises(ValueError, match="50"):
        mser5(np.ones(49))


def test_mann_kendall_counts_rises_less_falls() -> None:
    """A trend test with the wrong sign would call a fleet that recovers saturated."""
    assert mann_kendall([1.0, 2.0, 3.0, 4.0]) == 6
    assert mann_kendall([4.0, 3.0, 2.0, 1.0]) == -6
    assert mann_kendall([1.0, 3.0, 2.0, 2.0]) == 1


EIGHT_STARTS = np.zeros(8)
EIGHT_ENDS = np.full(8, 10.0)


def test_three_averages_of_the_same_eight_requests() -> None:
    """C65: time, arrival and step average would be mixed up: 0.8, 3.5 and 8."""
    assert time_average(EIGHT_STARTS, EIGHT_ENDS, 0.0, 100.0) == pytest.approx(0.8)
    assert arrival_average(EIGHT_STARTS, EIGHT_ENDS) == 3.5
    steps_s = np.arange(0.0, 10.0, 0.01)
    assert step_average(EIGHT_STARTS, EIGHT_ENDS, steps_s) == 8.0


def test_a_gauge_read_every_15_s_is_no_time_average() -> None:
    """C65: readings 8, 0, 0, 0, 0, 0, 0 would be taken for the utilisation."""
    readings_s = np.arange(0.0, 100.0, 15.0)
    assert present_at(EIGHT_STARTS, EIGHT_ENDS, readings_s).tolist() == [8, 0, 0, 0, 0, 0, 0]
    assert step_average(EIGHT_STARTS, EIGHT_ENDS, readings_s) == pytest.approx(8.0 / 7.0)


def test_averages_over_nothing_are_unknown() -> None:
    """An empty range or no arrivals would read 0, or divide by it."""
    nobody = np.zeros(0)
    assert time_average(EIGHT_STARTS, EIGHT_ENDS, 5.0, 5.0) is None
    assert arrival_average(nobody, nobody) is None
    assert step_average(EIGHT_STARTS, EIGHT_ENDS, nobody) is None


def test_time_average_cuts_at_both_ends_and_knows_open_intervals() -> None:
    """What lies outside the window, or has not ended, would be counted in full or not at all."""
    starts, ends = np.array([0.0, 15.0]), np.array([12.0, np.inf])
    assert time_average(starts, ends, 10.0, 20.0) == pytest.approx((2.0 + 5.0) / 10.0)


def test_an_arrival_does_not_see_what_ends_with_it_or_never_lasts() -> None:
    """Arrivals would count themselves, departures of the same instant, or refusals."""
    starts = np.array([0.0, 5.0, 5.0, 6.0])
    ends = np.array([5.0, 5.0, 9.0, 7.0])
    assert arrival_average(starts, ends) == (0 + 0 + 0 + 1) / 4
