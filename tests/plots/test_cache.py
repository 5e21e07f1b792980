"""The figure of the prefix cache."""

import numpy as np
import pandas as pd
import pytest

from sim.plots import hit_rate_over_time
from tests.plots.tables import check_readable, line, placements, words


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
