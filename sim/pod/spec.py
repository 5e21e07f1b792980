"""The settings of a vLLM pod, under vLLM's own names."""

import math
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from sim.errors import Fault, ScenarioError
from sim.scenario import catalog
from sim.scenario.engine import Engine
from sim.scenario.fields import STARVED, PositiveTokens, refuse, whole


class Vllm(Engine):
    """vLLM's V1 engine: paged KV cache, chunked prefill, preemption by recompute.

    Give ``kvBlocks``, or ``gpu`` and ``model`` to derive it from the catalogue.
    """

    kind: Literal["vllm"] = "vllm"
    kv_blocks: Annotated[int, whole(1, 10**9, STARVED)] | None = Field(
        default=None, description="KV blocks per pod; derived from gpu and model when missing."
    )
    block_size: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default=16, description="Tokens per KV block."
    )
    max_num_batched_tokens: Annotated[int, whole(1, 10**9, STARVED)] = Field(
        default=8192,
        description="Token budget of a step. podsim's 8192 does not depend on the GPU as vLLM's "
        "default does (16,384 on a B200): set it to what the fleet runs with.",
    )
    max_num_seqs: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default_factory=lambda data: min(256, data["max_num_batched_tokens"]),
        description="Most sequences that run at once; 256, capped by maxNumBatchedTokens. It does "
        "not depend on the GPU as vLLM's default does (1,024 on a B200): set it.",
    )
    max_model_len: PositiveTokens | None = Field(
        default=None,
        description="Longest sequence, prompt and output together; longer prompts "
        "are refused. No limit but the KV cache when missing.",
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
    prefix_retention: Literal["every-block", "prompt-tail"] = Field(
        default="every-block",
        description="What can be found again. every-block: every full block. prompt-tail, vLLM's "
        "default for hybrid models: only what lies before a kept state of the recurrent layers. "
        "States are kept at the last block boundary of a prompt and where a prompt leaves what is "
        "cached; chunks of a prefill end at block boundaries.",
    )
    state_blocks: Annotated[int, whole(0, 10**6)] = Field(
        default=0,
        description="KV blocks that the state of the recurrent layers takes, of each running "
        "sequence and of each state kept by prompt-tail.",
    )
    enable_prefix_caching: bool = Field(
        default=True, description="Keep the KV blocks of finished requests for equal prefixes."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        problems = []
        if self.kv_blocks is None and (self.gpu is None or self.model is None):
            problems.append(
                ("", "the KV capacity is unknown: give kvBlocks, or both gpu and model")
            )
        if self.max_num_seqs > self.max_num_batched_tokens:
            problems.append(
                (
                    "maxNumSeqs",
                    f"must be at most maxNumBatchedTokens ({self.max_num_batched_tokens}), since "
                    f"each running sequence takes a token of the step; got {self.max_num_seqs}",
                )
            )
        if self.kv_blocks is not None and self.state_blocks >= self.kv_blocks:
            message = f"must be below kvBlocks ({self.kv_blocks}): {STARVED}"
            problems.append(("stateBlocks", message))
        if self.prefix_retention == "prompt-tail" and not self.state_blocks:
            message = "must be above 0 with prefixRetention: prompt-tail: kept states take blocks"
            problems.append(("stateBlocks", message))
        if self.prefix_retention == "prompt-tail" and self.block_size > self.max_num_batched_tokens:
            problems.append(
                (
                    "maxNumBatchedTokens",
                    f"must be at least blockSize ({self.block_size}) with prefixRetention: "
                    "prompt-tail, where a step computes whole blocks of a prompt; got "
                    f"{self.max_num_batched_tokens}",
                )
            )
        refuse(problems)
        return self

    @property
    def kv_derived(self) -> bool:
        """Whether the KV capacity follows from gpu and model."""
        return self.kv_blocks is None

    def kv_tokens(self) -> int:
        """Tokens of KV that one pod holds, in whole blocks; see ``kv_blocks``."""
        return kv_blocks(self) * self.block_size


def kv_blocks(spec: Vllm) -> int:
    """KV blocks of one pod: as given, or what the GPUs' memory leaves, rounded down.

    Raises ``ScenarioError`` as ``sim.scenario.catalog.kv_tokens`` does, also
    when not one block fits; the path of a fault is the key of the engine.
    """
    if spec.kv_blocks is not None:
        catalog.check_names(spec, gpu_only=True)
        return spec.kv_blocks
    blocks = math.floor(catalog.kv_tokens(spec) / spec.block_size)
    if blocks < 1 + spec.state_blocks:
        message = catalog.does_not_fit(spec, "for one KV block")
        raise ScenarioError([Fault("engine", 0, 0, "", message)])
    return blocks
