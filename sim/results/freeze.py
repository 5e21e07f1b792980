"""A finished run's facts become columns, summary, warnings and digest."""

import numpy as np

from sim.core.recorder import Recorder, RunFacts
from sim.results.digest import digest
from sim.results.requests import RequestColumns
from sim.results.result import RunResult
from sim.results.summary import summarise
from sim.results.tables import recorded
from sim.results.warnings import run_warnings


def freeze(recorder: Recorder, facts: RunFacts) -> RunResult:
    """Return columns, summary, warnings and digest of the finished run."""
    tables = recorded(recorder, facts.variant, facts.seed, facts.pods)
    columns = RequestColumns.of(tables.requests)
    closes = np.array([request.closes_session for request in recorder.requests], dtype=bool)
    summary = summarise(facts, tables, columns, closes, recorder.abandoned)
    prompts = (request.prompt for request in recorder.requests)
    return RunResult(
        facts=facts,
        tables=tables,
        summary=summary,
        warnings=(*run_warnings(facts, tables, columns, summary, prompts), *recorder.remarks),
        digest=digest(tables),
    )
