"""What ``podsim sweep`` prints: a line for each point and variant, its means over the seeds."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sim.core.stats import t_interval
from sim.core.text import UNKNOWN, aligned, mean_and_interval, plural, share, wrapped
from sim.results.report_rows import ReportRow, row, wait
from sim.results.survivors import LATE, LATE_MEANS, WORTH_SAYING, is_late, left_out
from sim.sweep.runs import Measured
from sim.sweep.table import figures

if TYPE_CHECKING:
    from sim.core.stats import Interval
    from sim.sweep.sweep import Sweep

MAX_LINES: Final = 120
COLUMNS: Final = (
    wait("ttft_s.p50"),
    wait("ttft_s.p95"),
    row("output_tokens_per_s"),
    row("prompt_cache_hit_ratio", "cache hit, %"),
    row("slo_attainment", "in SLO, %"),
    row("goodput_requests_per_s", "goodput, req/s"),
    row("error_ratio"),
)


class _Point(NamedTuple):
    """A point and variant: the values that were set, and the figures over the seeds."""

    values: tuple[str, ...]
    variant: str
    figures: "dict[str, Interval]"
    late: frozenset[str]
    """Figures that some seed does not know since requests were still on their way."""


def render(sweep: "Sweep", place: Path) -> str:
    """The summary for a reader; everything else is in the table at ``place``."""
    plan = sweep.plan
    count = len(plan.design.points)
    points = list(_points(sweep))
    columns = [
        column
        for column in COLUMNS
        if column.news_if_unknown or any(each.figures[column.key].n for each in points)
    ]
    named = plan.variants != ("",)
    header = [*_short(plan.design.paths), *["variant"] * named, *(each.label for each in columns)]
    body = [
        [
            *(*each.values, *[each.variant] * named),
            *(
                LATE
                if column.key in each.late
                else _cell(each.figures[column.key], column, len(plan.seeds))
                for column in columns
            ),
        ]
        for each in points[:MAX_LINES]
    ]
    lines = [
        f"{plan.name}: {count} {plural('point', count)}, {len(plan.runs)} runs, seeds "
        f"{', '.join(map(str, plan.seeds))}."
    ]
    if plan.design.settings:
        lines += wrapped(f"Set over the file: {', '.join(plan.design.settings)}")
    if len(plan.seeds) > 1:
        lines.append("Mean over the seeds ± half-width of the 95 % t interval.")
    lines += ["", *aligned([header, *body], range(len(header) - len(columns), len(header)))]
    if len(points) > MAX_LINES:
        lines.append(f"... and {len(points) - MAX_LINES} more lines")
    if any(LATE in cells for cells in body):
        lines += wrapped(f"{LATE}: {LATE_MEANS}")
    if any(UNKNOWN in cells for cells in body):
        failed = ", or some runs have failed" if sweep.failed else ""
        lines.append(f"{UNKNOWN} nothing to be measured under some seeds{failed}")
    return "\n".join([*lines, "", *_unserved(sweep), *_warned(sweep), f"Table: {place}"])


def failures(sweep: "Sweep") -> list[str]:
    """A line for each run that has no result."""
    lines = []
    for point, task, failed in sweep.failed:
        variant = f"variant {task.variant} " if task.variant else ""
        tries = "once" if failed.tries == 1 else f"{failed.tries} times"
        lines.append(
            f"failed: {sweep.plan.design.named(point)}, {variant}seed {task.seed}: "
            f"{failed.reason} (tried {tries})"
        )
    if lines:
        lines.append(
            f"{len(lines)} of {len(sweep.plan.runs)} runs failed; the others are kept, and the "
            "same command tries only these again"
        )
    return lines


def as_document(sweep: "Sweep", place: Path) -> dict[str, Any]:
    """The summary for machines: means and 95 % t intervals of every figure, by point, variant."""
    plan = sweep.plan
    return {
        "scenario": plan.name,
        "table": str(place),
        "folder": str(sweep.folder),
        "seeds": list(plan.seeds),
        "points": [
            {
                "settings": dict(zip(plan.design.paths, each.values)),
                "variant": each.variant,
                "figures": {key: asdict(interval) for key, interval in each.figures.items()},
            }
            for each in _points(sweep, everything=True)
        ],
        "failed": [
            {
                "point": point,
                "variant": task.variant,
                "seed": task.seed,
                "reason": failed.reason,
                "tries": failed.tries,
            }
            for point, task, failed in sweep.failed
        ],
    }


def _points(sweep: "Sweep", everything: bool = False) -> Iterator[_Point]:
    """Each point and variant, with every figure or those of the ``COLUMNS``."""
    together: dict[tuple[int, str], list[Measured | None]] = {}
    for (point, task), outcome in zip(sweep.plan.runs, sweep.outcomes):
        runs = together.setdefault((point, task.variant), [])
        runs.append(outcome if isinstance(outcome, Measured) else None)
    keys = [column.key for column in COLUMNS]
    for (point, variant), runs in together.items():
        intervals = {
            key: t_interval([float(value) for value in found if value is not None])
            for key, found in figures(runs, None if everything else keys).items()
        }
        late = frozenset(
            key
            for key in keys
            for run in runs
            if run and run.figures.get(key) is None and is_late(key, run.figures)
        )
        yield _Point(sweep.plan.design.points[point], variant, intervals, late)


def _cell(interval: "Interval", column: ReportRow, seeds: int) -> str:
    """A mean and the half-width of its interval; a dash where not every run has the value."""
    if interval.mean is None or interval.n < seeds:
        return UNKNOWN
    return mean_and_interval(interval.mean, interval.low, interval.high, column.number)


def _short(paths: Sequence[str]) -> list[str]:
    """Each path by as few of its last names as tell it from the others."""
    shortened = []
    for path in paths:
        names = path.split(".")
        ends = [".".join(names[start:]) for start in range(len(names) - 1, -1, -1)]
        others = [f".{other}" for other in paths if other != path]
        shortened.append(
            next(end for end in ends if not any(other.endswith(f".{end}") for other in others))
        )
    return shortened


def _measured(sweep: "Sweep") -> list[Measured]:
    return [run for run in sweep.outcomes if isinstance(run, Measured)]


def _unserved(sweep: "Sweep") -> list[str]:
    """Where TTFT and speeds are of some of the requests only."""
    shares = [left_out("e2e_s.p95", [run.figures]) for run in _measured(sweep)]
    few = [each for each in shares if each > WORTH_SAYING]
    if not few:
        return []
    return wrapped(
        f"TTFT is of those served: in {len(few)} of {len(shares)} runs {share(min(few))} to "
        f"{share(max(few))} of the requests were refused, broke off or gave up"
    )


def _warned(sweep: "Sweep") -> list[str]:
    count = sum(bool(run.warnings) for run in _measured(sweep))
    if not count:
        return []
    return [f"{count} of {len(sweep.outcomes)} runs have warnings: column warnings of the table"]
