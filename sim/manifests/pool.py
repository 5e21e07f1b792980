"""ModelPool to a pool: models that take turns on one slot of GPUs."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from sim.manifests.fields import Fields
from sim.manifests.notes import NoteKind
from sim.manifests.objects import SERVICE, Object, Objects
from sim.manifests.service import Engine
from sim.manifests.writing import Block, seconds

STICKY, RECLAIM = "sticky", "reclaim"
POLICIES: Final = (STICKY, RECLAIM, "priority")

METHODS: Final = {"vllm": "vllm-cold", "llamacpp": "llamacpp"}
"""How the operator brings a member up, by kind of engine: it scales a Deployment from 0 to 1."""

ASSUMED_LOAD_S: Final = 60.0


@dataclass
class Pool:
    """One pool and the services that share its slot."""

    manifest: Object
    members: list[Object] = field(default_factory=list)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the node that has the slot."""
        return self.manifest.spec.labels("nodeSelector")


def members(manifest: Object, objects: Objects, taken: dict[str, Object]) -> Pool:
    """The pool of ``manifest``; ``taken`` says by name whose members other pools have."""
    pool = Pool(manifest)
    references = [each.child("inferenceServiceRef") for each in manifest.spec.children("members")]
    if not references:
        manifest.spec.fault("members", "must name a service")
    for member in references:
        if member is not None:
            _member(member, pool, objects, taken)
    if None in references:
        manifest.spec.fault("members", "each must have an inferenceServiceRef")
    return pool


def _member(reference: Fields, pool: Pool, objects: Objects, taken: dict[str, Object]) -> None:
    name = reference.name("name") or ""
    service = objects.find(SERVICE, name, pool.manifest)
    if service is None:
        reference.fault("name", objects.missing(SERVICE, name, pool.manifest))
        return
    key = f"{service.namespace}/{name}"
    if key in taken:
        message = f"{name!r} is a member of ModelPool {taken[key].name} already; it has one slot"
        reference.fault("name", message)
        return
    taken[key] = pool.manifest
    pool.members.append(service)


def block(pool: Pool, engines: dict[str, Engine], called: Callable[[Object], str]) -> Block:
    """The block under ``pools``; ``engines`` by name of the backend, which ``called`` gives."""
    spec = pool.manifest.spec
    written, of_members = Block(), Block()
    for service in pool.members:
        name = called(service)
        of_members.add(name, _times(engines[name]), "")
    written.add("members", of_members, "spec.members; times to load follow from the engines")
    policy = _swap_policy(spec)
    default = spec.name("default")
    names = {service.name: called(service) for service in pool.members}
    if default is not None and default not in names:
        spec.fault("default", f"{default!r} is no member of the pool: {', '.join(names)}")
    elif default is not None:
        written.add("default", names[default], spec.origin("default"))
    if policy is not None:
        written.add("swapPolicy", policy, spec.origin("swapPolicy"))
    if policy == RECLAIM and default is None:
        spec.fault("swapPolicy", "reclaim needs a default: the member that gets the slot back")
    _durations(spec, written)
    spec.ignore("minResidency", "podsim's model-pool swaps as soon as nobody is in flight")
    spec.leave("gpu", "nodeSelector")
    spec.ignore_unread()
    return written


def _times(engine: Engine) -> dict[str, object]:
    """How long a member loads: computed where its weights are known, else assumed."""
    if engine.knows_weights:
        return {"swap": {"method": METHODS[engine.kind]}}
    return {"load": seconds(ASSUMED_LOAD_S)}


def _swap_policy(spec: Fields) -> str | None:
    policy = spec.one_of("swapPolicy", POLICIES)
    if policy != "priority":
        return policy
    message = "podsim's model-pool has no priorities; sticky is assumed"
    spec.note(NoteKind.WARNING, "swapPolicy", message)
    return STICKY


def _durations(spec: Fields, written: Block) -> None:
    after_s = spec.duration_s("reclaimAfter")
    if after_s:
        written.add("reclaimAfter", seconds(after_s), spec.origin("reclaimAfter"))
    budget_s = spec.duration_s("swapBudget")
    if budget_s is not None:
        value = seconds(budget_s) if budget_s else None
        written.add("swapBudget", value, spec.origin("swapBudget"))
