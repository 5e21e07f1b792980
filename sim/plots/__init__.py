"""One function per figure: tables in, ``matplotlib`` Axes out.

``ax=None`` draws into a figure of its own: ``ax.figure.savefig`` writes it, and a
notebook shows ``ax.figure``. No function touches pyplot. The tables are those of
``Runs`` and ``RunResult``. ``sim.plots.catalogue`` puts whole figures together
for ``podsim plot`` and for reports; ``FIGURES`` are their names.

The functions are resolved on first use, so that a list of figures costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sim.plots.comparison import metric_by_variant, sweep_lines
    from sim.plots.latency import ttft_cdf, ttft_parts
    from sim.plots.overtime import hit_rate_over_time, kv_usage_over_time, load_over_time
    from sim.plots.placement import session_map, spills_by_reason
    from sim.plots.pools import pool_timeline, residence
    from sim.plots.style import as_bytes

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

_HOMES: Final = ("comparison", "latency", "overtime", "placement", "pools", "style")

FIGURES: Final[dict[str, str]] = {
    "ttft-cdf": "distribution of the time to first token, by variant",
    "metrics": "headline figures by variant, with intervals over the seeds",
    "hit-rate-over-time": "cached share of prompt tokens over time, by variant",
    "load-over-time": "requests in flight on each pod over time",
    "kv-usage-over-time": "share of the KV blocks in use on each pod over time",
    "spills-by-reason": "placements away from a session's home, by reason and variant",
    "session-map": "which pod each session was sent to, over time",
    "pool-timeline": "which member of a pool was in memory, over time, and who waited",
}
"""What ``podsim plot`` draws, in the order in which it is worth looking at, and what each shows."""


def __getattr__(name: str) -> Any:
    for module in (import_module(f"sim.plots.{home}") for home in _HOMES if name in __all__):
        if name in vars(module):
            return getattr(module, name)
    raise AttributeError(f"module 'sim.plots' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
