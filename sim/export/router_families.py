"""What LLMKube's router would say of a run: ``llmkube_router_*``.

Names, labels and buckets are those of LLMKube (internal/metrics), and values are
set when its proxy sets them (internal/router/proxy.go). What bypasses the router
is not counted.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from sim.core.request import DIRECT, Answer, Reason, Status
from sim.export.families import (
    DEFAULT_S,
    ROUTER_TTFT_S,
    Family,
    Labels,
    Scrape,
    Value,
    counted,
    observed,
)
from sim.export.pod_families import pods
from sim.results.requests import RequestColumns
from sim.results.served import answered_last

if TYPE_CHECKING:
    import pandas as pd

BINDINGS: Final = "session_bindings"
"""The gauge of a session table."""

ROUTERS: Final = [
    value for name, value in vars(Answer).items() if name.isupper() and isinstance(value, str)
]
"""Answers of the router's own."""

SERVED: Final = "ok_stream"
"""The outcome of a request whose response has begun: all clients of podsim stream."""

LOCAL: Final = "local"
"""The tier of every backend: podsim has none outside of the cluster."""

BROKEN: Final = 500
"""From this status on an answer puts its backend into quarantine."""

OF_REQUEST: Final = ("router", "rule", "backend", "classification", "outcome")
OF_ANSWER: Final = ("router", "rule", "classification")
OF_PLACEMENT: Final = ("router", "backend", "outcome", "reason")


def router_families(scrape: Scrape) -> Iterator[Family]:
    """Placements, bindings, requests, their times, health of backends, fail-closed answers."""
    routed = scrape.placements[scrape.placements["proxy"] != DIRECT]
    yield Family(
        "llmkube_router_placements_total",
        "counter",
        "Placements by the policy of a backend, by how it came to them and why.",
        OF_PLACEMENT,
        counted(routed[routed["decided_s"] < scrape.at_s], OF_PLACEMENT),
    )
    yield Family(
        "llmkube_router_session_bindings",
        "gauge",
        "Sessions in the session table of a backend, ended ones included until they expire.",
        ("router", "backend"),
        {
            (scrape.facts.scenario, backend): gauges[BINDINGS]
            for backend, gauges in scrape.facts.gauges.items()
            if BINDINGS in gauges
        },
    )
    requests = _through_router(scrape)
    yield from _over(scrape, requests)
    answered = requests[requests["first_token_s"] < scrape.at_s]
    yield Family(
        "llmkube_router_first_token_seconds",
        "histogram",
        "Time from the arrival of a request, the first of its tries, to its first token.",
        ("router", "backend"),
        observed(answered, ("router", "backend"), "waited_s", ROUTER_TTFT_S),
    )
    yield from _health(scrape, routed)
    yield _fail_closed(scrape)


def _through_router(scrape: Scrape) -> "pd.DataFrame":
    """Return the requests that did not go past the router, and what came of their last tries.

    ``last`` are those whose last try is over, ``served`` those whose response has begun.
    """
    tables = scrape.result.tables
    frame = scrape.requests.assign(last=answered_last(tables, RequestColumns.of(tables.requests)))
    # Answers below 500 pass through as they are, from whichever backend they come.
    passed = (frame["status"] == Status.REJECTED) & (frame["http_status"].fillna(-1) < BROKEN)
    begun = frame["first_token_s"].notna() | (frame["status"] == Status.COMPLETED)
    frame["last"] &= frame["end_s"] < scrape.at_s
    frame["served"] = frame["last"] & (begun | (passed & ~frame["reason"].isin(ROUTERS)))
    frame["waited_s"] = frame["first_token_s"].fillna(frame["end_s"]) - frame["arrival_s"]
    past = scrape.placements["request_id"][scrape.placements["proxy"] == DIRECT]
    return frame[~frame["request_id"].isin(past)]


def _over(scrape: Scrape, requests: "pd.DataFrame") -> Iterator[Family]:
    """The requests that are over, by their last tries; what came of earlier ones is counted too."""
    import pandas as pd

    over = requests[requests["last"]]
    outcome = over["reason"].where(over["reason"] != "", over["status"])
    tries = [over.assign(outcome=outcome.mask(over["served"], SERVED))]
    tries.append(_earlier_tries(scrape, requests))
    every = pd.concat(tries)
    every["classification"] = [_classification(scrape, rule) for rule in every["rule"]]
    yield Family(
        "llmkube_router_requests_total",
        "counter",
        "Requests to the router that are over, every try of a client one; outcome is ok_stream "
        "or the router's reason.",
        OF_REQUEST,
        counted(every, OF_REQUEST),
    )
    # As LLMKube has it: it ends them when the response begins, and a spent budget takes 0 s.
    spent = over["reason"] == Answer.BUDGET_EXCEEDED
    timed = over.assign(
        backend=over["backend"].mask(spent, ""), waited_s=over["waited_s"].mask(spent, 0.0)
    )[over["served"] | spent]
    yield Family(
        "llmkube_router_request_duration_seconds",
        "histogram",
        "Time from the arrival of a request, the first of its tries, to the begin of its response.",
        ("router", "rule", "backend"),
        observed(timed, ("router", "rule", "backend"), "waited_s", DEFAULT_S),
    )
    yield _utilization(scrape, over[over["served"]].sort_values("end_s", kind="stable"))


def _earlier_tries(scrape: Scrape, requests: "pd.DataFrame") -> "pd.DataFrame":
    """Return the tries after which the client tried again.

    Their backend is the one that failed last; without any it is not known, nor
    is the rule of those that were for another model.
    """
    tries = scrape.retries[scrape.retries["end_s"] < scrape.at_s]
    tries = tries[tries["request_id"].isin(requests.index)]
    failed = scrape.result.failed_attempts.drop_duplicates(["request_id", "try"], keep="last")
    backend = tries.merge(failed, "left", ["request_id", "try"])["backend"].fillna("")
    last = requests.loc[tries["request_id"]]
    same = last["model"].to_numpy() == tries["model"].to_numpy()
    return tries.assign(
        backend=backend.to_numpy(),
        rule=np.where(same, last["rule"].to_numpy(), ""),
        outcome=tries["reason"].where(tries["reason"] != "", tries["status"]),
    )


def _utilization(scrape: Scrape, served: "pd.DataFrame") -> Family:
    """That of the request whose response ended last, by who set its limit."""
    router, backends = scrape.scenario["router"], scrape.scenario["backends"]
    rules = {rule["name"]: rule for rule in router["rules"]}
    samples: dict[Labels, Value] = {}
    for rule, backend, waited_s in zip(served["rule"], served["backend"], served["waited_s"]):
        of_rule = rules.get(rule, {}).get("timeout")
        of_backend = backends.get(backend, {}).get("timeout")
        limit_s = of_rule or of_backend or router.get("proxy", {}).get("responseHeaderTimeout")
        if limit_s:
            scope = "rule" if of_rule else "proxy"
            samples[scrape.facts.scenario, scope] = float(waited_s) / limit_s
    return Family(
        "llmkube_router_budget_utilization",
        "gauge",
        "Share of its timeout that the request took whose response ended last.",
        ("router", "scope"),
        dict(sorted(samples.items())),
    )


def _health(scrape: Scrape, routed: "pd.DataFrame") -> Iterator[Family]:
    """Backends with a pod whose last answer has not put it into quarantine."""
    broken = _in_quarantine(scrape, routed)
    healthy: dict[Labels, float] = {}
    for pod in pods(scrape):
        whose = scrape.facts.scenario, pod.backend
        healthy[whose] = max(healthy.get(whose, 0.0), float(pod.name not in broken))
    yield Family(
        "llmkube_router_backend_health",
        "gauge",
        "Whether a backend has a pod that is not in quarantine (1), or none (0).",
        ("router", "backend"),
        healthy,
    )
    yield Family(
        "llmkube_router_active_backends",
        "gauge",
        "Backends with a pod that is not in quarantine.",
        ("router", "tier"),
        {(scrape.facts.scenario, LOCAL): sum(healthy.values())},
    )


def _in_quarantine(scrape: Scrape, routed: "pd.DataFrame") -> set[str]:
    """Return pods that broke an attempt off, or answered it 5xx, not longer ago than it lasts."""
    facts = scrape.facts
    lasts_s = scrape.scenario["router"].get("proxy", {}).get("quarantineDuration", 0.0)
    forgot_s = max((each for each in facts.restarts_s if each < scrape.at_s), default=0.0)
    ended = routed[(routed["end_s"] < scrape.at_s) & (routed["end_s"] >= forgot_s)]
    ended = ended[ended["end_s"] + lasts_s > min(scrape.at_s, facts.end_s)]
    blamed = ended["status"].isin([Status.FAILED, Status.REJECTED])
    blamed &= ended["http_status"].fillna(BROKEN) >= BROKEN
    return set(ended["pod"][blamed & (ended["error"] != Reason.TIMEOUT)])


def _fail_closed(scrape: Scrape) -> Family:
    closed = scrape.requests[scrape.requests["reason"] == Answer.FAIL_CLOSED]
    closed = closed[closed["end_s"] < scrape.at_s]
    classes = [_classification(scrape, rule) for rule in closed["rule"]]
    samples = counted(closed.assign(classification=classes), OF_ANSWER)
    # A counter of a rule that could have failed closed and never did says so.
    for rule in scrape.scenario["router"]["rules"]:
        if rule["failClosed"]:
            classification = _classification(scrape, rule["name"])
            samples.setdefault((scrape.facts.scenario, rule["name"], classification), 0.0)
    return Family(
        "llmkube_router_fail_closed_total",
        "counter",
        "Requests that a rule with failClosed refused because none of its backends served.",
        OF_ANSWER,
        dict(sorted(samples.items())),
    )


def _classification(scrape: Scrape, rule: str) -> str:
    """Return what the rule says its requests are classified as, if that is one thing."""
    rules: list[dict[str, Any]] = scrape.scenario["router"]["rules"]
    for each in rules:
        if each["name"] == rule:
            classes: list[str] = each["match"]["dataClassification"]
            return classes[0] if len(classes) == 1 else ""
    return ""
