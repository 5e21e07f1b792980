"""The recorder: keeps what the actors report, and freezes it into columns when the run is over."""

import numpy as np

from sim.ports import PoolEvent
from sim.request import Attempt, FailedAttempt, Request, Retry
from sim.results.digest import digest
from sim.results.notices import notices
from sim.results.requests import RequestColumns
from sim.results.result import RunFacts, RunResult
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


class Recorder:
    """Append-only. Requests and attempts are kept as objects and read once, at the end."""

    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.attempts: list[Attempt] = []
        self.failed_attempts: list[FailedAttempt] = []
        self.retries: list[Retry] = []
        self.abandoned: list[tuple[Attempt, Attempt]] = []  # as it ended, as its client left it
        self.pool_events: list[PoolEvent] = []
        self.remarks: list[str] = []  # that a reader should know beside what the tables say
        self.sample_time_s: list[float] = []
        self.sample_pod: list[int] = []
        self.sample_in_flight: list[int] = []
        self.sample_waiting: list[int] = []
        self.sample_running: list[int] = []
        self.sample_kv_usage: list[float] = []

    def arrived(self, request: Request) -> None:
        """A request has reached the router; gives it its id."""
        request.request_id = len(self.requests)
        self.requests.append(request)

    def dispatched(self, attempt: Attempt) -> None:
        """An attempt has left for its pod."""
        self.attempts.append(attempt)

    def sampled(
        self, now_s: float, pod: int, in_flight: int, waiting: int, running: int, kv_usage: float
    ) -> None:
        """A metrics poll has read a pod; ``pod`` is its index among all pods of the run."""
        self.sample_time_s.append(now_s)
        self.sample_pod.append(pod)
        self.sample_in_flight.append(in_flight)
        self.sample_waiting.append(waiting)
        self.sample_running.append(running)
        self.sample_kv_usage.append(kv_usage)

    def freeze(self, facts: RunFacts) -> RunResult:
        """Columns, summary, warnings and digest of the finished run."""
        tables = self._tables(facts)
        columns = RequestColumns.of(tables.requests)
        closes = np.array([request.closes_session for request in self.requests], dtype=bool)
        summary = summarise(facts, tables, columns, closes, self.abandoned)
        prompts = (request.prompt for request in self.requests)
        return RunResult(
            facts=facts,
            tables=tables,
            summary=summary,
            warnings=(*notices(facts, tables, columns, summary, prompts), *self.remarks),
            digest=digest(tables),
        )

    def _tables(self, facts: RunFacts) -> Tables:
        polls = Polls(
            self.sample_time_s,
            self.sample_pod,
            self.sample_in_flight,
            self.sample_waiting,
            self.sample_running,
            self.sample_kv_usage,
        )
        return Tables(
            requests_table(self.requests, facts.variant, facts.seed),
            placements_table(self.attempts),
            pods_table(polls, facts.pods),
            failed_attempts_table(self.failed_attempts),
            retries_table(self.retries),
            pools_table(self.pool_events),
        )
