"""What ``podsim sweep`` prints: a line for each point and variant, its means over the seeds."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.cli.layout import aligned, wrapped
from sim.results.shown import Row, percent, wait

if TYPE_CHECKING:
    from sim.stats import Interval
    from sim.sweep.sweep import Sweep

MAX_LINES: Final = 120
UNKNOWN: Final = "–"
COLUMNS: Final = (
    wait("TTFT p50", "ttft_s.p50", 2),
    wait("TTFT p95", "ttft_s.p95", 2),
    Row("output, tok/s", "output_tokens_per_s"),
    percent("cache hit", "prompt_cache_hit_ratio"),
    percent("in SLO", "slo_attainment"),
    percent("errors", "error_ratio"),
)


def render(sweep: "Sweep", place: Path) -> str:
    """The summary for a reader; everything else is in the table at ``place``."""
    plan = sweep.plan
    count = len(plan.design.points)
    lines = [
        f"{plan.name}: {count} point{'s' * (count > 1)}, {len(plan.runs)} runs, seeds "
        f"{', '.join(map(str, plan.seeds))}.",
        *(
            wrapped(f"Set over the file: {', '.join(plan.design.settings)}")
            * bool(plan.design.settings)
        ),
        *(["Mean over the seeds ± half-width of the 95 % t interval."] * (len(plan.seeds) > 1)),
        "",
    ]
    shown = list(_figures(sweep))
    columns = [
        row
        for row in COLUMNS
        if row.news_if_unknown or any(figures[row.key].n for _, _, figures in shown)
    ]
    header = [*_short(plan.design.paths), "variant", *(row.label for row in columns)]
    body = [
        [*values, variant, *(_cell(figures[row.key], row, len(plan.seeds)) for row in columns)]
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
    if any(UNKNOWN in row for row in body):
        lines.append(f"{UNKNOWN} {_why_unknown(sweep)}")
    lines += ["", *_warned(sweep), f"Table: {place}"]
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
    from sim.stats import t_interval
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


def _why_unknown(sweep: "Sweep") -> str:
    """What a dash means."""
    late = "null under some seeds: beyond the end of the run for too many requests, or none had any"
    return f"{late}; failed runs have no figures" if sweep.failed else late


def _cell(interval: "Interval", row: Row, seeds: int) -> str:
    """A mean and the half-width of its interval; a dash where not every run knows the value."""
    if interval.mean is None or interval.n < seeds:
        return UNKNOWN
    text = f"{interval.mean * row.scale:,.{row.decimals}f}"
    if interval.low is None or interval.high is None:
        return text
    return f"{text} ± {(interval.high - interval.low) / 2.0 * row.scale:,.{row.decimals}f}"


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


def _warned(sweep: "Sweep") -> list[str]:
    from sim.sweep.runs import Measured

    count = sum(bool(run.warnings) for run in sweep.outcomes if isinstance(run, Measured))
    if not count:
        return []
    return [f"{count} of {len(sweep.outcomes)} runs have warnings: column warnings of the table"]
