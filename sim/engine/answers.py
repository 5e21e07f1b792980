"""What running requests have computed, in the KV cache: where others can find it.

A chunk of a prompt is written when it is scheduled. What decoding sequences
generate is written when somebody may look for it, or when they stop.
"""

from sim.core.content import Node, path
from sim.core.kvcache import ExtentStore
from sim.engine.batch import Batch, Sequence


class Answers:
    """The decoding sequences by the node on which they write.

    ``writers`` has an entry for each node on which somebody is generating.
    The text of a sequence's last ``unknown`` scheduled tokens is not known
    yet: one with async scheduling. Blocks that they fill cannot be found.
    """

    def __init__(self, store: ExtentStore, batch: Batch, caching: bool, unknown: int) -> None:
        self._store = store
        self._batch = batch
        self._caching = caching
        self._unknown = unknown
        self.writers: dict[Node, list[Sequence]] = {}

    def start(self, sequence: Sequence) -> None:
        """``sequence`` decodes from the next step on."""
        self._batch.join(sequence)
        self.writers.setdefault(sequence.answer, []).append(sequence)

    def stop(self, sequence: Sequence) -> None:
        """``sequence`` decodes no more; what it has generated can be found."""
        if sequence.decoding:
            self._batch.leave(sequence)
        self.catch_up(sequence.answer, ahead=0)
        writers = self.writers.get(sequence.answer)
        if writers is not None and sequence in writers:
            writers.remove(sequence)
            if not writers:
                del self.writers[sequence.answer]

    def complete(self, sequence: Sequence) -> None:
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

    def write(self, sequence: Sequence, computed: int, unknown: int = 0) -> None:
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
