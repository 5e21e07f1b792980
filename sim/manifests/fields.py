"""The values of a manifest, read key by key; keys that were not read are reported at the end.

Some have an effect that podsim does not model, others have none. Names are LLMKube's
(api/v1alpha1), and those of vLLM's and llama-server's command lines; whatever stands in
neither table is listed as unknown, one by one.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Mapping as AnyMapping
from typing import Any, Final, TypeVar

from sim.core.document import Path, Place, PlacedList, PlacedMap
from sim.core.fields import MAX_NAME, NAME_PATTERN, PATTERNS_IN_WORDS, describe
from sim.core.suggest import nearest, suggestion
from sim.manifests.writing import ImportNotes, NoteKind

EFFECTS: Final[AnyMapping[str, str]] = {
    "autoscaling": "the number of pods is fixed",
    "cpuOffloadGB": "weights stay on the GPU",
    "enableChunkedPrefill": "prefills are chunked in any case",
    "enforceEager": "steps are those of CUDA graphs",
    "gpuSharing": "a pod has its GPU for itself",
    "healthCheck": "readiness is known at once",
    "hostMemory": "nothing is offloaded to the host",
    "kvTransferConfig": "KV stays on the GPU",
    "latencySLOMs": "no rule is promoted by its latency",
    "layers": "all layers are on the GPU",
    "loraAdapters": "there are no adapters",
    "maxPodLifetimeIdleTimeoutSeconds": "pods are not recycled",
    "maxPodLifetimeSeconds": "pods are not recycled",
    "moeCPULayers": "experts stay on the GPU",
    "moeCPUOffload": "experts stay on the GPU",
    "mode": "requests are answered token by token",
    "multiNode": "a replica is on one node",
    "noKvOffload": "the KV cache stays on the GPU",
    "reasoningBudget": "lengths of answers are the workload's",
    "rolloutPolicy": "pods are not rolled",
    "sglangConfig": "there is no engine like SGLang",
    "sharding": "GPUs share tensors",
    "speculative": "no tokens are drafted",
    "speculativeDecoding": "no tokens are drafted",
    "swapSpace": "preempted requests are computed again",
    "tensorOverrides": "all tensors are on the GPU",
    "tgiConfig": "there is no engine like TGI",
    "turboQuantBits": "the KV cache is bf16 or fp8",
    "weight": "backends are tried in their order",
}
"""What podsim does where it does not model a field that would change a run."""

NO_EFFECT: Final = frozenset(
    (
        *("accelerator", "affinity", "annotations", "attentionBackend", "auditLog", "auth"),
        *("bindAddress", "containerPort", "costPerMillionTokens", "cpu"),
        *("credentialsSecretRef", "disruption", "enabled"),
        *("endpoint", "env", "envFrom", "ephemeralStorage", "evictionProtection", "extraVolumes"),
        *("extraVolumeMounts", "files", "flashAttention", "format", "gatewayRef", "mmproj"),
        *("hfTokenSecretRef", "imagePullPolicy", "imagePullSecrets", "initContainers", "jinja"),
        *("labels", "mcpServer", "memory", "memoryLimit", "metadataOverrides"),
        *("modelCache", "noWarmup", "podAnnotations", "podLabels"),
        *("podSecurityContext", "priority", "priorityClassName", "probeOverrides"),
        *("reasoningBudgetMessage", "refreshPolicy", "resourceClaims", "resourceName"),
        *("revisionHistoryLimit", "runtimeClassName"),
        *(
            "sensitiveClassifications",
            "securityContext",
            "serviceAccountName",
            "sha256",
            "skipModelInit",
            "slo",
        ),
        *("sourceSecretRef", "terminationGracePeriodSeconds", "tier", "tolerations"),
        *("topologySpreadConstraints", "trustRemoteCode", "volumes"),
    )
)
"""Fields that cannot change what a simulation finds."""

FLAG_EFFECTS: Final = frozenset(
    (
        *("cpu-moe", "n-cpu-moe", "cpu-offload-gb", "enforce-eager", "no-kv-offload", "nkvo"),
        *("kv-offloading-size", "kv-transfer-config", "speculative-config", "speculative-model"),
        *("num-speculative-tokens", "model-draft", "md", "draft-max", "draft-min", "spec-type"),
        *("spec-draft-n-max", "enable-lora", "lora-modules", "pipeline-parallel-size", "pp"),
        *("n-gpu-layers", "gpu-layers", "ngl", "override-tensor", "ot", "split-mode", "sm"),
        *("tensor-split", "ts", "swap-space", "no-enable-chunked-prefill"),
        *("enable-sleep-mode", "reasoning-budget", "cache-reuse", "context-shift", "swa-full"),
        *("embedding", "embeddings", "rerank", "reranking"),
        *("decode-context-parallel-size", "mamba-cache-mode", "mamba-ssm-cache-dtype"),
        *(
            "kv-cache-dtype-skip-layers",
            "mamba-cache-dtype",
            "kv-cache-memory",
            "kv-cache-memory-bytes",
            "checkpoint-min-step",
        ),
    )
)
"""Options that change a run and that podsim does not model."""

NO_FLAG_EFFECT: Final = frozenset(
    (
        *("host", "port", "alias", "a", "api-key", "served-model-name", "chat-template", "jinja"),
        *("no-jinja", "chat-template-file", "chat-template-kwargs", "trust-remote-code", "metrics"),
        *(
            "no-mmap",
            "mmap",
            "mlock",
            "seed",
            "s",
            "temp",
            "temperature",
            "top-k",
            "top-p",
            "min-p",
        ),
        *("presence-penalty", "repeat-penalty", "frequency-penalty", "samplers", "threads", "t"),
        *("threads-batch", "tb", "threads-http", "flash-attn", "fa", "log-disable", "verbose", "v"),
        *("disable-log-requests", "no-enable-log-requests", "disable-log-stats", "log-level"),
        *("uvicorn-log-level", "enable-auto-tool-choice", "tool-call-parser", "reasoning-parser"),
        *("reasoning-format", "reasoning", "download-dir", "load-format", "tokenizer", "revision"),
        *("tokenizer-mode", "slots", "no-slots", "props", "no-warmup", "warmup", "no-webui"),
        *("webui", "timeout", "to", "prio", "numa", "mmproj", "mm", "no-mmproj", "enable-metrics"),
        *("limit-mm-per-prompt", "language-model-only", "attention-backend", "prio-batch"),
        *("enable-prompt-tokens-details", "generation-config", "override-generation-config"),
        *("enable-chunked-prefill", "slot-save-path", "log-verbosity", "lv", "log-prefix"),
        *("log-timestamps", "no-perf", "offline", "skip-mm-profiling", "mm-processor-kwargs"),
        *(
            "cont-batching",
            "cb",
            "image-min-tokens",
            "reasoning-preserve",
            "load-mode",
            "pooling",
        ),
        *("safetensors-load-strategy", "enable-log-requests", "root-path", "ssl-keyfile"),
    )
)
"""Options that cannot change what a simulation finds."""

DRAFTING: Final = ("spec-", "speculative-", "draft-")

AS_ASSUMED: Final[AnyMapping[str, tuple[object, ...]]] = {
    "enableChunkedPrefill": (True,),
    "layers": (-1, 99, 999),
    "weight": (1,),
}
"""Values that say what podsim assumes; of the other fields that is false."""

ALL_LAYERS: Final = ("-1", "all", "auto")
LAYERS: Final = ("n-gpu-layers", "gpu-layers", "ngl")
MANY_LAYERS: Final = 99


def field_matters(key: str, value: object) -> bool | None:
    """Whether a field that is not translated changes a run; None for one nobody knows.

    What is switched off does not, nor layers on the GPU that are all there.
    """
    if key in NO_EFFECT or (key in EFFECTS and value in AS_ASSUMED.get(key, (False,))):
        return False
    return True if key in EFFECTS else None


def flag_matters(name: str, value: str | None) -> bool | None:
    """Whether an option that is not translated changes a run; None for one nobody knows.

    Layers on the GPU do not where all of them are there.
    """
    if name in LAYERS and value is not None:
        return not (value in ALL_LAYERS or (value.isdigit() and int(value) >= MANY_LAYERS))
    if name in NO_FLAG_EFFECT:
        return False
    return True if name in FLAG_EFFECTS or name.startswith(DRAFTING) else None


Value = TypeVar("Value")

# Kubernetes reads YAML 1.1, where these are true and false.
_YES: Final = frozenset(("y", "yes", "on"))
_NO: Final = frozenset(("n", "no", "off"))

TYPO: Final = 0.8
"""How like a field is to the one that it was to be; manifests have many that podsim never asks."""

_GO_DURATION: Final = re.compile(r"(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:ms|us|µs|ns|h|m|s)", re.ASCII)
_GO_UNITS_S: Final = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6}


class Fields:
    """One mapping of an object.

    Each getter marks its key as read and answers None for what is missing,
    ``null``, or wrong; what is wrong is a fault of its place.
    """

    def __init__(self, node: PlacedMap, path: Path, notes: ImportNotes) -> None:
        self.node = node
        self.path = path
        self.notes = notes
        self._read: set[str] = set()
        self._below: dict[Path, Fields] = {}

    def __contains__(self, key: str) -> bool:
        return self.node.get(key) is not None

    @property
    def place(self) -> Place:
        """Where the mapping is written."""
        return self.node.place

    def place_of(self, key: str) -> Place:
        """Where ``key`` is written; the mapping's place if it is not."""
        return self.node.keys_at.get(key, self.node.place)

    def origin(self, key: str) -> str:
        """A key as comments name it: ``spec.vllmConfig.maxModelLen``."""
        return ".".join(str(segment) for segment in (*self.path[1:], key))

    def fault(self, key: str, message: str) -> None:
        """``key`` is wrong, or missing."""
        self.notes.fault(self.place_of(key), (*self.path, key), message)

    def note(self, kind: NoteKind, key: str, message: str) -> None:
        """A remark on ``key``."""
        self.notes.add(kind, self.place_of(key), (*self.path, key), message)

    def leave(self, *keys: str) -> None:
        """Count ``keys`` as read: they say nothing that matters here, or somebody else notes it."""
        self._read.update(keys)

    def ignore(self, key: str, why: str) -> None:
        """Note that ``key`` is not modelled, if it is there; what is below it is not listed too."""
        self._read.add(key)
        if key in self:
            self.note(NoteKind.NOT_MODELLED, key, why)

    def ignore_unread(self) -> None:
        """Note every key that nobody asked for, here and in the mappings that were asked for."""
        absent = sorted(self._read - self.node.keys())
        for key in self.node:
            if key not in self._read:
                self._leave_out(key, nearest(key, absent, TYPO))
        for below in self._below.values():
            below.ignore_unread()

    def _leave_out(self, key: str, near: str | None) -> None:
        matters = field_matters(key, self.node[key])
        if matters is False:
            self._read.add(key)
            if key in self:
                self.notes.leave_out(self.place_of(key), key)
        elif matters:
            self.ignore(key, EFFECTS[key])
        elif near is not None:
            self.ignore(key, f"unknown field; did you mean {near}?")
        else:
            self.ignore(key, "podsim does not know this field")

    def text(self, key: str) -> str | None:
        """Text; a number or a flag is taken as it reads, as Kubernetes does for labels."""
        value = self._scalar(key, "text")
        if value is None or isinstance(value, str):
            return value
        return str(value).lower() if isinstance(value, bool) else str(value)

    def name(self, key: str) -> str | None:
        """Text that is not empty, which is what a reference needs."""
        return self.text(key) or None

    def own_name(self, key: str) -> str | None:
        """The name of the mapping itself, which must be one in a scenario too."""
        name = self.text(key)
        if name is not None and len(name) <= MAX_NAME and re.fullmatch(NAME_PATTERN, name):
            return name
        if name is not None or key not in self:
            found = "nothing" if name is None else repr(name)
            self.fault(key, f"must be {PATTERNS_IN_WORDS[NAME_PATTERN]}; got {found}")
        return None

    def flag(self, key: str) -> bool | None:
        """True or false, in any of the spellings of YAML 1.1."""
        value = self._scalar(key, "true or false")
        if value is None or isinstance(value, bool):
            return value
        if isinstance(value, str) and value.lower() in _YES | _NO:
            return value.lower() in _YES
        self._wrong(key, "true or false", value)
        return None

    def whole(self, key: str, low: int, high: int) -> int | None:
        """A whole number from ``low`` to ``high``."""
        value = self._scalar(key, "a whole number")
        if value is None:
            return None
        if isinstance(value, int) and not isinstance(value, bool) and low <= value <= high:
            return value
        self._wrong(key, f"a whole number from {low} to {high}", value)
        return None

    def duration_s(self, key: str, low_s: float = 0.0) -> float | None:
        """Seconds of a duration as Go writes it: ``300s``, ``1h30m``, ``1.5s``."""
        value = self._scalar(key, "a duration")
        if value is None:
            return None
        seconds = go_duration_s(value) if isinstance(value, str) else None
        if value == 0 and not isinstance(value, bool):
            seconds = 0.0
        if seconds is None or not low_s <= seconds <= 366 * 86400.0:
            self._wrong(key, "a duration such as 300s or 1h30m", value)
            return None
        return seconds

    def one_of(self, key: str, known: Sequence[str]) -> str | None:
        """One of the words ``known``.

        A slip of the pen is a fault; any other value, as of an API newer than podsim, is
        warned of and taken for a missing one.
        """
        value = self._scalar(key, "text")
        if value is None or value in known:
            return None if value is None else str(value)
        if not isinstance(value, str) or nearest(value, known, TYPO) is not None:
            self.fault(key, f"unknown value {describe(value)}{suggestion(str(value), known)}")
            return None
        listed = ", ".join(known)
        message = f"podsim does not know the value {value!r}, only {listed}; its default is assumed"
        self.note(NoteKind.WARNING, key, message)
        return None

    def texts(self, key: str) -> list[str]:
        """A list of texts; empty when missing."""
        return [text for text, _ in self.placed_texts(key)]

    def placed_texts(self, key: str) -> list[tuple[str, Place]]:
        """A list of texts with the place of each; empty when missing."""
        found = []
        items = self._items(key)
        for index, (value, place) in enumerate(items):
            if value is None or isinstance(value, dict | tuple):
                self._expected(value, place, (key, index), "text")
            else:
                text = str(value).lower() if isinstance(value, bool) else str(value)
                found.append((text, place))
        return found

    def labels(self, key: str) -> dict[str, str]:
        """A mapping of texts; empty when missing."""
        below = self.child(key)
        if below is None:
            return {}
        pairs = [(name, below.text(name)) for name in below.node]
        return {name: text for name, text in pairs if text is not None}

    def child(self, key: str) -> "Fields | None":
        """The mapping below ``key``."""
        self._read.add(key)
        node = self.node.get(key)
        if node is not None and not isinstance(node, PlacedMap):
            self._expected(node, self.node.values_at[key], (key,), "a mapping")
        if not isinstance(node, PlacedMap):
            return None
        return self._enter(node, (key,))

    def children(self, key: str) -> Iterator["Fields"]:
        """The mappings of a list."""
        for index, (item, place) in enumerate(self._items(key)):
            if isinstance(item, PlacedMap):
                yield self._enter(item, (key, index))
            else:
                self._expected(item, place, (key, index), "a mapping")

    def _enter(self, node: PlacedMap, steps: Path) -> "Fields":
        # Entered twice, for two objects that refer to this one, it remembers what was read.
        if steps not in self._below:
            self._below[steps] = Fields(node, (*self.path, *steps), self.notes)
        return self._below[steps]

    def _items(self, key: str) -> list[tuple[Any, Place]]:
        self._read.add(key)
        node = self.node.get(key)
        if isinstance(node, PlacedList):
            return list(zip(node, node.values_at))
        if node is not None:
            self._expected(node, self.node.values_at[key], (key,), "a list")
        return []

    def _scalar(self, key: str, what: str) -> str | int | float | bool | None:
        self._read.add(key)
        value: str | int | float | bool | None = self.node.get(key)
        if isinstance(value, dict | tuple):
            self._expected(value, value.place, (key,), what)
            return None
        return value

    def _expected(self, value: Any, place: Place, steps: Path, what: str) -> None:
        message = f"must be {what}; got {describe(value)}"
        self.notes.fault(place, (*self.path, *steps), message)

    def _wrong(self, key: str, what: str, value: object) -> None:
        self.fault(key, f"must be {what}; got {describe(value)}")


def go_duration_s(text: str) -> float | None:
    """Seconds of ``1h30m``, ``1.5s`` or ``0``; None for what is no duration."""
    if text == "0":
        return 0.0
    parts = _GO_DURATION.findall(text)
    if not parts or "".join(parts) != text:
        return None
    total_s = 0.0
    for part in parts:
        unit = part.lstrip("0123456789.")
        total_s += float(part.removesuffix(unit)) * _GO_UNITS_S.get(unit, 1e-9)
    return total_s
