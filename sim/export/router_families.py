"""What LLMKube's router would say of a run: ``llmkube_router_*``.

Names, labels and buckets are those of LLMKube (internal/metrics). What bypasses
the router is not counted.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np

from sim.export.buckets import ROUTER_TTFT_S
from sim.export.families import Family, Labels, Scrape, counted, observed, words
from sim.request import DIRECT, Answer, Outcome, Status
from sim.results import arrow
from sim.results.requests import RequestColumns
from sim.results.served import answered_last
from sim.router.placement.bindings import Bindings

TABLE: Final = "session-table"
REMEMBERED: Final = (Outcome.NEW, Outcome.STICKY, Outcome.SPILL, Outcome.MIGRATED, Outcome.HOME)
"""How a table comes to place a request that has a session."""


def router_families(scrape: Scrape) -> Iterator[Family]:
    """Placements, bindings, requests, first tokens, fail-closed answers."""
    yield _placements(scrape)
    yield Family(
        "llmkube_router_session_bindings",
        "gauge",
        "Sessions in the session table of a backend, ended ones included until they expire.",
        ("router", "backend"),
        {(scrape.router, name): float(_bindings(scrape, name)) for name in _tables(scrape)},
    )
    yield _requests(scrape)
    yield _first_tokens(scrape)
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


def _requests(scrape: Scrape) -> Family:
    """Every try of a client is a request to the router; those without an answer do not count."""
    table = scrape.result.tables.requests
    columns = RequestColumns.of(table)
    rules, backends = words(table, "rule"), words(table, "backend")
    statuses, reasons = words(table, "status"), words(table, "reason")
    last = scrape.through_router & scrape.happened(columns.end_s)
    last &= answered_last(scrape.result.tables, columns)
    labels = [
        (*_whose(scrape, rule, backend), _outcome(status, reason))
        for rule, backend, status, reason in zip(rules, backends, statuses, reasons, strict=True)
    ]
    samples = counted(labels, last)
    for each, count in _earlier_tries(scrape, rules, words(table, "model")).items():
        samples[each] = samples.get(each, 0.0) + count
    return Family(
        "llmkube_router_requests_total",
        "counter",
        "Requests to the router that are over, every try of a client one; outcome is completed, "
        "or the router's reason.",
        ("router", "rule", "backend", "classification", "outcome"),
        {each: samples[each] for each in sorted(samples)},
    )


def _whose(scrape: Scrape, rule: str, backend: str) -> Labels:
    return scrape.router, rule, backend, _classification(scrape, rule)


def _outcome(status: str, reason: str) -> str:
    return status if status == Status.COMPLETED else reason or status


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
        labels.append((*whose, _outcome(status, reason)))
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
