"""The figures over runs: one value per run, intervals over the seeds."""

import numpy as np
import pandas as pd
import pytest

from sim.plots import metric_by_variant, sweep_lines
from sim.plots.comparison import wording
from tests.plots.tables import check_readable, words


def value(mean, half=None, n=3):
    """A mean with its interval as a comparison has it."""
    known = half is not None
    return {
        "mean": mean,
        "low": mean - half if known else None,
        "high": mean + half if known else None,
        "n": n,
    }


def dots(ax):
    """Mean, low and high of each dot with its row."""
    found = []
    for container in ax.containers:
        dot, _, bars = container.lines
        ends = bars[0].get_segments()[0][:, 0].tolist() if bars else []
        found.append((float(dot.get_ydata()[0]), float(dot.get_xdata()[0]), ends))
    return found


def test_dots_are_means_and_bars_their_intervals():
    """Two variants would look apart that are not, or the other way round."""
    found = {"ttft_s.p95": {"ring": value(2.0, 0.5), "table": value(1.0, 0.25)}}
    ax = metric_by_variant(found, "ttft_s.p95")
    assert dots(ax) == [(0.0, 2.0, [1.5, 2.5]), (1.0, 1.0, [0.75, 1.25])]
    assert ax.get_xlabel() == "TTFT p95, s"
    assert "TTFT p95 mean and 95 % t interval of 3 seeds" in words(ax)
    check_readable(ax.figure)


def test_one_seed_has_no_interval_and_a_null_no_dot():
    """A figure that is not known would be a 0, the best of all."""
    found = {"spill_ratio": {"ring": value(0.05, n=1), "random": value(None, n=0)}}
    ax = metric_by_variant(found, "spill_ratio")
    assert dots(ax) == [(0.0, 0.05, [])]
    assert "no value" in words(ax)
    assert ax.get_xlabel() == "Spill, %"
    check_readable(ax.figure)


def test_without_intervals_a_scale_begins_at_0():
    """With one seed the axis went from the least to the most value, so that one per cent between
    two variants looked like a factor of ten."""
    one = {"output_tokens_per_s": {"ring": value(4919.0, n=1), "table": value(4970.0, n=1)}}
    ax = metric_by_variant(one, "output_tokens_per_s")
    assert ax.get_xlim()[0] == 0.0
    assert {"4,919", "4,970"} <= {text.get_text() for text in ax.texts}
    several = {"output_tokens_per_s": {"ring": value(4919.0, 9.0), "table": value(4970.0, 9.0)}}
    assert metric_by_variant(several, "output_tokens_per_s").get_xlim()[0] > 4000.0


@pytest.mark.parametrize(
    ("key", "words"),
    [
        ("ttft_s.p95", "TTFT p95"),
        ("prompt_cache_hit_ratio", "Prompt cache hit"),
        ("output_tokens_per_s", "Output tokens"),
        ("kv_usage.mean", "KV usage mean"),
        ("e2e_s.p50", "E2E p50"),
    ],
)
def test_keys_are_worded_for_people(key, words):
    """Axes would carry names of variables."""
    assert wording(key) == words


def sweep(**columns):
    """A table of a sweep: replicas 4, 6, 8 under seeds 1 and 2."""
    rows = [(replicas, seed) for replicas in (8, 4, 6) for seed in (1, 2)]
    frame = pd.DataFrame(rows, columns=["backends.qwen.replicas", "seed"])
    return frame.assign(variant="ring", **columns)


def test_a_line_goes_through_the_means_in_order_of_the_parameter():
    """Points in the order in which workers ended would draw a zigzag."""
    frame = sweep(**{"ttft_s.p95": [1.0, 3.0, 8.0, 8.0, 5.0, 7.0]})
    ax = sweep_lines(frame, "backends.qwen.replicas", "ttft_s.p95")
    dot, _, bars = ax.containers[0].lines
    assert dot.get_xdata().tolist() == [4.0, 6.0, 8.0]
    assert dot.get_ydata().tolist() == [8.0, 6.0, 2.0]
    ends = [segment[:, 1].tolist() for segment in bars[0].get_segments()]
    half = 12.706 * np.std([5.0, 7.0], ddof=1) / np.sqrt(2)  # t quantile of one degree of freedom
    assert ends[0] == [8.0, 8.0]
    assert ends[1] == pytest.approx([6.0 - half, 6.0 + half], rel=1e-4)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("backends.qwen.replicas", "TTFT p95, s")
    check_readable(ax.figure)


def test_a_null_is_left_out_of_the_mean_and_a_point_of_nulls_out_of_the_line():
    """A saturated point would be drawn at 0 or break the line."""
    frame = sweep(**{"ttft_s.p95": [1.0, None, None, None, 5.0, 7.0]})
    dot = sweep_lines(frame, "backends.qwen.replicas", "ttft_s.p95").containers[0].lines[0]
    assert dot.get_xydata().tolist() == [[6.0, 6.0], [8.0, 1.0]]


def test_a_sweep_under_one_seed_claims_no_interval():
    """Dots without bars stood below "mean and 95 % t interval over the seeds"."""
    frame = sweep(x=1.0)
    drawn = sweep_lines(frame[frame.seed == 1], "backends.qwen.replicas", "x")
    assert "one run at each point" in words(drawn)
    assert "interval over the seeds" in words(sweep_lines(frame, "backends.qwen.replicas", "x"))


def test_points_of_another_parameter_are_no_replications():
    """An interval over different settings would pass for one over seeds."""
    frame = pd.concat([sweep(x=1.0, agents=10), sweep(x=2.0, agents=20)])
    with pytest.raises(ValueError, match="choose one value of the others"):
        sweep_lines(frame, "backends.qwen.replicas", "x")
    assert sweep_lines(frame, "backends.qwen.replicas", "x", by="agents").containers


def test_words_stand_at_equal_distances_in_their_order():
    """A sweep over names could not be drawn."""
    frame = pd.DataFrame({"policy": ["ring", "table"], "seed": 1, "x": [3.0, 4.0]})
    ax = sweep_lines(frame, "policy", "x", by=None)
    assert ax.containers[0].lines[0].get_xydata().tolist() == [[0.0, 3.0], [1.0, 4.0]]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["ring", "table"]
    check_readable(ax.figure)


def test_a_ratio_is_drawn_in_per_cent():
    """An axis called "Prompt cache hit, %" went from 0 to 1."""
    ax = sweep_lines(
        sweep(prompt_cache_hit_ratio=0.5), "backends.qwen.replicas", "prompt_cache_hit_ratio"
    )
    assert ax.yaxis.get_major_formatter()(0.5, 0) == "50"
    assert ax.get_ylabel() == "Prompt cache hit, %"
