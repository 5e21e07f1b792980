"""Engines and ModelPools of manifests: settings with their origins, and what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sim.hardware import loading
from sim.manifests.fields import Fields
from sim.manifests.objects import SERVICE, Object, Objects
from sim.manifests.writing import NoteKind, Plain, YamlBlock, seconds


@dataclass(frozen=True)
class Setting:
    """An engine key: its value, and where that is from."""

    value: Plain
    why: str


@dataclass(frozen=True)
class Given:
    """What the user says beside the manifests.

    ``gpu`` is that of all services, ``models`` those of single ones by name;
    with ``assume`` what nobody says is assumed, and said so.
    """

    gpu: str | None = None
    models: Mapping[str, str] = field(default_factory=dict)
    assume: bool = False


class WithoutGpu(NamedTuple):
    """An engine whose GPU is to be assumed: why, what it rests on, and which GPUs it may be."""

    lacking: str
    reason: str
    gpus: tuple[str, ...]


@dataclass
class ImportedEngine:
    """What a service runs, as far as its manifest says it."""

    service: Object
    kind: str
    replicas: int
    settings: dict[str, Setting] = field(default_factory=dict)
    to_add: list[str] = field(default_factory=list)
    cautions: list[str] = field(default_factory=list)
    without_gpu: WithoutGpu | None = None

    def lacks(self, message: str) -> None:
        """Note what the engine needs and no manifest says."""
        self.to_add.append(f"{message}.")
        spec = self.service.spec
        spec.notes.add(NoteKind.TO_ADD, self.service.place, spec.path[:1], message)

    def assume(self, key: str, value: Plain, message: str) -> None:
        """Set what no manifest says; the message says which value, and what it rests on."""
        self.settings[key] = Setting(value, "assumed")
        self.warns(message)

    def warns(self, message: str) -> None:
        """Remark on the whole engine, in the scenario and in the notes."""
        self.cautions.append(f"{message[:1].upper()}{message[1:]}.")
        spec = self.service.spec
        spec.notes.add(NoteKind.WARNING, self.service.place, spec.path[:1], message)

    @property
    def knows_weights(self) -> bool:
        """Whether the time to load it can be computed."""
        return "model" in self.settings

    @property
    def context_tokens(self) -> int | None:
        """The longest sequence that a request may become; None where no manifest says it."""
        key = "maxModelLen" if self.kind == "vllm" else "ctxSize"
        if key not in self.settings:
            return None
        tokens = int(self.settings[key].value)
        slots = self.settings.get("parallel")
        unified = self.settings.get("kvUnified")
        if self.kind == "vllm":
            return tokens
        if slots is not None and slots.value and (unified is None or not unified.value):
            tokens //= int(slots.value)
        most = self.settings.get("kvUnifiedPerSlot")
        return tokens if most is None else min(tokens, int(most.value))

    @property
    def sequence_tokens(self) -> int | None:
        """Tokens of KV that it must have room for; None where no manifest says it."""
        if self.kind == "vllm":
            return self.context_tokens
        return int(self.settings["ctxSize"].value) if "ctxSize" in self.settings else None

    def block(self) -> YamlBlock:
        """The block under ``engines``."""
        block = YamlBlock()
        for text in (*self.cautions, *(f"To add: {missing}" for missing in self.to_add)):
            block.remark(text)
        for key, setting in self.settings.items():
            block.add(key, setting.value, setting.why)
        return block


STICKY, RECLAIM, PRIORITY = "sticky", "reclaim", "priority"
POLICIES: Final = (STICKY, RECLAIM, PRIORITY)
MAX_PRIORITY: Final = 1_000_000

METHODS: Final[Mapping[str, loading.Method]] = {"vllm": "vllm-cold", "llamacpp": "llamacpp"}
"""How the operator brings a member up, by kind of engine: it scales a Deployment from 0 to 1."""

ASSUMED_LOAD_S: Final = 60.0


@dataclass
class ImportedPool:
    """One pool and the services that share its slot."""

    manifest: Object
    members: list[Object] = field(default_factory=list)
    priorities: dict[str, int] = field(default_factory=dict)

    @property
    def labels(self) -> dict[str, str]:
        """Labels of the node that has the slot."""
        return self.manifest.spec.labels("nodeSelector")


def members(manifest: Object, objects: Objects, taken: dict[str, Object]) -> ImportedPool:
    """The pool of ``manifest``; ``taken`` says by name whose members other pools have."""
    pool = ImportedPool(manifest)
    listed = list(manifest.spec.children("members"))
    references = [each.child("inferenceServiceRef") for each in listed]
    if not references:
        manifest.spec.fault("members", "must name a service")
    for member, reference in zip(listed, references, strict=True):
        if reference is not None:
            _member(reference, pool, objects, taken)
            priority = member.whole("priority", -MAX_PRIORITY, MAX_PRIORITY)
            if priority is not None:
                pool.priorities[reference.name("name") or ""] = priority
    if None in references:
        manifest.spec.fault("members", "each must have an inferenceServiceRef")
    return pool


def _member(
    reference: Fields, pool: ImportedPool, objects: Objects, taken: dict[str, Object]
) -> None:
    name = reference.name("name") or ""
    service = objects.refer(SERVICE, name, pool.manifest, reference, "name")
    if service is None:
        return
    key = f"{service.namespace}/{name}"
    if key in taken:
        message = f"{name!r} is a member of ModelPool {taken[key].name} already; it has one slot"
        reference.fault("name", message)
        return
    taken[key] = pool.manifest
    pool.members.append(service)


def block(
    pool: ImportedPool, called: Mapping[str, str], engines: Mapping[str, ImportedEngine]
) -> YamlBlock:
    """The block under ``pools``.

    ``called`` says by the name of a service how its backend is called, and
    ``engines`` by that name what it runs.
    """
    spec = pool.manifest.spec
    written, of_members = YamlBlock(), YamlBlock()
    policy, residency_s = _swap_policy(spec), spec.duration_s("minResidency")
    fair = spec.text("swapPolicy") == PRIORITY or residency_s is not None
    for service, name in called.items():
        times, why = _times(engines[name])
        urgency = pool.priorities.get(service)
        of_members.add(name, {**times, "priority": urgency} if fair and urgency else times, why)
    if fair:
        written.add("kind", "fair", "its members have priorities, or a time before they must leave")
    written.add("members", of_members)
    default = spec.name("default")
    if default is not None and default in called:
        written.add("default", called[default], spec.origin("default"))
    elif default is not None and called:  # without members that is the one fault
        spec.fault("default", f"{default!r} is no member of the pool: {', '.join(called)}")
    if policy is not None:
        written.add("swapPolicy", policy, spec.origin("swapPolicy"))
    if policy == RECLAIM and default is None:
        spec.fault("swapPolicy", "reclaim needs a default: the member that gets the slot back")
    _durations(spec, written)
    if residency_s:
        written.add("minResidency", seconds(residency_s), spec.origin("minResidency"))
    spec.leave("gpu", "nodeSelector")
    spec.ignore_unread()
    return written


def _times(engine: ImportedEngine) -> tuple[dict[str, object], str]:
    """How long a member loads, and why: computed where its weights are known, else assumed."""
    if engine.knows_weights:
        method = METHODS[engine.kind]
        disk = f"{loading.METHODS[method].disk / loading.GB_PER_S:g}GB/s"
        return {"swap": {"method": method, "disk": disk}}, "from the weights; disk: assumed"
    return {"load": seconds(ASSUMED_LOAD_S)}, "assumed: the weights are unknown"


def _swap_policy(spec: Fields) -> str | None:
    """The scenario's; priorities are a fair pool's, whose resident stays as a sticky one's."""
    policy = spec.one_of("swapPolicy", POLICIES)
    return STICKY if policy == PRIORITY else policy


def _durations(spec: Fields, written: YamlBlock) -> None:
    after_s = spec.duration_s("reclaimAfter")
    if after_s:
        written.add("reclaimAfter", seconds(after_s), spec.origin("reclaimAfter"))
    budget_s = spec.duration_s("swapBudget")
    if budget_s is not None:
        value = seconds(budget_s) if budget_s else None
        written.add("swapBudget", value, spec.origin("swapBudget"))
