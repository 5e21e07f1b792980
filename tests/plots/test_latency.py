"""The figures of the time to the first token."""

import numpy as np
import pandas as pd
import pytest

from sim.core.request import Status
from sim.plots import ttft_cdf, ttft_parts
from sim.plots.latency import LEVELS
from tests.plots.tables import check_readable, legend_of, line, requests, words

SPREAD = [0.1 * one for one in range(1, 102)]  # 101 requests: a percentile is one of them


def test_a_curve_passes_through_the_percentiles():
    """A reader would take another p95 off the curve than the table states."""
    x, y = line(ttft_cdf(requests(SPREAD)), "base")
    assert y.tolist() == LEVELS.tolist()
    assert x == pytest.approx(np.percentile(SPREAD, LEVELS * 100.0))
    assert x[y == 0.95] == pytest.approx([9.6])


def test_requests_without_a_first_token_keep_the_curve_below_one():
    """A saturated run would look as fast as one that answers everybody."""
    ax = ttft_cdf(requests([*SPREAD[:91], *[None] * 10]))
    x, y = line(ax, "base")
    known = ~np.isnan(x)
    assert y[known].max() == pytest.approx(0.9)
    assert x[y == 0.9] == pytest.approx([9.1])
    assert "9.9 % had no first token when a run ended: curves end below 100 %" in words(ax)


def test_who_was_refused_is_no_latency_and_no_censored_request():
    """Refusals would hold the curve down, or lift it as answers of no time."""
    status = [*[Status.COMPLETED] * 101, Status.REJECTED, Status.FAILED, Status.CANCELLED]
    ax = ttft_cdf(requests([*SPREAD, None, None, None], status=status))
    assert line(ax, "base")[0] == pytest.approx(np.percentile(SPREAD, LEVELS * 100.0))
    assert "below 100 %" not in words(ax)


def test_several_seeds_give_the_mean_of_their_percentiles_and_a_thin_line_each():
    """Pooled over seeds, one slow run would move the curve by how many requests it has."""
    slow = [10.0 * one for one in SPREAD]
    frame = pd.concat([requests(SPREAD, seed=1), requests(slow * 3, seed=2)])
    ax = ttft_cdf(frame)
    x, _ = line(ax, "base")
    apart = [np.percentile(values, LEVELS * 100.0) for values in (SPREAD, slow * 3)]
    assert x == pytest.approx(np.mean(apart, axis=0))
    thin = [one for one in ax.lines if one.get_alpha() is not None]
    assert [np.asarray(one.get_xdata()).tolist() for one in thin] == [a.tolist() for a in apart]
    assert "mean of the percentiles of 2 seeds, thin: each seed" in words(ax)


def test_only_arrivals_in_the_window_count():
    """The warm-up would be in the figure and not in the table."""
    arrivals = [*[10.0] * 101, *[0.0] * 50, *[20.0] * 50]
    frame = requests([*SPREAD, *[99.0] * 100], arrival_s=arrivals)
    ax = ttft_cdf(frame, window_s=(10.0, 20.0))
    assert line(ax, "base")[0].max() == pytest.approx(10.1)
    assert "arrivals from 10 s to 20 s" in words(ax)


def test_a_variant_keeps_its_colour_when_another_has_no_rows():
    """The blue line of one figure would be the orange one of the next."""
    frame = pd.concat([requests(SPREAD, variant=name) for name in ("ring", "table")])
    both, one = (
        ttft_cdf(frame),
        ttft_cdf(frame[frame["variant"] == "table"], variants=["ring", "table"]),
    )
    colours = [
        next(curve.get_color() for curve in ax.lines if curve.get_label() == "table")
        for ax in (both, one)
    ]
    assert colours[0] == colours[1]
    assert legend_of(both) == ["ring", "table"]
    assert legend_of(one) == []


@pytest.mark.parametrize("ttft_s", [[], [1.0], [0.0], [0.0, 0.0, 2.0], [None, None], [None]])
def test_few_requests_and_odd_ones_make_a_readable_figure(ttft_s):
    """A short run would end in a warning or a broken file."""
    ax = ttft_cdf(requests(ttft_s))
    check_readable(ax.figure)
    assert (ax.get_xlabel(), ax.get_ylabel()) == (
        "time to first token, s (log scale)",
        "requests, %",
    )
    nothing = "no request that could have a first token"
    assert (nothing in words(ax)) == (ttft_s == [])


def test_parts_are_stacked_in_the_order_of_their_columns():
    """A bar would not be as long as the TTFT, or a part would stand under another's name."""
    parts = pd.DataFrame({"hold_s": [0.0, 1.0], "queue_s": [2.0, 0.5]}, index=["17", "4"])
    ax = ttft_parts(parts, names=["hold", "queue"])
    bars = [[(bar.get_x(), bar.get_width()) for bar in stack] for stack in ax.containers]
    assert bars == [[(0.0, 0.0), (0.0, 1.0)], [(0.0, 2.0), (1.0, 0.5)]]
    assert legend_of(ax) == ["hold", "queue"]
    assert [label.get_text() for label in ax.get_yticklabels()] == ["17", "4"]
    assert ax.yaxis.get_inverted()
    assert ax.get_xlabel() == "time to first token, s"
    check_readable(ax.figure)


def test_parts_that_are_nowhere_do_not_fill_the_legend():
    """Of eighteen parts a reader would look for those three that are there."""
    parts = pd.DataFrame(
        {"hold_s": [0.0], "own_prefill_s": [2.0], "queue_s": [np.nan]}, index=["4"]
    )
    ax = ttft_parts(parts)
    assert [stack.get_label() for stack in ax.containers] == ["own prefill"]
    beside = ttft_parts(parts.assign(hold_s=1.0))
    assert ax.patches[0].get_facecolor() == beside.patches[1].get_facecolor()
