"""The figures of a set of runs: which say something of them, and each drawn as a whole."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from sim.plots import panels, style
from sim.plots.cache import hit_rate_over_time
from sim.plots.comparison import HEADLINES, draw_metric
from sim.plots.latency import ttft_cdf
from sim.plots.material import Material
from sim.plots.names import FIGURES
from sim.plots.placement import has_home, sessions_may_move, spills_by_reason
from sim.plots.saving import Drawing

NOT_FROM_0: Final = "scales cover the values and need not begin at 0"


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


def telling(material: Material) -> list[Kind]:
    """The figures that say something of these runs, in the order of the catalogue."""
    return [kind for kind in CATALOGUE.values() if kind.says(material)]


def _axes(material: Material, width_in: float) -> Axes:
    """Axes in a figure of their own, with room for a legend of all variants."""
    return style.own_axes(width_in, style.HEIGHT_IN + 0.1 * max(0, len(material.variants) - 3))


def _ttft_cdf(material: Material, width_in: float) -> Figure:
    ax = _axes(material, width_in)
    ttft_cdf(material.requests, window_s=material.window_s, variants=material.variants, ax=ax)
    return style.figure_of(ax)


def _hit_rate(material: Material, width_in: float) -> Figure:
    ax = _axes(material, width_in)
    hit_rate_over_time(
        material.placements, window_s=material.window_s, variants=material.variants, ax=ax
    )
    return style.figure_of(ax)


def _any_hit(material: Material) -> bool:
    """Whether any prompt was ever in a cache: a line at 0 needs no figure."""
    return bool((material.placements["cached_tokens"] > 0).any())


def _spills(material: Material, width_in: float) -> Figure:
    ax = style.own_axes(width_in, 2.0 + 0.42 * len(material.variants))
    spills_by_reason(
        material.placements, window_s=material.window_s, variants=material.variants, ax=ax
    )
    return style.figure_of(ax)


def _metrics(material: Material, width_in: float) -> Figure:
    found, variants, keys = material.comparison, list(material.variants), _headlines(material)
    each_in = 0.62 + 0.3 * len(variants)
    figure = Drawing(figsize=(width_in, 0.8 + each_in * len(keys)), layout="constrained")
    axes = [figure.add_subplot(len(keys), 1, at + 1) for at in range(len(keys))]
    seeds = max(draw_metric(ax, found[key], key, variants) for ax, key in zip(axes, keys))
    counted = f"mean and 95 % t interval of {seeds} seeds" if seeds > 1 else "one seed"
    style.title(axes[0], "Variants side by side", counted, NOT_FROM_0 if seeds > 1 else "")
    return figure


def _headlines(material: Material) -> list[str]:
    """The headline figures that any run knows and that are not 0 in all of them."""
    found = material.comparison
    return [
        key
        for key in HEADLINES
        if key in found and any(value["mean"] for value in found[key].values())
    ]


CATALOGUE: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind("ttft-cdf", "no requests", lambda of: len(of.requests) > 0, _ttft_cdf),
        Kind("metrics", "no headline is known", lambda of: bool(_headlines(of)), _metrics),
        Kind("hit-rate-over-time", "no prompt was ever in a cache", _any_hit, _hit_rate),
        Kind("load-over-time", "no polls", lambda of: len(of.first_pods) > 0, panels.load),
        Kind("kv-usage-over-time", "no polls", lambda of: len(of.first_pods) > 0, panels.kv_usage),
        Kind("spills-by-reason", "no homes", lambda of: has_home(of.placements), _spills),
        Kind(
            "session-map",
            "no sessions that could be on several pods",
            lambda of: sessions_may_move(of.requests),
            panels.sessions,
        ),
        Kind(
            "pool-timeline",
            "no pools",
            lambda of: any(source.facts.pools for source in of.firsts),
            panels.pools,
        ),
    )
}
"""Every figure by its name."""
