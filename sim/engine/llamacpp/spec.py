"""The settings of a llama.cpp pod, under llama-server's own names."""

import math
from collections.abc import Iterator
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import Field
from pydantic.alias_generators import to_camel

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import (
    MAX_TOKENS,
    STARVED,
    Bytes,
    PositiveBytes,
    PositiveTokens,
    real,
    whole,
)
from sim.core.rules import Problem, faults_of, rule
from sim.hardware import catalog, memory
from sim.hardware.engine import Engine

AUTO_SLOTS: Final = 4
LEAST_CONTEXT: Final = 2
"""A slot serves prompts shorter than its context, and a prompt has a token."""


class LlamaCpp(Engine):
    """llama.cpp's server: a request has a slot with a context of its own for its whole life.

    Give ``ctxSize`` or ``kvUnifiedPerSlot`` (ggml-org/llama.cpp#24124), or ``gpu``
    and ``model`` to derive the size from the catalogue.
    Each micro batch is a forward pass and costs the step time's ``a`` and
    ``computed``. A slot can go back to any token of its context, as with
    ``--swa-full`` or a model of full attention; moving contexts to and from
    host memory takes no time.
    """

    kind: Literal["llamacpp"] = "llamacpp"
    parallel: Annotated[int, whole(1, 256, STARVED)] | None = Field(
        default=None, description="Slots; when missing 4, with unified KV, as llama-server's auto."
    )
    ctx_size: PositiveTokens | None = Field(
        default=None,
        description="Tokens of KV of all slots together. When missing, as llama-server's 0, the "
        "context of the model (max_position_embeddings), or what the GPUs' memory leaves if that "
        "is less.",
    )
    workspace: Bytes = Field(
        default=2.0**30,
        description="Bytes per GPU for compute buffers and the CUDA context; an assumption.",
    )
    kv_unified: bool = Field(
        default_factory=lambda data: data.get("parallel") is None,
        description="One pool of KV for all slots, each of which may use all of it; otherwise a "
        "slot has ctxSize / parallel. True when parallel is missing.",
    )
    kv_unified_per_slot: PositiveTokens | None = Field(
        default=None,
        description="Most tokens of one slot's context, whatever the pool has; without ctxSize the "
        "pool has as much for each of its slots. No such limit when missing.",
    )
    batch_size: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default=2048, description="Most tokens of a step: one per generating slot, then prompts."
    )
    ubatch_size: Annotated[int, whole(1, 10**6, STARVED)] = Field(
        default_factory=lambda data: min(512, data.get("batch_size", 512)),
        description="Most tokens of one forward pass (micro batch) of a step; 512, capped by "
        "batchSize.",
    )
    slot_prompt_similarity: Annotated[float, real(0.0, 1.0)] = Field(
        default=0.1,
        description="A slot is chosen by its context when that says more than this share of the "
        "prompt, else the least recently used one; 0: always that one.",
    )
    cache_prompt: bool = Field(
        default=True, description="Reuse the KV of a slot for the prefix it has in common."
    )
    cache_ram: Bytes = Field(
        default=8192 * 2.0**20,
        description="Host memory for contexts that slots lose (8192MiB); 0: no host cache.",
    )
    cache_idle_slots: bool = Field(
        default=True,
        description="When a request starts save the contexts of idle slots to host memory; with "
        "unified KV they leave the pool. Without effect when cacheRam is 0.",
    )
    kv_per_token: PositiveBytes | None = Field(
        default=None,
        description="Bytes of KV per token, which says how many tokens cacheRam holds; the "
        "catalogue's for the model when missing.",
    )

    @rule
    def _has_a_known_size(self) -> Iterator[Problem]:
        if self.kv_derived and (self.gpu is None or self.model is None):
            yield "", "the KV capacity is unknown: give ctxSize, or both gpu and model"

    @rule
    def _has_one_size(self) -> Iterator[Problem]:
        if self.kv_derived and self.kv_per_token is not None:
            message = "goes with ctxSize: a derived one counts the catalogue's bytes"
            yield "kvPerToken", message

    @rule
    def _slots_hold_a_prompt(self) -> Iterator[Problem]:
        if self.ctx_size is not None and self._share(self.ctx_size) < LEAST_CONTEXT:
            least = LEAST_CONTEXT * (1 if self.kv_unified else self.slots)
            message = f"must be at least {least} for {self.slots} slots; got {self.ctx_size}"
            yield "ctxSize", message

    @rule
    def _slots_may_hold_a_prompt(self) -> Iterator[Problem]:
        if self.kv_unified_per_slot == 1:
            yield "kvUnifiedPerSlot", f"must be at least {LEAST_CONTEXT}; got 1"

    @rule
    def _batches_hold_a_pass(self) -> Iterator[Problem]:
        if self.ubatch_size > self.batch_size:
            message = f"must be at most batchSize ({self.batch_size}); got {self.ubatch_size}"
            yield "ubatchSize", message

    @rule
    def _passes_hold_all_slots(self) -> Iterator[Problem]:
        if self.slots > self.ubatch_size:
            message = (
                f"must be at most ubatchSize ({self.ubatch_size}), since each generating slot "
                f"takes a token of the first pass; got {self.slots}"
            )
            yield "parallel", message

    @property
    def slots(self) -> int:
        """Number of slots."""
        return AUTO_SLOTS if self.parallel is None else self.parallel

    @property
    def kv_derived(self) -> bool:
        """Whether the KV capacity follows from gpu and model."""
        return self._size_key is None

    def kv_tokens(self) -> int:
        """Tokens of KV of all slots together, as given or what the GPUs' memory leaves.

        Raises ``ScenarioError`` as ``sim.hardware.catalog.kv_tokens`` does, when
        a slot would have none, when nobody says what a token of KV takes in host
        memory, and when the weights alone exceed the memory of the GPUs.
        """
        names = partial(catalog.check_names, self, unless=self._size_key)
        if faults := faults_of(names, self._check_given):
            raise ScenarioError(faults)
        if self.ctx_size is not None:
            return self.ctx_size
        if self.kv_unified_per_slot is not None:
            return self.slots * self.kv_unified_per_slot
        tokens = min(math.floor(catalog.kv_tokens(self)), self._model_tokens)
        if self._share(tokens) < LEAST_CONTEXT:
            message = catalog.does_not_fit(self, f"for the contexts of {self.slots} slots")
            raise ScenarioError([Fault("engine", 0, 0, "", message)])
        return tokens

    @property
    def kv_token_bytes(self) -> float | None:
        """As given; see ``Engine``."""
        return self.kv_per_token

    def warnings(self) -> list[Fault]:
        """A ctxSize that does not fit: llama-server may leave layers or KV on the host."""
        key = self._size_key
        return [] if key is None else memory.overcommitment(self, to_camel(key))

    def context_tokens(self) -> int:
        """Tokens of context of one slot, which llama-server caps at those of the model."""
        share, most = self._share(self.kv_tokens()), self.kv_unified_per_slot
        return min(share, self._model_tokens, share if most is None else most)

    def most_tokens(self) -> tuple[int, str]:
        """The longest prompt that a slot serves, and what it is limited by."""
        tokens = self.context_tokens()
        if tokens == self._model_tokens:
            return tokens - 1, "the model's context"
        return tokens - 1, "kvUnifiedPerSlot" if tokens == self.kv_unified_per_slot else "ctxSize"

    @property
    def _model_tokens(self) -> int:
        known = catalog.model(self.model)
        return MAX_TOKENS if known is None else known.context or MAX_TOKENS

    def host_tokens(self) -> float:
        """Tokens of KV that ``cacheRam`` holds."""
        if not self.cache_ram:
            return 0.0
        if self.kv_per_token is not None:
            return self.cache_ram / self.kv_per_token
        if (model := catalog.model(self.model)) is not None:
            per_token = model.kv_bytes_per_token(self.kv_cache_dtype, self.tensor_parallel)
            return self.cache_ram / per_token
        message = (
            "the tokens that cacheRam holds are unknown: give kvPerToken, a model of the "
            "catalogue, or cacheRam: 0"
        )
        raise ScenarioError([Fault("engine", 0, 0, "cacheRam", message)])

    def _check_given(self) -> None:
        """Raise ``ScenarioError`` for what a given size does not go with."""
        if not self.kv_derived:
            weights = partial(memory.check_weights, self)
            if faults := faults_of(self.host_tokens, weights):
                raise ScenarioError(faults)

    @property
    def _size_key(self) -> str | None:
        """The field that gives the KV capacity; None when it is derived."""
        fields = ("ctx_size", "kv_unified_per_slot")
        return next((field for field in fields if getattr(self, field) is not None), None)

    def _share(self, tokens: int) -> int:
        return tokens if self.kv_unified else tokens // self.slots
