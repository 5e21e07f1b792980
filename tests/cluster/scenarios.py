"""Small scenarios for whole runs, as the mappings that files would hold, and what came of them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sim
from sim.cluster.cluster import Cluster
from sim.results.result import RunResult
from sim.scenario.load import load_dict

T0 = {"a": 10.0, "b": 50.0, "f": 10.0}
"""The step time of the worked cases: 10 ms + 0.05 ms per prefill token + 0.1 ms per decode."""

A_SECOND_PER_TOKEN = {"kvBlocks": 100_000, "stepTime": {"a": 1000}}
"""An engine that serves for as many seconds as there are tokens in the answer."""

SEEN_AT_ONCE = {"idleProbeInterval": 0, "readyPollInterval": 0, "reclaimPoll": 0}
"""What the worked cases of pools say of looking."""

Row = dict[str, Any]


def fleet(
    workload: dict[str, Any],
    policy: dict[str, Any],
    replicas: int = 2,
    window: dict[str, Any] | None = None,
    **engine: Any,
) -> dict[str, Any]:
    """One backend of ``replicas`` pods with the worked cases' step time and ample KV."""
    return {
        "name": "small",
        "window": window or {},
        "engines": {"e": {"stepTime": T0, "kvBlocks": 100_000, **engine}},
        "backends": {"b": {"engine": "e", "replicas": replicas, "policy": policy}},
        "router": {"rules": [{"name": "all", "backends": ["b"]}]},
        "workloads": {"w": workload},
    }


def agents(number: int = 24, **settings: Any) -> dict[str, Any]:
    """Coding agents of the published set, fewer of them."""
    return {"kind": "agents", "agents": number, "set": "A", "ramp": "5s", **settings}


def ask(model: str, arrival_s: float, tokens: int = 2, **more: Any) -> Row:
    """A row of a script; ``tokens`` are seconds of service."""
    return {
        "model": model,
        "arrival": arrival_s,
        "promptTokens": 1,
        "outputTokens": tokens,
        **more,
    }


def script(*rows: Row, **settings: Any) -> dict[str, Any]:
    """A workload of these rows."""
    return {"kind": "script", "rows": list(rows), **settings}


def loop(model: str, start_s: float, tokens: int, think_s: float, until_s: float) -> list[Row]:
    """A client that sends its next request ``think_s`` after the answer; more than it can send."""
    follower = ask(model, start_s, tokens, think=think_s, session=f"{model} from {start_s}")
    del follower["arrival"]
    first = ask(model, start_s, tokens, session=follower["session"])
    return [first, *(follower for _ in range(int(until_s / (tokens + think_s)) + 1))]


def pooled(
    members: Mapping[str, float | dict[str, Any]],
    *rows: Row,
    rules: Mapping[str, Any] | None = None,
    others: tuple[str, ...] = (),
    engine: Mapping[str, Any] | None = None,
    workloads: Mapping[str, Any] | None = None,
    router: Mapping[str, Any] | None = None,
    backends: Mapping[str, Any] | None = None,
    events: tuple[Row, ...] = (),
    window: Mapping[str, Any] | None = None,
    **pool: Any,
) -> dict[str, Any]:
    """A pool that sees everything at once, and the requests of ``rows``.

    A member is given by its time to load or by its settings; ``others`` are
    backends without a pool. A rule takes the requests for the model that is its
    key: it is given by its backends or by its settings. Without rules each
    member serves its own model.
    """
    given = {name: [name] for name in members} if rules is None else rules
    bodies = {
        name: {"backends": rule} if isinstance(rule, list) else rule for name, rule in given.items()
    }
    return {
        "name": "pooled",
        "window": window or {},
        "engines": {"e": {**A_SECOND_PER_TOKEN, **(engine or {})}},
        "backends": {
            name: {"engine": "e", **(backends or {}).get(name, {})} for name in (*members, *others)
        },
        "pools": {
            "desk": {
                "members": {
                    name: times if isinstance(times, dict) else {"load": times}
                    for name, times in members.items()
                },
                **SEEN_AT_ONCE,
                **pool,
            }
        },
        "router": {
            "rules": [
                {"name": name, "match": {"models": [name]}, **body} for name, body in bodies.items()
            ],
            **(router or {}),
        },
        "workloads": {**({"w": script(*rows)} if rows else {}), **(workloads or {})},
        "events": list(events),
    }


class Ran:
    """What came of a scenario, as rows; it is run with every check."""

    def __init__(self, scenario: Mapping[str, Any], seed: int = 1) -> None:
        self.result: RunResult = sim.run(scenario, seeds=(seed,), check=True).runs[0]
        tables = self.result.tables
        self.requests: list[Row] = tables.requests.to_pylist()
        self.placements: list[Row] = tables.placements.to_pylist()
        self.failed_attempts: list[Row] = tables.failed_attempts.to_pylist()
        self.pool_rows: list[Row] = tables.pools.to_pylist()

    def of(self, model: str) -> list[Row]:
        """Requests for a model."""
        return [row for row in self.requests if row["model"] == model]

    def rows(self, kind: str) -> list[Row]:
        """Rows of the pools table: hold, skip or swap."""
        return [row for row in self.pool_rows if row["kind"] == kind]

    @property
    def swaps(self) -> list[tuple[str | None, str, float, float | None, str | None]]:
        """From, to, begin, end and result of each swap."""
        return [
            (
                row["from_member"],
                row["member"],
                round(row["start_s"], 6),
                rounded(row["end_s"]),
                row["result"],
            )
            for row in self.rows("swap")
        ]

    @property
    def answers(self) -> list[tuple[int | None, str | None, float | None]]:
        """HTTP status, reason and end of each request; a status of 200 needs no reason."""
        return [(row["http_status"], row["reason"], rounded(row["end_s"])) for row in self.requests]


def rounded(time_s: float | None) -> float | None:
    """To a tenth of a microsecond."""
    return None if time_s is None else round(time_s, 7)


def ttft_s(row: Row) -> float:
    """From the arrival at the router to the first token."""
    return round(row["first_token_s"] - row["arrival_s"], 7)


def retry_after_s(scenario: Mapping[str, Any]) -> list[float | None]:
    """What the answer to each request said of trying again."""
    cluster = Cluster(load_dict(scenario).variants[0], 1, Path())
    cluster.run()
    return [request.retry_after_s for request in cluster.recorder.requests]
