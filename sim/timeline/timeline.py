"""A run as one trace: its sessions, its router and each pod."""

from dataclasses import dataclass
from typing import Final

from sim.results.result import RunResult
from sim.timeline.excerpt import Excerpt, StepLog, shown
from sim.timeline.pods import RequestWork, draw_polls, draw_steps
from sim.timeline.pools import draw_pools, swap_elsewhere_s
from sim.timeline.requests import Requests, draw_attempts, draw_placements, draw_turns
from sim.timeline.trace import Trace

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
