"""Figures over simulated time: cache hits of all pods, load and KV usage of each."""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator, MultipleLocator

from sim.core.stats import Floats
from sim.plots import frames, style
from sim.plots.frames import Span, numbers, shown

_UNITS: Final = ((14_400.0, 3_600.0, "h"), (300.0, 60.0, "min"), (0.0, 1.0, "s"))
_STEPS: Final = (1, 2, 5, 10, 20, 30, 50, 100, 200, 500)
MOST_TICKS: Final = 7
MOST_LINES: Final = 6
"""More pods than this are rows of a heat map, or lie in a band."""
MOST_BINS: Final = 120
MOST_HIT_BINS: Final = 60
OUTSIDE: Final = "outside the measured window"


def time_axis(ax: Axes, start_s: float, end_s: float) -> None:
    """Scale the x axis, whose data are seconds, in round seconds, minutes or hours."""
    span_s = end_s - start_s if end_s > start_s else 1.0
    unit_s, unit = next((size, name) for least, size, name in _UNITS if span_s >= least)
    step = next((step for step in _STEPS if step * MOST_TICKS >= span_s / unit_s), span_s / unit_s)
    ax.set(xlabel=f"simulated time, {unit}", xlim=(start_s, start_s + span_s))
    ax.xaxis.set_major_locator(MultipleLocator(step * unit_s))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda time_s, _: f"{time_s / unit_s:g}"))


def last_of_panels_s(ax: Axes) -> float:
    """The end of all data that is drawn along the x axis so far; 0 without any."""
    panels = ax.get_shared_x_axes().get_siblings(ax)
    return max((each.dataLim.x1 for each in panels if each.has_data()), default=0.0)


def shade_outside(ax: Axes, window_s: Span | None, end_s: float) -> str:
    """Grey what lies outside the measured window, pale on a heat map; returns words that say so."""
    start_s, stop_s = window_s or (0.0, np.inf)
    outside = [span for span in ((0.0, start_s), (stop_s, end_s)) if span[0] < span[1]]
    look = {"facecolor": "white", "alpha": 0.65} if ax.images else {"facecolor": style.SHADE}
    for span in outside:
        ax.axvspan(*span, **look, edgecolor="none", zorder=1 if ax.images else 0)
    return f"{'pale' if ax.images else 'grey'}: {OUTSIDE}" if outside else ""


def first_admissions(placements: pd.DataFrame) -> pd.DataFrame:
    """Of several attempts of a request of one run, the first that was admitted."""
    admitted = placements[placements["cached_tokens"].notna() & (placements["prompt_tokens"] > 0)]
    return admitted.drop_duplicates("request_id")


@style.styled()
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
    frames.check_table(placements, frames.PLACEMENTS, *columns)
    ax = style.make_room(ax, 2.7)
    last_s = float(np.nanmax(numbers(placements, "scheduled_s"), initial=0.0))
    width_s = frames.bin_width_s(last_s, MOST_HIT_BINS)
    starts_s = frames.bin_starts(last_s, width_s)
    middles_s, end_s = starts_s + width_s / 2.0, float(starts_s[-1]) + width_s
    seeds = 0
    for variant, look in style.looks(frames.variants_of(placements, variants)).items():
        runs = [first_admissions(rows) for rows in frames.runs_of(placements, variant).values()]
        curves = [_shares(run, width_s, len(starts_s)) for run in runs if len(run)]
        if not curves:
            continue
        seeds = max(seeds, len(curves))
        if 1 < len(curves) <= frames.MOST_SEEDS:
            ax.plot(middles_s, np.transpose(curves), **look.thin)
        mean = pd.DataFrame(curves).mean()
        ax.plot(middles_s, mean, label=shown(variant), **look.line())
        alone = mean.notna() & mean.shift().isna() & mean.shift(-1).isna()  # no line reaches them
        ax.plot(middles_s[alone], mean[alone], look.marker, color=look.colour, markersize=4.0)
    if not seeds:
        style.nothing(ax, "no request was admitted")
    shaded = shade_outside(ax, window_s, end_s)
    time_axis(ax, 0.0, end_s)
    ax.set_ylabel("cached prompt tokens, %")
    ax.yaxis.set_major_formatter(style.per_cent())
    low, high = max(0.0, ax.get_ylim()[0]), min(1.0, ax.get_ylim()[1]) if seeds else 1.0
    ax.set_ylim(low, high + 0.02 * (high - low))  # or half of a line at 100 % would be cut off
    binned, means = f"all pods, per {width_s:g} s", frames.mean_in_words(seeds)
    style.finish(ax, "Prompt tokens found in the cache", binned, means, shaded)
    return ax


def _shares(admitted: pd.DataFrame, width_s: float, bins: int) -> Floats:
    """Cached tokens / prompt tokens in each bin; NaN where nothing was admitted."""
    tokens = admitted[["cached_tokens", "prompt_tokens"]].astype(float)
    sums = tokens.groupby(numbers(admitted, "scheduled_s") // width_s).sum().reindex(range(bins))
    return numbers(sums, "cached_tokens") / numbers(sums, "prompt_tokens")


def polled(pods: pd.DataFrame, gauge: str) -> tuple[pd.DataFrame, float]:
    """A gauge of the pods of one run, averaged over the polls in bins of time; and their width.

    A row per pod, a column per bin, named by its middle; NaN where a pod was not polled.
    """
    times_s = numbers(pods, "time_s")
    last_s = float(times_s.max(initial=0.0))
    width_s = frames.bin_width_s(last_s, MOST_BINS)
    starts_s = frames.bin_starts(last_s, width_s)
    names = pods["pod"].astype(str).to_numpy()
    means = pods[gauge].astype(float).groupby([names, times_s // width_s]).mean().unstack()
    table = means.reindex(pd.unique(names), columns=range(len(starts_s)))
    return table.set_axis(starts_s + width_s / 2.0, axis="columns"), width_s


def highest(runs: Iterable[pd.DataFrame], gauge: str, window_s: Span | None = None) -> float:
    """The highest mean of any pod in any bin of several runs: the end of their common scale.

    Colours of a heat map cover the window alone: a burst of the warm-up would
    take most of them.
    """
    most = 0.0
    for rows in (rows for rows in runs if len(rows)):
        means = polled(rows, gauge)[0]
        start_s, stop_s = window_s if window_s and is_heat_map(rows) else (0.0, np.inf)
        middles_s = means.columns.to_numpy(dtype=np.float64)
        inside = (middles_s >= start_s) & (middles_s < stop_s)
        most = max(most, float(np.nanmax(means.to_numpy()[:, inside], initial=0.0)))
    return most


def is_heat_map(rows: pd.DataFrame) -> bool:
    """Whether the load of these pods is drawn as a heat map."""
    return rows["pod"].nunique() > MOST_LINES


@style.styled()
def load_over_time(
    pods: pd.DataFrame,
    *,
    variant: str | None = None,
    seed: int | None = None,
    window_s: Span | None = None,
    most: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Requests in flight on each pod over time, of one run.

    ``pods`` as ``Runs.pods`` gives them; the first run, unless ``variant`` and
    ``seed`` name another. Up to ``MOST_LINES`` pods are lines, filled below by
    those of their requests that wait in the pod; more are rows of a heat map.
    Outside ``window_s`` is grey. ``most`` is the end of the scale, for figures
    to be compared.
    """
    frames.check_table(pods, frames.PODS, "time_s", "pod", "in_flight", "waiting")
    rows, run = frames.first_run(pods, variant, seed)
    heat_map_in = min((rows["pod"].nunique() + 1) * 0.2, 3.5) if is_heat_map(rows) else 0.0
    ax = style.make_room(ax, max(2.7, heat_map_in), max(1.5, heat_map_in))
    most = most or highest([rows], "in_flight", window_s) or 1.0
    draw = _nobody if not len(rows) else _heat_map if is_heat_map(rows) else _load_lines
    notes = draw(ax, rows, most, window_s)
    style.finish(ax, "Requests in flight on each pod", *notes, run=run)
    return ax


@style.styled()
def kv_usage_over_time(
    pods: pd.DataFrame,
    *,
    variant: str | None = None,
    seed: int | None = None,
    window_s: Span | None = None,
    most: float | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Share of the KV blocks that requests hold on each pod over time, of one run.

    ``pods`` as ``Runs.pods`` gives them; the first run, unless ``variant`` and
    ``seed`` name another. Up to ``MOST_LINES`` pods are lines; of more the
    median pod, with the middle half and all of them around it. Outside
    ``window_s`` is grey. ``most`` is the end of the scale, for figures to be
    compared.
    """
    frames.check_table(pods, frames.PODS, "time_s", "pod", "kv_usage")
    ax = style.make_room(ax, 2.7, 1.4)
    rows, run = frames.first_run(pods, variant, seed)
    most = most or highest([rows], "kv_usage")
    notes = (_kv_usage if len(rows) else _nobody)(ax, rows, most, window_s)
    style.finish(ax, "KV blocks held by requests", *notes, run=run)
    return ax


def _nobody(ax: Axes, *_: object) -> tuple[str, ...]:
    time_axis(ax, 0.0, 1.0)
    style.nothing(ax, "no pod was polled")
    return ()


def _load_lines(
    ax: Axes, rows: pd.DataFrame, most: float, window_s: Span | None
) -> tuple[str, ...]:
    (load, width_s), (waiting, _) = polled(rows, "in_flight"), polled(rows, "waiting")
    _lines(ax, load)
    some = waiting[waiting.sum(axis="columns") > 0.0]
    for pod, look in style.looks(list(load.index), style.PODS).items():
        if pod in some.index:
            ax.fill_between(
                load.columns, some.loc[pod], color=look.colour, alpha=0.3, linewidth=0.0
            )
    shaded = _finish_time(ax, load, width_s, window_s)
    ax.set(ylabel="requests in flight", ylim=(0.0, most * 1.05))
    ax.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    filled = "filled: waiting in the pod" if len(some) else ""
    return f"means over {width_s:g} s", filled, shaded


def _heat_map(ax: Axes, rows: pd.DataFrame, most: float, window_s: Span | None) -> tuple[str, ...]:
    load, width_s = polled(rows, "in_flight")
    ax.imshow(
        np.ma.masked_invalid(load.to_numpy()),
        aspect="auto",
        interpolation="nearest",
        cmap="YlGnBu",
        vmin=0.0,
        vmax=most,
        extent=(0.0, load.columns.to_numpy()[-1] + width_s / 2.0, len(load) - 0.5, -0.5),
        label="requests in flight",
    )
    ax.grid(visible=False)
    names = dict(enumerate(load.index))
    ax.yaxis.set_major_locator(MaxNLocator("auto", integer=True))
    ax.yaxis.set_major_formatter(FuncFormatter(lambda row, _: names.get(int(row), "")))
    return f"means over {width_s:g} s", _finish_time(ax, load, width_s, window_s)


def _kv_usage(ax: Axes, rows: pd.DataFrame, most: float, window_s: Span | None) -> tuple[str, ...]:
    usage, width_s = polled(rows, "kv_usage")
    if len(usage) > MOST_LINES:
        low, lower, median, upper, high = usage.quantile([0.0, 0.25, 0.5, 0.75, 1.0]).to_numpy()
        times_s = usage.columns.to_numpy()
        fill = partial(ax.fill_between, times_s, color=style.PODS[0], linewidth=0.0)
        fill(low, high, alpha=0.15, label="all pods")
        fill(lower, upper, alpha=0.3, label="middle half")
        ax.plot(times_s, median, color=style.PODS[0], linewidth=1.8, label="median pod")
    else:
        _lines(ax, usage)
    shaded = _finish_time(ax, usage, width_s, window_s)
    ax.set(ylabel="KV blocks held, %", ylim=(0.0, max(most * 1.05, 0.01)))
    ax.yaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]))
    ax.yaxis.set_major_formatter(style.per_cent())
    return f"means over {width_s:g} s", shaded


def _lines(ax: Axes, means: pd.DataFrame) -> None:
    """Draw a line for each pod."""
    for (pod, values), look in zip(
        means.iterrows(), style.looks(list(means.index), style.PODS).values()
    ):
        ax.plot(means.columns, values, label=pod, **look.line(1.7))


def _finish_time(ax: Axes, means: pd.DataFrame, width_s: float, window_s: Span | None) -> str:
    """Scale the time axis of binned means and shade it; returns the words that say so."""
    end_s = max(last_of_panels_s(ax), float(means.columns.to_numpy()[-1]) + width_s / 2.0)
    time_axis(ax, 0.0, end_s)
    return shade_outside(ax, window_s, end_s)
