"""The running set of a pod: who decodes, what a step reads, who ends next, which blocks it needs.

Nothing here is counted per sequence and step. The batch counts its decode
steps; a decoding sequence remembers the count at which it joined, so its
position is a difference. Since every decoding sequence grows by one token per
step, the steps at which it needs a new block form one residue class of the
step count, and a histogram over the classes answers for all of them.
"""

from heapq import heappop, heappush

from sim.core.content import Node, Segment
from sim.core.kvcache import BlockTable
from sim.core.request import Attempt


class RunningRequest:
    """The engine's state of one attempt.

    ``target`` tokens are prefilled before the next token can be sampled
    (prompt, after a preemption prompt and produced tokens); ``computed`` of
    them have KV. While it decodes, both follow from the batch's step count.
    ``arrival`` is its place among all attempts of the pod. ``overrun`` decode
    steps follow on the one that gives its last token (see ``Scheduler``).
    """

    __slots__ = (
        "admission",
        "answer",
        "arrival",
        "attempt",
        "cancelled",
        "computed",
        "decoding",
        "emitted",
        "ends_at",
        "high_water",
        "holding",
        "joined",
        "output_tokens",
        "overrun",
        "priority",
        "prompt_tokens",
        "route",
        "stops",
        "target",
        "truncated",
    )

    def __init__(
        self,
        attempt: Attempt,
        arrival: int,
        output_tokens: int,
        truncated: bool = False,
        overrun: int = 0,
    ) -> None:
        self.attempt = attempt
        self.arrival = arrival
        self.priority = attempt.request.priority
        self.answer: Node = attempt.request.answer
        self.prompt_tokens = attempt.request.prompt.tokens
        self.output_tokens = output_tokens
        self.truncated = truncated
        self.overrun = overrun
        self.route: list[Segment] = []  # of its target, while it is running
        self.stops: list[int] = []  # tokens at which a chunk of its prefill must end
        self.holding = BlockTable()
        self.admission = -1
        self.target = self.prompt_tokens
        self.computed = 0
        self.emitted = 0
        self.high_water = 0  # tokens that have been computed once
        self.decoding = False
        self.cancelled = False
        self.joined = 0
        self.ends_at = 0


class Batch:
    """Decoding sequences as sums."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.steps = 0
        self.decoders = 0
        self.context_tokens = 0
        self._needing = [0] * block_size
        self._ends: list[tuple[int, int, RunningRequest]] = []

    def join(self, sequence: RunningRequest) -> None:
        """``sequence`` has its prefill behind it and decodes from the next step on."""
        sequence.decoding = True
        sequence.joined = self.steps
        to_go = sequence.output_tokens + sequence.overrun - sequence.emitted
        sequence.ends_at = self.steps + to_go
        self.decoders += 1
        self.context_tokens += sequence.prompt_tokens + sequence.emitted
        self._needing[(self.steps - sequence.computed) % self.block_size] += 1
        heappush(self._ends, (sequence.ends_at, sequence.admission, sequence))

    def leave(self, sequence: RunningRequest) -> None:
        """``sequence`` decodes no more; its own counts are brought up to date."""
        self.settle(sequence)
        sequence.decoding = False
        self.decoders -= 1
        self.context_tokens -= sequence.prompt_tokens + sequence.emitted
        self._needing[(self.steps - sequence.computed) % self.block_size] -= 1

    def settle(self, sequence: RunningRequest) -> None:
        """Write the steps since it joined into ``sequence``."""
        steps = self.steps - sequence.joined
        sequence.joined = self.steps
        sequence.computed += steps
        sequence.emitted += steps

    def advance(self, steps: int) -> None:
        """All decoding sequences take ``steps`` steps."""
        self.steps += steps
        self.context_tokens += steps * self.decoders

    def next_end(self) -> int:
        """Steps until the next decoding sequence is through; there must be one."""
        ends = self._ends
        while True:
            ends_at, _, sequence = ends[0]
            if sequence.decoding and sequence.ends_at == ends_at:
                return ends_at - self.steps
            heappop(ends)

    def pop_ended(self) -> list[RunningRequest]:
        """Sequences that are through now, in order of admission; they have left."""
        ended: list[RunningRequest] = []
        ends = self._ends
        while ends and ends[0][0] <= self.steps:
            ends_at, _, sequence = heappop(ends)
            if sequence.decoding and sequence.ends_at == ends_at:
                self.leave(sequence)
                ended.append(sequence)
        return ended

    def blocks_for(self, steps: int) -> int:
        """New blocks that the next ``steps`` steps need, all sequences together."""
        cycles, rest = divmod(steps, self.block_size)
        blocks = cycles * self.decoders
        if rest:
            at = self.steps % self.block_size
            blocks += sum(self._needing[at : at + rest])
            if at + rest > self.block_size:
                blocks += sum(self._needing[: at + rest - self.block_size])
        return blocks

    def steps_within(self, free: int, limit: int) -> int:
        """How many of the next ``limit`` steps find their blocks among ``free``."""
        size = self.block_size
        if (limit // size + 1) * self.decoders <= free or self.blocks_for(limit) <= free:
            return limit
        cycles = free // self.decoders
        steps = cycles * size
        free -= cycles * self.decoders
        while True:
            free -= self._needing[(self.steps + steps) % size]
            if free < 0:
                return steps
            steps += 1
