"""The part of a run that a timeline shows, and the work of the pods in it."""

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from sim.core.ports import StepReport
from sim.core.units import parse_duration_s
from sim.results import arrow
from sim.results.arrow import Mask, Table
from sim.results.result import RunResult

US_PER_S: Final = 1e6


@dataclass(frozen=True)
class Excerpt:
    """The interval [start, end) of a run, in seconds; half-open like every window."""

    start_s: float
    end_s: float

    @staticmethod
    def parse(text: str) -> "Excerpt":
        """Read ``600s..11m``; raises ``ValueError`` that says what is wrong with it."""
        start, _, end = text.partition("..")
        try:
            excerpt = Excerpt(parse_duration_s(start), parse_duration_s(end))
        except ValueError:
            message = f"{text!r} is not START..END, two times with their units, as in 600s..11m"
            raise ValueError(message) from None
        if not 0.0 <= excerpt.start_s < excerpt.end_s:
            raise ValueError(f"{text!r} must begin at 0s or later, and before it ends")
        return excerpt

    def meets(self, start_s: float, end_s: float) -> bool:
        """Whether any of [start, end) lies in it, or the instant when both are one."""
        begun_by_then = start_s < self.end_s > self.start_s
        return begun_by_then and (end_s > self.start_s or start_s >= self.start_s)

    def rows(self, table: Table, start: str, end: str) -> Mask:
        """The rows of a table that meet it; what has no end is under way to the last."""
        starts_s = arrow.numbers(table, start)
        ends_s = np.nan_to_num(arrow.numbers(table, end), nan=np.inf)
        met = [self.meets(*interval_s) for interval_s in zip(starts_s.tolist(), ends_s.tolist())]
        return np.array(met, dtype=bool)

    def clipped_us(self, start_s: float, end_s: float) -> tuple[int, int]:
        """What of an interval lies in it, in whole microseconds; keeps order and nesting."""
        start_s, end_s = max(start_s, self.start_s), min(end_s, self.end_s)
        return round(start_s * US_PER_S), round(max(start_s, end_s) * US_PER_S)


class StepLog:
    """An observer of pods that keeps the steps of an excerpt."""

    def __init__(self, excerpt: Excerpt) -> None:
        self.excerpt = excerpt
        self.reports: list[StepReport] = []

    def stepped(self, report: StepReport) -> None:
        """A step or span is over."""
        if self.excerpt.meets(report.start_s, report.end_s):
            self.reports.append(report)


def shown(result: RunResult, log: StepLog, most_events: int) -> Excerpt:
    """The excerpt as far as the run has come, and as far as ``most_events`` events reach.

    Counted is what a request, a poll and a step can bring at most; what is
    under way when the excerpt begins counts there.
    """
    start_s = log.excerpt.start_s
    excerpt = replace(log.excerpt, end_s=max(start_s, min(log.excerpt.end_s, result.facts.end_s)))
    arrivals_s = arrow.numbers(result.tables.requests, "arrival_s")
    here = excerpt.rows(result.tables.requests, "arrival_s", "end_s")
    attempts = arrow.whole(result.tables.requests, "attempts")
    polls_s = arrow.numbers(result.tables.pods, "time_s")
    polls_s = polls_s[excerpt.rows(result.tables.pods, "time_s", "time_s")]
    pools_s = arrow.numbers(result.tables.pools, "start_s")
    pools_s = pools_s[excerpt.rows(result.tables.pools, "start_s", "end_s")]
    # A request: the time since the turn before, its turn, its track; an attempt: placement,
    # request and its three parts, its track. A step: itself and two times two counters. A row of
    # a pool: a swap with its three parts and whom it brought.
    counts = [
        *(3 + 6 * np.maximum(attempts[here], 1)),
        *np.ones(len(polls_s), dtype=np.int64),
        *np.full(len(pools_s), 5, dtype=np.int64),
        *(5 + len(report.chunks) + len(report.preempted) for report in log.reports),
    ]
    begins_s = [*arrivals_s[here], *polls_s, *pools_s, *(report.start_s for report in log.reports)]
    times_s = np.maximum(np.array(begins_s, dtype=np.float64), start_s)
    order = np.argsort(times_s, kind="stable")
    affordable = np.cumsum(np.array(counts, dtype=np.int64)[order]) <= most_events
    if affordable.all():
        return excerpt
    return replace(excerpt, end_s=min(excerpt.end_s, float(times_s[order][affordable.argmin()])))
