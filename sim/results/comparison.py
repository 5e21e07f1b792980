"""Variants side by side over seeds: one value per run, then means and t intervals.

A percentile of many seeds is the mean of the runs' percentiles, with its
interval; it is not the percentile of all their requests, and values are never
averaged over pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final, Protocol

from sim.core.stats import t_interval
from sim.results.metrics import flatten, metric

NOT_COMPARED: Final = ("pod_requests.", "samples.")
"""A pod's number means nothing across variants and seeds; sizes of samples are no figures."""


class Summarised(Protocol):
    """As much of a ``RunResult`` as a comparison looks at."""

    @property
    def variant(self) -> str:
        """Name of the variant."""

    @property
    def summary(self) -> dict[str, Any]:
        """Its figures."""


def compare_variants(results: Sequence[Summarised]) -> dict[str, dict[str, dict[str, Any]]]:
    """``{metric: {variant: {mean, low, high, n}}}`` with 95 % t intervals over the seeds.

    Metrics are summary keys joined by dots. A value that is null in a run is
    left out and lowers ``n``; without two values there is no interval.
    Variants and metrics keep the order of ``results``.
    """
    runs: dict[str, list[dict[str, float | None]]] = {}
    for result in results:
        runs.setdefault(result.variant, []).append(dict(flatten(result.summary)))
    everything = [figures for variant in runs.values() for figures in variant]
    return {
        key: {
            variant: asdict(t_interval(_values(key, figures))) for variant, figures in runs.items()
        }
        for key in figure_keys(everything)
        if not key.startswith(NOT_COMPARED)
    }


def figure_keys(runs: Iterable[Mapping[str, float | None]]) -> list[str]:
    """Every figure of any run; members of a family that only some runs have stand with their kin.

    Runs may differ in their families (an outcome that occurred only here), so
    the order is that of the declarations, not that of any one run. Raises
    ``KeyError`` for a figure that is not declared.
    """
    families: dict[str, set[str]] = {}
    for figures in runs:
        for key in figures:
            families.setdefault(metric(key).key, set()).add(key)
    return [key for members in families.values() for key in sorted(members)]


def figure_value(key: str, figures: Mapping[str, float | None]) -> float | None:
    """A figure of a run, null when unknown; a name that is missing from a family counts 0."""
    return figures.get(key, 0.0 if metric(key).is_family else None)


def _values(key: str, runs: Iterable[Mapping[str, float | None]]) -> list[float]:
    values = (figure_value(key, figures) for figures in runs)
    return [float(value) for value in values if value is not None]
