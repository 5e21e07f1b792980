"""Percentiles as dashboards estimate them from buckets."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.export.families import (
    HOLD_S,
    ROUTER_TTFT_S,
    SWAP_S,
    VLLM_TTFT_S,
    Family,
    Histogram,
    bucket_quantile,
)
from sim.export.prometheus import percentiles

bounds = st.lists(st.integers(1, 1000), min_size=1, max_size=12, unique=True).map(
    lambda numbers: tuple(float(number) for number in sorted(numbers))
)
values = st.lists(st.integers(1, 1200).map(float), min_size=1, max_size=60)
shares = st.sampled_from([0.01, 0.25, 0.5, 0.9, 0.95, 0.99, 1.0])


def test_case_59_the_buckets_say_what_nobody_measured():
    """A thousand first tokens after exactly 6 s would be reported as 6.25 or 7.375 s."""
    six = Histogram.of(np.full(1000, 6.0), VLLM_TTFT_S)
    (row,) = percentiles([Family("ttft", "histogram", "", ("pod",), {("a",): six})])
    assert (row.exact["p50"], row.exact["p95"]) == (6.0, 6.0)
    assert row.estimated["p50"] == 6.25
    assert row.estimated["p95"] == pytest.approx(7.375)
    assert row.plain["estimated_from_buckets"] is row.estimated


def test_a_value_on_a_bound_is_in_the_bucket_below_it():
    """Prometheus counts values up to and including the bound."""
    assert Histogram.of(np.array([1.0, 2.0, 2.5]), (1.0, 2.0)).cumulative == (1, 2, 3)


def test_the_first_bucket_starts_at_zero_and_the_last_is_its_bound():
    """A dashboard would show something else for the fastest and the slowest requests."""
    assert bucket_quantile(0.5, (4.0, 8.0), (10, 10, 10)) == 2.0
    assert bucket_quantile(0.5, (4.0, 8.0), (1, 2, 100)) == 8.0


def test_no_values_have_no_percentile():
    """An idle pod would have a time to first token."""
    assert bucket_quantile(0.5, (1.0,), (0, 0)) is None
    assert bucket_quantile(0.0, (1.0, 2.0), (0, 3, 3)) is None
    with pytest.raises(ValueError, match="share"):
        bucket_quantile(95.0, (1.0,), (1, 1))


@given(values, bounds, shares)
def test_an_estimate_lies_where_spreading_the_values_evenly_puts_it(values, bounds, shares):
    """The line through a bucket would be wrong: here every bucket's values are laid out evenly."""
    histogram = Histogram.of(np.array(values), bounds)
    edges = [0.0, *bounds]
    spread = []
    for low, high in pairwise(edges):
        inside = sum(low < value <= high for value in values)
        spread += [low + (high - low) * (place + 1) / inside for place in range(inside)]
    spread += [bounds[-1]] * sum(value > bounds[-1] for value in values)
    # Rank r of n is reached at the r-th of the values that are laid out; between two it lies
    # between them, and in the bucket of the later one.
    rank = shares * len(values)
    at = min(int(np.ceil(rank)), len(values)) - 1
    estimate = histogram.quantile(shares)
    assert estimate is not None
    assert estimate <= spread[at] * (1 + 1e-12)
    if rank == at + 1:
        assert estimate == pytest.approx(spread[at])
    elif at and spread[at] != bounds[-1]:
        assert estimate >= spread[at - 1] * (1 - 1e-12)


@given(values, bounds)
def test_estimates_rise_with_the_share(values, bounds):
    """A p99 below the p95 would be shown."""
    histogram = Histogram.of(np.array(values), bounds)
    estimates = [histogram.quantile(percent / 100.0) for percent in range(1, 101)]
    assert estimates == sorted(estimates)


def test_bounds_are_those_of_vllm_and_llmkube():
    """A dashboard's percentile of a simulated run would not be that of the same real run."""
    assert VLLM_TTFT_S[:4] == (0.001, 0.005, 0.01, 0.02)
    assert VLLM_TTFT_S[-6:] == (20.0, 40.0, 80.0, 160.0, 640.0, 2560.0)
    assert len(VLLM_TTFT_S) == 22
    assert (ROUTER_TTFT_S[0], ROUTER_TTFT_S[-1]) == (0.01, 20.48)
    assert (SWAP_S[0], SWAP_S[-1]) == (1.0, 512.0)
    assert (HOLD_S[0], HOLD_S[-1]) == (0.1, 204.8)
