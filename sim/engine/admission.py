"""Admission of waiting requests: queue order, cache hits, and whether the blocks suffice."""

from bisect import insort
from collections import deque

from sim.core.content import Prompt, Segment
from sim.core.kvcache import KVCache
from sim.engine.batch import RunningRequest
from sim.engine.blocks import DecodeBlocks
from sim.engine.spec import Vllm


class FCFSRequestQueue(deque[RunningRequest]):
    """``fcfs``: in order of arrival; the last admitted is preempted, and goes to the head."""

    def put(self, sequence: RunningRequest) -> None:
        """A new request."""
        self.append(sequence)

    def put_back(self, sequence: RunningRequest) -> None:
        """A request that was preempted."""
        self.appendleft(sequence)

    def take(self) -> RunningRequest:
        """Remove and return the head."""
        return self.popleft()

    def victim(self, running: dict[RunningRequest, None]) -> RunningRequest:
        """Who is preempted; ``running`` is in order of admission."""
        return next(reversed(running))


class PriorityRequestQueue(list[RunningRequest]):
    """``priority``: by (priority, arrival), preempted ones too; the greatest is preempted."""

    def put(self, sequence: RunningRequest) -> None:
        """A new request."""
        insort(self, sequence, key=urgency)

    def put_back(self, sequence: RunningRequest) -> None:
        """A request that was preempted."""
        self.put(sequence)

    def take(self) -> RunningRequest:
        """Remove and return the head."""
        return self.pop(0)

    def victim(self, running: dict[RunningRequest, None]) -> RunningRequest:
        """Who is preempted."""
        return max(running, key=urgency)


def urgency(sequence: RunningRequest) -> tuple[int, int]:
    """Whoever has the least is served first; lower priorities are more urgent, as in vLLM."""
    return sequence.priority, sequence.arrival


class Admission:
    """The settings that decide on admissions and on the size of chunks."""

    def __init__(self, engine: Vllm, store: KVCache, answers: DecodeBlocks) -> None:
        self._caching = engine.enable_prefix_caching
        self.keeps_states = self._caching and engine.prefix_retention == "prompt-tail"
        self._store = store
        self._answers = answers
        self._block_size = engine.block_size
        self._state_blocks = engine.state_blocks
        self._reserve_full_prompt = engine.reserve_full_prompt
        self._watermark_blocks = int(engine.watermark * store.capacity)
        # A first chunk needs less when a state is evicted, and with it the hit that it allowed.
        self.may_need_less = self.keeps_states and not engine.reserve_full_prompt

    def admits(
        self, sequence: RunningRequest, route: list[Segment], budget: int, beside_others: bool
    ) -> tuple[int, int]:
        """Cached leading blocks of a waiting request, and its first chunk if it may be admitted.

        All its known tokens must fit into the free blocks (with
        ``reserveFullPrompt``; else its first chunk), hits that nobody holds
        included, since they leave the free queue; beside what runs, the
        watermark must stay free. The chunk is 0 otherwise.
        """
        hit, idle = self._find(sequence, route) if self._caching else (0, 0)
        sequence.computed = hit * self._block_size
        chunk = self.chunk(sequence, budget)
        tokens = sequence.target if self._reserve_full_prompt else sequence.computed + chunk
        needed = -(-tokens // self._block_size) - hit + idle + self._state_blocks
        if beside_others:
            needed += self._watermark_blocks
        return hit, chunk if needed <= self._store.free else 0

    def _find(self, sequence: RunningRequest, route: list[Segment]) -> tuple[int, int]:
        """Cached leading blocks that a waiting request can use, those of them that nobody holds.

        The last known token is always computed. Where states are kept, what is
        cached is of use up to the last state; the next are kept where the
        request leaves what is cached, and at its last block boundary.
        """
        for node, _ in route:
            if node in self._answers.writers:
                self._answers.catch_up(node, ahead=1)
        limit = (sequence.target - 1) // self._block_size
        shared, idle = self._store.lookup(route, limit)
        if not self.keeps_states:
            return shared, idle
        hit = self._store.checkpoint_before(route, shared)
        stops = sorted({shared, limit} - {0, hit})
        sequence.stops = [stop * self._block_size for stop in stops]
        return self._store.lookup(route, hit)

    def cached_prefix_tokens(self, prompt: Prompt) -> int:
        """Leading tokens of ``prompt`` that ``_find`` would find now; writes nothing.

        What decoding requests have generated counts although nobody has put it
        into the store yet: where one writes on a node of the path, all before is
        held. What the span in flight has given so far is left out.
        """
        if not self._caching:
            return 0
        route = prompt.segments()
        limit = (prompt.tokens - 1) // self._block_size
        shared = self._store.lookup(route, limit)[0]
        for node, leave in route:
            if node in self._answers.writers:
                generated = min(leave, self._answers.known_tokens(node)) // self._block_size
                shared = max(shared, min(generated, limit))
        if self.keeps_states:
            shared = self._store.checkpoint_before(route, shared)
        return shared * self._block_size

    def chunk(self, sequence: RunningRequest, budget: int) -> int:
        """Tokens of its prefill that a step with ``budget`` tokens left computes; 0: none.

        As long as states are to be kept, chunks end at block boundaries, and
        at every boundary of which the state is kept.
        """
        end = min(sequence.target, sequence.computed + budget)
        for stop in sequence.stops:
            if stop > sequence.computed:
                end = stop if end >= stop else end - end % self._block_size
                break
        return max(0, end - sequence.computed)
