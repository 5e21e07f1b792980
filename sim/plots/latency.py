"""Figures of the time to the first token."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from sim.core.request import Status
from sim.core.stats import Floats, Sample
from sim.plots import frames, style
from sim.plots.frames import Span, numbers, shown, within

LEVELS: Final = np.round(np.concatenate([np.arange(0, 990, 5), np.arange(990, 1001)]) / 1000, 3)
"""Shares of the requests at which a distribution is drawn, finer where the slowest are."""


def ttft_sample(requests: pd.DataFrame) -> Sample:
    """TTFT of the requests of one run, as the summary counts: those in flight without a first token
    are censored; those that were refused, broke off or left before it are left out."""
    ttft_s = numbers(requests, "first_token_s") - numbers(requests, "arrival_s")
    waiting = (requests["status"] == Status.IN_FLIGHT).to_numpy() & np.isnan(ttft_s)
    return Sample(ttft_s[~np.isnan(ttft_s)], int(np.count_nonzero(waiting)))


def percentile_curve(sample: Sample) -> Floats:
    """The percentiles of ``LEVELS``; NaN among the censored."""
    return np.array(sample.percentiles(*(LEVELS * 100.0)), dtype=np.float64)


@style.styled()
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
    frames.check_table(requests, frames.REQUESTS, "arrival_s", "first_token_s", "status")
    ax = style.make_room(ax, 2.7)
    requests = within(requests, "arrival_s", window_s)
    seeds, censored, ends_s = 0, 0.0, np.zeros(0)
    for variant, look in style.looks(frames.variants_of(requests, variants)).items():
        found = [ttft_sample(rows) for rows in frames.runs_of(requests, variant).values()]
        samples = [sample for sample in found if len(sample.observed) + sample.censored]
        if not samples:
            continue
        seeds = max(seeds, len(samples))
        share = [one.censored / (len(one.observed) + one.censored) for one in samples]
        censored = max(censored, *share)
        curves = [percentile_curve(sample) for sample in samples]
        if 1 < len(curves) <= frames.MOST_SEEDS:
            ax.plot(np.transpose(curves), LEVELS, **look.thin)
        mean = np.mean(curves, axis=0)
        ax.plot(mean, LEVELS, label=shown(variant), **look.line())
        ends_s = np.append(ends_s, mean[mean > 0.0])
    _scales(ax, ends_s)
    if not seeds:
        style.nothing(ax, "no request that could have a first token")
    style.finish(
        ax,
        "Time to first token",
        frames.window_in_words("arrivals", window_s),
        frames.mean_in_words(seeds, "the percentiles of "),
        f"up to {censored * 100:.1f} % had no first token when a run ended: curves end below 100 %"
        if censored
        else "",
    )
    return ax


def _scales(ax: Axes, shown_s: Floats) -> None:
    """Per cent upwards; to the right a logarithmic scale of plain numbers: 0.1, not 10 to -1."""
    ax.set(xlabel="time to first token, s (log scale)", ylabel="requests, %", ylim=(0.0, 1.0))
    ax.set_yticks([0.0, 0.25, 0.5, 0.75, 1.0])
    ax.yaxis.set_major_formatter(style.per_cent())
    ax.axhline(0.95, color=style.FAINT, linewidth=0.8, linestyle=(0, (3.0, 3.0)), zorder=1)
    right = ax.get_yaxis_transform()
    ax.text(1.0, 0.95, " p95", transform=right, va="center", color=style.FAINT, size=style.NOTE_PT)
    if not len(shown_s):
        return
    low_s, high_s = shown_s.min() / 1.15, shown_s.max() * 1.15
    decades = np.log10(high_s / low_s)
    subs = (1.0,) if decades > 3.0 else (1.0, 3.0) if decades > 1.2 else (1.0, 2.0, 5.0)
    ax.set(xscale="log", xlim=(low_s, high_s))
    ax.xaxis.set_major_locator(LogLocator(subs=subs) if decades > 0.7 else MaxNLocator(4))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


@style.styled()
def ttft_parts(
    parts: pd.DataFrame, *, names: Sequence[str] | None = None, ax: Axes | None = None
) -> Axes:
    """What the time to first token of each row is made of, as stacked bars.

    The index of ``parts`` names the bars, from the top down; each column is a
    part in seconds, stacked in the order of the columns; one that is 0 in all
    rows is left out, the others keep their colours. ``names`` are what the
    legend calls the columns; without, the columns without their unit.
    """
    rows = [str(label) for label in parts.index]
    ax = style.make_room(ax, 0.3)
    called = names or [str(each).removesuffix("_s").replace("_", " ") for each in parts.columns]
    widths = [np.nan_to_num(numbers(parts, str(column))) for column in parts.columns]
    ends = style.stack_bars(ax, dict(zip(called, widths)), 0.68)
    ax.set(xlabel="time to first token, s", xlim=(0.0, ends.max(initial=0.0) * 1.02 or 1.0))
    style.name_rows(ax, rows)
    if not rows:
        style.nothing(ax, "no requests")
    style.finish(ax, "Where the time to first token went")
    return ax
