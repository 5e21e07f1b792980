"""One function per figure: tables in, ``matplotlib`` Axes out.

``ax=None`` draws into a figure of its own: ``ax.figure.savefig`` writes it, and a
notebook shows ``ax.figure``. No function touches pyplot. The tables are those of
``Runs`` and ``RunResult``. ``sim.plots.catalogue`` puts whole figures together
for ``podsim plot`` and for reports.

The names below are resolved on first use, so that a list of figures costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sim.plots.cache import hit_rate_over_time
    from sim.plots.comparison import metric_by_variant, sweep_lines
    from sim.plots.latency import ttft_cdf, ttft_parts
    from sim.plots.placement import session_map, spills_by_reason
    from sim.plots.pods import kv_usage_over_time, load_over_time
    from sim.plots.pools import pool_timeline, residence
    from sim.plots.saving import as_bytes

__all__ = [
    "as_bytes",
    "hit_rate_over_time",
    "kv_usage_over_time",
    "load_over_time",
    "metric_by_variant",
    "pool_timeline",
    "residence",
    "session_map",
    "spills_by_reason",
    "sweep_lines",
    "ttft_cdf",
    "ttft_parts",
]

_HOMES = {
    "cache": ("hit_rate_over_time",),
    "comparison": ("metric_by_variant", "sweep_lines"),
    "latency": ("ttft_cdf", "ttft_parts"),
    "placement": ("session_map", "spills_by_reason"),
    "pods": ("kv_usage_over_time", "load_over_time"),
    "pools": ("pool_timeline", "residence"),
    "saving": ("as_bytes",),
}


def __getattr__(name: str) -> Any:
    for home, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"sim.plots.{home}"), name)
    raise AttributeError(f"module 'sim.plots' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
