"""Which leading part of each content node a store holds: a KV cache without per-block work.

A store cuts every path of the content tree (``sim.core.content``) into blocks of
its own size. Block j of a path belongs to the node that holds its last token,
so a node that starts at token s owns the blocks from s // block_size on. The
blocks of a node that are in one state (equally often held, released together)
are one piece (``sim.core.extents``); acquiring, extending and releasing a path costs a few
operations per piece, however long the prompt is.

Rules followed (vLLM 0.33, v1/core/block_pool.py): full blocks only, chained to their
parent; reference counts; a free queue in LRU order in which one request's
blocks stand tail first; eviction happens only at allocation and takes the
front of the queue. Blocks without content join the queue at its end, with
``unhashed_first`` at its front. A block that is computed although an equal one
is cached becomes a *copy*: it uses capacity, leaves through the same queue,
and serves hits once the older ones are gone.

Whoever holds a block holds its whole path, so a block is never older in the
queue than the block before it: what a node has cached is a leading part, and
a lookup needs no more than its end.

A *checkpoint* is the state of recurrent layers after a number of leading
blocks of a path. It takes blocks of its own, which nobody holds: they have
their place in the queue from when it was last read.
"""

from sim.core.content import Node, Segment
from sim.core.extents import CHECKPOINT, MAIN, Extent, FreeQueue, NodeState


class BlockRange:
    """Blocks [start, stop) of one node that a request holds, all main or all of one copy."""

    __slots__ = ("serial", "start", "state", "stop")

    def __init__(self, state: NodeState, start: int, stop: int, serial: int) -> None:
        self.state = state
        self.start = start
        self.stop = stop
        self.serial = serial


class BlockTable:
    """Everything one request holds: content blocks in path order, then blocks of its own.

    ``content`` is the number of leading blocks of its path that have content
    in the store; ``blocks`` counts these and the request's own (a partial
    last block, or all blocks when nothing is cached).
    """

    __slots__ = ("blocks", "content", "holds")

    def __init__(self) -> None:
        self.holds: list[BlockRange] = []
        self.content = 0
        self.blocks = 0


class KVCache:
    """A cache of ``capacity`` blocks of ``block_size`` tokens over the content tree."""

    def __init__(self, capacity: int, block_size: int, unhashed_first: bool = False) -> None:
        self.capacity = capacity
        self.block_size = block_size
        self._unhashed_first = unhashed_first
        self.held = 0
        self._states: dict[Node, NodeState] = {}
        self._serial = MAIN
        self._queue = FreeQueue()
        self._queue.append(Extent(None, 0, capacity, 0))

    @property
    def free(self) -> int:
        """Blocks that nobody holds, cached ones included."""
        return self.capacity - self.held

    def lookup(self, path: list[Segment], limit: int) -> tuple[int, int]:
        """How many leading blocks of ``path`` are cached, at most ``limit``.

        Returns (cached blocks, those of them that nobody holds).
        """
        hit = idle = 0
        for node, leave in path:
            stop = leave // self.block_size
            if stop > limit:
                stop = limit
            if stop <= hit:
                continue
            state = self._states.get(node)
            if state is None:
                break
            end = state.cached_until()
            if end > stop:
                end = stop
            if end > hit:
                idle += state.idle_between(hit, end)
                hit = end
            if end < stop:
                break
        return hit, idle

    def acquire(self, holding: BlockTable, path: list[Segment], hit: int) -> None:
        """Take the first ``hit`` blocks of ``path``, which are cached; ``holding`` is empty."""
        at = 0
        for node, leave in path:
            stop = min(leave // self.block_size, hit)
            while at < stop:
                state = self._states[node]
                if state.copies:
                    piece = state.instance(at)
                    assert piece is not None
                    end, serial = min(piece.stop, stop), piece.serial
                else:
                    end, serial = stop, MAIN
                self._take(state, at, end, serial)
                _append_hold(holding, state, at, end, serial)
                at = end
        holding.content = holding.blocks = hit

    def allocate(self, blocks: int) -> None:
        """Take ``blocks`` (at most ``free``) off the front of the free queue, evicting content."""
        self.held += blocks
        assert self.held <= self.capacity, "more blocks are taken than are free"
        while blocks > 0:
            piece = self._queue.front
            size = piece.stop - piece.start
            if size > blocks:
                piece.stop -= blocks
                if piece.serial == CHECKPOINT:
                    self._forget(piece)
                    piece.state, piece.serial = None, MAIN
                return
            blocks -= size
            self._queue.remove(piece)
            piece.stop = piece.start
            if piece.state is not None:
                self._forget(piece)

    def _forget(self, piece: Extent) -> None:
        state = piece.state
        assert state is not None
        if state.drop(piece):
            del self._states[state.node]

    def extend(self, holding: BlockTable, path: list[Segment], content: int) -> None:
        """Blocks that ``holding`` owns, up to block ``content`` of ``path``, now have content."""
        at = holding.content
        for node, leave in path:
            stop = min(leave // self.block_size, content)
            if at >= stop:
                continue
            state = self._states.get(node)
            if state is None:
                state = self._state(node)
            cached = state.cached_until()
            if cached > at:
                self._serial += 1
                end = min(cached, stop)
                state.copies[self._serial] = [Extent(state, at, end, 1, self._serial)]
                state.reach = max(state.reach, end)
                _append_hold(holding, state, at, end, self._serial)
                at = end
            if at < stop:
                last = state.pieces[-1] if state.pieces else None
                if last is not None and last.holders == 1 and last.stop == at:
                    last.stop = stop
                else:
                    state.pieces.append(Extent(state, at, stop, 1))
                _append_hold(holding, state, at, stop, MAIN)
                at = stop
        holding.content = at

    def release(self, holding: BlockTable) -> None:
        """Give everything back, tail first; content stays cached until it is evicted."""
        own = holding.blocks - holding.content
        if own:
            self.give_back(own)
        for hold in reversed(holding.holds):
            self._give(hold.state, hold.start, hold.stop, hold.serial)
        holding.holds = []
        holding.content = holding.blocks = 0

    def give_back(self, blocks: int) -> None:
        """``blocks``, at least one, without content are held no more."""
        self.held -= blocks
        if not self._unhashed_first:
            self._queue.append(Extent(None, 0, blocks, 0))
        elif self._queue.front.state is None and self._queue.front.stop:
            self._queue.front.stop += blocks
        else:
            self._queue.prepend(Extent(None, 0, blocks, 0))

    # -- checkpoints ----------------------------------------------------------------------

    def checkpoint_before(self, path: list[Segment], limit: int) -> int:
        """After how many leading blocks of ``path``, at most ``limit``, its last checkpoint is."""
        for node, leave in reversed(path):
            state = self._states.get(node)
            if state is not None and state.checkpoints:
                stop = min(leave // self.block_size, limit)
                blocks = max((at for at in state.checkpoints if at <= stop), default=0)
                if blocks:
                    return blocks
        return 0

    def checkpoint(self, path: list[Segment], at: int, blocks: int) -> None:
        """Keep a state of ``blocks`` blocks after the first ``at`` blocks of ``path``.

        One that is there already counts as used now. Without so many free
        blocks none is kept.
        """
        node = self._owner(path, at)
        known = self._states.get(node)
        if known is not None and at in known.checkpoints:
            self.use_checkpoint(path, at)
        elif blocks <= self.free:
            self.allocate(blocks)
            self.held -= blocks
            state = self._state(node)
            piece = state.checkpoints[at] = Extent(state, at, at + blocks, 0, CHECKPOINT)
            self._queue.append(piece)

    def use_checkpoint(self, path: list[Segment], at: int) -> None:
        """The checkpoint after ``at`` blocks of ``path``, which is there, is read now."""
        piece = self._states[self._owner(path, at)].checkpoints[at]
        self._queue.remove(piece)
        self._queue.append(piece)

    def _owner(self, path: list[Segment], at: int) -> Node:
        """The node to which the last of the first ``at`` blocks of ``path`` belongs."""
        return next(node for node, leave in path if leave // self.block_size >= at)

    def _state(self, node: Node) -> NodeState:
        state = self._states.get(node)
        if state is None:
            state = self._states[node] = NodeState(node, node.start // self.block_size)
        return state

    def cached_blocks(self) -> dict[Node, int]:
        """For checks: how many leading blocks each known node has cached, held or not."""
        return {node: s.cached_until() - s.first for node, s in self._states.items()}

    def _take(self, state: NodeState, start: int, stop: int, serial: int) -> None:
        """One more holder for blocks [start, stop)."""
        pieces = state.of(serial)
        state.cut_at(pieces, start, stop)
        for piece in pieces:
            if piece.start >= start and piece.stop <= stop:
                if not piece.holders:
                    self._queue.remove(piece)
                    self.held += piece.stop - piece.start
                piece.holders += 1
        if len(pieces) > 1 and not serial:
            state.join()

    def _give(self, state: NodeState, start: int, stop: int, serial: int) -> None:
        """One holder less for blocks [start, stop); unheld pieces join the queue tail first."""
        pieces = state.of(serial)
        state.cut_at(pieces, start, stop)
        for piece in reversed(pieces):
            if piece.start >= start and piece.stop <= stop:
                piece.holders -= 1
                if not piece.holders:
                    self._queue.append(piece)
                    self.held -= piece.stop - piece.start
        if len(pieces) > 1 and not serial:
            state.join()


def _append_hold(holding: BlockTable, state: NodeState, start: int, stop: int, serial: int) -> None:
    holds = holding.holds
    if holds:
        last = holds[-1]
        if last.state is state and last.serial == serial and last.stop == start:
            last.stop = stop
            return
    holds.append(BlockRange(state, start, stop, serial))
