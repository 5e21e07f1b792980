"""Figures of model pools: one pool of one run each."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.patches import Patch

from sim.plots import style
from sim.plots.frames import Span, numbers
from sim.plots.timeaxis import shade_outside, time_axis
from sim.results.pools import stays
from sim.results.result import RunFacts
from sim.stats import Floats, present_at

MOST_SWAPS: Final = 60
"""A timeline of more shows the beginning; stripes that are too thin say nothing."""
LOADING: Final = "#9a9a9a"
BAR: Final = (-0.36, 0.44)
"""Where in a row, and how high, a member's stays lie; those who wait for it are below."""
QUEUE: Final = (0.40, 0.30)
"""Where in a row the count of waiting attempts starts, and how far it rises."""


def residence(facts: RunFacts) -> pd.DataFrame:
    """Who was in memory when: pool, member, start_s, end_s, up to the end of the run."""
    rows = [(pool, *stay) for pool in facts.pools for stay in stays(facts, pool)]
    return pd.DataFrame(rows, columns=["pool", "member", "start_s", "end_s"])


def pool_timeline(
    pools: pd.DataFrame,
    residence: pd.DataFrame,
    *,
    members: Sequence[str] | None = None,
    between_s: Span | None = None,
    window_s: Span | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Who was in memory when, who loaded, and how many attempts were held for each member.

    ``pools`` is the pools table of one pool in one run, ``residence`` the rows
    of ``residence`` for it; ``members`` fixes the order of the rows. A row per
    member: bars where it is ready or drains, hatched where it loads; below, the
    number of attempts that are held for it. ``between_s`` is the part to show,
    from the start of the window to its ``MOST_SWAPS``-th swap when missing.
    """
    ax = ax or style.own_axes(height_in=3.6)
    notes = draw_pool(ax, pools, residence, members, between_s, window_s)
    style.title(ax, "Who was in memory", *notes)
    style.legend(ax, pool_patches(_members(pools, residence, members)))
    return ax


def draw_pool(
    ax: Axes,
    pools: pd.DataFrame,
    residence: pd.DataFrame,
    members: Sequence[str] | None = None,
    between_s: Span | None = None,
    window_s: Span | None = None,
) -> list[str]:
    """Draw a pool without title and legend; returns what its notes should say."""
    order = _members(pools, residence, members)
    swaps = pools[pools["kind"] == "swap"]
    end_s = _end_s(pools, residence)
    start_s, stop_s = between_s or _excerpt(swaps, window_s, end_s)
    held = pools[pools["kind"] == "hold"]
    times_s = _changes(held, start_s, stop_s)
    waiting = {name: _held(held, name, times_s, end_s) for name in order}
    most = max((int(counts.max(initial=0)) for counts in waiting.values()), default=0)
    for row, (name, look) in enumerate(style.looks(order, style.PODS).items()):
        mine = residence[residence["member"] == name]
        _bars(ax, row, numbers(mine, "start_s"), numbers(mine, "end_s"), facecolor=look.colour)
        loads = swaps[(swaps["member"] == name) & swaps["load_s"].notna()]
        ends_s = np.nan_to_num(numbers(loads, "end_s"), nan=end_s)
        _bars(
            *(ax, row, ends_s - numbers(loads, "load_s"), ends_s),
            facecolor="white",
            edgecolor=LOADING,
            hatch="//////",
        )
        if most:
            height = QUEUE[0] - waiting[name] / most * QUEUE[1]
            ax.fill_between(
                times_s, QUEUE[0] + row, row + height, step="post", color=style.INK, linewidth=0.0
            )
    label = time_axis(ax, start_s, min(stop_s, end_s))
    shaded = shade_outside(ax, window_s, end_s)
    style.dress(ax, label, grid="x")
    ax.set_xlim(start_s, max(min(stop_s, end_s), start_s + 1.0))
    ax.set_yticks(range(len(order)), order)
    ax.set_ylim(max(len(order), 1) - 0.45, -0.55)
    ax.tick_params(axis="y", length=0.0)
    if not order:
        style.nothing(ax, "no pool")
    done = int(((swaps["start_s"] >= start_s) & (swaps["start_s"] < stop_s)).sum())
    return [
        f"{done} swaps" if done == len(swaps) else f"{done} of {len(swaps)} swaps",
        f"black: attempts held, at most {most}" if most else "",
        shaded if start_s < (window_s or (0.0, 0.0))[0] else "",
    ]


def pool_patches(members: Sequence[str]) -> list[Patch]:
    """Entries for a legend."""
    resident = [
        Patch(facecolor=look.colour, label=f"{name} in memory")
        for name, look in style.looks(members, style.PODS).items()
    ]
    return [*resident, Patch(facecolor="white", edgecolor=LOADING, hatch="//////", label="loading")]


def _bars(ax: Axes, row: int, starts_s: Floats, ends_s: Floats, **look: str) -> None:
    spans = list(zip(starts_s.tolist(), (ends_s - starts_s).tolist()))
    ax.broken_barh(spans, (row + BAR[0], BAR[1]), linewidth=0.6, **look)  # type: ignore[arg-type]


def _members(
    pools: pd.DataFrame, residence: pd.DataFrame, members: Sequence[str] | None
) -> list[str]:
    if members is not None:
        return list(members)
    return sorted({str(name) for name in (*pools["member"], *residence["member"])})


def _end_s(pools: pd.DataFrame, residence: pd.DataFrame) -> float:
    times_s = np.concatenate(
        [numbers(frame, column) for frame in (pools, residence) for column in ("start_s", "end_s")]
    )
    return float(np.nanmax(times_s, initial=0.0))


def _excerpt(swaps: pd.DataFrame, window_s: Span | None, end_s: float) -> Span:
    """From the start of the window to its end, or to where there have been enough swaps."""
    start_s, stop_s = window_s or (0.0, end_s)
    starts_s = np.sort(numbers(swaps, "start_s"))
    inside = starts_s[(starts_s >= start_s) & (starts_s < stop_s)]
    if len(inside) > MOST_SWAPS:
        stop_s = float(inside[MOST_SWAPS])
    return start_s, min(stop_s, end_s)


def _changes(held: pd.DataFrame, start_s: float, stop_s: float) -> Floats:
    """The instants at which the number of held attempts may change, and the two ends."""
    times_s = np.concatenate([numbers(held, "start_s"), numbers(held, "end_s")])
    inside = times_s[(times_s > start_s) & (times_s < stop_s)]
    return np.unique(np.concatenate([[start_s], inside, [stop_s]]))


def _held(held: pd.DataFrame, member: str, times_s: Floats, end_s: float) -> Floats:
    mine = held[held["member"] == member]
    ends_s = np.nan_to_num(numbers(mine, "end_s"), nan=np.inf)
    return present_at(numbers(mine, "start_s"), ends_s, times_s).astype(np.float64)
