"""A timeline of an excerpt of a run: what it covers, its events, and the file it goes to."""

import gzip
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.core.errors import UserError
from sim.results.result import RunResult
from sim.results.unfinished import make_beside, make_file, write_whole
from sim.scenario.schema import Scenario, Window
from sim.timeline.chrome_trace import Trace
from sim.timeline.excerpt import Excerpt, StepLog, shown
from sim.timeline.requests import Requests, draw_attempts, draw_placements, draw_turns
from sim.timeline.tracks import RequestWork, draw_polls, draw_pools, draw_steps, swap_elsewhere_s

DEFAULT_S: Final = 60.0
US_PER_S: Final = 1e6

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
        several = len(runs) > 1 and not path.is_dir()  # a folder is refused under its own name
        target = path_of_run(path, scenario.variant, seed) if several else path
        check_writable(target)
        planned.append(Plan(target, shown))
    return planned


def _known_end_s(window: Window) -> float | None:
    """When a run ends for sure; None when it goes on until its requests are over."""
    if window.measure is None or window.drain:
        return None
    return window.warmup + window.measure


GZIP: Final = ".gz"
COMPRESSION: Final = 6


@dataclass(frozen=True)
class Written:
    """A timeline that has been written: without its text, with the size of its file."""

    path: Path
    excerpt: Excerpt
    events: int
    cut: bool
    swap_elsewhere_s: float | None
    size_bytes: int


def path_of_run(path: Path, variant: str, seed: int) -> Path:
    """The file of one run among several: ``out-ring-seed-1.json`` for ``out.json``."""
    ending = path.suffix
    if ending == GZIP:
        ending = path.with_suffix("").suffix + GZIP
    stem = path.name.removesuffix(ending)
    return path.with_name("-".join(filter(None, (stem, variant, f"seed-{seed}"))) + ending)


def check_writable(path: Path) -> None:
    """Raise ``UserError`` unless a file could be written there now."""
    with _refused(path):
        if path.exists() and not path.is_file():
            raise UserError(f"cannot write the timeline to {path}: it is not a file")
        make_beside(path, make_file).unlink()


def write(timeline: Timeline, path: Path) -> Written:
    """Write a timeline, compressed when the name ends in ``.gz``; replaces what is there.

    Raises ``UserError`` when the disk is full or the folder cannot be
    written; an older file stays then.
    """
    content = timeline.text.encode()
    if path.suffix == GZIP:
        content = gzip.compress(content, COMPRESSION, mtime=0)  # equal runs, equal bytes
    with _refused(path):
        write_whole(path, content)
    return Written(
        path,
        timeline.excerpt,
        timeline.events,
        timeline.cut,
        timeline.swap_elsewhere_s,
        len(content),
    )


@contextmanager
def _refused(path: Path) -> Iterator[None]:
    """Tell the user what the disk has refused."""
    try:
        yield
    except OSError as error:
        raise UserError(f"cannot write the timeline to {path}: {error.strerror}") from error
