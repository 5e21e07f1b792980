"""Random rules, faults and clients: what must hold whatever happens."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.router.scenarios import column, run, site

BACKENDS = ("a", "b", "c")
times_s = st.integers(0, 40).map(lambda eighths: eighths / 8)
lengths_s = st.integers(1, 24).map(lambda eighths: eighths / 8)
backend = st.sampled_from(BACKENDS)


def event(kind: str, **keys: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"kind": st.just(kind), "at": times_s, **keys})


events = st.lists(
    event("proxy-restart")
    | event("pod-lost", backend=backend, **{"for": lengths_s | st.none()})
    | event(
        "backend-errors",
        backend=backend,
        httpStatus=st.sampled_from([400, 500, 503]),
        **{"for": lengths_s},
    ),
    max_size=6,
)
rows = st.lists(
    st.fixed_dictionaries(
        {"arrival": times_s, "outputTokens": st.integers(1, 12), "model": st.sampled_from("mn")},
        optional={"cancel": lengths_s},
    ),
    min_size=1,
    max_size=8,
)
clients = st.fixed_dictionaries(
    {},
    optional={
        "clientTimeout": lengths_s,
        "patience": lengths_s,
        "fallbackModels": st.just(["n"]),
        "retry": st.just({"on": [429, 502, 503], "onConnectionError": True, "max": 2}),
    },
)
pods = st.fixed_dictionaries(
    {},
    optional={
        name: st.fixed_dictionaries(
            {"replicas": st.integers(1, 3)}, optional={"timeout": lengths_s}
        )
        for name in BACKENDS
    },
)
rule = st.lists(backend, unique=True, min_size=1)
budget = st.none() | st.integers(50, 400)


@settings(max_examples=40, deadline=None)
@given(rows, clients, pods, events, rule, rule, st.booleans(), budget)
def test_every_request_ends_once_and_every_backend_is_tried_in_order(
    rows: list[dict[str, Any]],
    clients: dict[str, Any],
    pods: dict[str, Any],
    events: list[dict[str, Any]],
    first: list[str],
    second: list[str],
    direct: bool,
    most: int | None,
) -> None:
    """A request would be lost between two backends, ended twice, or be sent on by a proxy that is
    gone; a count go below zero (the invariants of every run are checked); a backend be left out,
    or tried again within one try."""
    rows.append({"arrival": 60.0, "outputTokens": 1, "model": "m"})  # the others are long over
    scenario = site(*BACKENDS, rows=rows, settings=pods, events=events, clients=clients)
    scenario["router"] = {
        "rules": [
            {"name": "m", "match": {"models": ["m"]}, "backends": first},
            {"name": "rest", "backends": second, "failClosed": True},
        ],
        "proxy": {"quarantineDuration": 1},
        "metrics": {"pollInterval": 0.25},
    }
    if most is not None:
        budgets = [{"name": "b", "scope": "router", "maxTokens": most, "windowSeconds": 2}]
        scenario["router"]["policy"] = {"budgets": budgets}
    if direct:
        again = [{**row, "promptTokens": 50} for row in rows]
        scenario["workloads"]["beside"] = {"kind": "script", "rows": again, "direct": "a"}
    result = run(scenario)
    assert "in_flight" not in column(result.tables.requests, "status")
    way = {"m": first, "n": second}
    failed: dict[tuple[int, int], list[str]] = {}
    for request, number, name in column(
        result.tables.failed_attempts, "request_id", "try", "backend"
    ):
        failed.setdefault((request, number), []).append(name)
    retried: dict[int, list[str]] = {}
    for request, model in column(result.tables.retries, "request_id", "model"):
        retried.setdefault(request, []).append(model)
    names = ("request_id", "workload", "model", "tries", "reason", "backend")
    for request, workload, model, tries, reason, last in column(result.tables.requests, *names):
        asked = [*retried.get(request, ()), model]
        assert tries in (len(asked), len(asked) - 1)
        assert tries <= 4
        for number in range(1, tries + 1):
            tried = failed.get((request, number), [])
            backends = way[asked[number - 1]]
            assert tried == backends[: len(tried)]
            if workload == "w" and number == tries == len(asked) and last is not None:
                assert last == backends[min(len(tried), len(backends) - 1)]
        if reason in ("all_backends_failed", "fail_closed_runtime"):
            assert failed[request, tries] == way[model]
