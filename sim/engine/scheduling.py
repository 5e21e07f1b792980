"""Between a pod and its kind of engine: what one step computes, and who decides it.

``sim.engine.pod`` answers clients and polls. A scheduler owns the order of work
and the KV cache and knows no clock: vLLM's in ``sim.engine.scheduler``,
llama.cpp's in ``sim.engine.llamacpp.slots``.
"""

from collections.abc import Collection, MutableSequence
from dataclasses import dataclass
from typing import Protocol

from sim.core.request import Attempt
from sim.engine.batch import Batch, RunningRequest


@dataclass(slots=True)
class SchedulerOutput:
    """What one step computes, and whom its scheduling left out, threw out or gave up."""

    prefill_tokens: int = 0
    pairs: float = 0.0  # query-key pairs of the prefill chunks, causal
    decoders: int = 0
    context_tokens: int = 0  # known tokens of the decoders
    filled: tuple[RunningRequest, ...] = ()  # prefill complete with this step: they sample a token
    admitted: tuple[RunningRequest, ...] = ()
    failed: tuple[
        RunningRequest, ...
    ] = ()  # broken off before it, for want of KV; they are not running
    chunks: tuple[tuple[RunningRequest, int], ...] = ()  # of prompts, in tokens
    starts: tuple[int, ...] = ()  # of the chunks: tokens that had KV before
    preempted: tuple[RunningRequest, ...] = ()
    # decoding before this step was scheduled, and not in it
    skipped: tuple[RunningRequest, ...] = ()  # for want of budget
    interrupted: tuple[RunningRequest, ...] = ()  # preempted

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
    finishing: list[RunningRequest]
    arrivals: int
    preemptions: int

    @property
    def plans_ahead(self) -> bool:
        """Whether a step is planned when the one before it starts, not when that ends."""

    @property
    def recomputed_tokens(self) -> int:
        """Tokens of prefill that had been computed before."""

    @property
    def waiting(self) -> MutableSequence[RunningRequest]:
        """Who has not been admitted, or has been preempted."""

    @property
    def running(self) -> Collection[RunningRequest]:
        """Who has a place in the engine, decoding or not."""

    @property
    def held(self) -> int:
        """KV that running sequences hold."""

    @property
    def capacity(self) -> int:
        """KV of the pod."""

    def enqueue(self, attempt: Attempt, limit: int) -> RunningRequest:
        """A new request waits, to be answered with at most ``limit`` tokens."""

    def decodes_only(self) -> bool:
        """Whether the next steps can be a span: nothing to prefill and nobody to admit."""

    def steps_with_blocks(self, limit: int) -> int:
        """How many decode steps, at most ``limit``, find their KV."""

    def plan(self) -> SchedulerOutput:
        """Schedule one step: take its KV, admit, and say what it computes."""

    def take_back(self, step: SchedulerOutput) -> None:
        """Forget an empty step, in which somebody only had to make room for nobody."""

    def complete(self, step: SchedulerOutput) -> list[RunningRequest]:
        """What was planned is done; returns who has ended, in the order of their being told."""

    def complete_span(self, steps: int) -> list[RunningRequest]:
        """The same for a span of ``steps`` decode steps, whose KV is known to be there."""

    def release(self, sequences: list[RunningRequest]) -> None:
        """These, ended or cancelled at the same time, leave the running set; their KV is free."""
