"""The figures over time: cache hits, load and KV usage of the pods."""

import numpy as np
import pandas as pd
import pytest

from sim.plots import hit_rate_over_time, kv_usage_over_time, load_over_time
from sim.plots.overtime import MOST_LINES, polled
from tests.plots.tables import check_readable, legend_of, line, placements, polls, words


def test_a_line_is_the_mean_of_the_polls_in_each_bin():
    """A pod's load would be that of another pod or time."""
    frame = polls([[4, 6] * 120, [1, 3] * 120])
    ax = load_over_time(frame)
    times_s, values = line(ax, "qwen-0")
    assert times_s[:2].tolist() == [1.0, 3.0]
    assert set(values) == {5.0}
    assert set(line(ax, "qwen-1")[1]) == {2.0}
    assert "means over 2 s" in words(ax)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("simulated time, s", "requests in flight")
    assert legend_of(ax) == ["qwen-0", "qwen-1"]
    check_readable(ax.figure)


def test_requests_that_wait_in_a_pod_are_filled():
    """A pod that is full would look like one that works on all it has."""
    frame = polls([[4.0] * 20])
    assert not load_over_time(frame).collections
    ax = load_over_time(frame.assign(waiting=3.0))
    assert ax.collections[0].get_datalim(ax.transData).y1 == 3.0
    assert "filled: waiting in the pod" in words(ax)


def test_many_pods_are_rows_of_a_heat_map():
    """Sixty-four lines would be a ball of wool."""
    load = [[float(pod)] * 30 for pod in range(64)]
    ax = load_over_time(polls(load))
    image = ax.images[0].get_array()
    assert image.shape == (64, 30)
    assert image[:, 0].tolist() == list(range(64))
    assert "requests in flight" in ax.figure.axes[1].get_ylabel()
    assert ax.images[0].norm.vmax == 63.0
    check_readable(ax.figure)


def test_the_colours_of_a_heat_map_cover_the_window():
    """A burst of the warm-up, which nobody measures, took most of the scale, and every other pod
    had no name."""
    load = [[90.0] * 10 + [float(pod)] * 20 for pod in range(8)]
    frame = polls(load)
    assert load_over_time(frame).images[0].norm.vmax == 90.0
    ax = load_over_time(frame, window_s=(10.0, 30.0))
    assert ax.images[0].norm.vmax == 7.0


def test_a_pod_that_was_not_polled_yet_has_no_colour():
    """A pod that is not there would look idle."""
    late = polls([[1.0] * 20 for _ in range(MOST_LINES + 1)])
    late = late[(late["pod"] != "qwen-3") | (late["time_s"] >= 10.0)]
    ax = load_over_time(late)
    hidden = ax.images[0].get_array().mask
    assert hidden.sum() == 10
    assert hidden[polled(late, "in_flight")[0].index.get_loc("qwen-3"), :10].all()
    check_readable(ax.figure)


def test_the_kv_usage_of_many_pods_is_a_band_around_the_median_pod():
    """A hot pod would vanish in a mean."""
    usage = [[0.1] * 30 for _ in range(8)] + [[0.9] * 30]
    ax = kv_usage_over_time(polls(usage, gauge="kv_usage"))
    assert set(line(ax, "median pod")[1]) == {0.1}
    whole, middle = (band.get_datalim(ax.transData) for band in ax.collections)
    assert (whole.y0, whole.y1) == pytest.approx((0.1, 0.9))
    assert (middle.y0, middle.y1) == pytest.approx((0.1, 0.1))
    assert legend_of(ax) == ["all pods", "middle half", "median pod"]
    assert ax.get_ylabel() == "KV blocks held, %"
    check_readable(ax.figure)


def test_one_of_several_runs_is_drawn_and_named():
    """Polls of two runs would be averaged into one that never was."""
    runs = [
        polls([[float(at)] * 5], variant=variant, seed=seed)
        for at, (variant, seed) in enumerate([("a", 1), ("a", 2), ("b", 1), ("b", 2)])
    ]
    frame = pd.concat(runs)
    first, named = load_over_time(frame), load_over_time(frame, variant="b", seed=2)
    assert set(line(first, "qwen-0")[1]) == {0.0}
    assert set(line(named, "qwen-0")[1]) == {3.0}
    assert "a, seed 1" in words(first)
    assert "b, seed 2" in words(named)


@pytest.mark.parametrize("draw", [load_over_time, kv_usage_over_time])
@pytest.mark.parametrize("values", [[], [[0.0]], [[1.0]], [[0.0] * 9] * 64, [[np.nan] * 3]])
def test_few_polls_make_a_readable_figure(draw, values):
    """A run without polls, or of idle pods, would end in a warning or a broken file."""
    ax = draw(polls(values))
    check_readable(ax.figure)
    assert ("no pod was polled" in words(ax)) == (values == [])


def test_the_window_is_marked_on_a_heat_map():
    """The rush of the warm-up, darkest of all, looked as if it had been measured."""
    rows = polls([[1.0] * 30 for _ in range(MOST_LINES + 1)])
    ax = load_over_time(rows, window_s=(10.0, 25.0))
    pale = [(one.get_x(), one.get_x() + one.get_width(), one.get_alpha()) for one in ax.patches]
    assert [span[:2] for span in pale] == [(0.0, 10.0), (25.0, 30.0)]
    assert all(span[2] < 1.0 for span in pale)
    assert "pale: outside the measured window" in words(ax)
    whole = load_over_time(rows, window_s=(0.0, float("inf")))
    assert not whole.patches and "pale" not in words(whole)


def test_long_prompts_count_for_more():
    """The share would be a mean over requests, which is another figure of the summary."""
    rows = [(0, 1.0, 100, 100, "new", None), (1, 1.5, 900, 0, "new", None)]
    middles_s, shares = line(hit_rate_over_time(placements(rows)), "base")
    assert shares[1] == pytest.approx(0.1)
    assert middles_s[1] == 1.5
    assert np.isnan(shares[0])  # nobody was admitted in the first second


def test_a_request_counts_once_at_its_first_admission():
    """A request that was sent twice would lift the share with its own first try."""
    rows = [
        (7, 0.0, 100, None, "new", None),
        (7, 1.2, 100, 40, "new", None),
        (7, 3.5, 100, 100, "new", None),
    ]
    _, shares = line(hit_rate_over_time(placements(rows)), "base")
    assert shares[~np.isnan(shares)].tolist() == [pytest.approx(0.4)]


def test_several_seeds_give_the_mean_of_their_shares():
    """A seed with more traffic would weigh more, or its requests would be taken for another's."""
    one = placements([(0, 0.5, 100, 100, "new", None)], seed=1)
    other = placements([(0, 0.5, 10_000, 2000, "new", None)], seed=2)
    ax = hit_rate_over_time(pd.concat([one, other]))
    assert line(ax, "base")[1][0] == pytest.approx(0.6)
    thin = [float(curve.get_ydata()[0]) for curve in ax.lines if curve.get_alpha() is not None]
    assert thin == [1.0, pytest.approx(0.2)]


def test_the_warm_up_is_shown_and_marked():
    """A reader would take the filling of an empty cache for what was measured."""
    rows = [(at, float(at), 100, at, "new", None) for at in range(60)]
    ax = hit_rate_over_time(placements(rows), window_s=(20.0, 50.0))
    spans = [(patch.get_x(), patch.get_x() + patch.get_width()) for patch in ax.patches]
    assert spans[0] == (0.0, 20.0)
    assert spans[1][0] == 50.0
    assert "grey: outside the measured window" in words(ax)
    assert len(line(ax, "base")[0]) == 60
    assert ax.get_ylabel() == "cached prompt tokens, %"
    assert ax.get_xlabel() == "simulated time, s"


@pytest.mark.parametrize(
    "rows", [[], [(0, 0.0, 100, 0, "new", None)], [(0, 5.0, 100, None, "new", None)]]
)
def test_few_placements_make_a_readable_figure(rows):
    """A run that admits nobody would end in a warning or a broken file."""
    ax = hit_rate_over_time(placements(rows))
    check_readable(ax.figure)
    admitted = [row for row in rows if row[3] is not None]
    assert ("no request was admitted" in words(ax)) == (not admitted)


def test_a_share_between_nothings_is_a_dot():
    """A line needs two points beside each other: of a quiet cluster nothing was to be seen."""
    rows = [(0, 1.5, 100, 40, "new", None), *((at, at + 0.5, 100, 0, "new", None) for at in (3, 4))]
    ax = hit_rate_over_time(placements(rows))
    (dots,) = [each for each in ax.lines if each.get_linestyle() == "None"]
    assert dots.get_xydata().tolist() == [[1.5, 0.4]]
    assert dots.get_marker() == "o"
