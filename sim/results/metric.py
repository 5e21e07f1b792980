"""What a figure is: the form in which each of them is declared."""

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final, Literal, TypeAlias

from sim.core.stats import PERCENTILE_METHOD

Direction: TypeAlias = Literal["up", "down", "none"]

_LATENCY: Final = ("mean", "p50", "p90", "p95", "p99")
_MIDDLE: Final = ("mean", "p50", "p95")

DISTRIBUTIONS: Final[dict[str, tuple[str, ...]]] = {
    "ttft_s": _LATENCY,
    "tpot_s": _LATENCY,
    "e2e_s": _LATENCY,
    "queue_s": _LATENCY,
    "stream_tokens_per_s": ("p50", "p5"),
    "prompt_tokens": _MIDDLE,
    "kv_usage": ("mean", "p95"),
    "session_s": ("p50", "p95"),
}
"""Which figures of which quantity a summary holds; ``p5`` is the fifth percentile."""


@dataclass(frozen=True)
class Metric:
    """One figure: where it stands in the summary (keys joined by dots) and what it says.

    ``better`` is the direction of improvement and ``margin`` the relative
    difference up to which two sets of runs count as equal. So they do up to a
    difference of ``floor``, in the metric's unit: a tenth of a millisecond's
    queue matters to nobody, and of zero there is no share. The ``primary``
    metrics are those that decide a comparison. A ``*`` in a key stands for any name of the
    run: a workload, a member of a pool; at its end for any names, of which one
    that is missing means 0.
    """

    key: str
    unit: str
    better: Direction
    margin: float
    definition: str
    primary: bool = False
    floor: float = 0.0

    def covers(self, key: str) -> bool:
        """Whether ``key`` is this figure, or one of those that it stands for."""
        if "*" not in self.key:
            return key == self.key
        as_long = self.is_family or key.count(".") == self.key.count(".")
        return as_long and fnmatchcase(key, self.key)

    @property
    def is_family(self) -> bool:
        """Whether a missing name means 0."""
        return self.key.endswith(".*")


def spread(
    quantity: str,
    unit: str,
    better: Direction,
    margin: float,
    definition: str,
    figures: tuple[str, ...] = (),
    *,
    primary: tuple[str, ...] = (),
    floor: float = 0.0,
) -> tuple[Metric, ...]:
    """The figures of one quantity: its mean and percentiles, those of ``DISTRIBUTIONS`` if not
    ``figures``; of these the ``primary`` ones.
    """

    def wording(figure: str) -> str:
        if figure == "mean":
            return f"mean of {definition}; over those observed, null when the p95 is censored"
        return f"{figure[1:]}th percentile ({PERCENTILE_METHOD}) of {definition}"

    return tuple(
        Metric(
            f"{quantity}.{figure}",
            unit,
            better,
            margin,
            wording(figure),
            primary=figure in primary,
            floor=floor,
        )
        for figure in figures or DISTRIBUTIONS[quantity]
    )
