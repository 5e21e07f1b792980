"""What podsim predicts beside what somebody measured, and how far apart the two are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class MeasuredFigure:
    """One quantity. None: podsim has no answer, or nobody measured it.

    ``bound`` is the largest error that is allowed, as a ratio; None where the
    error is only reported.
    """

    what: str
    predicted: float | None
    measured: float | None
    bound: float | None = None

    @property
    def error(self) -> float | None:
        """Predicted over measured, less 1; None when either is missing or nothing was measured."""
        if self.predicted is None or not self.measured:
            return None
        return self.predicted / self.measured - 1.0

    @property
    def ok(self) -> bool:
        """Within its bound, if it has one."""
        return self.bound is None or (self.error is not None and abs(self.error) <= self.bound)


@dataclass(frozen=True)
class FigureTable:
    """Figures that belong together: one machine, one recording, one way to get step times.

    ``median_bound`` is the largest median of the errors that is allowed, as a
    ratio; ``notes`` say in words what no figure does.
    """

    name: str
    figures: tuple[MeasuredFigure, ...]
    median_bound: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def median(self) -> float | None:
        """Median of the sizes of the errors."""
        return self._percentile(50.0)

    @property
    def p95(self) -> float | None:
        """95th percentile of the sizes of the errors."""
        return self._percentile(95.0)

    @property
    def worst(self) -> float | None:
        """The largest of the sizes of the errors."""
        return self._percentile(100.0)

    @property
    def median_ok(self) -> bool:
        """The median is within its bound, if it has one."""
        if self.median_bound is None:
            return True
        return self.median is not None and self.median <= self.median_bound

    @property
    def bounded(self) -> int:
        """How many figures have a bound; that on the median is not counted."""
        return sum(figure.bound is not None for figure in self.figures)

    @property
    def out_of_bounds(self) -> int:
        """How many bounds do not hold."""
        return sum(not figure.ok for figure in self.figures) + (not self.median_ok)

    def _percentile(self, percent: float) -> float | None:
        sizes = [abs(figure.error) for figure in self.figures if figure.error is not None]
        return float(np.percentile(sizes, percent)) if sizes else None


def as_data(tables: Iterable[FigureTable]) -> list[dict[str, Any]]:
    """The tables as JSON can hold them; ``ok`` is None where nothing is bounded."""
    return [
        {
            "table": table.name,
            "notes": list(table.notes),
            "median_error": table.median,
            "p95_error": table.p95,
            "worst_error": table.worst,
            "median_bound": table.median_bound,
            "figures_bounded": table.bounded,
            "out_of_bounds": table.out_of_bounds,
            "ok": table.out_of_bounds == 0 if _judged(table) else None,
            "figures": [
                {
                    "what": figure.what,
                    "predicted": figure.predicted,
                    "measured": figure.measured,
                    "error": figure.error,
                    "bound": figure.bound,
                    "ok": figure.ok if figure.bound is not None else None,
                }
                for figure in table.figures
            ],
        }
        for table in tables
    ]


def _judged(table: FigureTable) -> bool:
    return table.bounded > 0 or table.median_bound is not None
