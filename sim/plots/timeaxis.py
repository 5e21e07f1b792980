"""The axis of simulated time, and what of it does not count."""

from typing import Final

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MultipleLocator

from sim.plots.frames import Span
from sim.plots.style import INK, SHADE

_UNITS: Final = ((14_400.0, 3_600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
_STEPS: Final = (1, 2, 5, 10, 20, 30, 50, 100, 200, 500)
MOST_TICKS: Final = 7
OUTSIDE_TOLD: Final = "grey: outside the measured window"
EDGES_TOLD: Final = "black line: edge of the measured window"


def time_axis(ax: Axes, start_s: float, end_s: float) -> str:
    """Scale the x axis, whose data are seconds, in round seconds, minutes or hours.

    Returns its label.
    """
    end_s = end_s if end_s > start_s else start_s + 1.0
    span_s = end_s - start_s
    unit_s, unit = next((size, name) for least, size, name in _UNITS if span_s >= least)
    step = next((step for step in _STEPS if step * MOST_TICKS >= span_s / unit_s), span_s / unit_s)
    ax.xaxis.set_major_locator(MultipleLocator(step * unit_s))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda time_s, _: f"{time_s / unit_s:g}"))
    ax.set_xlim(start_s, end_s)
    return f"simulated time, {unit}"


def shade_outside(ax: Axes, window_s: Span | None, end_s: float) -> str:
    """Grey what lies before and after the measured window; returns the words that say so."""
    if window_s is None:
        return ""
    told = ""
    for start_s, stop_s in ((0.0, window_s[0]), (window_s[1], end_s)):
        if np.isfinite(start_s) and stop_s > start_s:
            ax.axvspan(start_s, stop_s, facecolor=SHADE, edgecolor="none", zorder=0)
            told = OUTSIDE_TOLD
    return told


def mark_window(ax: Axes, window_s: Span | None, end_s: float) -> str:
    """Lines where the measured window begins and ends, for axes that are coloured all over.

    Returns the words that say so.
    """
    edges_s = [edge_s for edge_s in window_s or () if 0.0 < edge_s < end_s]
    for edge_s in edges_s:
        ax.axvline(edge_s, color=INK, linewidth=1.4)
    return EDGES_TOLD if edges_s else ""
