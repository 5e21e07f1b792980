"""Tables as figures read them: by variant and seed, within the window, in bins of time."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import pandas as pd

from sim.core.stats import Floats

Span = tuple[float, float]
"""From and to, seconds; the end is outside, and may be infinite."""
ONE_VARIANT: Final = "base"
"""What a scenario without variants is called, as in the store."""
_NICE_S: Final = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200)


REQUESTS: Final = "the table of requests (runs.requests)"
PLACEMENTS: Final = "the table of placements (runs.placements)"
PODS: Final = "the table of polls (runs.pods)"
POOLS: Final = "the table of pools (runs.pools)"
RESIDENCE: Final = "who was in memory when (sim.plots.residence(run.facts))"
SWEEP: Final = "the table of a sweep (sim.sweep.run(...).table)"


def check_table(given: object, needed: str, *columns: str) -> None:
    """Raises ``TypeError`` for what is no table, ``ValueError`` for one without these columns."""
    if not isinstance(given, pd.DataFrame):
        raise TypeError(f"needs {needed}; got {type(given).__name__}")
    missing = [column for column in columns if column not in given]
    if missing:
        raise ValueError(f"needs {needed}: no column {', '.join(missing)}")


def variants_of(frame: pd.DataFrame, variants: Sequence[str] | None = None) -> list[str]:
    """The variants in the order given, else in that of the rows; '' where a table has no such
    column."""
    if variants is not None:
        return list(variants)
    if "variant" not in frame:
        return [""]
    return [str(name) for name in frame["variant"].unique()]


def runs_of(frame: pd.DataFrame, variant: str) -> Iterator[tuple[int, pd.DataFrame]]:
    """The rows of each run of a variant with its seed, in the order of the rows."""
    if "variant" in frame:
        frame = frame[frame["variant"] == variant]
    if "seed" not in frame:
        yield 0, frame
        return
    for seed in frame["seed"].unique():
        yield int(seed), frame[frame["seed"] == seed]


def first_run(
    frame: pd.DataFrame, variant: str | None = None, seed: int | None = None
) -> tuple[pd.DataFrame, str]:
    """The rows of one run, the first unless it is named, and in words which of how many it is."""
    if not len(frame):
        return frame, ""
    chosen = variants_of(frame)[0] if variant is None else variant
    runs = dict(runs_of(frame, chosen))
    if not runs:
        return frame.iloc[:0], ""
    number = next(iter(runs)) if seed is None else seed
    told = [chosen] if chosen else []
    told += [f"seed {number}"] if "seed" in frame else []
    return runs.get(number, frame.iloc[:0]), ", ".join(told)


def shown(variant: str) -> str:
    """A variant as a legend names it."""
    return variant or ONE_VARIANT


def numbers(frame: pd.DataFrame, column: str) -> Floats:
    """A column as floats; null is NaN."""
    return frame[column].to_numpy(dtype=np.float64, na_value=np.nan)


def within(frame: pd.DataFrame, column: str, window_s: Span | None) -> pd.DataFrame:
    """The rows whose time lies in the window; all without one."""
    if window_s is None:
        return frame
    times_s = numbers(frame, column)
    return frame[(times_s >= window_s[0]) & (times_s < window_s[1])]


def window_told(window_s: Span | None) -> str:
    """The window in words, '' without one."""
    if window_s is None:
        return ""
    start_s, end_s = window_s
    if np.isinf(end_s):
        return f"arrivals from {start_s:,g} s on" if start_s > 0.0 else ""
    return f"arrivals from {start_s:,g} s to {end_s:,g} s"


def bin_width_s(span_s: float, most: int) -> float:
    """The shortest round width of which ``most`` cover a span."""
    return float(next((width for width in _NICE_S if width * most >= span_s), span_s / most))


def bin_edges(end_s: float, most: int) -> Floats:
    """Edges of bins [a, b) of round width from 0 to the first after ``end_s``."""
    width_s = bin_width_s(end_s, most)
    bins = int(end_s // width_s) + 1
    return np.arange(bins + 1, dtype=np.float64) * width_s


def bin_sums(times_s: Floats, values: Floats, edges_s: Floats) -> Floats:
    """Sum of the values in each bin; times outside all of them are left out."""
    inside = (times_s >= edges_s[0]) & (times_s < edges_s[-1])
    at = np.searchsorted(edges_s, times_s[inside], side="right") - 1
    return np.bincount(at, values[inside], len(edges_s) - 1).astype(np.float64)


def quotient(parts: Floats, wholes: Floats) -> Floats:
    """Part / whole in each place; NaN of nothing."""
    found = np.full(len(wholes), np.nan)
    np.divide(parts, wholes, out=found, where=wholes > 0.0)
    return found


def mean_of(curves: Sequence[Floats]) -> Floats:
    """The mean of what is known in each place; NaN where nothing is."""
    stacked = np.vstack(curves)
    known = ~np.isnan(stacked)
    return quotient(np.where(known, stacked, 0.0).sum(axis=0), known.sum(axis=0).astype(np.float64))
