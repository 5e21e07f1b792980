"""KV blocks of running requests: what prefill and decode have put into the cache.

A chunk of a prompt is written when it is scheduled (``PrefillTracker``). Tokens of decoding
requests are written when another request may look them up, or when they stop
(``DecodeBlocks``).
"""

from sim.core.content import Node, Segment, path
from sim.core.kvcache import KVCache
from sim.engine.batch import Batch, RunningRequest
from sim.engine.scheduling import SchedulerOutput


class DecodeBlocks:
    """The decoding sequences by the node on which they write.

    ``writers`` has an entry for each node on which somebody is generating.
    The text of a sequence's last ``unknown`` scheduled tokens is not known
    yet: one with async scheduling. Blocks that they fill cannot be found.
    """

    def __init__(self, store: KVCache, batch: Batch, caching: bool, unknown: int) -> None:
        self._store = store
        self._batch = batch
        self._caching = caching
        self._unknown = unknown
        self.writers: dict[Node, list[RunningRequest]] = {}

    def start(self, sequence: RunningRequest) -> None:
        """``sequence`` decodes from the next step on."""
        self._batch.join(sequence)
        self.writers.setdefault(sequence.answer, []).append(sequence)

    def stop(self, sequence: RunningRequest) -> None:
        """``sequence`` decodes no more; what it has generated can be found."""
        if sequence.decoding:
            self._batch.leave(sequence)
        self.catch_up(sequence.answer, ahead=0)
        writers = self.writers.get(sequence.answer)
        if writers is not None and sequence in writers:
            writers.remove(sequence)
            if not writers:
                del self.writers[sequence.answer]

    def complete(self, sequence: RunningRequest) -> None:
        """All that ``sequence``, which has stopped, has generated is known."""
        self.catch_up(sequence.answer, ahead=0)
        self.write(sequence, sequence.computed)

    def catch_up(self, node: Node, ahead: int, before: int | None = None) -> None:
        """Make findable what has been generated on ``node``, up to ``ahead`` steps from now.

        With ``before``, an admission, only those admitted earlier are ahead: the
        others have their turn in the step later.

        Several requests may generate the same text. Who is further on was
        there first; what the others have of the same is a copy.
        """
        writers = self.writers.get(node)
        if writers is None:
            return
        for writer in writers:
            self._batch.settle(writer)
        if len(writers) > 1:
            writers = sorted(writers, key=lambda writer: (-writer.computed, writer.admission))
        for writer in writers:
            in_turn = before is None or writer.admission < before
            self.write(writer, writer.computed + (ahead if in_turn else 0), self._unknown)

    def known_tokens(self, node: Node) -> int:
        """Leading tokens of the path through ``node`` whose text those who write there know.

        At least one does; counted, not written.
        """
        batch = self._batch
        computed = [writer.computed + batch.steps - writer.joined for writer in self.writers[node]]
        return max(computed) - self._unknown

    def write(self, sequence: RunningRequest, computed: int, unknown: int = 0) -> None:
        """Put the full blocks of the first ``computed`` tokens of ``sequence`` into the cache.

        The text of the last ``unknown`` of them is not known yet.
        """
        holding = sequence.holding
        holding.blocks = max(holding.blocks, -(-computed // self._store.block_size))
        content = (computed - unknown) // self._store.block_size
        sequence.high_water = max(sequence.high_water, sequence.computed)
        if content > holding.content and self._caching:
            route = sequence.route
            if computed > sequence.target:
                route = path(sequence.answer, computed)
            self._store.extend(holding, route, content)


class PrefillTracker:
    """The running sequences that have computed a part of their prompt only: ``prefilling``.

    ``due`` are the states to be kept that the last step has computed, each as
    the path that leads to it and its length in blocks; one takes ``state_blocks``.
    """

    def __init__(self, store: KVCache, answers: DecodeBlocks, state_blocks: int) -> None:
        self.prefilling: list[RunningRequest] = []
        self.due: list[tuple[list[Segment], int]] = []
        self.recomputed_tokens = 0
        self._store = store
        self._block_size = store.block_size
        self._answers = answers
        self._state_blocks = state_blocks

    def compute(self, sequence: RunningRequest, chunk: int, step: SchedulerOutput) -> None:
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

    def leave(self, sequence: RunningRequest) -> None:
        """``sequence`` is in prefill no more, if it was."""
        if sequence in self.prefilling:
            self.prefilling.remove(sequence)
