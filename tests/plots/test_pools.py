"""The figure of a model pool."""

import pandas as pd
import pytest
from matplotlib.colors import to_rgba

from sim.plots import pool_timeline, residence, style
from sim.plots.pools import MOST_SWAPS, excerpt, most_held
from tests.plots.tables import check_readable, legend_of, words
from tests.results.builders import pooled_facts, pooled_run


def spans(ax, row):
    """From and to of the bars of a member's row: those in memory, then those that load."""
    found = [
        [(path.vertices[:, 0].min(), path.vertices[:, 0].max()) for path in bars.get_paths()]
        for bars in ax.collections
        if bars.get_paths() and abs(bars.get_paths()[0].vertices[:, 1].mean() - row) < 0.25
    ]
    return [[(round(a, 6), round(b, 6)) for a, b in bars] for bars in found]


@pytest.fixture(scope="module")
def desk():
    """The pool of ``pooled_run``: its table, and who was in memory."""
    result = pooled_run()
    return result.pools, residence(result.facts)


def test_residence_is_who_was_ready_when(desk):
    """A member would be shown in memory while it was loaded."""
    assert desk[1].to_dict("list") == {
        "pool": ["desk"] * 3,
        "member": ["b", "a", "b"],
        "start_s": [12.0, 50.0, 86.0],
        "end_s": [44.0, 61.0, 90.5],
    }


def test_rows_show_stays_loads_and_failed_loads(desk):
    """A swap would be drawn for the wrong member, or a failed load would be missing."""
    ax = pool_timeline(*desk, members=["a", "b"], between_s=(0.0, 110.0))
    assert [label.get_text() for label in ax.get_yticklabels()] == ["a", "b"]
    in_memory, loading = spans(ax, 0)[:2]
    assert in_memory == [(50.0, 61.0)]
    assert loading == [(45.0, 50.0), (91.0, 91.5)]
    in_memory, loading = spans(ax, 1)[:2]
    assert in_memory == [(12.0, 44.0), (86.0, 90.5)]
    assert loading == [(5.0, 12.0), (63.0, 71.0), (76.0, 86.0)]
    assert legend_of(ax) == ["in memory", "loading", "attempts held"]
    assert "6 swaps" in words(ax)
    check_readable(ax.figure)


def test_the_black_steps_count_the_attempts_held_for_a_member(desk):
    """The price of a swap, those who wait for it, would be invisible or another's."""
    table, stays = desk
    assert most_held(table, ["a", "b"], (0.0, 110.0)) == 2  # for a from 96 s to 99 s
    ax = pool_timeline(table, stays, between_s=(0.0, 110.0))
    held = ax.collections[2].get_paths()[0].vertices
    rises = sorted({round(float(x), 6) for x, y in held if y < 0.4})
    assert (rises[0], rises[-1]) == (44.0, 110.0)
    assert "up to 2" in words(ax)


def test_a_timeline_of_many_swaps_shows_their_beginning():
    """Five hundred stripes would say nothing."""
    swaps = pd.DataFrame(
        {
            "pool": "card",
            "kind": "swap",
            "member": "a",
            "start_s": [10.0 * at for at in range(200)],
            "end_s": [10.0 * at + 1.0 for at in range(200)],
            "load_s": 1.0,
        }
    )
    nobody = residence(pooled_facts()).iloc[:0]
    assert excerpt(swaps, nobody, (100.0, 1e9)) == (100.0, 100.0 + 10.0 * MOST_SWAPS)
    ax = pool_timeline(swaps, nobody, window_s=(100.0, 1e9))
    assert ax.get_xlim() == (100.0, 100.0 + 10.0 * MOST_SWAPS)
    assert f"{MOST_SWAPS} of 200 swaps" in words(ax)


def test_a_swap_under_way_loads_to_the_end_of_what_is_shown(desk):
    """The last swap of a run that ends in it would be drawn at NaN."""
    table, stays = desk
    table = table.assign(load_s=table["load_s"].fillna(3.0))
    ax = pool_timeline(table, stays, members=["a", "b"], between_s=(0.0, 110.0))
    assert spans(ax, 0)[1][-1] == (107.0, 110.0)
    check_readable(ax.figure)


def test_the_legend_shows_the_colour_that_the_bars_have(desk):
    """Each member had a colour of its own, and "in memory" that of the first alone."""
    ax = pool_timeline(*desk, members=["a", "b"], between_s=(0.0, 110.0))
    (patch,) = [
        each for each in ax.figure.legends[0].legend_handles if each.get_label() == "in memory"
    ]
    plain = [bars for bars in ax.collections if bars.get_paths() and not bars.get_hatch()]
    colours = {tuple(bars.get_facecolor()[0]) for bars in plain} - {to_rgba(style.INK)}
    assert colours == {patch.get_facecolor()}
