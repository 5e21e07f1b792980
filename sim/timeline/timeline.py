"""A timeline of an excerpt of a run: what it covers, where it goes, and its events."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from sim.core.errors import UserError
from sim.core.ports import StepReport
from sim.core.units import parse_duration_s
from sim.results import arrow
from sim.results.arrow import Mask, Table
from sim.results.result import RunResult
from sim.scenario.schema import Scenario, Window
from sim.timeline.chrome_trace import Trace, check_writable, path_of_run
from sim.timeline.requests import Requests, draw_attempts, draw_placements, draw_turns
from sim.timeline.tracks import RequestWork, draw_polls, draw_pools, draw_steps, swap_elsewhere_s

DEFAULT_S: Final = 60.0
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


MOST_EVENTS: Final = 100_000
"""About 20 MB, which viewers open in a second or two."""


@dataclass(frozen=True)
class Timeline:
    """A finished timeline: its text, what of the run it shows, how many events it has.

    ``cut`` says that it ends early because there would be too many events,
    ``swap_elsewhere_s`` when a pool begins a swap, if none is shown.
    """

    text: str
    excerpt: Excerpt
    events: int
    cut: bool
    swap_elsewhere_s: float | None


def timeline(result: RunResult, log: StepLog, most_events: int = MOST_EVENTS) -> Timeline:
    """Draw what ``log`` has kept of a run's pods and the tables of its result."""
    excerpt = shown(result, log, most_events)
    trace = Trace()
    requests = Requests(result, excerpt)
    draw_turns(trace, requests, result, excerpt)
    router = trace.process("router")
    draw_placements(trace, requests, router, excerpt)
    draw_pools(trace, result, excerpt)
    pods = {pod: trace.process(pod) for pod in result.facts.pods}
    reports = [
        report._replace(end_s=min(report.end_s, result.facts.end_s))
        for report in log.reports
        if excerpt.meets(report.start_s, report.end_s)
    ]
    for pod, process in pods.items():
        draw_steps(trace, process, [report for report in reports if report.pod == pod], excerpt)
    draw_attempts(trace, requests, pods, RequestWork(reports), excerpt)
    draw_polls(trace, pods, result, excerpt)
    about = {
        "scenario": result.facts.scenario,
        "variant": result.variant,
        "seed": result.seed,
        "digest": result.digest,
        "start_s": excerpt.start_s,
        "end_s": excerpt.end_s,
    }
    cut = excerpt.end_s < min(log.excerpt.end_s, result.facts.end_s)
    elsewhere_s = swap_elsewhere_s(result, excerpt)
    return Timeline(trace.rendered(about), excerpt, trace.events, cut, elsewhere_s)


@dataclass(frozen=True)
class Plan:
    """The timeline of one run: where it goes, what of the run it shows."""

    path: Path
    excerpt: Excerpt


def plans(path: Path, excerpt: Excerpt | None, runs: Sequence[tuple[Scenario, int]]) -> list[Plan]:
    """The timelines of runs (scenario and seed): ``path`` for one run, else a file beside it each.

    Without ``excerpt`` a timeline shows the first minute of the measured
    window. Raises ``UserError`` for a file that cannot be written, and for an
    excerpt that begins when a run has ended.
    """
    planned = []
    for scenario, seed in runs:
        window = scenario.window
        start_s = window.warmup
        shown = excerpt or Excerpt(start_s, start_s + DEFAULT_S)
        end_s = _known_end_s(window)
        if end_s is not None and shown.start_s >= end_s:
            variant = f" of {scenario.variant}" if scenario.variant else ""
            raise UserError(
                f"the timeline would begin at {shown.start_s:g} s, but the run{variant} ends at "
                f"{end_s:g} s"
            )
        target = path if len(runs) == 1 else path_of_run(path, scenario.variant, seed)
        check_writable(target)
        planned.append(Plan(target, shown))
    return planned


def _known_end_s(window: Window) -> float | None:
    """When a run ends for sure; None when it goes on until its requests are over."""
    if window.measure is None or window.drain:
        return None
    return window.warmup + window.measure
