"""One step of llama-server: who has a slot, what each slot computes.

A request takes a slot for its whole life, or waits until one is free. A slot
remembers the context that its KV holds; reuse is the common prefix of that
context and the prompt, to the token. Each step feeds one token of every slot
that generates, then prompt tokens of the others in slot order until the batch
is full. The order of work is that of ``tools/server/server-context.cpp`` in
ggml-org/llama.cpp.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final

from sim.core.content import Node, Prompt
from sim.core.request import Attempt
from sim.engine.batch import Batch, RunningRequest
from sim.engine.llamacpp.hostcache import HostCache
from sim.engine.llamacpp.spec import LlamaCpp
from sim.engine.scheduling import SchedulerOutput

EMPTY: Final = Prompt(Node(), 0)
KEPT_IN_PLACE: Final = 0.5
"""A slot that would lose more than this share of its context has it saved first."""


@dataclass(slots=True, eq=False)
class Slot:
    """``context`` is what the KV of an idle slot says; ``released`` numbers the uses of slots."""

    index: int
    context: Prompt = EMPTY
    sequence: RunningRequest | None = None
    released: int = -1


class Slots:
    """The slots, the deferred queue and the prompt cache of one pod.

    A step is planned when it starts, and nobody is preempted: so nobody is
    finishing out of the batch, or sits a step out.
    """

    plans_ahead: Final = False

    def __init__(self, spec: LlamaCpp) -> None:
        self.batch = Batch(block_size=1)
        self.waiting: deque[RunningRequest] = deque()
        self.running: dict[RunningRequest, Slot] = {}
        self.held = 0  # tokens of KV of the running sequences
        self.capacity = spec.kv_tokens()
        self.finishing: list[RunningRequest] = []
        self.arrivals = 0
        self.preemptions = 0
        self.recomputed_tokens = 0
        self._slots = [Slot(index) for index in range(spec.slots)]
        self._unified = spec.kv_unified
        self._batch_tokens = spec.batch_size
        self._similarity = spec.slot_prompt_similarity
        self._reuses = spec.cache_prompt
        self._host = HostCache(spec.host_tokens()) if spec.cache_ram else None
        self._saves_idle = spec.cache_idle_slots
        self._launches = 0
        self._releases = 0

    def enqueue(self, attempt: Attempt, limit: int) -> RunningRequest:
        """A new request waits, to be answered with at most ``limit`` tokens."""
        wanted = attempt.request.output_tokens
        sequence = RunningRequest(attempt, self.arrivals, min(wanted, limit), wanted > limit)
        self.arrivals += 1
        self.waiting.append(sequence)
        return sequence

    def decodes_only(self) -> bool:
        """Whether the next steps can be a span: nothing to prefill and no slot for who waits."""
        if not self.running or self.batch.decoders < len(self.running):
            return False
        return not self.waiting or len(self.running) == len(self._slots)

    def steps_with_blocks(self, limit: int) -> int:
        """How many decode steps, at most ``limit``, find KV, idle slots purged if need be."""
        return min(limit, (self.capacity - self.held) // self.batch.decoders)

    def plan(self) -> SchedulerOutput:
        """Give slots to those who wait, then fill the batch of one step."""
        step = SchedulerOutput()
        admitted: list[RunningRequest] = []
        failed: list[RunningRequest] = []
        while True:
            while self.waiting and len(self.running) < len(self._slots):
                admitted.append(self._launch(self.waiting.popleft()))
            prefilling = self._prefilling()
            room = self._batch_tokens - self.batch.decoders
            missing = sum(sequence.target - sequence.computed for sequence in prefilling)
            if self._hold(self.batch.decoders + min(missing, room)):
                break
            failed += self._break_off()
        filled: list[RunningRequest] = []
        for sequence in prefilling:
            self._compute(sequence, room - step.prefill_tokens, step, filled)
        step.decoders = self.batch.decoders
        step.context_tokens = self.batch.context_tokens
        step.admitted, step.failed, step.filled = tuple(admitted), tuple(failed), tuple(filled)
        return step

    def take_back(self, step: SchedulerOutput) -> None:
        """Nothing to undo: whoever is not in an empty step does not run."""

    def complete(self, step: SchedulerOutput) -> list[RunningRequest]:
        """What was planned is done; returns who has ended, in slot order."""
        self.batch.advance(1)
        ended = self.batch.pop_ended()
        for sequence in step.filled:
            if sequence.cancelled:
                continue
            sequence.emitted += 1
            if sequence.emitted < sequence.output_tokens:
                self.batch.join(sequence)
            else:
                ended.append(sequence)
        return self._in_slot_order(ended)

    def complete_span(self, steps: int) -> list[RunningRequest]:
        """The same for a span of ``steps`` decode steps, whose KV is known to be there."""
        self._hold(steps * self.batch.decoders)
        self.batch.advance(steps)
        return self._in_slot_order(self.batch.pop_ended())

    def release(self, sequences: list[RunningRequest]) -> None:
        """Their slots are idle now, in slot order; what was computed stays in their KV."""
        for sequence in self._in_slot_order(sequences):
            self._free(self.running.pop(sequence), sequence)

    def cached_prefix_tokens(self, prompt: Prompt) -> int:
        """Most leading tokens of ``prompt`` in the context of an idle slot or in host memory.

        Which slot a request gets is another matter: it may find less.
        """
        if not self._reuses:
            return 0
        common = [slot.context.common_prefix(prompt) for slot in self._idle()]
        if self._host is not None:
            common.append(self._host.cached_prefix_tokens(prompt))
        return min(max(common, default=0), prompt.tokens - 1)

    # -- slots ----------------------------------------------------------------------------

    def _in_slot_order(self, sequences: list[RunningRequest]) -> list[RunningRequest]:
        return sorted(sequences, key=lambda sequence: self.running[sequence].index)

    def _free(self, slot: Slot, sequence: RunningRequest) -> None:
        if sequence.decoding:
            self.batch.leave(sequence)
        self.held -= sequence.computed
        slot.context = Prompt(sequence.answer, sequence.computed)
        slot.sequence = None
        slot.released = self._releases
        self._releases += 1

    def _launch(self, sequence: RunningRequest) -> RunningRequest:
        """Give ``sequence`` the slot that suits it best; there is an idle one."""
        prompt = sequence.attempt.request.prompt
        slot, loses = self._choose(prompt)
        if loses and self._host is not None:
            self._host.save(slot.context)
            slot.context = self._host.take(slot.context, prompt)
            self._host.trim()
        # The last token of a prompt is always computed: its logits are needed.
        common = slot.context.common_prefix(prompt) if self._reuses else 0
        reused = min(common, prompt.tokens - 1)
        sequence.computed = sequence.attempt.cached_tokens = reused
        sequence.admission = self._launches
        self._launches += 1
        self.held += reused
        slot.context, slot.sequence = EMPTY, sequence
        self.running[sequence] = slot
        if self._saves_idle and self._host is not None:
            self._save_idle(self._host)
        return sequence

    def _choose(self, prompt: Prompt) -> tuple[Slot, bool]:
        """An idle slot, and whether its context is about to be lost for the most part.

        The slot that says most of the prompt, if that is more than
        ``slotPromptSimilarity``; else the one that was idle longest, of unused
        ones the last.
        """
        best: Slot | None = None
        best_common = 0
        for slot in self._idle():
            common = slot.context.common_prefix(prompt)
            if common > best_common and common / prompt.tokens > self._similarity > 0:
                best, best_common = slot, common
        if best is not None:
            return best, best_common / best.context.tokens < KEPT_IN_PLACE
        return min(self._idle(), key=lambda slot: (slot.released, -slot.index)), True

    def _save_idle(self, host: HostCache) -> None:
        """A request has started: contexts of idle slots go to host memory.

        With unified KV they leave the pool as well.
        """
        for slot in self._idle():
            host.save(slot.context)
            host.trim()
            if self._unified:
                slot.context = EMPTY

    def _idle(self) -> list[Slot]:
        return [slot for slot in self._slots if slot.sequence is None]

    # -- parts of a step ------------------------------------------------------------------

    def _prefilling(self) -> list[RunningRequest]:
        """Who has prompt tokens to compute, in slot order."""
        running = (slot.sequence for slot in self._slots)
        return [one for one in running if one is not None and one.computed < one.target]

    def _hold(self, tokens: int) -> bool:
        """Take KV for ``tokens`` more; a unified pool purges idle slots, the first one first.

        False, and nothing taken, when a unified pool has no room even so.
        Separate slots have all the KV that they can use.
        """
        if self._unified:
            idle = self._idle()
            free = self.capacity - self.held - sum(slot.context.tokens for slot in idle)
            for slot in idle:
                if free >= tokens:
                    break
                free += slot.context.tokens
                slot.context = EMPTY
            if free < tokens:
                return False
        self.held += tokens
        return True

    def _break_off(self) -> list[RunningRequest]:
        """A batch that fits nowhere fails all who run, and their slots are cleared."""
        broken = self._in_slot_order(list(self.running))
        self.release(broken)
        for slot in self._slots:
            slot.context = EMPTY
        return broken

    def _compute(
        self,
        sequence: RunningRequest,
        room: int,
        step: SchedulerOutput,
        filled: list[RunningRequest],
    ) -> None:
        """Put the next tokens of a prompt into the step, at most ``room``; they have KV."""
        start = sequence.computed
        chunk = min(sequence.target - start, room)
        sequence.computed = start + chunk
        sequence.attempt.computed_tokens += chunk
        step.prefill_tokens += chunk
        if chunk:
            step.chunks += ((sequence, chunk),)
            step.starts += (start,)
        step.pairs += chunk * (start + chunk / 2)
        if sequence.computed == sequence.target:
            filled.append(sequence)
