"""The settings of a vLLM pod, under vLLM's own names."""

import math
from collections.abc import Iterator
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import STARVED, PositiveTokens, Probability, whole
from sim.core.rules import Problem, rule
from sim.hardware import catalog
from sim.hardware.engine import Concurrency, Engine
from sim.hardware.gpu import Gpu

ESTIMATE: Final = (
    "that is podsim's estimate, and vLLM's logs have had up to 60 % more: give kvBlocks as logged"
)
"""12 to 38 % were missing: vllm-project/vllm#12569, #14412 and an RTX 3090 of Llama-3.1-8B."""


class Vllm(Engine):
    """vLLM's V1 engine: paged KV cache, chunked prefill, preemption by recompute.

    Give ``kvBlocks``, or ``gpu`` and ``model`` to derive it from the catalogue.
    """

    kind: Literal["vllm"] = "vllm"
    kv_blocks: Annotated[int, whole(1, 10**9, STARVED)] | None = Field(
        default=None,
        description="KV blocks of a pod that requests can hold; vLLM's log counts its null block, "
        "one more. Derived from gpu and model when missing.",
    )
    data_parallel: Annotated[int, whole(1, 1024)] = Field(
        default=1,
        description="Ranks of one replica, each with tensorParallel GPUs, a scheduler, a queue and "
        "a KV cache. To the router each rank is a pod, <backend>-<replica>-rank-<rank>.",
    )
    enable_expert_parallel: bool = Field(
        default=False,
        description="The ranks of a replica share their experts: each holds a part of them. The "
        "steps of ranks are then one, as those of every model with experts are: it lasts as long "
        "as the slowest rank's. Ranks of dense models are independent. Nothing changes with "
        "dataParallel: 1.",
    )
    prefix_retention: Literal["every-block", "prompt-tail"] = Field(
        default="every-block",
        description="What can be found again. every-block: every full block. prompt-tail, vLLM's "
        "default for hybrid models: only what lies before a kept state of the recurrent layers. "
        "States are kept at the last block boundary of a prompt and where a prompt leaves what is "
        "cached; chunks of a prefill end at block boundaries.",
    )
    block_size: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default_factory=lambda data: _default_block_size(data),
        description="Tokens per KV block: 16; with prompt-tail, where the model has recurrent "
        "layers, as many more as make a layer's block as large as its state (784 for Qwen3.5-27B "
        "and its successors, 1,568 with an fp8 KV cache).",
    )
    max_num_batched_tokens: Annotated[int, whole(1, 10**9, STARVED)] = Field(
        default_factory=lambda data: _default_tokens(data["gpu"]),
        description="Token budget of a step. As vLLM 0.33's, the default depends on gpu: 16,384 "
        "from 160 GiB on, 8,192 from 70 GiB on (not A100, GB10), else 2,048; without gpu 8,192.",
    )
    max_num_seqs: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default_factory=lambda data: min(
            _default_sequences(data["gpu"]), data["max_num_batched_tokens"]
        ),
        description="Most sequences that run at once. As vLLM 0.33's, the default depends on gpu: "
        "1,024 from 70 GiB on (not A100, GB10), else 256; without gpu 256. Capped by "
        "maxNumBatchedTokens.",
    )
    max_model_len: PositiveTokens | None = Field(
        default=None,
        description="Longest sequence, prompt and output together; longer prompts are refused. "
        "When missing, as with vLLM, the model's own (max_position_embeddings); without a model of "
        "the catalogue no limit but the KV cache.",
    )
    reserve_full_prompt: bool = Field(
        default=True, description="A request is admitted only when its whole prompt fits."
    )
    evict_unhashed_first: bool = Field(
        default=True,
        description="Blocks without content, such as the partial last block of a request, are "
        "reused before cached ones; false: in the order in which they were released, as in vLLM "
        "0.19.",
    )
    state_blocks: Annotated[int, whole(0, 10**6)] = Field(
        default_factory=lambda data: _default_state_blocks(data),
        description="KV blocks that the state of the recurrent layers takes, of each running "
        "sequence and of each state kept by prompt-tail. With prompt-tail the default follows from "
        "the model (bytes of its state over those of a block, rounded up), with every-block it is "
        "0.",
    )
    enable_prefix_caching: bool = Field(
        default=True, description="Keep the KV blocks of finished requests for equal prefixes."
    )
    long_prefill_token_threshold: Annotated[int, whole(0, 10**9)] = Field(
        default=0,
        description="Most prompt tokens that one request computes in a step, 0 for no limit but "
        "the budget; what is left of the budget goes to the next in turn. Not applied while the "
        "pod has only one request, waiting or running.",
    )
    watermark: Probability = Field(
        default=0.0,
        description="Share of the KV blocks, rounded down to whole blocks, that must stay free "
        "when a request is admitted while others run.",
    )
    max_num_queued_reqs: Annotated[int, whole(1, 10**9, STARVED)] | None = Field(
        default=None,
        description="Most requests in the pod, waiting and running together; one more is refused "
        "with HTTP 503. No limit when missing.",
    )
    max_num_queued_tokens: Annotated[int, whole(1, 10**12, STARVED)] | None = Field(
        default=None,
        description="A request is refused with HTTP 503 while the prompts of those without a "
        "first token have at least so many tokens, cached ones included. No limit when missing.",
    )
    scheduling_policy: Literal["fcfs", "priority"] = Field(
        default="fcfs",
        description="Who of the waiting is next: the first that came, or the one of the lowest "
        "`priority` number. Preempted is the last admitted, or the one of the highest number.",
    )
    async_scheduling: bool = Field(
        default=False,
        description="Schedule each step while the one before it runs: an arrival waits for the "
        "step in flight and the one behind it, and an end is noticed one step late.",
    )

    @rule
    def _has_a_known_size(self) -> Iterator[Problem]:
        if self.kv_blocks is None and (self.gpu is None or self.model is None):
            yield "", "the KV capacity is unknown: give kvBlocks, or both gpu and model"

    @rule
    def _knows_its_share_of_experts(self) -> Iterator[Problem]:
        known = self.kv_blocks is not None or self.weights is not None
        if not known and self._shares_experts and self.gpu is not None and self.model is not None:
            message = (
                "the KV capacity is unknown: a rank holds its share of the experts only; give "
                "kvBlocks, or weights: the bytes on one rank"
            )
            yield "", message

    @rule
    def _has_experts_to_share(self) -> Iterator[Problem]:
        if self.enable_expert_parallel and self._has_experts is False:
            message = f"{self.model_name} is a dense model: it has no experts to share"
            yield "enableExpertParallel", message

    @rule
    def _steps_hold_all_sequences(self) -> Iterator[Problem]:
        if self.max_num_seqs > self.max_num_batched_tokens:
            message = (
                f"must be at most maxNumBatchedTokens ({self.max_num_batched_tokens}), since "
                f"each running sequence takes a token of the step; got {self.max_num_seqs}"
            )
            yield "maxNumSeqs", message

    @rule
    def _states_leave_room(self) -> Iterator[Problem]:
        if self.kv_blocks is not None and self.state_blocks >= self.kv_blocks:
            yield "stateBlocks", f"must be below kvBlocks ({self.kv_blocks}): {STARVED}"

    @rule
    def _has_states_to_keep(self) -> Iterator[Problem]:
        if self.prefix_retention == "prompt-tail" and not self.state_blocks:
            message = (
                "prompt-tail keeps states of recurrent layers, and the catalogue knows none of "
                f"{self.model_name or 'the model'}: use every-block, or give the stateBlocks they "
                "take"
            )
            yield "prefixRetention", message

    @rule
    def _steps_hold_a_block(self) -> Iterator[Problem]:
        if self.prefix_retention == "prompt-tail" and self.block_size > self.max_num_batched_tokens:
            yield "maxNumBatchedTokens", self._whole_blocks("", self.max_num_batched_tokens)

    @rule
    def _chunks_hold_a_block(self) -> Iterator[Problem]:
        threshold = self.long_prefill_token_threshold
        if self.prefix_retention == "prompt-tail" and 0 < threshold < self.block_size:
            yield "longPrefillTokenThreshold", self._whole_blocks("0, or ", threshold)

    def _whole_blocks(self, otherwise: str, found: int) -> str:
        return (
            f"must be {otherwise}at least blockSize ({self.block_size}) with prefixRetention: "
            f"prompt-tail, where a step computes whole blocks of a prompt; got {found}"
        )

    @property
    def _has_experts(self) -> bool | None:
        """Whether the model is a mixture of experts; None when the catalogue does not know it."""
        known = catalog.model(self.model)
        return None if known is None else known.experts is not None

    @property
    def steps_together(self) -> bool:
        """Whether the data-parallel ranks of a replica exchange tokens in every step."""
        return self.data_parallel > 1 and bool(self.enable_expert_parallel or self._has_experts)

    @property
    def _shares_experts(self) -> bool:
        return self.enable_expert_parallel and self.data_parallel > 1

    @property
    def kv_derived(self) -> bool:
        """Whether the KV capacity follows from gpu and model."""
        return self.kv_blocks is None

    def kv_tokens(self) -> int:
        """Tokens of KV that one pod holds, in whole blocks; see ``kv_blocks``."""
        return kv_blocks(self) * self.block_size

    def warnings(self) -> list[Fault]:
        """A maxModelLen of which not one sequence fits: vLLM ends at its start then.

        ``check_enough_kv_cache_memory`` of vllm/v1/core/kv_cache_utils.py, which
        counts the null block as well.
        """
        room = self.concurrency()
        if room is None or room.blocks_per_sequence <= room.kv_blocks_per_pod + 1:
            return []
        fit = (room.kv_blocks_per_pod - self.state_blocks) * self.block_size
        margin = f"; {ESTIMATE}" if self.kv_derived else ""
        message = (
            f"vLLM would not start: a sequence of {room.sequence_tokens:,} tokens takes "
            f"{room.blocks_per_sequence:,} KV blocks and a pod has {room.kv_blocks_per_pod:,}; "
            f"{fit:,} tokens fit{margin}"
        )
        return [Fault("engine", 0, 0, "maxModelLen", message)]

    @property
    def model_tokens(self) -> int | None:
        """The longest sequence: ``maxModelLen``, or the model's own context; None for no limit.

        As vLLM's ``--max-model-len``, whose default is ``max_position_embeddings``.
        """
        known = catalog.model(self.model)
        return self.max_model_len or (None if known is None else known.context)

    def concurrency(self) -> Concurrency | None:
        """Whole blocks for a sequence of the greatest length that the model has, and its state."""
        if self.model_tokens is None:
            return None
        blocks = -(-self.model_tokens // self.block_size) + self.state_blocks
        return Concurrency(self.model_tokens, blocks, kv_blocks(self))

    def most_tokens(self) -> tuple[int, str]:
        """The longest prompt that a pod serves, and what it is limited by."""
        pod_tokens = (kv_blocks(self) - self.state_blocks) * self.block_size
        if self.model_tokens is None or pod_tokens < self.model_tokens:
            return pod_tokens, "the KV cache"
        return self.model_tokens, "maxModelLen" if self.max_model_len else "the model's context"


def kv_blocks(spec: Vllm) -> int:
    """KV blocks of one pod: as given, or what the GPUs' memory leaves, rounded down.

    Raises ``ScenarioError`` as ``sim.hardware.catalog.kv_tokens`` does, also
    when not one block fits; the path of a fault is the key of the engine.
    """
    catalog.check_names(spec, unless="kv_blocks")
    if spec.kv_blocks is not None:
        return spec.kv_blocks
    blocks = math.floor(catalog.kv_tokens(spec) / spec.block_size)
    if blocks < 1 + spec.state_blocks:
        message = catalog.does_not_fit(spec, "for one KV block")
        raise ScenarioError([Fault("engine", 0, 0, "", message)])
    return blocks


def _default_tokens(gpu: str | Gpu | None) -> int:
    known = catalog.gpu(gpu)
    return 8192 if known is None else known.max_num_batched_tokens


def _default_block_size(data: dict[str, Any]) -> int:
    """vLLM's for hybrid models: attention's page grows, by 16 tokens, to that of the state."""
    known = catalog.model(data["model"])
    if known is None or known.recurrent is None or data["prefix_retention"] == "every-block":
        return 16
    token_bytes = known.kv_bytes_per_token(data["kv_cache_dtype"]) / known.attention_layers
    return 16 * math.ceil(known.recurrent.state_bytes / (16 * token_bytes))


def _default_state_blocks(data: dict[str, Any]) -> int:
    known = catalog.model(data["model"])
    if known is None or data["prefix_retention"] == "every-block":
        return 0
    token_bytes = known.kv_bytes_per_token(data["kv_cache_dtype"], data["tensor_parallel"])
    blocks: float = known.state_bytes / (token_bytes * data["block_size"])
    return math.ceil(blocks)


def _default_sequences(gpu: str | Gpu | None) -> int:
    known = catalog.gpu(gpu)
    return 256 if known is None else known.max_num_seqs
