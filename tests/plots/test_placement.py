"""The figures of where requests were sent."""

import numpy as np
import pandas as pd
import pytest

from sim.core.request import DIRECT
from sim.plots import session_map, spills_by_reason
from sim.plots.placement import GREYS, MOST_SESSIONS, shares_away
from sim.plots.style import PODS
from tests.plots.tables import check_readable, legend_of, placements, words


def placed(*outcomes, **run):
    """One placement per (outcome, reason), a second apart."""
    rows = [(at, float(at), 100, 0, *pair) for at, pair in enumerate(outcomes)]
    return placements(rows, **run)


HOME, BOUND, WAITING = ("home", None), ("spill", "bound"), ("spill", "waiting")
MOVED = ("migrated", "not_ready")


def widths(ax, reason):
    """The lengths of the bars that the legend calls ``reason``, from the top down."""
    stack = next(stack for stack in ax.containers if stack.get_label() == reason)
    return [round(bar.get_width(), 12) for bar in stack]


def test_bars_are_shares_of_the_placements_stacked_by_reason():
    """A spill rate would be another than the table's, or be put down to another reason."""
    ring = placed(*[HOME] * 6, *[BOUND] * 3, MOVED, variant="ring")
    table = placed(*[("sticky", None)] * 3, WAITING, variant="table")
    ax = spills_by_reason(pd.concat([ring, table]))
    assert widths(ax, "spill: bound") == [0.3, 0.0]
    assert widths(ax, "spill: waiting") == [0.0, 0.25]
    assert widths(ax, "migrated: not ready") == [0.1, 0.0]
    last = next(stack for stack in ax.containers if stack.get_label() == "migrated: not ready")
    assert last[0].get_x() == pytest.approx(0.3)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["ring", "table"]
    assert ax.get_xlabel() == "share of placements, %"
    check_readable(ax.figure)


def test_traffic_beside_the_router_is_no_placement():
    """DirectService traffic would thin out the spills."""
    frame = placed(HOME, BOUND, ("placed", None), ("placed", None))
    frame.loc[2:, "proxy"] = DIRECT
    assert shares_away(frame) == {"spill: bound": 0.5}


def test_a_policy_without_a_home_has_no_bar_and_says_so():
    """No bar would read as the best of all spill rates."""
    frame = pd.concat(
        [
            placed(HOME, variant="ring"),
            placed(("placed", None), ("unkeyed", None), variant="random"),
        ]
    )
    ax = spills_by_reason(frame, variants=["ring", "random", "late"])
    beside = {text.get_position()[1]: text.get_text() for text in ax.texts}
    assert beside == {0: "none", 1: "knows no home", 2: "no placements"}


def test_several_seeds_give_the_mean_share_and_an_interval_of_the_whole():
    """Pooled placements would give the busier seed more weight, and hide how they differ."""
    one = placed(BOUND, HOME, seed=1)
    other = placed(BOUND, *[HOME] * 9, seed=2)
    ax = spills_by_reason(pd.concat([one, other]))
    assert widths(ax, "spill: bound") == [pytest.approx(0.3)]
    bar = ax.containers[-1].lines[2][0].get_segments()[0][:, 0]
    half = 12.706 * np.std([0.5, 0.1], ddof=1) / np.sqrt(2)  # t quantile of one degree of freedom
    assert bar.tolist() == pytest.approx([0.0, 0.3 + half], abs=1e-3)
    assert "mean of 2 seeds with the 95 % t interval of the whole" in words(ax)


@pytest.mark.parametrize("outcomes", [[], [HOME], [("placed", None)], [BOUND]])
def test_few_placements_make_a_readable_figure(outcomes):
    """A short run would end in a warning or a broken file."""
    check_readable(spills_by_reason(placed(*outcomes)).figure)


def turns(*rows, variant="", seed=1):
    """Requests of sessions: session, arrival, pod; each lasts half a second."""
    frame = pd.DataFrame(rows, columns=["session_id", "arrival_s", "pod"])
    return frame.assign(end_s=frame["arrival_s"] + 0.5, variant=variant, seed=seed)


def bars(ax):
    """From and to of every bar with its colour, by row."""
    return [
        [
            (box.vertices[:, 0].min(), box.vertices[:, 0].max(), matched)
            for box, matched in zip(row.get_paths(), map(tuple, row.get_facecolor()))
        ]
        for row in ax.collections
    ]


def test_a_bar_lasts_until_its_session_is_somewhere_else():
    """A move would be missing, or be drawn where there was none."""
    rows = [("A", 0.0, "p"), ("A", 1.0, "p"), ("B", 1.5, "q"), ("A", 3.0, "q"), ("B", 4.0, "q")]
    ax = session_map(turns(*rows))
    first, second = bars(ax)
    assert [bar[:2] for bar in first] == [(0.0, 3.0), (3.0, 3.5)]
    assert [bar[:2] for bar in second] == [(1.5, 4.5)]
    assert first[1][2] == second[0][2] != first[0][2]
    ticks = [line for line in ax.lines if line.get_marker() == "|"]
    assert [line.get_xydata().tolist() for line in ticks] == [[[3.0, 0.0]]]
    assert legend_of(ax) == ["p", "q"]
    assert "2 of 2 sessions, 1 moves" in words(ax)
    check_readable(ax.figure)


def test_sessions_of_one_turn_and_of_the_warm_up_are_not_drawn():
    """Rows would be wasted on sessions that cannot move, or that began before the window."""
    rows = [("A", 0.0, "p"), ("A", 9.0, "q"), ("B", 6.0, "p"), ("C", 7.0, "p"), ("C", 8.0, "p")]
    ax = session_map(turns(*rows), window_s=(5.0, 10.0))
    assert [[bar[:2] for bar in row] for row in bars(ax)] == [[(7.0, 8.5)]]
    assert ax.get_xlim()[0] == 5.0


def test_a_session_under_way_ends_with_its_last_arrival():
    """A bar without an end would be drawn at NaN."""
    frame = turns(("A", 0.0, "p"), ("A", 2.0, "p"))
    frame.loc[1, "end_s"] = np.nan
    ax = session_map(frame)
    assert bars(ax)[0][0][:2] == (0.0, 2.0)
    check_readable(ax.figure)


def test_of_more_pods_than_colours_only_moves_are_told_apart():
    """Two pods of one colour would look like one."""
    rows = [("A", float(at), f"pod-{at:02}") for at in range(len(PODS) + 1)]
    ax = session_map(turns(*rows))
    assert legend_of(ax) == []
    assert len({bar[2] for bar in bars(ax)[0]}) == len(GREYS)
    assert "greys alternate" in words(ax)


def test_no_more_sessions_are_drawn_than_can_be_read():
    """Hundreds of sessions would be hairlines."""
    rows = [(f"s{at:03}", at + turn / 2, "p") for at in range(100) for turn in (0, 1)]
    ax = session_map(turns(*rows))
    assert len(ax.collections) == MOST_SESSIONS
    assert f"{MOST_SESSIONS} of 100 sessions" in words(ax)


@pytest.mark.parametrize("rows", [[], [("A", 0.0, "p")], [(None, 0.0, "p")], [("A", 0.0, None)]])
def test_few_requests_make_a_readable_figure(rows):
    """A run without sessions would end in a warning or a broken file."""
    ax = session_map(turns(*rows))
    assert "no session with two turns or more" in words(ax)
    check_readable(ax.figure)
