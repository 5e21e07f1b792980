"""What LLMKube's router would say of a run: ``llmkube_router_*``.

Names, labels and buckets are those of LLMKube (internal/metrics), and values are
set when its proxy sets them (internal/router/proxy.go). What bypasses the router
is not counted.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from sim.core.request import DIRECT, Answer, Outcome, Reason, Status
from sim.export.families import (
    DEFAULT_S,
    ROUTER_TTFT_S,
    Family,
    Labels,
    Scrape,
    Value,
    counted,
    observed,
    words,
)
from sim.export.pod_families import pods
from sim.results import arrow
from sim.results.requests import RequestColumns
from sim.results.served import answered_last
from sim.router.placement.bindings import Bindings

TABLE: Final = "session-table"
ROUTERS: Final = frozenset(
    value for name, value in vars(Answer).items() if name.isupper() and isinstance(value, str)
)
"""Answers of the router's own."""
REMEMBERED: Final = (Outcome.NEW, Outcome.STICKY, Outcome.SPILL, Outcome.MIGRATED, Outcome.HOME)
"""How a table comes to place a request that has a session."""


SERVED: Final = "ok_stream"
"""The outcome of a request whose response has begun: all clients of podsim stream."""

LOCAL: Final = "local"
"""The tier of every backend: podsim has none outside of the cluster."""

BROKEN: Final = 500
"""From this status on an answer puts its backend into quarantine."""


def router_families(scrape: Scrape) -> Iterator[Family]:
    """Placements, bindings, requests, their times, health of backends, fail-closed answers."""
    yield _placements(scrape)
    yield Family(
        "llmkube_router_session_bindings",
        "gauge",
        "Sessions in the session table of a backend, ended ones included until they expire.",
        ("router", "backend"),
        {(scrape.router, name): float(_bindings(scrape, name)) for name in _tables(scrape)},
    )
    over = _Over(scrape)
    yield over.requests()
    yield over.durations()
    yield over.utilization()
    yield _first_tokens(scrape)
    yield from _health(scrape)
    yield _fail_closed(scrape)


def _placements(scrape: Scrape) -> Family:
    table = scrape.result.tables.placements
    columns = (words(table, name) for name in ("backend", "outcome", "reason"))
    labels = ((scrape.router, *rest) for rest in zip(*columns, strict=True))
    routed = ~arrow.strings(table, "proxy").equal(DIRECT)
    here = routed & scrape.happened(arrow.numbers(table, "decided_s"))
    return Family(
        "llmkube_router_placements_total",
        "counter",
        "Placements by the policy of a backend, by how it came to them and why.",
        ("router", "backend", "outcome", "reason"),
        counted(labels, here),
    )


class _Over:
    """The requests that are over, by their last tries; what came of earlier ones is counted too."""

    def __init__(self, scrape: Scrape) -> None:
        table = scrape.result.tables.requests
        self._scrape = scrape
        self._columns = columns = RequestColumns.of(table)
        self._rules, self._backends = words(table, "rule"), words(table, "backend")
        self._models = words(table, "model")
        self._last = scrape.through_router & scrape.happened(columns.end_s)
        self._last &= answered_last(scrape.result.tables, columns)
        # Answers below 500 pass through as they are, from whichever backend they come.
        begun = ~np.isnan(columns.first_token_s) | columns.were(Status.COMPLETED)
        own = np.array([reason in ROUTERS for reason in words(table, "reason")], dtype=bool)
        begun |= columns.were(Status.REJECTED) & (columns.http_status < BROKEN) & ~own
        self._served = self._last & begun
        self._waited_s = np.where(
            np.isnan(columns.first_token_s), columns.end_s, columns.first_token_s
        )
        self._waited_s = self._waited_s - columns.arrival_s

    def requests(self) -> Family:
        """Every try is a request to the router; those that nobody answered do not count."""
        table = self._scrape.result.tables.requests
        rows = zip(self._rules, self._backends, words(table, "status"), words(table, "reason"))
        labels = [
            (*_whose(self._scrape, rule, backend), SERVED if served else reason or status)
            for (rule, backend, status, reason), served in zip(rows, self._served.tolist())
        ]
        samples = counted(labels, self._last)
        earlier = _earlier_tries(self._scrape, self._rules, self._models)
        for each, count in earlier.items():
            samples[each] = samples.get(each, 0.0) + count
        return Family(
            "llmkube_router_requests_total",
            "counter",
            "Requests to the router that are over, every try of a client one; outcome is ok_stream "
            "or the router's reason.",
            ("router", "rule", "backend", "classification", "outcome"),
            {each: samples[each] for each in sorted(samples)},
        )

    def durations(self) -> Family:
        """As LLMKube has it, which ends them when the response begins; a spent budget takes 0 s."""
        reasons = words(self._scrape.result.tables.requests, "reason")
        spent = np.array([reason == Answer.BUDGET_EXCEEDED for reason in reasons], dtype=bool)
        labels = [
            (self._scrape.router, rule, "" if refused else backend)
            for rule, backend, refused in zip(self._rules, self._backends, spent.tolist())
        ]
        here = self._served | (self._last & spent)
        return Family(
            "llmkube_router_request_duration_seconds",
            "histogram",
            "Time from the arrival of a request, the first of its tries, to the begin of its "
            "response.",
            ("router", "rule", "backend"),
            observed(labels, np.where(spent, 0.0, self._waited_s), here, DEFAULT_S),
        )

    def utilization(self) -> Family:
        """That of the request whose response ended last, by who set its limit."""
        scenario = self._scrape.scenario
        rules = {rule["name"]: rule for rule in scenario["router"]["rules"]}
        samples: dict[Labels, Value] = {}
        served = np.flatnonzero(self._served)
        for row in served[np.argsort(self._columns.end_s[served], kind="stable")].tolist():
            of_rule = rules.get(self._rules[row], {}).get("timeout")
            of_backend = scenario["backends"].get(self._backends[row], {}).get("timeout")
            of_proxy = scenario["router"].get("proxy", {}).get("responseHeaderTimeout")
            limit_s = of_rule or of_backend or of_proxy
            if limit_s:
                scope = "rule" if of_rule else "proxy"
                samples[self._scrape.router, scope] = float(self._waited_s[row]) / limit_s
        return Family(
            "llmkube_router_budget_utilization",
            "gauge",
            "Share of its timeout that the request took whose response ended last.",
            ("router", "scope"),
            dict(sorted(samples.items())),
        )


def _health(scrape: Scrape) -> Iterator[Family]:
    """Backends with a pod whose last answer has not put it into quarantine."""
    broken = _in_quarantine(scrape)
    healthy: dict[Labels, float] = {}
    for pod in pods(scrape):
        whose = scrape.router, pod.backend
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
        {(scrape.router, LOCAL): sum(healthy.values())},
    )


def _in_quarantine(scrape: Scrape) -> set[str]:
    """Pods that broke an attempt off, or answered it 5xx, not longer ago than quarantine lasts."""
    table, facts = scrape.result.tables.placements, scrape.facts
    ended_s, http_status = arrow.numbers(table, "end_s"), arrow.whole(table, "http_status")
    status = arrow.strings(table, "status")
    blamed = status.equal(Status.FAILED) | status.equal(Status.REJECTED)
    blamed &= (http_status < 0) | (http_status >= BROKEN)
    blamed &= ~arrow.strings(table, "error").equal(Reason.TIMEOUT)
    blamed &= ~arrow.strings(table, "proxy").equal(DIRECT) & scrape.happened(ended_s)
    lasts_s = scrape.scenario["router"].get("proxy", {}).get("quarantineDuration", 0.0)
    forgot_s = max((each for each in facts.restarts_s if each < scrape.at_s), default=0.0)
    now_s = min(scrape.at_s, facts.end_s)
    names = np.array(words(table, "pod"), dtype=object)
    return set(names[blamed & (ended_s >= forgot_s) & (ended_s + lasts_s > now_s)].tolist())


def _whose(scrape: Scrape, rule: str, backend: str) -> Labels:
    return scrape.router, rule, backend, _classification(scrape, rule)


def _earlier_tries(scrape: Scrape, rules: list[str], models: list[str]) -> dict[Labels, float]:
    """Tries after which the client tried again.

    Their backend is the one that failed last; without any it is not known, nor
    is the rule of those that were for another model.
    """
    tables = scrape.result.tables
    failed = tables.failed_attempts
    numbers = zip(arrow.whole(failed, "request_id").tolist(), arrow.whole(failed, "try").tolist())
    backends = dict(zip(numbers, words(failed, "backend"), strict=True))
    retries = tables.retries
    request = arrow.whole(retries, "request_id")
    here = scrape.through_router[request] & scrape.happened(arrow.numbers(retries, "end_s"))
    labels = []
    for row, number, model, status, reason in zip(
        request.tolist(),
        arrow.whole(retries, "try").tolist(),
        words(retries, "model"),
        words(retries, "status"),
        words(retries, "reason"),
        strict=True,
    ):
        rule = rules[row] if models[row] == model else ""
        whose = _whose(scrape, rule, backends.get((row, number), ""))
        labels.append((*whose, reason or status))
    return counted(labels, here)


def _first_tokens(scrape: Scrape) -> Family:
    table = scrape.result.tables.requests
    columns = RequestColumns.of(table)
    labels = [(scrape.router, backend) for backend in words(table, "backend")]
    here = scrape.through_router & scrape.happened(columns.first_token_s)
    return Family(
        "llmkube_router_first_token_seconds",
        "histogram",
        "Time from the arrival of a request, the first of its tries, to its first token.",
        ("router", "backend"),
        observed(labels, columns.ttft_s, here, ROUTER_TTFT_S),
    )


def _fail_closed(scrape: Scrape) -> Family:
    table = scrape.result.tables.requests
    closed = arrow.strings(table, "reason").equal(Answer.FAIL_CLOSED)
    here = closed & scrape.happened(arrow.numbers(table, "end_s"))
    labels = [(scrape.router, rule, _classification(scrape, rule)) for rule in words(table, "rule")]
    samples = counted(labels, here)
    # A counter of a rule that could have failed closed and never did says so.
    for rule in scrape.scenario["router"]["rules"]:
        if rule["failClosed"]:
            whose = (scrape.router, rule["name"], _classification(scrape, rule["name"]))
            samples.setdefault(whose, 0.0)
    return Family(
        "llmkube_router_fail_closed_total",
        "counter",
        "Requests that a rule with failClosed refused because none of its backends served.",
        ("router", "rule", "classification"),
        {each: samples[each] for each in sorted(samples)},
    )


def _classification(scrape: Scrape, rule: str) -> str:
    """What the rule says its requests are classified as, if that is one thing."""
    for each in scrape.scenario["router"]["rules"]:
        if each["name"] == rule:
            classes: list[str] = each["match"]["dataClassification"]
            return classes[0] if len(classes) == 1 else ""
    return ""


def _tables(scrape: Scrape) -> list[str]:
    """The backends whose policy is a session table."""
    backends: Mapping[str, Any] = scrape.scenario["backends"]
    return [name for name, each in backends.items() if each["policy"]["kind"] == TABLE]


def _bindings(scrape: Scrape, backend: str) -> int:
    """Entries of a session table: its placements, told to such a table once more."""
    policy = scrape.scenario["backends"][backend]["policy"]
    table = scrape.result.tables.placements
    decided_s = arrow.numbers(table, "decided_s")
    routed = arrow.strings(table, "backend").equal(backend)
    routed &= ~arrow.strings(table, "proxy").equal(DIRECT) & scrape.happened(decided_s)
    sessions = _Sessions(scrape, policy["headers"])
    outcomes, request = words(table, "outcome"), arrow.whole(table, "request_id").tolist()
    end_s = min(scrape.at_s, scrape.facts.end_s)
    restarts = iter([*(each for each in scrape.facts.restarts_s if each < end_s), np.inf])
    restart_s, sweep, every_s = next(restarts), 1, policy["sweepInterval"]
    entries = Bindings(policy["idleTimeout"], policy["maxSessions"])
    for row in [*np.flatnonzero(routed).tolist(), None]:
        now_s = end_s if row is None else float(decided_s[row])
        while restart_s <= now_s:
            entries = Bindings(policy["idleTimeout"], policy["maxSessions"])
            restart_s = next(restarts)
        while sweep * every_s < now_s or (row is not None and sweep * every_s == now_s):
            entries.sweep(sweep * every_s)
            sweep += 1
        if row is not None and outcomes[row] in REMEMBERED:
            key = sessions.key(request[row])
            if entries.renew(key, now_s) is None and entries.has_room(now_s):
                entries.bind(key, 0, now_s)
    return len(entries)


class _Sessions:
    """Tells sessions apart as a session table does, by numbers of its own."""

    def __init__(self, scrape: Scrape, headers: list[str]) -> None:
        table = scrape.result.tables.requests
        self._sessions, self._workloads = words(table, "session_id"), words(table, "workload")
        self._agents = words(table, "agent_id")
        self._specs: Mapping[str, Any] = scrape.scenario["workloads"]
        self._headers = headers
        self._known: dict[tuple[str, str], int] = {}

    def key(self, request: int) -> int:
        """A number of the session of a request."""
        spec = self._specs.get(self._workloads[request], {})
        sent = {name.lower(): value for name, value in spec.get("headers", {}).items()}
        for name in self._headers:
            if name in sent:
                return self._number("header", sent[name])
        session = self._sessions[request]
        if spec.get("subAgents") == "parent-key":
            # A sub-agent is called agent/session/number, and is known as its parent.
            agent = self._agents[request]
            own = session.removeprefix(f"{agent}/").partition("/")[0]
            session = f"{agent}/{own}"
        return self._number("session", session)

    def _number(self, kind: str, name: str) -> int:
        return self._known.setdefault((kind, name), len(self._known))
