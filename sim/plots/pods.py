"""Figures of the polls of the pods: one run each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import Normalize
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sim.core.stats import Floats
from sim.plots import style
from sim.plots.frames import (
    PODS,
    Span,
    bin_edges,
    bin_sums,
    check_table,
    first_run,
    numbers,
    quotient,
)
from sim.plots.style import Notes
from sim.plots.timeaxis import mark_window, shade_outside, time_axis

MOST_LINES: Final = 6
"""More pods than this are rows of a heat map, or lie in a band."""
MOST_BINS: Final = 120
COLOURS: Final = "YlGnBu"
IN_FLIGHT: Final = "requests in flight"
HELD: Final = "KV blocks held, %"
_ROW_IN: Final = 0.2
"""What the name of a row needs."""


@dataclass(frozen=True)
class Polled:
    """Means of a gauge in bins of time: ``values[pod, bin]``; NaN where a pod was not polled."""

    pods: tuple[str, ...]
    edges_s: Floats
    values: Floats

    @property
    def middles_s(self) -> Floats:
        """Middles of the bins, seconds."""
        return (self.edges_s[:-1] + self.edges_s[1:]) / 2.0

    @property
    def end_s(self) -> float:
        """End of the last bin."""
        return float(self.edges_s[-1])

    def highest(self, span: Span | None = None) -> float:
        """The highest mean of bins that begin within ``span``, seconds; 0 when there is none."""
        low_s, high_s = span or (0.0, np.inf)
        inside = (self.edges_s[:-1] >= low_s) & (self.edges_s[:-1] < high_s)
        return float(np.nanmax(self.values[:, inside], initial=0.0))

    @property
    def told(self) -> str:
        """The width of a bin in words."""
        return f"means over {self.edges_s[1]:g} s"


def polled(pods: pd.DataFrame, gauge: str) -> Polled:
    """A gauge of the pods table of one run, averaged over the polls in bins of round width."""
    times_s, values = numbers(pods, "time_s"), numbers(pods, gauge)
    edges_s = bin_edges(float(times_s.max(initial=0.0)), MOST_BINS)
    codes, names = pd.factorize(pods["pod"])
    means = [
        quotient(
            bin_sums(times_s[codes == code], values[codes == code], edges_s),
            bin_sums(times_s[codes == code], np.ones(np.count_nonzero(codes == code)), edges_s),
        )
        for code in range(len(names))
    ]
    shaped = np.array(means, dtype=np.float64).reshape(len(names), len(edges_s) - 1)
    return Polled(tuple(str(name) for name in names), edges_s, shaped)


def highest(runs: Sequence[pd.DataFrame], gauge: str, span: Span | None = None) -> float:
    """The highest mean of any pod in any bin of several runs: the end of their common scale."""
    return max((polled(rows, gauge).highest(span) for rows in runs), default=0.0)


def load_scale(runs: Sequence[pd.DataFrame], window_s: Span | None) -> float:
    """The end of the scale of requests in flight.

    Colours cover the window alone: a burst of the warm-up would take most of them.
    """
    return highest(runs, "in_flight", window_s if any(map(is_heat_map, runs)) else None)


def panel_in(runs: Sequence[pd.DataFrame]) -> float:
    """How high a panel of the load is, inches: each row of a heat map has room for its name."""
    rows = max((frame["pod"].nunique() for frame in runs if is_heat_map(frame)), default=0)
    return min(max(1.5, (rows + 1) * _ROW_IN), 3.5)


def load_over_time(
    pods: pd.DataFrame,
    *,
    variant: str | None = None,
    seed: int | None = None,
    window_s: Span | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Requests in flight on each pod over time, of one run.

    ``pods`` as ``Runs.pods`` gives them; the first run, unless ``variant`` and
    ``seed`` name another. Up to ``MOST_LINES`` pods are lines, filled below by
    those of their requests that wait in the pod; more are rows of a heat map.
    Outside ``window_s`` is grey.
    """
    check_table(pods, PODS, "time_s", "pod", "in_flight", "waiting")
    ax = ax or style.own_axes()
    rows, told = first_run(pods, variant, seed)
    most = load_scale([rows], window_s)
    notes = draw_load(ax, rows, window_s, most)
    if is_heat_map(rows):
        colour_bar([ax], most)
    style.title(ax, "Requests in flight on each pod", told, *notes.shared)
    style.legend(ax)
    return ax


def is_heat_map(rows: pd.DataFrame) -> bool:
    """Whether the load of these pods is drawn as a heat map."""
    return rows["pod"].nunique() > MOST_LINES


def draw_load(ax: Axes, rows: pd.DataFrame, window_s: Span | None, most: float) -> Notes:
    """Draw the load of one run without a title; ``most`` is the end of the scale."""
    if not len(rows):
        return _empty(ax, IN_FLIGHT)
    load = polled(rows, "in_flight")
    if is_heat_map(rows):
        _heat_map(ax, load, most)
        style.dress(ax, time_axis(ax, 0.0, load.end_s), grid="none")
        return Notes(shared=(load.told, mark_window(ax, window_s, load.end_s)))
    waiting = polled(rows, "waiting")
    for at, (pod, look) in enumerate(style.looks(load.pods, style.PODS).items()):
        ax.plot(load.middles_s, load.values[at], label=pod, **look.line(1.7))
        if np.nansum(waiting.values[at]) > 0.0:
            _fill(ax, load.middles_s, 0.0, waiting.values[at], look.colour, 0.3)
    shaded = shade_outside(ax, window_s, load.end_s)
    style.dress(ax, time_axis(ax, 0.0, load.end_s), IN_FLIGHT)
    ax.set_ylim(0.0, (most or 1.0) * 1.05)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    filled = "filled: waiting in the pod" if np.nansum(waiting.values) > 0.0 else ""
    return Notes(shared=(load.told, filled, shaded))


def kv_usage_over_time(
    pods: pd.DataFrame,
    *,
    variant: str | None = None,
    seed: int | None = None,
    window_s: Span | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Share of the KV blocks that requests hold on each pod over time, of one run.

    ``pods`` as ``Runs.pods`` gives them; the first run, unless ``variant`` and
    ``seed`` name another. Up to ``MOST_LINES`` pods are lines; of more the
    median pod, with the middle half and all of them around it. Outside
    ``window_s`` is grey.
    """
    check_table(pods, PODS, "time_s", "pod", "kv_usage")
    ax = ax or style.own_axes()
    rows, told = first_run(pods, variant, seed)
    notes = draw_kv_usage(ax, rows, window_s, highest([rows], "kv_usage"))
    style.title(ax, "KV blocks held by requests", told, *notes.shared)
    style.legend(ax)
    return ax


def draw_kv_usage(ax: Axes, rows: pd.DataFrame, window_s: Span | None, most: float) -> Notes:
    """Draw the KV usage of one run without a title; ``most`` is the end of the scale."""
    if not len(rows):
        return _empty(ax, HELD)
    usage = polled(rows, "kv_usage")
    if len(usage.pods) > MOST_LINES:
        _band(ax, usage)
    else:
        for at, (pod, look) in enumerate(style.looks(usage.pods, style.PODS).items()):
            ax.plot(usage.middles_s, usage.values[at], label=pod, **look.line(1.7))
    shaded = shade_outside(ax, window_s, usage.end_s)
    style.dress(ax, time_axis(ax, 0.0, usage.end_s), HELD)
    ax.set_ylim(0.0, max(most * 1.05, 0.01))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g}"))
    return Notes(shared=(usage.told, shaded))


def _empty(ax: Axes, label: str) -> Notes:
    style.dress(ax, time_axis(ax, 0.0, 1.0), label)
    style.nothing(ax, "no pod was polled")
    return Notes()


def _band(ax: Axes, usage: Polled) -> None:
    """All pods, the middle half of them, the median one."""
    some = ~np.isnan(usage.values).all(axis=0)
    bands = np.full((5, some.size), np.nan)
    bands[:, some] = np.nanquantile(usage.values[:, some], [0.0, 0.25, 0.5, 0.75, 1.0], axis=0)
    colour, times_s = style.PODS[0], usage.middles_s
    for low, high, alpha, label in ((0, 4, 0.15, "all pods"), (1, 3, 0.3, "middle half")):
        _fill(ax, times_s, bands[low], bands[high], colour, alpha, label)
    ax.plot(times_s, bands[2], color=colour, linewidth=1.8, label="median pod")


def _fill(
    ax: Axes,
    times_s: Floats,
    low: Floats | float,
    high: Floats,
    colour: str,
    alpha: float,
    label: str | None = None,
) -> None:
    ax.fill_between(times_s, low, high, color=colour, alpha=alpha, linewidth=0.0, label=label)


def _heat_map(ax: Axes, load: Polled, most: float) -> None:
    rows = len(load.pods)
    ax.imshow(
        np.ma.masked_invalid(load.values),
        aspect="auto",
        interpolation="nearest",
        cmap=COLOURS,
        norm=_scale(most),
        extent=(0.0, load.end_s, rows - 0.5, -0.5),
    )
    height_in = style.figure_of(ax).get_figheight() * ax.get_position().height
    fitting = max(2, int(height_in / _ROW_IN))
    step = next(
        step for step in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, rows) if rows <= step * fitting
    )
    ax.set_yticks(range(0, rows, step), [load.pods[at] for at in range(0, rows, step)])


def _scale(most: float) -> Normalize:
    return Normalize(0.0, most or 1.0)


def colour_bar(axes: Sequence[Axes], most: float) -> None:
    """What the colours of heat maps say, beside all of them."""
    mapped = ScalarMappable(_scale(most), COLOURS)
    bar = style.figure_of(axes[0]).colorbar(
        mapped, ax=list(axes), pad=0.02, aspect=24, extend="max"
    )
    if bar.solids is not None:
        bar.solids.set_rasterized(True)  # as 256 rectangles their seams would show
    bar.outline.set_visible(False)
    bar.set_label(IN_FLIGHT, fontsize=style.TEXT_PT, color=style.INK)
    bar.ax.tick_params(labelsize=style.TEXT_PT, colors=style.INK, length=3.0)
    bar.locator = MaxNLocator(4, integer=True)
    bar.update_ticks()
