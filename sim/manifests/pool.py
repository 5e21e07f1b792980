"""ModelPool to a pool: models that take turns on one slot of GPUs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sim.manifests.engine import Engine
from sim.manifests.fields import Fields
from sim.manifests.notes import NoteKind
from sim.manifests.objects import SERVICE, Object, Objects
from sim.manifests.writing import Block, seconds
from sim.scenario import swap

STICKY, RECLAIM = "sticky", "reclaim"
POLICIES: Final = (STICKY, RECLAIM, "priority")

METHODS: Final[Mapping[str, swap.Method]] = {"vllm": "vllm-cold", "llamacpp": "llamacpp"}
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


def block(pool: Pool, called: Mapping[str, str], engines: Mapping[str, Engine]) -> Block:
    """The block under ``pools``.

    ``called`` says by the name of a service how its backend is called, and
    ``engines`` by that name what it runs.
    """
    spec = pool.manifest.spec
    written, of_members = Block(), Block()
    for name in called.values():
        of_members.add(name, *_times(engines[name]))
    written.add("members", of_members)
    policy, default = _swap_policy(spec), spec.name("default")
    if default is not None and default in called:
        written.add("default", called[default], spec.origin("default"))
    elif default is not None and called:  # without members that is the one fault
        spec.fault("default", f"{default!r} is no member of the pool: {', '.join(called)}")
    if policy is not None:
        written.add("swapPolicy", policy, spec.origin("swapPolicy"))
    if policy == RECLAIM and default is None:
        spec.fault("swapPolicy", "reclaim needs a default: the member that gets the slot back")
    _durations(spec, written)
    spec.ignore("minResidency", "podsim's model-pool swaps as soon as nobody is in flight")
    spec.leave("gpu", "nodeSelector")
    spec.ignore_unread()
    return written


def _times(engine: Engine) -> tuple[dict[str, object], str]:
    """How long a member loads, and why: computed where its weights are known, else assumed."""
    if engine.knows_weights:
        method = METHODS[engine.kind]
        disk = f"{swap.METHODS[method].disk / swap.GB_PER_S:g}GB/s"
        return {"swap": {"method": method, "disk": disk}}, "from the weights; disk: assumed"
    return {"load": seconds(ASSUMED_LOAD_S)}, "assumed: the weights are unknown"


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
