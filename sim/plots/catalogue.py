"""The figures of a set of runs: which say something of them, and each drawn as a whole."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.plots import style
from sim.plots.cache import hit_rate_over_time
from sim.plots.comparison import HEADLINES, draw_metric
from sim.plots.frames import shown
from sim.plots.latency import ttft_cdf
from sim.plots.material import Material, Source
from sim.plots.names import FIGURES
from sim.plots.placement import (
    draw_sessions,
    has_home,
    pod_patches,
    pods_of,
    session_turns,
    spills_by_reason,
)
from sim.plots.pods import draw_kv_usage, draw_load, highest
from sim.plots.pools import draw_pool, pool_patches, residence
from sim.results import arrow

MOST_PANELS: Final = 6
"""Variants that are drawn below each other in one figure."""


@dataclass(frozen=True)
class Kind:
    """A figure of the catalogue.

    ``says`` tells whether it says anything of some runs, ``lacks`` what is
    missing if not; ``draw`` makes it, of a width in inches.
    """

    name: str
    lacks: str
    says: Callable[[Material], bool]
    draw: Callable[[Material, float], Figure]

    @property
    def about(self) -> str:
        """One line for people."""
        return FIGURES[self.name]


def sayings(material: Material) -> list[Kind]:
    """The figures that say something of these runs, in the order of the catalogue."""
    return [kind for kind in CATALOGUE.values() if kind.says(material)]


def _figure(ax: Axes) -> Figure:
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def _ttft_cdf(material: Material, width_in: float) -> Figure:
    ax = style.own_axes(width_in)
    ttft_cdf(material.requests, window_s=material.window_s, variants=material.variants, ax=ax)
    return _figure(ax)


def _hit_rate(material: Material, width_in: float) -> Figure:
    ax = style.own_axes(width_in)
    hit_rate_over_time(
        material.placements, window_s=material.window_s, variants=material.variants, ax=ax
    )
    return _figure(ax)


def _has_hits(material: Material) -> bool:
    """Whether any prompt was ever in a cache: a line at 0 needs no figure."""
    return bool((material.placements["cached_tokens"] > 0).any())


def _spills(material: Material, width_in: float) -> Figure:
    ax = style.own_axes(width_in, 2.0 + 0.42 * len(material.variants))
    spills_by_reason(
        material.placements, window_s=material.window_s, variants=material.variants, ax=ax
    )
    return _figure(ax)


def _metrics(material: Material, width_in: float) -> Figure:
    keys = _headlines(material)
    each_in = 0.62 + 0.24 * len(material.variants)
    figure = Figure(figsize=(width_in, 0.8 + each_in * len(keys)), layout="constrained")
    seeds = 0
    for at, key in enumerate(keys):
        ax = figure.add_subplot(len(keys), 1, at + 1)
        seeds = max(seeds, draw_metric(ax, material.comparison[key], key, list(material.variants)))
        if at == 0:
            counted = f"mean and 95 % t interval of {seeds} seeds" if seeds > 1 else "one seed"
            style.title(ax, "Variants side by side", counted)
    return figure


def _headlines(material: Material) -> list[str]:
    """The headline figures that any run knows and that are not 0 in all of them."""
    found = material.comparison
    return [
        key
        for key in HEADLINES
        if key in found and any(value["mean"] for value in found[key].values())
    ]


def _panels(
    material: Material,
    width_in: float,
    title: str,
    each_in: float,
    draw: Callable[[Axes, Source], list[str]],
) -> list[Axes]:
    """A panel for the first run of each variant, one title over all."""
    firsts = material.firsts[:MOST_PANELS]
    axes = style.panels(len(firsts), each_in, width_in)
    notes: list[str] = []
    for ax, source in zip(axes, firsts):
        notes += [note for note in draw(ax, source) if note not in notes]
        ax.label_outer()
    seeds = {source.facts.seed for source in material.sources}
    if len(seeds) > 1:
        notes.insert(0, f"seed {firsts[0].facts.seed} of {len(seeds)}")
    if len(firsts) < len(material.variants):
        notes.append(f"the first {len(firsts)} of {len(material.variants)} variants")
    several = len(firsts) > 1
    style.title(axes[0], title, *notes, panel=shown(firsts[0].variant) if several else "")
    for ax, source in zip(axes[1:], firsts[1:]):
        style.panel_label(ax, shown(source.variant))
    return axes


def _load(material: Material, width_in: float) -> Figure:
    frame = material.first_pods
    rows = {each.variant: frame[frame["variant"] == each.variant] for each in material.firsts}
    most = highest(list(rows.values()), "in_flight")
    axes = _panels(
        *(material, width_in, "Requests in flight on each pod", 1.75),
        lambda ax, source: draw_load(ax, rows[source.variant], material.window_s, most),
    )
    style.legend(axes[-1])
    return _figure(axes[0])


def _kv_usage(material: Material, width_in: float) -> Figure:
    frame = material.first_pods
    axes = _panels(
        *(material, width_in, "KV blocks held by requests", 1.6),
        lambda ax, source: draw_kv_usage(
            ax, frame[frame["variant"] == source.variant], material.window_s
        ),
    )
    style.legend(axes[-1])
    return _figure(axes[0])


def _sessions(material: Material, width_in: float) -> Figure:
    requests = material.requests
    first = {each.variant: each.facts.seed for each in material.firsts}
    rows = {
        variant: requests[(requests["variant"] == variant) & (requests["seed"] == seed)]
        for variant, seed in first.items()
    }
    pods = pods_of(requests)
    axes = _panels(
        *(material, width_in, "Where each session was sent", 2.6),
        lambda ax, source: draw_sessions(ax, rows[source.variant], material.window_s, pods),
    )
    style.legend(axes[-1], pod_patches(pods))
    return _figure(axes[0])


def _pools(material: Material, width_in: float) -> Figure:
    """A panel for each variant of the first pool; its members keep their rows and colours."""
    pool, members = next(iter(material.firsts[0].facts.pools.items()))

    def draw(ax: Axes, source: Source) -> list[str]:
        table = arrow.data_frame(source.table("pools"))
        stays = residence(source.facts)
        return draw_pool(
            ax,
            table[table["pool"] == pool],
            stays[stays["pool"] == pool],
            list(members),
            None,
            material.window_s,
        )

    axes = _panels(material, width_in, f"Who was in memory: pool {pool}", 1.6, draw)
    style.legend(axes[-1], pool_patches(list(members)))
    return _figure(axes[0])


CATALOGUE: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("ttft-cdf", "no requests", lambda of: len(of.requests) > 0, _ttft_cdf),
        Kind("metrics", "no figure is known", lambda of: bool(_headlines(of)), _metrics),
        Kind("hit-rate-over-time", "no prompt was ever in a cache", _has_hits, _hit_rate),
        Kind("load-over-time", "no polls", lambda of: len(of.first_pods) > 0, _load),
        Kind("kv-usage-over-time", "no polls", lambda of: len(of.first_pods) > 0, _kv_usage),
        Kind(
            "spills-by-reason", "no policy has a home", lambda of: has_home(of.placements), _spills
        ),
        Kind(
            "session-map",
            "no session has two turns",
            lambda of: session_turns(of.requests),
            _sessions,
        ),
        Kind("pool-timeline", "no pools", lambda of: bool(of.firsts[0].facts.pools), _pools),
    )
}
"""Every figure by its name."""
