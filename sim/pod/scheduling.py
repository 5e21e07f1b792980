"""Between a pod and its kind of engine: what one step computes, and who decides it.

``sim.pod.pod`` owns time: spans, wake-ups, cancellations, reports. A scheduler
owns the order of work and the KV cache and knows no clock: vLLM's in
``sim.pod.scheduler``, llama.cpp's in ``sim.pod.llamacpp.slots``.
"""

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol

from sim.pod.batch import Batch, Sequence


@dataclass(slots=True)
class Step:
    """What one step computes beside the decodes, and whom its scheduling ended or threw out."""

    prefill_tokens: int = 0
    pairs: float = 0.0  # query-key pairs of the prefill chunks, causal
    passes: int = 1  # forward passes that its tokens are split into
    filled: tuple[Sequence, ...] = ()  # prefill complete with this step: they sample a token
    admitted: tuple[Sequence, ...] = ()
    failed: tuple[Sequence, ...] = ()  # broken off before it, for want of KV
    preempted: bool = False


class Scheduling(Protocol):
    """The queue, the running set and the KV cache of one pod.

    ``held`` and ``capacity`` count KV in the units of ``batch.block_size``
    tokens; what nobody holds counts as free, though it may serve a hit.
    """

    batch: Batch
    waiting: deque[Sequence]
    preemptions: int
    recomputed_tokens: int

    @property
    def running(self) -> Collection[Sequence]:
        """Who has a place in the engine, decoding or not."""

    @property
    def held(self) -> int:
        """KV that running sequences hold."""

    @property
    def capacity(self) -> int:
        """KV of the pod."""

    def refusal(self, prompt_tokens: int) -> str | None:
        """Why a prompt of this length can never be served; None when it can."""

    def output_limit(self, prompt_tokens: int, output_tokens: int) -> int:
        """Tokens that a request of this length can produce, at least one."""

    def decodes_only(self) -> bool:
        """Whether the next steps can be a span: nothing to prefill and nobody to admit."""

    def steps_with_blocks(self, limit: int) -> int:
        """How many decode steps, at most ``limit``, find their KV."""

    def plan(self) -> Step:
        """Schedule one step: take its KV, admit, and say what it computes."""

    def grow(self, steps: int) -> None:
        """Take the KV of a span of ``steps`` decode steps; it is known to be there."""

    def start_decoding(self, sequence: Sequence) -> None:
        """The prefill of ``sequence`` is done and it has tokens to go."""

    def release(self, sequences: list[Sequence]) -> list[Sequence]:
        """These leave the running set at the end of one step; returned in the order they do."""
