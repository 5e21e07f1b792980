"""Progress on stderr: simulated time, speed and time left, for all runs together."""

import math
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sim.run import Progress


class Pace:
    """How far a set of runs has come, from the reports of its runs in any order."""

    def __init__(self) -> None:
        self._latest: dict[int, Progress] = {}

    def note(self, report: "Progress") -> None:
        """Take in a report; the latest one of each run counts."""
        self._latest[report.run_index] = report

    @property
    def simulated_s(self) -> float:
        """Simulated seconds so far, summed over the runs."""
        return sum(report.now_s for report in self._latest.values())

    @property
    def fraction(self) -> float | None:
        """Part of the work that is done, from 0 to 1; None while no end is known."""
        if not self._latest:
            return None
        runs_total = next(iter(self._latest.values())).runs_total
        if any(math.isinf(report.horizon_s) for report in self._latest.values()):
            return None
        done = sum(report.now_s / report.horizon_s for report in self._latest.values())
        return min(1.0, done / runs_total)

    def figures(self, elapsed_s: float) -> str:
        """The numbers beside the bar after ``elapsed_s`` seconds of wall-clock time."""
        parts = [f"{self.simulated_s:,.0f} s simulated"]
        if elapsed_s > 0:
            parts.append(f"{self.simulated_s / elapsed_s:,.0f} x real time")
        fraction = self.fraction
        if fraction:
            parts.append(f"{elapsed_s * (1 - fraction) / fraction:,.0f} s left")
        return ", ".join(parts)


@contextmanager
def progress_bar() -> Iterator[Callable[["Progress"], None] | None]:
    """A callback that draws progress while stderr is a terminal; None when it is not."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (BarColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=None)
        pace = Pace()
        began_s = time.perf_counter()

        def draw(report: "Progress") -> None:
            pace.note(report)
            fraction = pace.fraction
            bar.update(
                task,
                total=None if fraction is None else 1.0,
                completed=fraction or 0.0,
                description=pace.figures(time.perf_counter() - began_s),
            )

        yield draw
