"""A timeline of an excerpt of a run: what it covers, its events, and the file it goes to."""

import gzip
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.core.errors import UserError
from sim.results import arrow
from sim.results.result import RunResult
from sim.results.unfinished import check_writable, write_file
from sim.scenario.schema import Scenario, Window
from sim.timeline.drawing import Drawing, draw_placements, draw_pods, draw_pools, draw_turns
from sim.timeline.excerpt import Excerpt, StepLog, shown

DEFAULT_S: Final = 60.0
GZIP: Final = ".gz"
COMPRESSION: Final = 6
MOST_EVENTS: Final = 100_000
"""About 20 MB, which viewers open in a second or two."""


@dataclass(frozen=True)
class Timeline:
    """A finished timeline: what of the run it shows, how many events it has, its text.

    ``cut`` says that it ends early because there would be too many events,
    ``swap_elsewhere_s`` when a pool begins a swap, if none is shown.
    """

    excerpt: Excerpt
    events: int
    cut: bool
    swap_elsewhere_s: float | None
    text: str


def timeline(result: RunResult, log: StepLog, most_events: int = MOST_EVENTS) -> Timeline:
    """Draw what ``log`` has kept of a run's pods and the tables of its result."""
    excerpt = shown(result, log, most_events)
    run_end_s = result.facts.end_s
    reports = [
        report._replace(end_s=min(report.end_s, run_end_s))
        for report in log.reports
        if excerpt.meets(report.start_s, report.end_s)
    ]
    drawing = Drawing(result, excerpt)
    draw_turns(drawing)
    draw_placements(drawing)
    draw_pools(drawing)
    draw_pods(drawing, reports)
    about = {
        "scenario": result.facts.scenario,
        "variant": result.variant,
        "seed": result.seed,
        "digest": result.digest,
        "start_s": excerpt.start_s,
        "end_s": excerpt.end_s,
    }
    cut = excerpt.end_s < min(log.excerpt.end_s, run_end_s)
    trace, elsewhere_s = drawing.trace, _swap_elsewhere_s(result, excerpt)
    return Timeline(excerpt, trace.events, cut, elsewhere_s, trace.rendered(about))


def _swap_elsewhere_s(result: RunResult, excerpt: Excerpt) -> float | None:
    """Return when a swap begins, if the excerpt shows none: the next, or else the first."""
    table = result.tables.pools
    swaps = arrow.strings(table, "kind").equal("swap")
    if (swaps & excerpt.rows(table, "start_s", "end_s")).any():
        return None
    starts_s = arrow.numbers(table, "start_s")[swaps].tolist()
    later_s = [start_s for start_s in starts_s if start_s >= excerpt.end_s]
    return min(later_s or starts_s, default=None)


@dataclass(frozen=True)
class Plan:
    """The timeline of one run: where it goes, what of the run it shows."""

    path: Path
    excerpt: Excerpt


def plans(path: Path, excerpt: Excerpt | None, runs: Sequence[tuple[Scenario, int]]) -> list[Plan]:
    """Plan the timelines of runs (scenario and seed): ``path`` for one, else a file beside it each.

    Without ``excerpt`` a timeline shows the first minute of the measured
    window. Raises ``UserError`` for a file that cannot be written, and for an
    excerpt that begins when a run has ended.
    """
    planned = []
    for scenario, seed in runs:
        start_s = scenario.window.warmup
        chosen = excerpt or Excerpt(start_s, start_s + DEFAULT_S)
        end_s = _known_end_s(scenario.window)
        if end_s is not None and chosen.start_s >= end_s:
            variant = f" of {scenario.variant}" if scenario.variant else ""
            raise UserError(
                f"the timeline would begin at {chosen.start_s:g} s, but the run{variant} ends at "
                f"{end_s:g} s"
            )
        several = len(runs) > 1 and not path.is_dir()  # a folder is refused under its own name
        target = _path_of_run(path, scenario.variant, seed) if several else path
        check_writable("the timeline", target)
        planned.append(Plan(target, chosen))
    return planned


def _known_end_s(window: Window) -> float | None:
    """Return when a run ends for sure; None when it goes on until its requests are over."""
    if window.measure is None or window.drain:
        return None
    return window.warmup + window.measure


def _path_of_run(path: Path, variant: str, seed: int) -> Path:
    """Return the file of one run among several: ``out-ring-seed-1.json`` for ``out.json``."""
    ending = path.suffix
    if ending == GZIP:
        ending = path.with_suffix("").suffix + GZIP
    stem = path.name.removesuffix(ending)
    return path.with_name("-".join(filter(None, (stem, variant, f"seed-{seed}"))) + ending)


@dataclass(frozen=True)
class Written:
    """A timeline that has been written: without its text, with the size of its file."""

    path: Path
    excerpt: Excerpt
    events: int
    cut: bool
    swap_elsewhere_s: float | None
    size_bytes: int


def write(drawn: Timeline, path: Path) -> Written:
    """Write a timeline, compressed when the name ends in ``.gz``; replaces what is there.

    Raises ``UserError`` when the disk is full or the folder cannot be
    written; an older file stays then.
    """
    content = drawn.text.encode()
    if path.suffix == GZIP:
        content = gzip.compress(content, COMPRESSION, mtime=0)  # equal runs, equal bytes
    write_file("the timeline", path, content)
    of_run = drawn.excerpt, drawn.events, drawn.cut, drawn.swap_elsewhere_s
    return Written(path, *of_run, size_bytes=len(content))
