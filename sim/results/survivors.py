"""Whom a figure is not of: requests that were refused, that broke off or whose client gave up.

A percentile over those that were served flatters whoever serves fewest. So a
figure over them is never read without the share that it leaves out: it is said
above ``WORTH_SAYING``, and a target of time is missed where more went unserved
than the percentile leaves room for, as if each of them had been infinitely late.
An unserved request misses objectives in ``slo_attainment`` as well, whatever it
had got before.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from sim.core.stats import is_beyond
from sim.results.metrics import metric

Figures = Mapping[str, float | None]

WORTH_SAYING: Final = 0.01
"""Share left out above which a reader is told."""
LATE: Final = "late"
LATE_MEANS: Final = (
    "beyond the end of the run under some seed: too many requests were still on their way, so that "
    "it is larger than any number seen"
)
REFUSED: Final = "were refused, broke off or gave up"
OF_REQUESTS: Final = ("ttft_s", "tpot_s", "e2e_s", "queue_s", "stream_tokens_per_s", "session_s")
"""Quantities of requests, and of the sessions that they make up."""
MEAN_LIKE: Final = 95.0
"""A mean is withheld where the 95th percentile is, see ``sim.core.stats.Sample.mean``."""


@dataclass(frozen=True)
class Behind:
    """What a figure is of: how many in all, of them those not served and those on their way."""

    total: float
    unserved: float
    censored: float = 0.0

    @property
    def left_out(self) -> float:
        """The share that was not served."""
        return self.unserved / self.total if self.total else 0.0

    def hides(self, figure: str) -> bool:
        """Whether ``p95``, ``mean`` and so on would be among the unserved and the late.

        Of a speed, of which they have none, ``p5`` is the figure of the slowest.
        """
        percent = MEAN_LIKE if figure == "mean" else float(figure[1:])
        unknown = round(self.censored + self.unserved)
        known = round(self.total) - unknown
        return self.unserved > 0 and is_beyond(max(percent, 100.0 - percent), known, unknown)


def behind(key: str, figures: Figures) -> Behind | None:
    """What the figure ``key`` of a run is of; None for what is not over those served."""
    owner, _, quantity = key.rpartition(".")[0].rpartition(".")
    inside = f"{owner}." if owner else ""

    def of(name: str) -> float:
        return figures.get(f"{inside}{name}") or 0.0

    if quantity in OF_REQUESTS and (not owner or owner.startswith("by_workload.")):
        requests = of("requests")
        unserved = of("error_ratio") * requests + of("requests_cancelled")
        return Behind(requests, min(requests, unserved), of(f"samples.{quantity}.censored"))
    if quantity == "hold_s":
        held = of("holds.waited")
        turned_away = _sum(figures, f"{inside}holds.by_result.") - of("holds.by_result.granted")
        return Behind(held, min(held, turned_away), of("holds.censored"))
    if quantity == "swap_s" and f"{inside}swaps.total" in figures:
        failed = _sum(figures, f"{inside}swap_failures.")
        return Behind(of("swaps.total") + failed, failed)
    return None


def left_out(key: str, runs: Iterable[Figures]) -> float:
    """The mean share that a figure leaves out over some runs; 0 for what is not over the served."""
    found = [each.left_out for figures in runs if (each := behind(key, figures)) is not None]
    return sum(found) / len(found) if found else 0.0


def _sum(figures: Figures, prefix: str) -> float:
    return sum(value or 0.0 for key, value in figures.items() if key.startswith(prefix))


def is_late(key: str, summary: Figures) -> bool:
    """Whether a figure is null because requests or holds were still on their way at the end.

    Only what is better when it is smaller is a time that goes on.
    """
    if metric(key).better != "down" or key.count(".") == 0:
        return False
    owner, _, quantity = key.rpartition(".")[0].rpartition(".")
    if not owner:
        return _count(summary, f"samples.{quantity}.censored") > 0
    if owner.startswith("by_workload."):
        return _in_flight(owner, summary) > 0
    if owner.startswith("pool.") and quantity == "hold_s":
        return _count(summary, f"{owner}.holds.censored") > 0
    return False


def _in_flight(workload: str, summary: Figures) -> int:
    """Requests of a workload that were neither answered nor given up: the rest of its counts."""
    requests = _count(summary, f"{workload}.requests")
    errors = requests * _count(summary, f"{workload}.error_ratio")
    over = sum(
        _count(summary, f"{workload}.{counted}")
        for counted in ("requests_completed", "requests_cancelled")
    )
    return round(requests - errors - over)


def _count(summary: Figures, key: str) -> float:
    return summary.get(key) or 0.0
