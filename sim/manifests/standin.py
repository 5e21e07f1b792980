"""Workloads that stand in for the real ones, so that an imported scenario runs at once.

A manifest says nothing about traffic. Each rule gets a little of it, with the
model and the headers that the rule asks for.
"""

import re
from collections.abc import Mapping
from fnmatch import fnmatchcase
from string import ascii_lowercase, digits
from typing import Final, NamedTuple

from sim.manifests.engine import Engine
from sim.manifests.router import Router
from sim.manifests.writing import Plain
from sim.scenario.routing import CLASSIFICATION_HEADER, COMPLEXITY_HEADER

REQUESTS_PER_S: Final = 0.02
"""Little, for it may be a slow card that all rules share."""

PROMPT_TOKENS: Final = 2000
OUTPUT_TOKENS: Final = 300
PROMPT_SHARE: Final = 0.5
OUTPUT_SHARE: Final = 0.25
"""Of the context of an engine that is too small for these lengths."""

AGENTS_PER_REPLICA: Final = 4
AGENT_CONTEXT_TOKENS: Final = 128_000
AGENT_CONTEXT_SHARE: Final = 0.75
LEAST_AGENT_CONTEXT_TOKENS: Final = 64_000
"""Of an engine: agents of set A begin with some 20,000 tokens."""

DEFAULT_ROUTE: Final = "default-route"
WINDOW: Final = {"measure": "30m"}


class StandIn(NamedTuple):
    """One workload, and what it is."""

    name: str
    workload: dict[str, Plain]
    why: str


def workloads(router: Router, engines: Mapping[str, Engine]) -> list[StandIn]:
    """One workload per rule, and one for the default route if a request can get there.

    ``engines`` by the name of the backend: lengths fit into their contexts.
    """
    found = [
        StandIn(
            rule.name,
            _workload(rule.backends, router, engines) | _asked_for(rule.match),
            f"stands in for the requests of rule {rule.name}",
        )
        for rule in router.rules
    ]
    default = router.default_route
    names = {rule.name for rule in router.rules}
    if default is not None and DEFAULT_ROUTE not in names and all(r.match for r in router.rules):
        why = "stands in for the requests that match no rule"
        found.append(StandIn(DEFAULT_ROUTE, _workload([default], router, engines), why))
    return found


def _workload(
    backends: list[str], router: Router, engines: Mapping[str, Engine]
) -> dict[str, Plain]:
    placements = [router.backends[name].placement for name in backends]
    contexts = [engines[name].context_tokens for name in backends]
    known = [tokens for tokens in contexts if tokens is not None]
    context = min(known, default=None)
    if any(placement is not None and placement.keeps_sessions for placement in placements):
        if context is None or context >= LEAST_AGENT_CONTEXT_TOKENS:
            return _agents(context, engines[backends[0]].replicas)
        return _requests(context) | {"sessionKeys": "per-request"}
    return _requests(context)


def _requests(context: int | None) -> dict[str, Plain]:
    prompt, output = PROMPT_TOKENS, OUTPUT_TOKENS
    if context is not None:
        prompt = max(1, min(prompt, int(context * PROMPT_SHARE)))
        output = max(1, min(output, int(context * OUTPUT_SHARE)))
    arrivals = {"kind": "poisson", "rate": REQUESTS_PER_S}
    return {
        "kind": "requests",
        "arrivals": arrivals,
        "promptTokens": prompt,
        "outputTokens": output,
    }


def _agents(context: int | None, replicas: int) -> dict[str, Plain]:
    """Agents of set A, whose sessions end before the engine's context does."""
    agents: dict[str, Plain] = {
        "kind": "agents",
        "agents": AGENTS_PER_REPLICA * replicas,
        "set": "A",
    }
    room = AGENT_CONTEXT_TOKENS if context is None else int(context * AGENT_CONTEXT_SHARE)
    if room < AGENT_CONTEXT_TOKENS:
        agents["maxContext"] = room
    return agents


def _asked_for(match: dict[str, Plain]) -> dict[str, Plain]:
    """The model and the headers of a request that ``match`` is about."""
    asked: dict[str, Plain] = {}
    if models := match.get("models"):
        asked["model"] = _example(models[0])
    headers = dict(match.get("headers", {}))
    if classes := match.get("dataClassification"):
        headers[CLASSIFICATION_HEADER] = classes[0]
    if complexity := match.get("taskComplexity"):
        headers[COMPLEXITY_HEADER] = complexity
    if headers:
        asked["headers"] = headers
    return asked


def _example(pattern: str) -> str:
    """A name that a glob pattern matches: ``assistant`` of ``assistant*``."""
    chosen = re.sub(r"\[[!^]?[^]]+\]", _one_of, pattern)
    return chosen.replace("*", "").replace("?", "x") or "x"


def _one_of(group: re.Match[str]) -> str:
    """A letter or digit that a group of a glob allows; the group itself if there is none."""
    allowed = (mark for mark in ascii_lowercase + digits if fnmatchcase(mark, group[0]))
    return next(allowed, group[0])
