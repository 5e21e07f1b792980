"""Backends of pods that take an eighth of a second a step, behind a router with rules."""

from collections.abc import Sequence
from typing import Any

import sim
from sim.results.result import RunResult

STEP_S = 0.125
"""A prompt has its first token after one step; each further token takes another one."""


def site(
    *backends: str,
    rows: Sequence[dict[str, Any]] = (),
    settings: dict[str, dict[str, Any]] | None = None,
    **blocks: Any,
) -> dict[str, Any]:
    """A scenario of these backends, tried in this order; ``settings`` are those of some of them.

    Each row is a request of 8 tokens, over a second after it has begun.
    """
    router = {"rules": [{"name": "all", "backends": list(backends)}], **blocks.pop("router", {})}
    clients = blocks.pop("clients", {})
    written = [{"promptTokens": 100, "outputTokens": 8, **row} for row in rows]
    return {
        "name": "rules",
        "engines": {"e": {"stepTime": {"a": 125.0}, "kvBlocks": 10_000}},
        "backends": {
            name: {
                "engine": "e",
                "policy": {"kind": "round-robin"},
                **(settings or {}).get(name, {}),
            }
            for name in backends
        },
        "router": router,
        "workloads": {"w": {"kind": "script", "rows": written, **clients}},
        **blocks,
    }


def run(scenario: dict[str, Any]) -> RunResult:
    """One run of it, with all its rules checked."""
    (result,) = sim.run(scenario, check=True).runs
    return result


def ends(result: RunResult) -> list[tuple[Any, ...]]:
    """Status, HTTP status (None without), why, and when each request was over."""
    table = result.tables.requests
    columns = [table[name].to_pylist() for name in ("status", "http_status", "reason", "end_s")]
    return list(zip(*columns))


def column(table: Any, *names: str) -> list[Any]:
    """Rows of a table: plain values for one name, else tuples."""
    columns = [table[name].to_pylist() for name in names]
    return columns[0] if len(names) == 1 else list(zip(*columns))


def pods(result: RunResult) -> list[tuple[int, str]]:
    """Each dispatch: request and pod, in order."""
    return column(result.tables.placements, "request_id", "pod")


def failures(result: RunResult) -> list[tuple[Any, ...]]:
    """Each backend tried in vain: request, backend, error, HTTP status, from and to when."""
    names = ("request_id", "backend", "error", "http_status", "start_s", "end_s")
    return column(result.tables.failed_attempts, *names)
