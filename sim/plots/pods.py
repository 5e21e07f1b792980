"""Figures of the polls of the pods: one run each."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, MaxNLocator
from numpy.typing import NDArray

from sim.plots import style
from sim.plots.frames import Span, bin_edges, bin_sums, first_run, numbers, quotient
from sim.plots.timeaxis import shade_outside, time_axis

MOST_LINES: Final = 6
"""More pods than this are rows of a heat map or lie in a band."""
MOST_BINS: Final = 120
COLOURS: Final = "YlGnBu"


@dataclass(frozen=True)
class Polled:
    """Means of a gauge in bins of time: ``values[pod, bin]``; NaN where a pod was not polled."""

    pods: tuple[str, ...]
    edges_s: NDArray[np.float64]
    values: NDArray[np.float64]

    @property
    def middles_s(self) -> NDArray[np.float64]:
        """Middles of the bins, seconds."""
        return (self.edges_s[:-1] + self.edges_s[1:]) / 2.0

    @property
    def width_s(self) -> float:
        """Width of a bin, seconds."""
        return float(self.edges_s[1] - self.edges_s[0])


def polled(pods: pd.DataFrame, gauge: str, end_s: float | None = None) -> Polled:
    """A gauge of the pods table of one run, averaged over the polls in bins up to ``end_s``, the
    last poll when missing."""
    times_s = numbers(pods, "time_s")
    last_s = float(times_s.max(initial=0.0)) if end_s is None else end_s
    edges_s = bin_edges(last_s, MOST_BINS)
    names = tuple(str(name) for name in pods["pod"].unique())
    means = [
        quotient(
            bin_sums(times_s[rows], numbers(pods[rows], gauge), edges_s),
            bin_sums(times_s[rows], np.ones(np.count_nonzero(rows)), edges_s),
        )
        for rows in ((pods["pod"] == name).to_numpy() for name in names)
    ]
    return Polled(names, edges_s, np.array(means).reshape(len(names), len(edges_s) - 1))


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
    """
    ax = ax or style.own_axes()
    rows, told = first_run(pods, variant, seed)
    notes = draw_load(ax, rows, window_s)
    style.title(ax, "Requests in flight on each pod", told, *notes)
    style.legend(ax)
    return ax


def draw_load(
    ax: Axes, rows: pd.DataFrame, window_s: Span | None, most: float | None = None
) -> list[str]:
    """Draw the load of one run without a title; returns what its notes should say.

    ``most`` is the upper end of the scale, common to several panels.
    """
    if not len(rows):
        return _empty(ax, "requests in flight")
    load = polled(rows, "in_flight")
    notes = [f"means over {load.width_s:g} s"]
    if len(load.pods) > MOST_LINES:
        image = _heat_map(ax, load, most)
        _colour_bar(ax, image, "requests in flight")
        label = time_axis(ax, 0.0, float(load.edges_s[-1]))
        style.dress(ax, label, "pod", grid="none")
        return notes
    waiting = polled(rows, "waiting")
    for at, (pod, look) in enumerate(style.looks(load.pods, style.PODS).items()):
        line = dict(color=look.colour, linestyle=look.dash, linewidth=1.7)
        ax.plot(load.middles_s, load.values[at], label=pod, **line)
        if np.nansum(waiting.values[at]) > 0.0:
            ax.fill_between(
                load.middles_s, 0.0, waiting.values[at], color=look.colour, alpha=0.3, linewidth=0.0
            )
    if np.nansum(waiting.values) > 0.0:
        notes.append("filled: waiting in the pod")
    notes.append(shade_outside(ax, window_s, float(load.edges_s[-1])))
    style.dress(ax, time_axis(ax, 0.0, float(load.edges_s[-1])), "requests in flight")
    ax.set_ylim(0.0, (most or float(np.nanmax(load.values)) or 1.0) * 1.05)
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return notes


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
    median pod with the middle half and all of them around it.
    """
    ax = ax or style.own_axes()
    rows, told = first_run(pods, variant, seed)
    notes = draw_kv_usage(ax, rows, window_s)
    style.title(ax, "KV blocks held by requests", told, *notes)
    style.legend(ax)
    return ax


def draw_kv_usage(ax: Axes, rows: pd.DataFrame, window_s: Span | None) -> list[str]:
    """Draw the KV usage of one run without a title; returns what its notes should say."""
    if not len(rows):
        return _empty(ax, "KV blocks held, %")
    usage = polled(rows, "kv_usage")
    notes = [f"means over {usage.width_s:g} s"]
    if len(usage.pods) > MOST_LINES:
        _band(ax, usage)
    else:
        for at, (pod, look) in enumerate(style.looks(usage.pods, style.PODS).items()):
            line = dict(color=look.colour, linestyle=look.dash, linewidth=1.7)
            ax.plot(usage.middles_s, usage.values[at], label=pod, **line)
    notes.append(shade_outside(ax, window_s, float(usage.edges_s[-1])))
    style.dress(ax, time_axis(ax, 0.0, float(usage.edges_s[-1])), "KV blocks held, %")
    ax.set_ylim(0.0, max(ax.get_ylim()[1], 0.02))
    ax.yaxis.set_major_locator(MaxNLocator(5))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g}"))
    return notes


def _empty(ax: Axes, label: str) -> list[str]:
    style.dress(ax, time_axis(ax, 0.0, 1.0), label)
    style.nothing(ax, "no pod was polled")
    return []


def _band(ax: Axes, usage: Polled) -> None:
    """All pods, the middle half of them, the median one."""
    here = ~np.isnan(usage.values).all(axis=0)
    quantiles = np.full((5, len(here)), np.nan)
    quantiles[:, here] = np.nanquantile(usage.values[:, here], [0, 0.25, 0.5, 0.75, 1], axis=0)
    lowest, lower, median, upper, highest = quantiles
    colour, times_s = style.PODS[0], usage.middles_s
    plain = dict(color=colour, linewidth=0.0)
    ax.fill_between(times_s, lowest, highest, alpha=0.15, label="all pods", **plain)
    ax.fill_between(times_s, lower, upper, alpha=0.3, label="middle half", **plain)
    ax.plot(times_s, median, color=colour, linewidth=1.8, label="median pod")


def _heat_map(ax: Axes, load: Polled, most: float | None) -> AxesImage:
    rows = len(load.pods)
    image = ax.imshow(
        np.ma.masked_invalid(load.values),
        aspect="auto",
        interpolation="nearest",
        cmap=COLOURS,
        vmin=0.0,
        vmax=most or float(np.nanmax(load.values)) or 1.0,
        extent=(0.0, float(load.edges_s[-1]), rows - 0.5, -0.5),
    )
    height_in = ax.get_window_extent().height / ax.get_figure(root=True).dpi  # type: ignore[union-attr]
    step = next(
        step
        for step in (1, 2, 4, 5, 8, 10, 16, 20, 32, 50, 100, rows)
        if rows / step <= max(2.0, height_in / 0.2) or step >= rows
    )
    ax.set_yticks(range(0, rows, step), [load.pods[at] for at in range(0, rows, step)])
    return image


def _colour_bar(ax: Axes, image: AxesImage, label: str) -> None:
    figure = ax.get_figure(root=True)
    assert figure is not None
    bar = figure.colorbar(image, ax=ax, pad=0.02, aspect=18)
    bar.solids.set_rasterized(True)  # 256 rectangles would show their seams
    bar.outline.set_visible(False)  # type: ignore[operator]
    bar.set_label(label, fontsize=style.TEXT_PT, color=style.INK)
    bar.ax.tick_params(labelsize=style.TEXT_PT, colors=style.INK, length=3.0)
    bar.locator = MaxNLocator(4, integer=True)
    bar.update_ticks()


def highest(runs: Sequence[pd.DataFrame], gauge: str) -> float:
    """The highest mean of any pod in any bin of several runs: the end of their common scale."""
    ends = [np.nanmax(polled(rows, gauge).values) for rows in runs if len(rows)]
    return float(max(ends, default=0.0)) or 1.0
