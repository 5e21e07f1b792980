"""Distributions of a scenario: what they accept, and that they draw what they say."""

import math

import numpy as np
import pytest
from pydantic import TypeAdapter, ValidationError

from sim.workload.distributions import Count, Delay

COUNT = TypeAdapter(Count)
DELAY = TypeAdapter(Delay)
SIZE = 200_000


def draw_counts(written):
    return COUNT.validate_python(written).draw(np.random.default_rng(7), SIZE)


def draw_delays(written, cap_s=1e6):
    return DELAY.validate_python(written).draw(np.random.default_rng(7), SIZE, cap_s)


def complaint(adapter, written):
    with pytest.raises(ValidationError) as caught:
        adapter.validate_python(written)
    return "; ".join(error["msg"] for error in caught.value.errors())


def test_a_number_is_a_constant():
    """If this fails, ``promptTokens: 2k`` does not mean two thousand tokens every time."""
    assert set(draw_counts("2k").tolist()) == {2000}
    assert set(draw_delays("250ms").tolist()) == {0.25}


def test_uniform_counts_reach_both_ends():
    """If this fails, a uniform length never takes its largest or smallest value."""
    drawn = draw_counts({"uniform": {"min": 3, "max": 6}})
    assert set(drawn.tolist()) == {3, 4, 5, 6}


def test_lognormal_counts_have_the_stated_median_and_spread():
    """If this fails, mu, sigma, median or shift mean something else than they say."""
    by_mu = draw_counts({"lognormal": {"mu": 6.0, "sigma": 0.5, "shift": 100}})
    by_median = draw_counts({"lognormal": {"median": 403, "sigma": 0.5, "shift": 100}})
    assert np.median(by_mu) == pytest.approx(100 + math.exp(6.0), rel=0.01)
    assert np.median(by_median) == pytest.approx(503, rel=0.01)
    assert np.std(np.log(by_mu - 100)) == pytest.approx(0.5, rel=0.02)


def test_lognormal_clips_and_does_not_draw_again():
    """If this fails, a capped tail is spread over the body and the shares below the cap change."""
    drawn = draw_counts({"lognormal": {"median": 100, "sigma": 1.0, "min": 50, "max": 200}})
    assert drawn.min() == 50
    assert drawn.max() == 200
    # ln 2 is 0.693 standard deviations: 24.4 % lie beyond each bound.
    assert np.mean(drawn == 200) == pytest.approx(0.244, abs=0.005)
    assert np.mean(drawn == 50) == pytest.approx(0.244, abs=0.005)


def test_geometric_counts_start_at_one_and_are_memoryless():
    """If this fails, an output of no token can be drawn, or the mean is off by one."""
    drawn = draw_counts({"geometric": {"mean": 4}})
    assert drawn.min() == 1
    assert drawn.mean() == pytest.approx(4.0, rel=0.01)
    assert np.mean(drawn == 1) == pytest.approx(0.25, abs=0.005)


@pytest.mark.parametrize(
    ("written", "mean_s"),
    [
        ({"uniform": {"min": 1, "max": 3}}, 2.0),
        ({"exponential": {"mean": "500ms"}}, 0.5),
        ({"lognormal": {"median": 1, "sigma": 1.0}}, math.exp(0.5)),
        ({"quantiles": {"at": (0.0, 0.5), "values": (0.0, 4.0)}}, 0.5 * 2 + 0.5 * 4),
        (
            {
                "mixture": (
                    {"share": 3, "delay": 1.0},
                    {"share": 1, "delay": {"exponential": {"mean": 9}}},
                )
            },
            3.0,
        ),
    ],
)
def test_delays_have_the_stated_mean(written, mean_s):
    """If this fails, a form of delay draws from another distribution than it names."""
    assert draw_delays(written).mean() == pytest.approx(mean_s, rel=0.02)


def test_delays_are_capped_and_whole_microseconds():
    """If this fails, digests depend on the last bits of a machine's exp(), or the cap leaks."""
    drawn = draw_delays({"exponential": {"mean": 1}}, cap_s=2.0)
    assert drawn.max() == 2.0
    assert np.array_equal(drawn, np.rint(drawn * 1e6) / 1e6)


@pytest.mark.parametrize(
    ("adapter", "written", "said"),
    [
        (COUNT, 0, "from 1"),
        (COUNT, "5", "such as 75k"),
        (COUNT, {}, "exactly one of constant, uniform"),
        (COUNT, {"constant": 1, "geometric": {"mean": 2}}, "got constant, geometric"),
        (COUNT, {"uniform": {"min": 3, "max": 1}}, "min: must not be above max, 1; got 3"),
        (COUNT, {"lognormal": {"sigma": 1}}, "exactly one of mu, median; got none"),
        (COUNT, {"geometric": {"mean": 0.5}}, "got 0.5"),
        (DELAY, -1, "got -1"),
        (DELAY, float("nan"), "got nan"),
        (DELAY, {"mixture": ()}, "at least one part"),
        (DELAY, {"quantiles": {"at": (0.1,), "values": (1,)}}, "at: must start at 0"),
        (DELAY, {"quantiles": {"at": (0.0, 0.5), "values": (2, 1)}}, "values: must not fall"),
        (DELAY, {"quantiles": {"at": (0.0, 0.5), "values": (2,)}}, "2 and 1 points"),
    ],
)
def test_nonsense_is_refused_in_words(adapter, written, said):
    """If this fails, a distribution that cannot be meant is drawn from, or refused in riddles."""
    assert said in complaint(adapter, written)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"median": 3000, "sigma": 1, "max": 2000}, "max: half of all draws lie beyond it, about"),
        ({"median": 30, "sigma": 1, "min": 100}, "min: half of all draws lie beyond it, about 30"),
        ({"mu": 3, "sigma": 1, "shift": 500, "max": 400}, "about 520, and would be 400"),
    ],
)
def test_limits_that_swallow_the_median_are_refused(keys, said):
    """A median of 3,000 tokens with a max of 2,000 was a constant for most requests, silently."""
    with pytest.raises(ValidationError) as caught:
        COUNT.validate_python({"lognormal": keys})
    assert said in str(caught.value)
