"""Of ``podsim compare``: names become sides, a report becomes text and an exit code."""

from typing import TYPE_CHECKING

from sim.cli import ExitCode
from sim.cli.stored import named_runs

if TYPE_CHECKING:
    from sim.comparison.report import Report
    from sim.comparison.sides import Side, Verdict


def named_sides(name: str) -> "tuple[Side, ...]":
    """A side for each scenario that ``name`` means, see ``named_runs``.

    Raises ``UserError`` when there is none, or several results of one run.
    """
    from sim.comparison.sides import stored_sides

    return stored_sides(name, named_runs(name))


def rendered(report: "Report", form: str, everything: bool = False) -> str:
    """The report as ``text``, ``markdown``, ``json`` or ``junit``."""
    from sim.comparison import rendering

    match form:
        case "markdown":
            return rendering.markdown_report(report, everything)
        case "json":
            return rendering.json_report(report)
        case "junit":
            return rendering.junit_report(report)
        case _:
            return rendering.text_report(report, everything)


def exit_code(verdict: "Verdict", strict: bool = False) -> int:
    """What a verdict is to a shell; ``strict`` wants it shown that nothing is worse."""
    if verdict in ("worse", "different") or (strict and verdict == "inconclusive"):
        return ExitCode.REGRESSION
    return ExitCode.NOT_COMPARABLE if verdict == "incomparable" else ExitCode.FINE
