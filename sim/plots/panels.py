"""Figures of one run each, for several variants: panels one below the other on common scales."""

from collections.abc import Sequence
from typing import Final

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.plots import style
from sim.plots.frames import shown
from sim.plots.material import Material, Source
from sim.plots.placement import draw_sessions, pod_patches, pods_of, sessions_to_show
from sim.plots.pods import (
    colour_bar,
    draw_kv_usage,
    draw_load,
    highest,
    is_heat_map,
    load_scale,
    panel_in,
)
from sim.plots.pools import draw_pool, excerpt, most_held, pool_patches, residence
from sim.plots.style import Notes
from sim.results import arrow

MOST_PANELS: Final = 6
"""Variants that are drawn below each other in one figure."""
SESSION_IN: Final = 0.055
LEAST_SESSIONS: Final = 10


def load(material: Material, width_in: float) -> Figure:
    """Requests in flight on each pod, a panel per variant."""
    polls = [_polls(material, source) for source in _shown(material)]
    most = load_scale(polls, material.window_s)
    axes = style.panels(len(polls), panel_in(polls), width_in)
    notes = [draw_load(ax, rows, material.window_s, most) for ax, rows in zip(axes, polls)]
    if any(is_heat_map(rows) for rows in polls):
        colour_bar(axes, most)
    _finish(axes, material, "Requests in flight on each pod", notes)
    style.legend(axes[-1])
    return style.figure_of(axes[0])


def kv_usage(material: Material, width_in: float) -> Figure:
    """KV blocks held on each pod, a panel per variant."""
    polls = [_polls(material, source) for source in _shown(material)]
    most = highest(polls, "kv_usage")
    axes = style.panels(len(polls), 1.4, width_in)
    notes = [draw_kv_usage(ax, rows, material.window_s, most) for ax, rows in zip(axes, polls)]
    _finish(axes, material, "KV blocks held by requests", notes)
    style.legend(axes[-1])
    return style.figure_of(axes[0])


def sessions(material: Material, width_in: float) -> Figure:
    """Where each session was sent, a panel per variant."""
    pods = pods_of(material.requests)
    runs = [_requests(material, source) for source in _shown(material)]
    window_s, end_s = material.window_s, max(source.facts.end_s for source in material.sources)
    least = max(LEAST_SESSIONS, *(sessions_to_show(rows, window_s) for rows in runs))
    axes = style.panels(len(runs), 0.5 + SESSION_IN * least, width_in)
    notes = [draw_sessions(ax, rows, window_s, pods, end_s, least) for ax, rows in zip(axes, runs)]
    _finish(axes, material, "Where each session was sent", notes)
    style.legend(axes[-1], pod_patches(pods))
    return style.figure_of(axes[0])


def pools(material: Material, width_in: float) -> Figure:
    """Who was in memory, a panel per variant and pool.

    All show the same part: that of the one which has swapped most by then.
    """
    sources = [source for source in _shown(material) for _ in source.facts.pools]
    names = [name for source in _shown(material) for name in source.facts.pools]
    members = [list(source.facts.pools[name]) for source, name in zip(sources, names)]
    tables = [_pool(arrow.data_frame(each.table("pools")), at) for each, at in zip(sources, names)]
    stays = [_pool(residence(source.facts), name) for source, name in zip(sources, names)]
    spans = [excerpt(*pair, material.window_s) for pair in zip(tables, stays)]
    between_s = spans[0][0], max(spans[0][0], min(stop_s for _, stop_s in spans))
    most = max(most_held(*pair, between_s) for pair in zip(tables, members))
    axes = style.panels(len(tables), 0.5 + 0.38 * max(map(len, members)), width_in)
    notes = [
        draw_pool(*each, between_s, material.window_s, most)
        for each in zip(axes, tables, stays, members)
    ]
    several = len(set(names)) > 1
    labels = [
        f"{shown(source.variant)}, pool {name}" if several else shown(source.variant)
        for source, name in zip(sources, names)
    ]
    which = "" if several else f": pool {names[0]}"
    _finish(axes, material, f"Who was in memory{which}", notes, labels)
    style.legend(axes[-1], pool_patches())
    return style.figure_of(axes[0])


def _pool(frame: pd.DataFrame, name: str) -> pd.DataFrame:
    return frame[frame["pool"] == name]


def _shown(material: Material) -> tuple[Source, ...]:
    return material.firsts[:MOST_PANELS]


def _polls(material: Material, source: Source) -> pd.DataFrame:
    frame = material.first_pods
    return frame[frame["variant"] == source.variant]


def _requests(material: Material, source: Source) -> pd.DataFrame:
    frame = material.requests
    mine = (frame["variant"] == source.variant) & (frame["seed"] == source.facts.seed)
    return frame[mine]


def _finish(
    axes: Sequence[Axes],
    material: Material,
    title: str,
    notes: Sequence[Notes],
    labels: Sequence[str] = (),
) -> None:
    """One title over all panels, the name of each, one label for their y axes."""
    runs = _shown(material)
    labels = labels or [shown(source.variant) for source in runs]
    told = [": ".join(filter(None, (name, *each.own))) for name, each in zip(labels, notes)]
    shared = dict.fromkeys(note for each in notes for note in each.shared)
    seeds = {source.facts.seed for source in material.sources}
    first = f"seed {runs[0].facts.seed} of {len(seeds)}" if len(seeds) > 1 else ""
    left = len(material.variants) - len(runs)
    unseen = f"{len(runs)} of {len(material.variants)} variants" if left else ""
    style.title(axes[0], title, first, unseen, *shared, panel=told[0])
    for ax, text in zip(axes[1:], told[1:]):
        style.panel_label(ax, text)
    style.share_labels(axes)
