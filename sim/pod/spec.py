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
    if blocks < 1:
        message = catalog.does_not_fit(spec, "for one KV block")
        raise ScenarioError([Fault("engine", 0, 0, "", message)])
    return blocks
