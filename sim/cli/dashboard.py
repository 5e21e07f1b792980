"""The table of ``podsim export --prometheus``: percentiles of dashboards beside exact ones."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Final

from sim.core.text import UNKNOWN

if TYPE_CHECKING:
    from sim.export.prometheus import Percentiles


HEADS: Final = ("p50", "p95", "p99")


def render(runs: Sequence[tuple[str, "list[Percentiles]"]]) -> str:
    """One block for all runs; each run with its histograms, all series of one added up."""
    lines = [
        "Seconds over the whole run, warm-up included; summaries cover the window.",
        "Estimated from buckets is what histogram_quantile() makes of sum by (le) on a dashboard.",
        "",
    ]
    width = max((len(row.name) for _, rows in runs for row in rows), default=0)
    blank = " " * width
    lines.append(f"{blank}  {'':>7}  {'exact':^26}  {'estimated from buckets':^26}".rstrip())
    heads = "".join(f"{head:>9}" for head in HEADS)
    lines.append(f"{blank}  {'n':>7}{heads} {heads}")
    for title, rows in runs:
        lines.append(title)
        lines += [_line(row, width) for row in rows] or [f"{UNKNOWN} no histogram has a value"]
    return "\n".join(lines)


def _line(row: "Percentiles", width: int) -> str:
    exact, estimated = _cells(row.exact.values()), _cells(row.estimated.values())
    return f"{row.name.ljust(width)}  {row.n:>7,}{exact} {estimated}"


def _cells(values: Iterable[float | None]) -> str:
    return "".join(f"{UNKNOWN if value is None else format(value, ',.3f'):>9}" for value in values)
