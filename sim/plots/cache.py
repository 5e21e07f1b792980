"""Figures of the prefix cache."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from sim.core.stats import Floats
from sim.plots import style
from sim.plots.frames import (
    PLACEMENTS,
    Span,
    bin_edges,
    bin_sums,
    check_table,
    mean_of,
    numbers,
    quotient,
    runs_of,
    shown,
    variants_of,
)
from sim.plots.latency import MOST_SEEDS
from sim.plots.timeaxis import shade_outside, time_axis
from sim.results.arrow import Mask

MOST_BINS: Final = 60


def first_admissions(placements: pd.DataFrame) -> pd.DataFrame:
    """Of several attempts of a request of one run, the first that was admitted."""
    admitted = placements[placements["cached_tokens"].notna() & (placements["prompt_tokens"] > 0)]
    return admitted.drop_duplicates("request_id")


def hit_rate_over_time(
    placements: pd.DataFrame,
    *,
    window_s: Span | None = None,
    variants: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Share of the prompt tokens that were in the cache, over the time of admission.

    ``placements`` as ``Runs.placements`` gives them. In each bin of time cached
    tokens / prompt tokens of the requests first admitted in it, all pods
    together: long prompts count for more. Over several seeds the mean of the
    runs' shares, with each run as a thin line. Outside ``window_s`` is grey.
    """
    columns = ("request_id", "scheduled_s", "cached_tokens", "prompt_tokens")
    check_table(placements, PLACEMENTS, *columns)
    ax = ax or style.own_axes()
    known_s = numbers(placements, "scheduled_s") if len(placements) else np.zeros(0)
    known_s = known_s[~np.isnan(known_s)]
    end_s = float(known_s.max(initial=0.0))
    edges_s = bin_edges(end_s, MOST_BINS)
    middles_s = (edges_s[:-1] + edges_s[1:]) / 2.0
    seeds = 0
    for variant, look in style.looks(variants_of(placements, variants)).items():
        runs = [first_admissions(rows) for _, rows in runs_of(placements, variant)]
        curves = [_shares(run, edges_s) for run in runs if len(run)]
        if not curves:
            continue
        seeds = max(seeds, len(curves))
        if 1 < len(curves) <= MOST_SEEDS:
            for curve in curves:
                ax.plot(middles_s, curve, **look.thin)
        mean = mean_of(curves)
        ax.plot(middles_s, mean, label=shown(variant), **look.line())
        alone = _alone(mean)
        ax.plot(middles_s[alone], mean[alone], look.marker, color=look.colour, markersize=4.0)
    if not seeds:
        style.nothing(ax, "no request was admitted")
    shaded = shade_outside(ax, window_s, float(edges_s[-1]))
    style.dress(ax, time_axis(ax, 0.0, float(edges_s[-1])), "cached prompt tokens, %")
    ax.yaxis.set_major_formatter(FuncFormatter(lambda share, _: f"{share * 100:g}"))
    low, high = ax.get_ylim()
    low, high = max(0.0, low), min(1.0, high) if seeds else 1.0
    ax.set_ylim(low, high + 0.02 * (high - low))  # or half of a line at 100 % would be cut off
    each = ", thin: each seed" if seeds <= MOST_SEEDS else ""
    style.title(
        ax,
        "Prompt tokens found in the cache",
        f"all pods, per {edges_s[1]:g} s",
        f"mean of {seeds} seeds{each}" if seeds > 1 else "",
        shaded,
    )
    style.legend(ax)
    return ax


def _alone(curve: Floats) -> Mask:
    """The points that no line reaches, since nothing is known on either side."""
    unknown: Mask = np.isnan(np.concatenate([[np.nan], curve, [np.nan]]))
    return ~unknown[1:-1] & unknown[:-2] & unknown[2:]


def _shares(admitted: pd.DataFrame, edges_s: Floats) -> Floats:
    times_s = numbers(admitted, "scheduled_s")
    cached = bin_sums(times_s, numbers(admitted, "cached_tokens"), edges_s)
    return quotient(cached, bin_sums(times_s, numbers(admitted, "prompt_tokens"), edges_s))
