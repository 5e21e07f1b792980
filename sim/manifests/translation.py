"""From the texts of manifests to the text of a scenario and the notes on it.

A manifest says nothing about traffic. Each rule gets a small workload, with the
model and the headers that the rule asks for, so that the scenario runs at once.
"""

import re
from collections.abc import Mapping as AnyMapping
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from string import ascii_lowercase, digits
from typing import Final, NamedTuple

from sim.core.document import Place, entries, parse, place_of
from sim.core.errors import UserError
from sim.core.suggest import suggestion
from sim.hardware import catalog
from sim.manifests import engines, objects
from sim.manifests.engines import Given, ImportedEngine, ImportedPool
from sim.manifests.fleet import ImportedFleet, engine_name
from sim.manifests.objects import POOL, SERVICE, Manifest
from sim.manifests.router import ImportedBackend, ImportedRouter, ImportedRule
from sim.manifests.writing import (
    Entry,
    ImportNotes,
    Note,
    NoteKind,
    Plain,
    YamlBlock,
    document,
    model_named,
    scenario_name,
    seconds,
)
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


def workloads(router: ImportedRouter, engines: AnyMapping[str, ImportedEngine]) -> list[StandIn]:
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
    backends: list[str], router: ImportedRouter, engines: AnyMapping[str, ImportedEngine]
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


TAKEN_FROM_WORKLOAD: Final = ("window", "seeds", "slo", "workloads", "events")
"""Blocks of a scenario that no manifest says anything about."""

FIRST: Final = ("window", "seeds", "slo")
"""Those that stand before the engines."""


@dataclass(frozen=True)
class Imported:
    """A scenario, and what was not translated as it is written."""

    scenario: str
    notes: tuple[Note, ...]


def importer(
    texts: Sequence[tuple[str, str]],
    gpu: str | None = None,
    models: AnyMapping[str, str] | None = None,
    assume: bool = False,
    workload: tuple[str, str] | None = None,
) -> Imported:
    """Translate, for ``podsim import``: each text comes after the name of its file."""
    traffic = None if workload is None else Manifest(*workload)
    given = Given(gpu, models or {}, assume)
    return translate([Manifest(*each) for each in texts], given, traffic)


def translate(
    manifests: Sequence[Manifest], given: Given | None = None, workload: Manifest | None = None
) -> Imported:
    """The scenario of ``manifests`` and of what is ``given`` beside them.

    ``workload`` is a scenario, or a part of one, whose workloads are taken (with
    its window, seeds, objectives and events) instead of those that stand in.

    Raises ``ScenarioError`` with all faults of the manifests at once, and
    ``UserError`` for a GPU or a model that is not in the catalogue.
    """
    given = _in_the_catalogue(given or Given())
    notes = ImportNotes()
    sources = [manifest.source for manifest in manifests]
    taken = [] if workload is None else _taken(workload, notes)
    found = objects.read(manifests, notes, given.assume)
    if not found.complete:  # every reference to a file that cannot be read would be a fault
        notes.refuse(sources)
    fleet = ImportedFleet(found, given)
    services = [each.name for each in found.found[SERVICE]]
    for name in given.models:
        if name not in services and not notes.faults:
            raise UserError(f"--model: there is no service {name!r}{suggestion(name, services)}")
    layout = _Layout(fleet, notes)
    notes.refuse(sources)  # what is left to do needs every name to have its object
    scenario = layout.scenario(sources, taken)
    return Imported(document(scenario), notes.in_order(sources))


def _in_the_catalogue(given: Given) -> Given:
    """The same by the catalogue's names."""
    gpu, models = given.gpu, {}
    if gpu is not None and gpu not in catalog.gpus():
        raise UserError(f"unknown gpu {gpu!r}{suggestion(gpu, catalog.gpus(), every=True)}")
    for service, text in given.models.items():
        name = model_named(text)
        if name is None:
            raise UserError(
                f"unknown model {text!r}{suggestion(text, catalog.models(), every=True)}"
            )
        models[service] = name
    return Given(gpu, models, given.assume)


def _taken(workload: Manifest, notes: ImportNotes) -> list[Entry]:
    """The blocks of a workload file."""
    root = parse(workload.text, workload.source)
    blocks = entries(root)
    if "workloads" not in blocks:
        message = "has no workloads: give the block of a scenario, workloads: {...}"
        notes.fault(Place(workload.source), (), message)
    for key in blocks:
        if key not in TAKEN_FROM_WORKLOAD:
            message = f"only {', '.join(TAKEN_FROM_WORKLOAD)} are taken from a workload file"
            notes.add(NoteKind.IGNORED, place_of(root, (key,), at_key=True), (key,), message)
    taken = [key for key in TAKEN_FROM_WORKLOAD if key in blocks]
    return [Entry(key, blocks[key], f"from {workload.source}") for key in taken]


class _Layout:
    """Writes down a fleet in the order of a scenario."""

    def __init__(self, fleet: ImportedFleet, notes: ImportNotes) -> None:
        self._fleet = fleet
        self._notes = notes
        self._pools = self._pool_blocks()

    def scenario(self, sources: list[str], taken: list[Entry]) -> YamlBlock:
        """The whole file; ``taken`` are the blocks of a workload file."""
        traffic = taken or self._stand_ins()
        block = YamlBlock()
        block.remark(
            f"Imported by podsim from {', '.join(sources)}. A comment says which field of a "
            "manifest a value is from, or that it is assumed."
        )
        block.add("name", self._fleet.name)
        block.entries += [each for each in traffic if each.key in FIRST]
        block.add("engines", self._engines())
        block.add("backends", self._backends())
        if not self._pools.empty:
            block.add("pools", self._pools)
        block.add("router", self._router(), f"{self._fleet.router.origin}.")
        block.entries += [each for each in traffic if each.key not in FIRST]
        return block

    def _engines(self) -> YamlBlock:
        block = YamlBlock()
        for name, backend in self._fleet.router.backends.items():
            origin = backend.service
            why = f"{SERVICE} {origin.name}, {origin.written_at}."
            block.add(engine_name(origin), self._fleet.engines[name].block(), why)
        return block

    def _backends(self) -> YamlBlock:
        block = YamlBlock()
        for name, backend in self._fleet.router.backends.items():
            block.add(name, self._backend(backend))
        return block

    def _backend(self, backend: ImportedBackend) -> YamlBlock:
        block = YamlBlock()
        block.add("engine", engine_name(backend.service))
        replicas = self._fleet.engines[backend.name].replicas
        if replicas > 1:
            block.add("replicas", replicas, f"{SERVICE} {backend.service.name} spec.replicas")
        if backend.capabilities:
            block.add("capabilities", backend.capabilities)
        if backend.timeout_s:
            block.add("timeout", seconds(backend.timeout_s))
        placement = backend.placement
        if placement is not None:
            block.add(placement.key, placement.value, placement.why)
        elif replicas > 1:
            why = "without balancing the proxy keeps its connections, each to the pod it came to"
            block.add("policy", {"kind": "keep-alive"}, why)
        return block

    def _pool_blocks(self) -> YamlBlock:
        block, owners = YamlBlock(), dict[str, ImportedPool]()
        for found in self._fleet.pools:
            manifest = found.manifest
            name = scenario_name(manifest.name)
            if not name or owners.setdefault(name, found) is not found:
                message = f"cannot be called {name!r} in the scenario, or another pool is"
                self._notes.fault(manifest.place, manifest.spec.path[:1], message)
                continue
            called = {each.service.name: each.name for each in self._fleet.backends_of(found)}
            why = f"{POOL} {manifest.name}, {manifest.written_at}."
            block.add(name, engines.block(found, called, self._fleet.engines), why)
        return block

    def _router(self) -> YamlBlock:
        router = self._fleet.router
        block = YamlBlock()
        block.add("rules", [_rule(rule) for rule in router.rules])
        block.entries += router.settings.entries
        return block

    def _stand_ins(self) -> list[Entry]:
        block = YamlBlock()
        for each in workloads(self._fleet.router, self._fleet.engines):
            block.add(each.name, each.workload, each.why)
        why = (
            "Manifests say nothing about traffic. These STAND IN for it: replace them by workloads "
            "of your own (`podsim list workloads`), or import with --workload FILE."
        )
        return [Entry("window", WINDOW, "assumed"), Entry("workloads", block, why)]


def _rule(rule: ImportedRule) -> YamlBlock:
    block = YamlBlock()
    block.add("name", rule.name, rule.origin)
    if rule.match:
        block.add("match", rule.match)
    block.add("backends", rule.backends)
    for key, value in rule.settings.items():
        block.add(key, value)
    return block
