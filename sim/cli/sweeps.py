"""What ``podsim sweep`` prints: a line for each point and variant, its means over the seeds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.core.text import UNKNOWN, aligned, mean_and_interval, plural, share, wrapped
from sim.results.report_rows import ReportRow, row, wait
from sim.results.survivors import LATE, LATE_MEANS, WORTH_SAYING, is_late, left_out

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


def render(sweep: "Sweep", place: Path) -> str:
    """The summary for a reader; everything else is in the table at ``place``."""
    plan = sweep.plan
    count = len(plan.design.points)
    lines = [
        f"{plan.name}: {count} {plural('point', count)}, {len(plan.runs)} runs, seeds "
        f"{', '.join(map(str, plan.seeds))}.",
        *(
            wrapped(f"Set over the file: {', '.join(plan.design.settings)}")
            * bool(plan.design.settings)
        ),
        *(["Mean over the seeds ± half-width of the 95 % t interval."] * (len(plan.seeds) > 1)),
        "",
    ]
    shown = list(_figures(sweep))
    late = _late(sweep)
    columns = [
        row
        for row in COLUMNS
        if row.news_if_unknown or any(figures[row.key].n for _, _, figures in shown)
    ]
    header = [*_short(plan.design.paths), "variant", *(row.label for row in columns)]
    body = [
        [
            *(*values, variant),
            *(
                LATE
                if (values, variant, row.key) in late
                else _cell(figures[row.key], row, len(plan.seeds))
                for row in columns
            ),
        ]
        for values, variant, figures in shown[:MAX_LINES]
    ]
    if plan.variants == ("",):
        header.remove("variant")
        body = [
            [*row[: len(plan.design.paths)], *row[len(plan.design.paths) + 1 :]] for row in body
        ]
    lines += aligned([header, *body], numbers=range(len(header) - len(columns), len(header)))
    if len(shown) > MAX_LINES:
        lines.append(f"... and {len(shown) - MAX_LINES} more lines")
    if any(LATE in row for row in body):
        lines += wrapped(f"{LATE}: {LATE_MEANS}")
    if any(UNKNOWN in row for row in body):
        failed = ", or some runs have failed" if sweep.failed else ""
        lines.append(f"{UNKNOWN} nothing to be measured under some seeds{failed}")
    lines += ["", *_unserved(sweep), *_warned(sweep), f"Table: {place}"]
    return "\n".join(lines)


def failures(sweep: "Sweep") -> list[str]:
    """A line for each run that has no result."""
    lines = []
    for point, task, failed in sweep.failed:
        who = " ".join(
            filter(None, (task.variant and f"variant {task.variant}", f"seed {task.seed}"))
        )
        tries = "once" if failed.tries == 1 else f"{failed.tries} times"
        lines.append(
            f"failed: {sweep.plan.design.named(point)}, {who}: {failed.reason} (tried {tries})"
        )
    if lines:
        lines.append(
            f"{len(lines)} of {len(sweep.plan.runs)} runs failed; the others are kept, and the "
            "same command tries only these again"
        )
    return lines


def as_document(sweep: "Sweep", place: Path) -> dict[str, Any]:
    """The summary for machines: means and 95 % t intervals of every figure, by point, variant."""
    from dataclasses import asdict

    plan = sweep.plan
    return {
        "scenario": plan.name,
        "table": str(place),
        "folder": str(sweep.folder),
        "seeds": list(plan.seeds),
        "points": [
            {
                "settings": dict(zip(plan.design.paths, values)),
                "variant": variant,
                "figures": {key: asdict(interval) for key, interval in figures.items()},
            }
            for values, variant, figures in _figures(sweep, everything=True)
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


def _figures(
    sweep: "Sweep", everything: bool = False
) -> Iterator[tuple[tuple[str, ...], str, dict[str, "Interval"]]]:
    """For each point and variant its values, name, and figures over the seeds."""
    from sim.core.stats import t_interval
    from sim.sweep.runs import Measured
    from sim.sweep.table import figures

    together: dict[tuple[int, str], list[Measured | None]] = {}
    for (point, task), outcome in zip(sweep.plan.runs, sweep.outcomes):
        runs = together.setdefault((point, task.variant), [])
        runs.append(outcome if isinstance(outcome, Measured) else None)
    keys = None if everything else [row.key for row in COLUMNS]
    for (point, variant), runs in together.items():
        intervals = {
            key: t_interval([float(value) for value in found if value is not None])
            for key, found in figures(runs, keys).items()
        }
        yield sweep.plan.design.points[point], variant, intervals


def _late(sweep: "Sweep") -> set[tuple[tuple[str, ...], str, str]]:
    """The values, variant and figure of cells that some seed does not know for lateness."""
    from sim.sweep.runs import Measured

    return {
        (sweep.plan.design.points[point], task.variant, row.key)
        for (point, task), run in zip(sweep.plan.runs, sweep.outcomes)
        for row in COLUMNS
        if isinstance(run, Measured)
        if run.figures.get(row.key) is None and is_late(row.key, run.figures)
    }


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
        others = [other for other in paths if other != path]
        shortened.append(
            next(
                end for end in ends if not any(f".{other}".endswith(f".{end}") for other in others)
            )
        )
    return shortened


def _unserved(sweep: "Sweep") -> list[str]:
    """Where TTFT and speeds are of some of the requests only."""
    from sim.sweep.runs import Measured

    runs = [run.figures for run in sweep.outcomes if isinstance(run, Measured)]
    shares = [left_out("e2e_s.p95", [run]) for run in runs]
    few = [each for each in shares if each > WORTH_SAYING]
    if not few:
        return []
    return wrapped(
        f"TTFT is of those served: in {len(few)} of {len(runs)} runs {share(min(few))} to "
        f"{share(max(few))} of the requests were refused, broke off or gave up"
    )


def _warned(sweep: "Sweep") -> list[str]:
    from sim.sweep.runs import Measured

    count = sum(bool(run.warnings) for run in sweep.outcomes if isinstance(run, Measured))
    if not count:
        return []
    return [f"{count} of {len(sweep.outcomes)} runs have warnings: column warnings of the table"]
