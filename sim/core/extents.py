"""Blocks in one state, and the queue of those that nobody holds: what a store is made of."""

from typing import Final

from sim.core.content import Node

MAIN: Final = 0
"""Serial number of the blocks that were first with their content; copies count from 1."""

CHECKPOINT: Final = -1
"""Serial number of a checkpoint: blocks with the state of recurrent layers, not with content."""


class Extent:
    """Blocks [start, stop) of one node in one state; a link of the free queue while unheld.

    Pieces without content (``state`` is None) only stand in the free queue. A
    checkpoint is filed under ``start``, the block that follows it; it stands
    in the queue as well, since nobody holds it.
    """

    __slots__ = ("after", "before", "holders", "serial", "start", "state", "stop")

    def __init__(
        self, state: "NodeState | None", start: int, stop: int, holders: int, serial: int = MAIN
    ) -> None:
        self.state = state
        self.start = start
        self.stop = stop
        self.holders = holders
        self.serial = serial
        self.before: Extent = self
        self.after: Extent = self


class NodeState:
    """What a store knows of one node: its pieces in block order, and its copies by age.

    ``copies`` maps a serial number to the pieces of that copy; ``reach`` is a
    block that no copy lies beyond. ``checkpoints`` are filed under the number
    of leading blocks of the path after which they were taken.
    """

    __slots__ = ("checkpoints", "copies", "first", "node", "pieces", "reach")

    def __init__(self, node: Node, first: int) -> None:
        self.node = node
        self.first = first
        self.pieces: list[Extent] = []
        self.copies: dict[int, list[Extent]] = {}
        self.checkpoints: dict[int, Extent] = {}
        self.reach = first

    def cached_until(self) -> int:
        """The first block of the node that is not cached."""
        if not self.copies:
            return self.pieces[-1].stop if self.pieces else self.first
        end = self.first
        while True:
            piece = self.instance(end)
            if piece is None:
                return end
            end = piece.stop

    def instance(self, block: int) -> Extent | None:
        """The oldest cached piece with this block: the one that serves hits."""
        for piece in self.pieces:
            if piece.start <= block < piece.stop:
                return piece
        if block < self.reach:
            for pieces in self.copies.values():
                for piece in pieces:
                    if piece.start <= block < piece.stop:
                        return piece
        return None

    def of(self, serial: int) -> list[Extent]:
        """The main pieces, or those of one copy."""
        return self.copies[serial] if serial else self.pieces

    def cut_at(self, pieces: list[Extent], start: int, stop: int) -> None:
        """Make ``start`` and ``stop`` borders between ``pieces``; nearly always they are."""
        if len(pieces) != 1 or pieces[0].start < start or pieces[0].stop > stop:
            _cut(pieces, start)
            _cut(pieces, stop)

    def idle_between(self, start: int, stop: int) -> int:
        """How many of the cached blocks [start, stop) nobody holds."""
        pieces = self._serving(start, stop) if self.copies else self.pieces
        idle = 0
        at = start
        for piece in pieces:
            end = min(piece.stop, stop)
            if end > at:
                if not piece.holders:
                    idle += end - max(piece.start, at)
                at = end
        return idle

    def join(self) -> None:
        """Make one piece of neighbours that the same number of requests hold."""
        joined = [self.pieces[0]]
        for piece in self.pieces[1:]:
            last = joined[-1]
            if piece.holders and piece.holders == last.holders and piece.start == last.stop:
                last.stop = piece.stop
            else:
                joined.append(piece)
        self.pieces = joined

    def drop(self, piece: Extent) -> bool:
        """Forget an evicted piece; tells whether nothing of the node is left."""
        if piece.serial == CHECKPOINT:
            del self.checkpoints[piece.start]
        else:
            pieces = self.of(piece.serial)
            pieces.remove(piece)
            if piece.serial and not pieces:
                del self.copies[piece.serial]
            if not self.copies:
                self.reach = self.first
        return not (self.pieces or self.copies or self.checkpoints)

    def _serving(self, start: int, stop: int) -> list[Extent]:
        """The pieces that serve hits on [start, stop), in block order."""
        pieces = []
        while start < stop:
            piece = self.instance(start)
            assert piece is not None
            pieces.append(piece)
            start = piece.stop
        return pieces


class FreeQueue:
    """The pieces that nobody holds, least recently used first; a ring of links."""

    __slots__ = ("_ends",)

    def __init__(self) -> None:
        self._ends = Extent(None, 0, 0, 0)

    @property
    def front(self) -> Extent:
        """The piece that is evicted first, from its last block on."""
        return self._ends.after

    def append(self, piece: Extent) -> None:
        """``piece`` has been used last."""
        _insert_after(self._ends.before, piece)

    def prepend(self, piece: Extent) -> None:
        """``piece`` is to be evicted before all others."""
        _insert_after(self._ends, piece)

    def remove(self, piece: Extent) -> None:
        """``piece`` is held again, or gone."""
        piece.before.after = piece.after
        piece.after.before = piece.before
        piece.before = piece.after = piece


def _cut(pieces: list[Extent], block: int) -> None:
    """Make ``block`` a border between pieces; the later part is evicted first, as before."""
    for index, piece in enumerate(pieces):
        if piece.start < block < piece.stop:
            head = Extent(piece.state, piece.start, block, piece.holders, piece.serial)
            piece.start = block
            if not piece.holders:
                _insert_after(piece, head)
            pieces.insert(index, head)
            return


def _insert_after(place: Extent, piece: Extent) -> None:
    piece.before = place
    piece.after = place.after
    place.after.before = piece
    place.after = piece
