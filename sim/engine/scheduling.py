"""Between a pod and its kind of engine: what one step computes, and who decides it.

``sim.engine.pod`` answers clients and polls. A scheduler owns the order of work
and the KV cache and knows no clock: vLLM's in ``sim.engine.scheduler``,
llama.cpp's in ``sim.engine.llamacpp.slots``.
"""

from collections.abc import Collection, MutableSequence
from dataclasses import dataclass
from typing import Protocol

from sim.core.request import Attempt
from sim.engine.batch import Batch, Sequence


@dataclass(slots=True)
class Step:
    """What one step computes, and whom its scheduling left out, threw out or gave up."""

    prefill_tokens: int = 0
    pairs: float = 0.0  # query-key pairs of the prefill chunks, causal
    decoders: int = 0
    context_tokens: int = 0  # known tokens of the decoders
    filled: tuple[Sequence, ...] = ()  # prefill complete with this step: they sample a token
    admitted: tuple[Sequence, ...] = ()
    failed: tuple[Sequence, ...] = ()  # broken off before it, for want of KV; they are not running
    chunks: tuple[tuple[Sequence, int], ...] = ()  # of prompts, in tokens
    starts: tuple[int, ...] = ()  # of the chunks: tokens that had KV before
    preempted: tuple[Sequence, ...] = ()
    # decoding before this step was scheduled, and not in it
    skipped: tuple[Sequence, ...] = ()  # for want of budget
    interrupted: tuple[Sequence, ...] = ()  # preempted

    @property
    def is_empty(self) -> bool:
        """Whether nobody computes anything."""
        return not self.decoders and not self.prefill_tokens


class Scheduling(Protocol):
    """The queue, the running set and the KV cache of one pod.

    ``held`` and ``capacity`` count KV in the units of ``batch.block_size``
    tokens; what nobody holds counts as free, though it may serve a hit. A step
    counts as done when ``complete`` is called: at its end, or at its start when
    ``plans_ahead``, and then ``finishing`` are those whose last token is not
    there yet although they have left the batch.
    """

    batch: Batch
    finishing: list[Sequence]
    arrivals: int
    preemptions: int

    @property
    def plans_ahead(self) -> bool:
        """Whether a step is planned when the one before it starts, not when that ends."""

    @property
    def recomputed_tokens(self) -> int:
        """Tokens of prefill that had been computed before."""

    @property
    def waiting(self) -> MutableSequence[Sequence]:
        """Who has not been admitted, or has been preempted."""

    @property
    def running(self) -> Collection[Sequence]:
        """Who has a place in the engine, decoding or not."""

    @property
    def held(self) -> int:
        """KV that running sequences hold."""

    @property
    def capacity(self) -> int:
        """KV of the pod."""

    def enqueue(self, attempt: Attempt, limit: int) -> Sequence:
        """A new request waits, to be answered with at most ``limit`` tokens."""

    def decodes_only(self) -> bool:
        """Whether the next steps can be a span: nothing to prefill and nobody to admit."""

    def steps_with_blocks(self, limit: int) -> int:
        """How many decode steps, at most ``limit``, find their KV."""

    def plan(self) -> Step:
        """Schedule one step: take its KV, admit, and say what it computes."""

    def take_back(self, step: Step) -> None:
        """Forget an empty step, in which somebody only had to make room for nobody."""

    def complete(self, step: Step) -> list[Sequence]:
        """What was planned is done; returns who has ended, in the order of their being told."""

    def complete_span(self, steps: int) -> list[Sequence]:
        """The same for a span of ``steps`` decode steps, whose KV is known to be there."""

    def release(self, sequences: list[Sequence]) -> None:
        """These, ended or cancelled at the same time, leave the running set; their KV is free."""
