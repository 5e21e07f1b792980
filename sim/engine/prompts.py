"""Prompts in prefill: what each chunk of one leaves in the cache, in counts and in its step."""

from sim.core.content import Segment
from sim.core.kvcache import ExtentStore
from sim.engine.answers import Answers
from sim.engine.batch import Sequence
from sim.engine.scheduling import Step


class Prompts:
    """The running sequences that have computed a part of their prompt only: ``prefilling``.

    ``due`` are the states to be kept that the last step has computed, each as
    the path that leads to it and its length in blocks; one takes ``state_blocks``.
    """

    def __init__(self, store: ExtentStore, answers: Answers, state_blocks: int) -> None:
        self.prefilling: list[Sequence] = []
        self.due: list[tuple[list[Segment], int]] = []
        self.recomputed_tokens = 0
        self._store = store
        self._block_size = store.block_size
        self._answers = answers
        self._state_blocks = state_blocks

    def compute(self, sequence: Sequence, chunk: int, step: Step) -> None:
        """Compute the next chunk of a prompt in ``step``; its blocks are known to be free."""
        start = sequence.computed
        end = start + chunk
        blocks = -(-end // self._block_size)
        holding = sequence.holding
        self._store.allocate(blocks - holding.blocks)
        holding.blocks = blocks
        attempt = sequence.attempt
        repeated = max(0, min(end, sequence.high_water) - start)
        attempt.recomputed_tokens += repeated
        self.recomputed_tokens += repeated
        fresh_from = start + repeated
        attempt.computed_tokens += max(0, min(end, sequence.prompt_tokens) - fresh_from)
        sequence.computed = end
        self._answers.write(sequence, end)
        step.prefill_tokens += chunk
        step.chunks += ((sequence, chunk),)
        step.starts += (start,)
        step.pairs += chunk * (start + chunk / 2)
        if end == sequence.target:
            step.filled += (sequence,)
            self.leave(sequence)
        elif sequence not in self.prefilling:
            self.prefilling.append(sequence)
        if end in sequence.stops:
            self.due.append((sequence.route, end // self._block_size))

    def keep_states(self) -> None:
        """The last step is over: what is due of it can be found."""
        for route, blocks in self.due:
            self._store.checkpoint(route, blocks, self._state_blocks)
        self.due.clear()

    def leave(self, sequence: Sequence) -> None:
        """``sequence`` is in prefill no more, if it was."""
        if sequence in self.prefilling:
            self.prefilling.remove(sequence)
