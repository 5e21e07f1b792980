"""Which timeline each run of a set writes; what cannot be is refused before anything runs."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sim.core.errors import UserError
from sim.scenario.schema import Scenario, Window
from sim.timeline.excerpt import DEFAULT_S, Excerpt
from sim.timeline.file import check_writable, path_of_run


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
