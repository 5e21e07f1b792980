"""How a backend spreads its requests over its pods: ``balancing`` of a ModelRouter.

The scenario understands the same block; here is what a manifest may say and a
scenario refuses.
"""

import re
from dataclasses import dataclass
from typing import Final

from sim.manifests.fields import Fields
from sim.manifests.writing import NoteKind, Plain, seconds

LOAD_AWARE: Final = "LoadAware"
ROUND_ROBIN: Final = "RoundRobin"
LOAD_BOUND: Final = "maxLoadPercent"
AFFINITY: Final = "sessionAffinity"

RING_LOAD_PERCENT: Final = 125
"""The bound of the ring, whatever its objects say."""

LAST_RING: Final = (0, 10, 7)
"""Proxies up to here place by the ring; 0.10.8, previews included, brought the session table."""

_VERSION: Final = re.compile(r":v?([0-9]+)\.([0-9]+)\.([0-9]+)(?![0-9])[^/]*$")


@dataclass(frozen=True)
class Placement:
    """The key under a backend, ``policy`` or ``balancing``, with value and reason."""

    key: str
    value: Plain
    why: str
    keeps_sessions: bool = False


def has_ring(image: str | None) -> bool | None:
    """Whether the LoadAware of a proxy image is the bounded ring; None if its tag does not say."""
    version = None if image is None else _VERSION.search(image)
    return None if version is None else tuple(map(int, version.groups())) <= LAST_RING


def translate(backend: Fields, default: Fields | None, ring: bool) -> Placement | None:
    """The placement of ``backend``, or None where pods are a Service's to choose.

    ``default`` is the block of the router for backends without their own. With
    ``ring`` the proxy has the bounded ring for LoadAware, and kept sessions with
    RoundRobin too. Without any block the proxy takes turns over the pods with
    ``resolution: endpoint``, and knows only their Service with ``service``, the
    default (LLMKube pull request 1820).
    """
    block = backend.child("balancing") or default
    resolution = backend.one_of("resolution", ("service", "endpoint"))
    if block is None:
        if resolution != "endpoint":
            return None
        return Placement("balancing", {"mode": ROUND_ROBIN}, backend.origin("resolution"))
    mode = block.one_of("mode", (LOAD_AWARE, ROUND_ROBIN)) or ROUND_ROBIN
    affinity = block.child(AFFINITY)
    where = block.origin("mode")
    if ring and (mode == LOAD_AWARE or affinity is not None):
        return _bounded_ring(block, affinity)
    if LOAD_BOUND in block:
        message = "deprecated and without effect: nothing but the ring of 0.10.7 has a load bound"
        block.leave(LOAD_BOUND)
        block.note(NoteKind.WARNING, LOAD_BOUND, message)
    if mode == ROUND_ROBIN:
        if affinity is None:
            return Placement("balancing", {"mode": ROUND_ROBIN}, where)
        block.leave(AFFINITY)
        affinity.leave(*affinity.node)
        message = "SessionAffinityIgnored: needs mode LoadAware; plain round robin serves"
        block.note(NoteKind.WARNING, AFFINITY, message)
        why = f"{where}; SessionAffinityIgnored: it needs LoadAware"
        return Placement("balancing", {"mode": ROUND_ROBIN}, why)
    value: dict[str, Plain] = {"mode": LOAD_AWARE}
    if affinity is not None:
        value[AFFINITY] = _affinity(affinity)
    return Placement("balancing", value, where.removesuffix(".mode"), affinity is not None)


def _bounded_ring(block: Fields, affinity: Fields | None) -> Placement:
    block.leave(LOAD_BOUND)
    if affinity is not None:
        affinity.leave("headers")  # podsim's clients have a session key, whatever it is called
    value = {"kind": "bounded-ring", "maxLoadPercent": RING_LOAD_PERCENT}
    why = f"of a proxy up to 0.10.7 (spec.proxy.image); its bound is {RING_LOAD_PERCENT} %"
    return Placement("policy", value, why, keeps_sessions=True)


def _affinity(affinity: Fields) -> dict[str, Plain]:
    value: dict[str, Plain] = {}
    if headers := affinity.texts("headers"):
        value["headers"] = headers
    idle_s = affinity.duration_s("idleTimeout", 60.0)
    if idle_s is not None:
        value["idleTimeout"] = seconds(idle_s)
    sessions = affinity.whole("maxSessions", 1, 10_000_000)
    if sessions is not None:
        value["maxSessions"] = sessions
    return value
