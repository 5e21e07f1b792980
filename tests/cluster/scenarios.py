"""Small scenarios for whole runs, as the mappings that files would hold."""

from typing import Any

T0 = {"a": 10.0, "b": 50.0, "f": 10.0}
"""The step time of the worked cases: 10 ms + 0.05 ms per prefill token + 0.1 ms per decode."""


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
