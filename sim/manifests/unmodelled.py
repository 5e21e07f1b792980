"""Fields and options that an import leaves out: which have an effect, and which have none.

Names are LLMKube's (api/v1alpha1), and those of vLLM's and llama-server's
command lines. Whatever stands in neither table is listed as unknown, one by one.
"""

from collections.abc import Mapping
from typing import Final

EFFECTS: Final[Mapping[str, str]] = {
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

AS_ASSUMED: Final[Mapping[str, tuple[object, ...]]] = {
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
