"""Figures of model pools: one pool of one run each."""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from sim.core.recorder import RunFacts
from sim.core.stats import Floats, present_at
from sim.plots import style
from sim.plots.frames import POOLS, RESIDENCE, Span, check_table, numbers, within
from sim.plots.overtime import shade_outside, time_axis
from sim.results.pools import stays

MOST_SWAPS: Final = 60
"""A timeline of more shows the beginning; stripes that are too thin say nothing."""
DENSE: Final = 4_000
"""Steps of a count above which it is drawn as a picture."""
IN_MEMORY: Final[dict[str, Any]] = {"facecolor": style.PARTS[0]}
"""One look for all members, whom their rows tell apart: the legend can show it."""
LOADING: Final[dict[str, Any]] = {"facecolor": "white", "edgecolor": "#8a8a8a", "hatch": "//////"}
BAR: Final = (-0.36, 0.44)
"""Where in a row, and how high, a member's stays lie; those who wait for it are below."""
QUEUE: Final = (0.40, 0.30)
"""Where in a row the count of held attempts stands, and how high it may be."""


def residence(facts: RunFacts) -> pd.DataFrame:
    """Who was in memory when: pool, member, start_s, end_s, up to the end of the run."""
    rows = [(pool, *stay) for pool in facts.pools for stay in stays(facts, pool)]
    return pd.DataFrame(rows, columns=["pool", "member", "start_s", "end_s"])


@style.styled()
def pool_timeline(
    pools: pd.DataFrame,
    residence: pd.DataFrame,
    *,
    members: Sequence[str] | None = None,
    between_s: Span | None = None,
    window_s: Span | None = None,
    most: int | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Who was in memory when, who loaded, and how many attempts were held for each member.

    ``pools`` is the pools table of one pool in one run, ``residence`` the rows
    of ``residence`` for it; ``members`` fixes the order of the rows. A row per
    member: bars where it is ready or drains, hatched where it loads; below, the
    number of attempts that are held for it. ``between_s`` is the part to show,
    from the start of the window to its ``MOST_SWAPS``-th swap when missing, and
    ``most`` the end of the scale of held attempts.
    """
    check_table(pools, POOLS, "kind", "member", "start_s", "end_s", "load_s")
    check_table(residence, RESIDENCE, "member", "start_s", "end_s")
    ax = style.make_room(ax, 0.5)
    order = list(members or sorted({str(name) for name in (*pools.member, *residence.member)}))
    start_s, stop_s = between_s = between_s or excerpt(pools, residence, window_s)
    most = most_held(pools, order, between_s) if most is None else most
    swaps, held = pools[pools["kind"] == "swap"], pools[pools["kind"] == "hold"]
    for row, name in enumerate(order):
        mine = residence[residence["member"] == name]
        _bars(ax, row, numbers(mine, "start_s"), numbers(mine, "end_s"), **IN_MEMORY)
        loads = swaps[(swaps["member"] == name) & swaps["load_s"].notna()]
        ends_s = np.nan_to_num(numbers(loads, "end_s"), nan=stop_s)
        _bars(ax, row, ends_s - numbers(loads, "load_s"), ends_s, **LOADING)
        _queue(ax, row, *_held(held, name, between_s), most)
    time_axis(ax, start_s, stop_s)
    style.name_rows(ax, order, 0.4)
    if not order:
        style.nothing(ax, "no pool")
    shaded = shade_outside(ax, window_s, stop_s)
    begun = len(within(swaps, "start_s", between_s))
    style.finish(
        ax,
        "Who was in memory",
        f"black below a member: attempts held for it, up to {most}" if most else "",
        shaded if window_s and (start_s < window_s[0] or stop_s > window_s[1]) else "",
        own=f"{begun} swaps" if begun == len(swaps) else f"{begun} of {len(swaps)} swaps",
        entries=[
            Patch(label="in memory", **IN_MEMORY),
            Patch(label="loading", **LOADING),
            Patch(label="attempts held", facecolor=style.INK),
        ],
    )
    return ax


def _queue(ax: Axes, row: int, times_s: Floats, held: Floats, most: int) -> None:
    """Fill the number of attempts that are held for a member, below it."""
    if most:
        floor = row + QUEUE[0]
        top = floor - held / most * QUEUE[1]
        filled = ax.fill_between(times_s, floor, top, step="post", color=style.INK, linewidth=0.0)
        filled.set_rasterized(len(times_s) > DENSE)


def most_held(pools: pd.DataFrame, members: Sequence[str], between_s: Span) -> int:
    """The highest number of attempts held for one member at a time."""
    held = pools[pools["kind"] == "hold"]
    return max((int(_held(held, name, between_s)[1].max()) for name in members), default=0)


def excerpt(pools: pd.DataFrame, residence: pd.DataFrame, window_s: Span | None) -> Span:
    """From the start of the window to its end, or to where there have been enough swaps."""
    both = pd.concat([frame[["start_s", "end_s"]].astype(float) for frame in (pools, residence)])
    end_s = float(np.nanmax(both.to_numpy(), initial=0.0))
    start_s, stop_s = window_s or (0.0, end_s)
    begun = within(pools[pools["kind"] == "swap"], "start_s", (start_s, stop_s))
    starts_s = np.sort(numbers(begun, "start_s"))
    if len(starts_s) > MOST_SWAPS:
        stop_s = float(starts_s[MOST_SWAPS])
    return start_s, max(start_s, min(stop_s, end_s))


def _bars(ax: Axes, row: int, starts_s: Floats, ends_s: Floats, **look: Any) -> None:
    spans = list(zip(starts_s.tolist(), (ends_s - starts_s).tolist()))
    ax.broken_barh(spans, (row + BAR[0], BAR[1]), linewidth=0.6, **look)


def _held(held: pd.DataFrame, member: str, between_s: Span) -> tuple[Floats, Floats]:
    """The instants at which held attempts may come or go, and how many of a member there are."""
    mine = held[held["member"] == member]
    times_s = np.concatenate([numbers(mine, "start_s"), numbers(mine, "end_s"), between_s])
    times_s = np.unique(times_s[(times_s >= between_s[0]) & (times_s <= between_s[1])])
    ends_s = np.nan_to_num(numbers(mine, "end_s"), nan=np.inf)
    return times_s, present_at(numbers(mine, "start_s"), ends_s, times_s).astype(np.float64)
