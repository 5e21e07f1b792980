"""Of ``podsim compare``: names become sides, a report becomes text and an exit code."""

from typing import TYPE_CHECKING

from sim.cli import ExitCode
from sim.cli.stored import named_runs
from sim.errors import UserError

if TYPE_CHECKING:
    from sim.comparison.report import Report
    from sim.comparison.sides import Side
    from sim.comparison.verdict import Verdict
    from sim.results.stored import StoredRun


def named_sides(name: str) -> "tuple[Side, ...]":
    """A side for each scenario that ``name`` means, see ``named_runs``, in order of their names.

    Raises ``UserError`` when there is none, or several results of one run: it
    would be unclear which of them is meant.
    """
    from sim.comparison.sides import stored_side

    scenarios: dict[str, list[StoredRun]] = {}
    for run in named_runs(name):
        scenarios.setdefault(run.scenario, []).append(run)
    for scenario, runs in scenarios.items():
        if len({(run.variant, run.seed) for run in runs}) < len(runs):
            places = dict.fromkeys(str(run.path.parent.parent) for run in runs)
            raise UserError(
                f"{name}: several results of {scenario}, in {', '.join(places)}; name one of them"
            )
    return tuple(stored_side(name, runs) for runs in scenarios.values())


def rendered(report: "Report", form: str, everything: bool = False) -> str:
    """The report as ``text``, ``markdown``, ``json`` or ``junit``."""
    from sim.comparison import document, junit, markdown, text

    match form:
        case "markdown":
            return markdown.render(report, everything)
        case "json":
            return document.render(report)
        case "junit":
            return junit.render(report)
        case _:
            return text.render(report, everything)


def exit_code(verdict: "Verdict", strict: bool = False) -> int:
    """What a verdict is to a shell; ``strict`` wants it shown that nothing is worse."""
    if verdict in ("worse", "different") or (strict and verdict == "inconclusive"):
        return ExitCode.REGRESSION
    return ExitCode.NOT_COMPARABLE if verdict == "incomparable" else ExitCode.FINE
