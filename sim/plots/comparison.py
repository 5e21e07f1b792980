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


@style.styled()
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
    found, order = comparison[key], list(variants or comparison[key])
    ax = style.make_room(ax, 0.6)
    scale = 100.0 if metric(key).unit == "ratio" else 1.0
    for row, (variant, look) in enumerate(style.looks(order).items()):
        value = found.get(variant, {"mean": None})
        if value["mean"] is None:
            style.beside(ax, row, "no value")
            continue
        mean, low, high = (value[part] for part in ("mean", "low", "high"))
        sides = None if low is None else [[mean - low], [high - mean]]
        ax.errorbar(mean, row, xerr=sides, fmt=look.marker, color=look.colour, linewidth=1.8)
        ax.annotate(
            _short(mean * scale),
            (mean, row),
            (0.0, 5.5),
            textcoords="offset points",
            ha="center",
            size=style.NOTE_PT - 1.0,
            color=style.FAINT,
        )
    ax.set_xlabel(label(key))
    style.name_rows(ax, [shown(variant) for variant in order])
    ax.margins(x=0.1)
    seeds = max((int(value["n"]) for value in found.values()), default=0)
    if seeds < 2 and ax.get_xlim()[0] > 0.0:
        ax.set_xlim(left=0.0)  # without intervals a per cent would look like a factor of ten
    ax.xaxis.set_major_locator(MaxNLocator(6, steps=[1, 2, 2.5, 5, 10]))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value * scale:,g}"))
    counted = f"mean and 95 % t interval of {seeds} seeds" if seeds > 1 else ""
    style.finish(ax, wording(key), counted, "scales need not begin at 0" if seeds > 1 else "")
    return ax


def _short(value: float) -> str:
    """Three significant digits, or whole numbers."""
    return f"{value:.3g}" if abs(value) < 999.5 else f"{value:,.0f}"


def wording(key: str) -> str:
    """A metric's key as words: ``ttft_s.p95`` is ``TTFT p95``."""
    parts = [re.sub("(_per)?_s$|_ratio$", "", part) for part in key.split(".")]
    words = " ".join(parts).replace("_", " ").split()
    said = " ".join(word.upper() if word in _ACRONYMS else word for word in words)
    return said[:1].upper() + said[1:]


def label(key: str) -> str:
    """A metric as the label of an axis, with its unit."""
    unit = metric(key).unit
    return f"{wording(key)}, {'%' if unit == 'ratio' else unit}"


@style.styled()
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
    places = [key for key in (x, by) if key is not None]
    check_table(frame, SWEEP, *places, metric)
    if "seed" in frame and frame.duplicated([*places, "seed"]).any():
        raise ValueError(
            f"several rows for one {', '.join([*places, 'seed'])}: choose one value of the others"
        )
    ax = style.make_room(ax, 2.7)
    frame = frame.reset_index(drop=True)
    at = _positions(ax, frame[x])
    groups = [("", frame)] if by is None else list(frame.groupby(by, sort=False, observed=True))
    looked = style.looks([str(name) for name, _ in groups])
    for (name, rows), look in zip(groups, looked.values()):
        found = [
            (place, t_interval(values.dropna().astype(float).tolist()))
            for place, values in rows.groupby(at[rows.index], sort=True)[metric]
        ]
        points = [(place, one.mean, one.low, one.high) for place, one in found if one.n]
        xs, means, lows, highs = np.array(points, dtype=np.float64).reshape(-1, 4).T
        sides = np.nan_to_num(np.vstack([means - lows, highs - means]))
        line = look.line(1.8) | {"label": shown(str(name)), "marker": look.marker}
        ax.errorbar(xs, means, yerr=sides, **line)
    if not (frame[metric] < 0.0).any():
        ax.set_ylim(bottom=0.0)  # an interval may reach below what there can be
    _name_axes(ax, x_label or x, y_label, metric)
    if not len(frame):
        style.nothing(ax, "no points")
    several = frame.duplicated(places).any()
    counted = "mean and 95 % t interval over the seeds" if several else "one run at each point"
    style.finish(ax, wording(metric) if _is_metric(metric) else metric, counted)
    return ax


def _name_axes(ax: Axes, x_label: str, y_label: str | None, key: str) -> None:
    """Label the axes; a ratio is drawn in per cent, unless a label says what it is."""
    known = y_label is None and _is_metric(key)
    ax.set(xlabel=x_label, ylabel=y_label or (label(key) if known else key))
    if known and metric(key).unit == "ratio":
        ax.yaxis.set_major_formatter(style.per_cent())


def _positions(ax: Axes, values: "pd.Series[Any]") -> "pd.Series[float]":
    """Where each row lies on the x axis."""
    if pd.api.types.is_numeric_dtype(values):
        ax.xaxis.set_major_locator(MaxNLocator(integer=pd.api.types.is_integer_dtype(values)))
        return values.astype(float)
    words = [str(value) for value in values.unique()]
    ax.set_xticks(range(len(words)), words)
    return values.map(lambda value: float(words.index(str(value))))


def _is_metric(key: str) -> bool:
    try:
        metric(key)
    except KeyError:
        return False
    return True
