"""An engine as far as manifests say it: settings with their origins, and what is missing."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from sim.manifests.notes import NoteKind
from sim.manifests.objects import Object
from sim.manifests.writing import Block, Plain


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
class Engine:
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

    def block(self) -> Block:
        """The block under ``engines``."""
        block = Block()
        for text in (*self.cautions, *(f"To add: {missing}" for missing in self.to_add)):
            block.remark(text)
        for key, setting in self.settings.items():
            block.add(key, setting.value, setting.why)
        return block
