"""A finished run's facts become columns, summary, warnings and digest."""

import numpy as np

from sim.core.recorder import Recorder, RunFacts
from sim.results.digest import digest
from sim.results.notices import notices
from sim.results.requests import RequestColumns
from sim.results.result import RunResult
from sim.results.rows import (
    Polls,
    failed_attempts_table,
    placements_table,
    pods_table,
    pools_table,
    requests_table,
    retries_table,
)
from sim.results.summary import summarise
from sim.results.tables import Tables


def freeze(recorder: Recorder, facts: RunFacts) -> RunResult:
    """Return columns, summary, warnings and digest of the finished run."""
    tables = _tables(recorder, facts)
    columns = RequestColumns.of(tables.requests)
    closes = np.array([request.closes_session for request in recorder.requests], dtype=bool)
    summary = summarise(facts, tables, columns, closes, recorder.abandoned)
    prompts = (request.prompt for request in recorder.requests)
    return RunResult(
        facts=facts,
        tables=tables,
        summary=summary,
        warnings=(*notices(facts, tables, columns, summary, prompts), *recorder.remarks),
        digest=digest(tables),
    )


def _tables(recorder: Recorder, facts: RunFacts) -> Tables:
    polls = Polls(
        recorder.sample_time_s,
        recorder.sample_pod,
        recorder.sample_in_flight,
        recorder.sample_waiting,
        recorder.sample_running,
        recorder.sample_kv_usage,
    )
    return Tables(
        requests_table(recorder.requests, facts.variant, facts.seed),
        placements_table(recorder.attempts),
        pods_table(polls, facts.pods),
        failed_attempts_table(recorder.failed_attempts),
        retries_table(recorder.retries),
        pools_table(recorder.pool_events),
    )
