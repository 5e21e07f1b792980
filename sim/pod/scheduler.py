"""One step of the engine: who computes what. vLLM V1's order of work (engine semantics, 1.1).

Running requests first, in order of admission, then the waiting queue, first
come first served, until the token budget is spent. The scheduler knows no
clock; ``sim.pod.pod`` binds it to one.
"""

from collections import deque
from dataclasses import dataclass, field

from sim.content import Node, Segment, path
from sim.extents import ExtentStore
from sim.pod.batch import Batch, Sequence
from sim.pod.spec import Vllm, kv_blocks
from sim.request import Reason


@dataclass(slots=True)
class Step:
    """What one step computes beside the decodes, and whom its scheduling ended or threw out."""

    prefill_tokens: int = 0
    pairs: float = 0.0  # query-key pairs of the prefill chunks, causal
    filled: tuple[Sequence, ...] = ()  # prefill complete with this step: they sample a token
    admitted: tuple[Sequence, ...] = ()
    chunks: list[tuple[Sequence, int]] = field(default_factory=list)  # of prompts, in tokens
    preempted: list[Sequence] = field(default_factory=list)


class Scheduler:
    """The queues, the batch and the KV cache of one pod."""

    def __init__(self, engine: Vllm) -> None:
        blocks = kv_blocks(engine)
        self.store = ExtentStore(blocks, engine.block_size, engine.evict_unhashed_first)
        self.batch = Batch(engine.block_size)
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}  # in order of admission
        self.preemptions = 0
        self.recomputed_tokens = 0
        self._cap = min(engine.max_num_seqs, engine.max_num_batched_tokens)
        self._prefilling: list[Sequence] = []
        self._writers: dict[Node, list[Sequence]] = {}
        self._admissions = 0
        self._caching = engine.enable_prefix_caching
        self._block_size = engine.block_size
        self._state_blocks = engine.state_blocks
        self._keeps_states = engine.prefix_retention == "prompt-tail" and self._caching
        self._due: list[tuple[list[Segment], int]] = []  # states that the last step has computed
        self._budget = engine.max_num_batched_tokens
        pod_tokens = (blocks - engine.state_blocks) * engine.block_size
        model_tokens = engine.max_model_len or pod_tokens + 1
        self._longest_prompt = min(model_tokens, pod_tokens)
        # The last token of a sequence is never fed back: it needs no KV.
        self._longest_sequence = min(model_tokens, pod_tokens + 1)
        self._reserve_full_prompt = engine.reserve_full_prompt
        self._stuck = False  # the last try to admit the head of the queue failed

    def refusal(self, prompt_tokens: int) -> str | None:
        """Why a prompt of this length can never be served; None when it can."""
        return Reason.PROMPT_TOO_LONG if prompt_tokens > self._longest_prompt else None

    def output_limit(self, prompt_tokens: int, output_tokens: int) -> int:
        """Tokens that a request of this length can produce, at least one.

        It ends with ``length`` where it would exceed the model limit, or where
        its next token would need more blocks than the whole pod has.
        """
        return max(1, min(output_tokens, self._longest_sequence - prompt_tokens))

    def decodes_only(self) -> bool:
        """Whether the next steps can be a span: nothing to prefill and nobody to admit."""
        if self._prefilling or not self.batch.decoders:
            return False
        return not self.waiting or (self._stuck and self._blocked())

    def plan(self) -> Step:
        """Schedule one step: allocate its blocks, admit, and say what it computes."""
        step = Step()
        for route, blocks in self._due:
            self.store.checkpoint(route, blocks, self._state_blocks)
        self._due.clear()
        decode_blocks = self.batch.blocks_for(1)
        if decode_blocks <= self.store.free:
            self.store.allocate(decode_blocks)
        else:
            self._squeeze(step)
        budget = self._budget - self.batch.decoders
        filled: list[Sequence] = []
        for sequence in tuple(self._prefilling):
            chunk = self._chunk(sequence, budget)
            if budget <= 0 or not self._make_room(sequence, chunk, step):
                break
            for node, _ in sequence.route:
                self._catch_up(node, ahead=1)
            budget -= self._compute(sequence, chunk, step, filled)
        if not step.preempted and self.waiting:
            self._admit(budget, step, filled)
        step.filled = tuple(filled)
        return step

    def grow(self, steps: int) -> None:
        """Take the blocks of a span of ``steps`` decode steps; they are known to be there."""
        self.store.allocate(self.batch.blocks_for(steps))

    def steps_with_blocks(self, limit: int) -> int:
        """How many decode steps, at most ``limit``, find their blocks."""
        return self.batch.steps_within(self.store.free, limit)

    def start_decoding(self, sequence: Sequence) -> None:
        """The prefill of ``sequence`` is done and it has tokens to go."""
        self.batch.join(sequence)
        self._writers.setdefault(sequence.answer, []).append(sequence)

    def remove(self, sequence: Sequence) -> None:
        """``sequence`` leaves the running set; its blocks are free, tail first."""
        del self.running[sequence]
        if sequence.decoding:
            self.batch.leave(sequence)
        elif sequence in self._prefilling:
            self._prefilling.remove(sequence)
        self._catch_up(sequence.answer, ahead=0)
        writers = self._writers.get(sequence.answer)
        if writers is not None and sequence in writers:
            writers.remove(sequence)
            if not writers:
                del self._writers[sequence.answer]
        self.store.give_back(self._state_blocks)
        self.store.release(sequence.holding)

    # -- parts of a step ------------------------------------------------------------------

    def _squeeze(self, step: Step) -> None:
        """Decodes of a step that is short of blocks, one by one in order of admission.

        For whoever needs a block the last admitted is preempted until there is
        one, possibly the one that needs it.
        """
        for sequence in tuple(self.running):
            if sequence not in self.running:
                break
            if not sequence.decoding:
                continue
            self.batch.settle(sequence)
            if sequence.computed % self._block_size == 0:
                while self.store.free < 1 and sequence in self.running:
                    self._preempt_last(step)
                if sequence in self.running:
                    self.store.allocate(1)
                    sequence.holding.blocks += 1

    def _chunk(self, sequence: Sequence, budget: int) -> int:
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

    def _make_room(self, sequence: Sequence, chunk: int, step: Step) -> bool:
        """Find the blocks for the next chunk of a running prompt."""
        needed = self._blocks(sequence.computed + chunk) - sequence.holding.blocks
        while self.store.free < needed:
            if self._preempt_last(step) is sequence:
                return False
        return True

    def _compute(self, sequence: Sequence, chunk: int, step: Step, filled: list[Sequence]) -> int:
        """Compute the next chunk of a prompt whose blocks are known to be free."""
        start = sequence.computed
        end = start + chunk
        blocks = self._blocks(end)
        holding = sequence.holding
        self.store.allocate(blocks - holding.blocks)
        holding.blocks = blocks
        attempt = sequence.attempt
        repeated = max(0, min(end, sequence.high_water) - start)
        attempt.recomputed_tokens += repeated
        self.recomputed_tokens += repeated
        fresh_from = start + repeated
        attempt.computed_tokens += max(0, min(end, sequence.prompt_tokens) - fresh_from)
        sequence.computed = end
        self._write(sequence, sequence.computed)
        step.prefill_tokens += chunk
        step.chunks.append((sequence, chunk))
        step.pairs += chunk * (start + chunk / 2)
        if end == sequence.target:
            filled.append(sequence)
            if sequence in self._prefilling:
                self._prefilling.remove(sequence)
        elif sequence not in self._prefilling:
            self._prefilling.append(sequence)
        if chunk and end in sequence.stops:
            self._due.append((sequence.route, end // self._block_size))
        return chunk

    def _admit(self, budget: int, step: Step, filled: list[Sequence]) -> None:
        """Admit from the head of the queue; a head that does not fit blocks those behind it."""
        admitted: list[Sequence] = []
        self._stuck = False
        while self.waiting:
            if budget <= 0 or len(self.running) >= self._cap:
                self._stuck = True
                break
            sequence = self.waiting[0]
            route = path(sequence.answer, sequence.target)
            hit, chunk = self._gate(sequence, route, budget)
            if not chunk:
                self._stuck = True
                break
            self.waiting.popleft()
            sequence.route = route
            self.running[sequence] = None
            sequence.admission = self._admissions
            self._admissions += 1
            if hit and self._keeps_states:
                self.store.use_checkpoint(route, hit)
            self.store.acquire(sequence.holding, route, hit)
            self.store.allocate(self._state_blocks)
            if sequence.attempt.preemptions == 0:
                sequence.attempt.cached_tokens = min(sequence.computed, sequence.prompt_tokens)
            admitted.append(sequence)
            budget -= self._compute(sequence, chunk, step, filled)
        step.admitted = tuple(admitted)

    def _gate(self, sequence: Sequence, route: list[Segment], budget: int) -> tuple[int, int]:
        """Cached leading blocks of a waiting request, and its first chunk if it may be admitted.

        All its known tokens must fit into the free blocks (with
        ``reserveFullPrompt``; else its first chunk), hits that nobody holds
        included, since they leave the free queue. The chunk is 0 otherwise.
        """
        hit, idle = self._find(sequence, route) if self._caching else (0, 0)
        sequence.computed = hit * self._block_size
        chunk = self._chunk(sequence, budget)
        tokens = sequence.target if self._reserve_full_prompt else sequence.computed + chunk
        needed = self._blocks(tokens) - hit + idle + self._state_blocks
        return hit, chunk if needed <= self.store.free else 0

    def _find(self, sequence: Sequence, route: list[Segment]) -> tuple[int, int]:
        """Cached leading blocks that a waiting request can use, those of them that nobody holds.

        The last known token is always computed. Where states are kept, what is
        cached is of use up to the last state; the next are kept where the
        request leaves what is cached, and at its last block boundary.
        """
        for node, _ in route:
            if node in self._writers:
                self._catch_up(node, ahead=1)
        limit = (sequence.target - 1) // self._block_size
        shared, idle = self.store.lookup(route, limit)
        if not self._keeps_states:
            return shared, idle
        hit = self.store.checkpoint_before(route, shared)
        stops = sorted({shared, limit} - {0, hit})
        sequence.stops = [stop * self._block_size for stop in stops]
        return self.store.lookup(route, hit)

    def _blocked(self) -> bool:
        """Whether the head of the queue cannot be admitted before the batch changes."""
        budget = self._budget - self.batch.decoders
        if budget <= 0 or len(self.running) >= self._cap:
            return True
        head = self.waiting[0]
        route = path(head.answer, head.target)
        if any(node in self._writers for node, _ in route):
            return False  # what is being generated may become part of its hit at any step
        return not self._gate(head, route, budget)[1]

    def _preempt_last(self, step: Step) -> Sequence:
        """Throw out the last admitted: it will compute everything again, from the queue's head."""
        sequence = next(reversed(self.running))
        self.remove(sequence)
        sequence.target = sequence.prompt_tokens + sequence.emitted
        sequence.computed = 0
        if sequence.emitted:
            # Its last token, sampled but not yet fed back, is part of what is computed again.
            sequence.high_water = sequence.target
        sequence.attempt.preemptions += 1
        self.preemptions += 1
        self.waiting.appendleft(sequence)
        step.preempted.append(sequence)
        return sequence

    def _catch_up(self, node: Node, ahead: int) -> None:
        """Make findable what has been generated on ``node``, up to ``ahead`` steps from now.

        Several requests may generate the same text. Who is further on was
        there first; what the others have of the same is a copy.
        """
        writers = self._writers.get(node)
        if writers is None:
            return
        for writer in writers:
            self.batch.settle(writer)
        if len(writers) > 1:
            writers = sorted(writers, key=lambda writer: -writer.computed)
        for writer in writers:
            self._write(writer, writer.computed + ahead)

    def _write(self, sequence: Sequence, computed: int) -> None:
        """Put the full blocks of the first ``computed`` tokens of ``sequence`` into the cache."""
        holding = sequence.holding
        holding.blocks = max(holding.blocks, self._blocks(computed))
        content = computed // self._block_size
        sequence.high_water = max(sequence.high_water, sequence.computed)
        if content > holding.content and self._caching:
            route = sequence.route
            if computed > sequence.target:
                route = path(sequence.answer, computed)
            self.store.extend(holding, route, content)

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block_size)
