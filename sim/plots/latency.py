"""Figures of the time to the first token."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter

from sim.core.request import Status
from sim.core.stats import Floats, Sample
from sim.plots import style
from sim.plots.frames import (
    REQUESTS,
    Span,
    check_table,
    numbers,
    runs_of,
    shown,
    variants_of,
    window_told,
    within,
)

LEVELS: Final = np.round(np.concatenate([np.arange(0, 990, 5), np.arange(990, 1001)]) / 1000, 3)
"""Shares of the requests at which a distribution is drawn, finer where the slowest are."""
MOST_SEEDS: Final = 10
"""Runs of a variant that are drawn beside their mean; more would be a blur."""


def ttft_sample(requests: pd.DataFrame) -> Sample:
    """TTFT of the requests of one run, as the summary counts: those in flight without a first token
    are censored; those that were refused, broke off or left before it are left out."""
    ttft_s = numbers(requests, "first_token_s") - numbers(requests, "arrival_s")
    waiting = (requests["status"] == Status.IN_FLIGHT).to_numpy() & np.isnan(ttft_s)
    return Sample(ttft_s[~np.isnan(ttft_s)], int(np.count_nonzero(waiting)))


def percentile_curve(sample: Sample) -> Floats:
    """The percentiles of ``LEVELS``; NaN among the censored."""
    return np.array(sample.percentiles(*(LEVELS * 100.0)), dtype=np.float64)


def ttft_cdf(
    requests: pd.DataFrame,
    *,
    window_s: Span | None = None,
    variants: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Share of the requests with a first token within a time, a curve per variant.

    ``requests`` as ``Runs.requests`` gives them; ``window_s`` keeps those that
    arrived in it, ``variants`` fixes the order and so the colours. A curve
    passes through the percentiles that the summary states: over several seeds
    the mean of the runs' percentiles, with each run as a thin line. Requests
    without a first token at the end of the run count as later than all others,
    so a curve with such ends below 100 %.
    """
    check_table(requests, REQUESTS, "arrival_s", "first_token_s", "status")
    ax = ax or style.own_axes()
    requests = within(requests, "arrival_s", window_s)
    order = variants_of(requests, variants)
    seeds, censored, slowest, fastest = 0, 0.0, 0.0, np.inf
    for variant, look in style.looks(order).items():
        samples = [ttft_sample(rows) for _, rows in runs_of(requests, variant)]
        samples = [sample for sample in samples if len(sample.observed) + sample.censored]
        if not samples:
            continue
        seeds = max(seeds, len(samples))
        share = [one.censored / (len(one.observed) + one.censored) for one in samples]
        censored = max(censored, *share)
        curves = [percentile_curve(sample) for sample in samples]
        if 1 < len(curves) <= MOST_SEEDS:
            for curve in curves:
                ax.plot(curve, LEVELS, **look.thin)
        mean = np.mean(curves, axis=0)
        ax.plot(mean, LEVELS, label=shown(variant), **look.line())
        positive = mean[mean > 0.0]
        slowest = max([slowest, *positive])
        fastest = min([fastest, *positive])
    _scales(ax, fastest, slowest)
    style.dress(ax, "time to first token, s (log scale)", "requests, %")
    if not seeds:
        style.nothing(ax, "no request that could have a first token")
    style.title(
        ax,
        "Time to first token",
        window_told(window_s),
        _seeds_told(seeds),
        f"up to {censored * 100:.1f} % had no first token when a run ended: curves end below 100 %"
        if censored
        else "",
    )
    style.legend(ax)
    return ax


def _seeds_told(seeds: int) -> str:
    if seeds < 2:
        return ""
    each = ", thin: each seed" if seeds <= MOST_SEEDS else ""
    return f"mean of the percentiles of {seeds} seeds{each}"


def _scales(ax: Axes, fastest_s: float, slowest_s: float) -> None:
    ax.set_ylim(0.0, 1.0)
    ax.axhline(0.95, color=style.FAINT, linewidth=0.8, linestyle=(0, (3.0, 3.0)), zorder=1)
    ax.annotate(
        "p95",
        (1.0, 0.95),
        xycoords="axes fraction",
        xytext=(3.0, 0.0),
        textcoords="offset points",
        va="center",
        fontsize=style.NOTE_PT,
        color=style.FAINT,
    )
    ax.yaxis.set_major_locator(FixedLocator([0.0, 0.25, 0.5, 0.75, 1.0]))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g}"))
    if slowest_s <= 0.0:
        return
    ax.set_xscale("log")
    ax.set_xlim(fastest_s / 1.15, slowest_s * 1.15)
    seconds_axis(ax)


def seconds_axis(ax: Axes) -> None:
    """Plain numbers on a logarithmic x axis: 0.1, not ten to the minus one."""
    low, high = ax.get_xlim()
    decades = np.log10(high / low)
    subs = (1.0,) if decades > 3.0 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    ax.xaxis.set_major_locator(LogLocator(subs=subs))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def ttft_parts(
    parts: pd.DataFrame, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """What the time to first token of each row is made of, as stacked bars.

    The index of ``parts`` names the bars, from the top down; each column is a
    part in seconds, stacked in the order of the columns; one that is 0 in all
    rows is left out, the others keep their colours. ``names`` are what the
    legend calls the columns; without, the columns without their unit.
    """
    ax = ax or style.own_axes(height_in=1.9 + 0.28 * max(1, len(parts)))
    called = list(names or map(_plain, parts.columns))
    rows = np.arange(len(parts))
    left = np.zeros(len(parts))
    for column, (name, look) in zip(parts.columns, style.looks(called, style.PARTS).items()):
        width = np.nan_to_num(numbers(parts, str(column)))
        if not width.any():
            continue
        ax.barh(
            rows,
            width,
            left=left,
            height=0.68,
            color=look.colour,
            hatch=look.hatch,
            edgecolor="white",
            linewidth=0.6,
            label=name,
        )
        left = left + width
    ax.set_xlim(0.0, left.max(initial=0.0) * 1.02 or 1.0)
    style.dress(ax, "time to first token, s", grid="x")
    style.name_rows(ax, [str(label) for label in parts.index])
    if not len(parts):
        style.nothing(ax, "no requests")
    style.title(ax, "Where the time to first token went")
    style.legend(ax)
    return ax


def _plain(column: object) -> str:
    return str(column).removesuffix("_s").replace("_", " ")
