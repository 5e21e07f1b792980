"""What scripts and notebooks call: a run explained, and its parts as a table."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from sim.core.errors import UserError
from sim.execution.repetition import Recipe
from sim.explain.explanation import Explanation, RepeatError, explained, known, made_like, slowest
from sim.results import arrow
from sim.results.result import RunResult
from sim.results.stored import StoredRun, stored_runs
from sim.scenario.load import ScenarioSet

if TYPE_CHECKING:
    import pandas as pd


def explain(
    run: str | Path | StoredRun | RunResult,
    requests: Iterable[int] | None = None,
    *,
    slowest: int = 10,
    scenario: ScenarioSet | None = None,
    on_tick: Callable[[float], None] | None = None,
) -> Explanation:
    """Where the time to first token went, of all requests of a run.

    ``run`` is the folder of a stored run, or a result; one that was not read from disk
    needs the ``scenario`` it is of. What the router and the pods knew is kept of
    ``requests``, of the ``slowest`` when missing. The run is simulated once more;
    ``on_tick`` hears the simulated time. Raises ``UserError`` for a run or a
    request that is not there.
    """
    result = _result(run)
    wanted = slowest_of(result, slowest) if requests is None else known(result, requests)
    try:
        made = _recipe(result, scenario)
    except RepeatError as reason:
        return explained(result, None, wanted, why_not=reason.args[0])
    return explained(result, made, wanted, on_tick)


def parts(
    run: str | Path | StoredRun | RunResult,
    requests: Iterable[int] | None = None,
    *,
    scenario: ScenarioSet | None = None,
) -> "pd.DataFrame":
    """The parts of TTFT, a row per request and a column in seconds per part; see ``explain``.

    ``Explanation.frame`` says what the columns are, ``sim.explain.kinds`` what the parts.
    """
    return explain(run, (), scenario=scenario).frame(requests)


def slowest_of(result: RunResult, number: int) -> list[int]:
    """The requests of the window with the longest TTFT, the longest first."""
    table = result.tables.requests
    arrival_s = arrow.numbers(table, "arrival_s")
    ttft_s = arrow.numbers(table, "first_token_s") - arrival_s
    inside = (arrival_s >= result.facts.window_start_s) & (arrival_s < result.facts.window_end_s)
    return [int(row) for row in slowest(ttft_s, inside & ~np.isnan(ttft_s), number)]


def _result(run: str | Path | StoredRun | RunResult) -> RunResult:
    if isinstance(run, RunResult):
        return run
    if isinstance(run, StoredRun):
        return run.read()
    found = stored_runs(Path(run))
    if len(found) != 1:
        below = f"; give one of them, such as {found[0].path}" if found else ""
        raise UserError(
            f"{run}: must be the folder of one stored run; it holds {len(found)}{below}"
        )
    return found[0].read()


def _recipe(result: RunResult, scenario: ScenarioSet | None) -> Recipe:
    if scenario is not None:
        (variant,) = scenario.variant([result.variant] if result.variant else [""]).variants
        return Recipe(variant, result.seed, scenario.directory)
    if not result.manifest:
        raise UserError(
            "this result was not read from disk: give scenario=, what sim.load returned for it "
            "(runs.scenario of what sim.run returned)"
        )
    return made_like(result.manifest)
