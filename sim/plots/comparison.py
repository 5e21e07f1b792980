"""Figures over runs: one value per run, means and t intervals over the seeds."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from sim.core.stats import t_interval
from sim.plots import style
from sim.plots.frames import SWEEP, check_table, shown
from sim.results.metrics import metric

HEADLINES: Final = (
    "ttft_s.p50",
    "ttft_s.p95",
    "prompt_cache_hit_ratio",
    "spill_ratio",
    "output_tokens_per_s",
    "slo_attainment",
    "error_ratio",
)
"""What stands side by side when nobody asks for more."""
_ACRONYMS: Final = ("ttft", "tpot", "e2e", "kv", "slo")


def metric_by_variant(
    comparison: Mapping[str, Mapping[str, Mapping[str, Any]]],
    key: str,
    *,
    variants: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """One figure of the summary by variant: its mean over the seeds, with the 95 % t interval.

    ``comparison`` as ``Runs.comparison`` gives it, ``key`` one of its metrics;
    raises ``KeyError`` for another. With one seed there is no interval; a
    figure that is not known is said to be so.
    """
    if not isinstance(comparison, Mapping):
        raise TypeError(f"needs runs.comparison; got {type(comparison).__name__}")
    found = comparison[key]
    order = list(variants or found)
    ax = ax or style.own_axes(height_in=1.9 + 0.34 * max(1, len(order)))
    seeds = draw_metric(ax, found, key, order)
    style.title(ax, wording(key), f"mean and 95 % t interval of {seeds} seeds" if seeds > 1 else "")
    return ax


def draw_metric(
    ax: Axes, found: Mapping[str, Mapping[str, Any]], key: str, order: Sequence[str]
) -> int:
    """Draw a metric without a title; returns the number of seeds."""
    scale = 100.0 if metric(key).unit == "ratio" else 1.0
    for row, (variant, look) in enumerate(style.looks(order).items()):
        value = found.get(variant, {"mean": None, "low": None, "high": None, "n": 0})
        if value["mean"] is None:
            style.beside(ax, row, "no value")
            continue
        sides = None
        if value["low"] is not None:
            sides = [[value["mean"] - value["low"]], [value["high"] - value["mean"]]]
        ax.errorbar(
            value["mean"],
            row,
            xerr=sides,
            color=look.colour,
            marker=look.marker,
            markersize=6.5,
            linewidth=1.8,
            capsize=3.5,
        )
        style.value_label(ax, value["mean"], row, _short(value["mean"] * scale))
    style.dress(ax, unit_of(key), grid="x")
    style.name_rows(ax, [shown(variant) for variant in order])
    ax.margins(x=0.1)
    seeds = max((int(value["n"]) for value in found.values()), default=0)
    if seeds < 2 and ax.get_xlim()[0] > 0.0:
        ax.set_xlim(left=0.0)  # without intervals a per cent would look like a factor of ten
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * scale:,g}"))
    return seeds


def _short(value: float) -> str:
    """Three significant digits, or whole numbers."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def wording(key: str) -> str:
    """A metric's key as words: ``ttft_s.p95`` is ``TTFT p95``."""
    parts = [re.sub("(_per)?_s$|_ratio$", "", part) for part in key.split(".")]
    words = " ".join(parts).replace("_", " ").split()
    said = " ".join(word.upper() if word in _ACRONYMS else word for word in words)
    return said[:1].upper() + said[1:]


def unit_of(key: str) -> str:
    """A metric as the label of an axis, with its unit."""
    unit = metric(key).unit
    return f"{wording(key)}, {'%' if unit == 'ratio' else unit}"


def sweep_lines(
    frame: pd.DataFrame,
    x: str,
    metric: str,
    *,
    by: str | None = "variant",
    x_label: str | None = None,
    y_label: str | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A figure against a swept parameter, a line per value of ``by``.

    ``frame`` has a row per point and run with columns ``x`` and ``metric`` and,
    unless it is None, ``by``. At each point the mean over the runs with a 95 %
    t interval; a run in which the figure is null is left out of it. A parameter
    that is no number has its values at equal distances, in the order of the rows.
    Raises ``ValueError`` for a column that is not there, and for several rows of
    one seed at one place: they are points of another parameter, of which one
    value must be chosen first.
    """
    keys = [key for key in (x, by, "seed") if key is not None]
    check_table(frame, SWEEP, *keys[:-1], metric)
    if "seed" in frame and frame.duplicated(keys).any():
        raise ValueError(f"several rows for one {', '.join(keys)}: choose one value of the others")
    ax = ax or style.own_axes()
    frame = frame.reset_index(drop=True)
    at = _positions(ax, frame[x])
    groups = [("", frame)] if by is None else list(frame.groupby(by, sort=False, observed=True))
    looked = style.looks([str(name) for name, _ in groups])
    for (name, rows), look in zip(groups, looked.values()):
        points = [
            (place, t_interval(values.dropna().astype(float).tolist()))
            for place, values in rows.groupby(at[rows.index], sort=True)[metric]
        ]
        known = [(place, value) for place, value in points if value.mean is not None]
        means = np.array([value.mean for _, value in known], dtype=np.float64)
        lows = np.array([value.low for _, value in known], dtype=np.float64)
        highs = np.array([value.high for _, value in known], dtype=np.float64)
        ax.errorbar(
            [place for place, _ in known],
            means,
            yerr=np.nan_to_num(np.vstack([means - lows, highs - means])),
            marker=look.marker,
            markersize=5.5,
            capsize=3.0,
            label=shown(str(name)),
            **look.line(1.8),
        )
    if not (frame[metric] < 0.0).any():
        ax.set_ylim(bottom=0.0)  # an interval may reach below what there can be
    style.dress(ax, x_label or x, y_label or _labelled(metric))
    if not len(frame):
        style.nothing(ax, "no points")
    several = frame.duplicated([key for key in (x, by) if key is not None]).any()
    told = "mean and 95 % t interval over the seeds" if several else "one run at each point"
    style.title(ax, _title(metric), told)
    style.legend(ax)
    return ax


def _positions(ax: Axes, values: "pd.Series[Any]") -> "pd.Series[float]":
    """Where each row lies on the x axis."""
    if pd.api.types.is_numeric_dtype(values):
        return values.astype(float)
    words = [str(value) for value in values.unique()]
    ax.set_xticks(range(len(words)), words)
    return values.map(lambda value: float(words.index(str(value))))


def _labelled(key: str) -> str:
    try:
        return unit_of(key)
    except KeyError:
        return key


def _title(key: str) -> str:
    try:
        metric(key)
    except KeyError:
        return key
    return wording(key)
