"""Tables as figures read them: by variant and seed, within the window, in bins of time."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import pandas as pd

from sim.core.stats import Floats

Span = tuple[float, float]
"""From and to, seconds; the end is outside, and may be infinite."""
ONE_VARIANT: Final = "base"
"""What a scenario without variants is called, as in the store."""
MOST_SEEDS: Final = 10
"""Runs of a variant that are drawn beside their mean; more would be a blur."""
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
    """The variants as given, else in the order of the rows; '' without such a column."""
    if variants is not None:
        return list(variants)
    return [str(name) for name in frame["variant"].unique()] if "variant" in frame else [""]


def runs_of(frame: pd.DataFrame, variant: str) -> dict[int, pd.DataFrame]:
    """The rows of each run of a variant by its seed, in the order of the rows."""
    if "variant" in frame:
        frame = frame[frame["variant"] == variant]
    if "seed" not in frame:
        return {0: frame}
    return {int(seed): frame[frame["seed"] == seed] for seed in frame["seed"].unique()}


def first_run(
    frame: pd.DataFrame, variant: str | None = None, seed: int | None = None
) -> tuple[pd.DataFrame, str]:
    """The rows of one run, the first unless it is named, and its name in words."""
    chosen = next(iter(variants_of(frame)), "") if variant is None else variant
    runs = runs_of(frame, chosen)
    if not len(frame) or not runs:
        return frame.iloc[:0], ""
    number = next(iter(runs)) if seed is None else seed
    words = [chosen] if chosen else []
    words += [f"seed {number}"] if "seed" in frame else []
    return runs.get(number, frame.iloc[:0]), ", ".join(words)


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


def window_in_words(what: str, window_s: Span | None) -> str:
    """Which of ``what`` are counted; '' when all are."""
    start_s, end_s = window_s or (0.0, np.inf)
    if np.isinf(end_s):
        return f"{what} from {start_s:,g} s on" if start_s > 0.0 else ""
    return f"{what} from {start_s:,g} s to {end_s:,g} s"


def mean_in_words(seeds: int, of: str = "") -> str:
    """What lines over several seeds are; '' of one."""
    each = ", thin: each seed" if seeds <= MOST_SEEDS else ""
    return f"mean of {of}{seeds} seeds{each}" if seeds > 1 else ""


def bin_width_s(span_s: float, most: int) -> float:
    """The shortest round width of which ``most`` cover a span."""
    return float(next((width for width in _NICE_S if width * most >= span_s), span_s / most))


def bin_starts(end_s: float, width_s: float) -> Floats:
    """The starts of bins [a, b) from 0 to that in which ``end_s`` lies."""
    return np.arange(int(end_s // width_s) + 1, dtype=np.float64) * width_s
