"""One step of the engine: who computes what. vLLM V1's order of work (0.33, v1/core/sched).

Running requests first, in order of admission, then the waiting queue, until
the token budget is spent. The scheduler knows no clock; ``sim.engine.core`` binds
it to one.

It counts in steps as they are scheduled, and what a planned step does counts
as done when ``complete`` is called. With async scheduling that is when the
step starts: plans run one step ahead of tokens. An end that the engine cannot
foresee is then noticed after one more decode step has been scheduled, the
sequence's ``overrun``; a foreseen one, at a limit on its length, leaves the
sequence ``finishing``, out of the batch, until its last token is there. The
text of a token is known one step after it was scheduled, so blocks that it
fills can be found that much later.
"""

from sim.core.content import Prompt, path
from sim.core.kvcache import KVCache
from sim.core.request import Attempt
from sim.engine.admission import Admission, FCFSRequestQueue, PriorityRequestQueue
from sim.engine.batch import Batch, RunningRequest
from sim.engine.blocks import DecodeBlocks, PrefillTracker
from sim.engine.scheduling import SchedulerOutput
from sim.engine.spec import Vllm, kv_blocks


class Scheduler:
    """The queues, the batch and the KV cache of one pod."""

    def __init__(self, engine: Vllm) -> None:
        blocks = kv_blocks(engine)
        self.store = KVCache(blocks, engine.block_size, engine.evict_unhashed_first)
        self.batch = Batch(engine.block_size)
        first_come = engine.scheduling_policy == "fcfs"
        self.waiting: FCFSRequestQueue | PriorityRequestQueue = (
            FCFSRequestQueue() if first_come else PriorityRequestQueue()
        )
        self.running: dict[RunningRequest, None] = {}  # in order of admission
        self.finishing: list[RunningRequest] = []
        self.arrivals = 0
        self.preemptions = 0
        self.plans_ahead = engine.async_scheduling
        self._ahead = int(self.plans_ahead)  # steps from the last complete one to the tokens
        self._answers = DecodeBlocks(
            self.store, self.batch, engine.enable_prefix_caching, unknown=self._ahead
        )
        self._prompts = PrefillTracker(self.store, self._answers, engine.state_blocks)
        self._gate = Admission(engine, self.store, self._answers)
        self._cap = min(engine.max_num_seqs, engine.max_num_batched_tokens)
        self._admissions = 0
        self._youngest_decoder = -1  # no later admission has ever decoded
        self._block_size = engine.block_size
        self._state_blocks = engine.state_blocks
        self._budget = engine.max_num_batched_tokens
        self._threshold = engine.long_prefill_token_threshold
        self._stuck = False  # the last try to admit the head of the queue failed

    @property
    def held(self) -> int:
        """KV blocks that running sequences hold."""
        return self.store.held

    @property
    def capacity(self) -> int:
        """KV blocks of the pod."""
        return self.store.capacity

    @property
    def recomputed_tokens(self) -> int:
        """Tokens of prefill that had been computed before."""
        return self._prompts.recomputed_tokens

    def enqueue(self, attempt: Attempt, limit: int) -> RunningRequest:
        """A new request waits, to be answered with at most ``limit`` tokens."""
        wanted = attempt.request.output_tokens
        overrun = self._ahead if wanted < limit else 0
        sequence = RunningRequest(
            attempt, self.arrivals, min(wanted, limit), wanted > limit, overrun
        )
        self.arrivals += 1
        self.waiting.put(sequence)
        return sequence

    def decodes_only(self) -> bool:
        """Whether the next steps can be a span: nothing to prefill and nobody to admit."""
        prompts = self._prompts
        if prompts.prefilling or prompts.due or not self.batch.decoders:
            return False
        return not self.waiting or (self._stuck and self._blocked())

    def plan(self) -> SchedulerOutput:
        """Schedule one step: allocate its blocks, admit, and say what it computes."""
        step = SchedulerOutput()
        if self._prompts.due:
            self._prompts.keep_states()
        limit = self._chunk_limit()
        budget = self._serve_running(limit, step)
        if not step.preempted and self.waiting:
            self._admit(budget, limit, step)
        step.decoders = self.batch.decoders
        step.context_tokens = self.batch.context_tokens
        return step

    def complete(self, step: SchedulerOutput) -> list[RunningRequest]:
        """What was planned is done; returns the sequences that have ended, by this or before."""
        self.batch.advance(1)
        for sequence in step.skipped:
            if not sequence.cancelled:
                self._start_decoding(sequence)
        through = self.batch.pop_ended()
        for sequence in step.filled:
            if sequence.cancelled:
                continue
            sequence.emitted += 1
            if sequence.emitted < sequence.output_tokens + sequence.overrun:
                self._start_decoding(sequence)
            else:
                through.append(sequence)
        return self._ended(through) if self._ahead else through

    def take_back(self, step: SchedulerOutput) -> None:
        """Forget an empty step, in which somebody only had to make room for nobody."""
        for sequence in step.skipped:
            self._start_decoding(sequence)

    def complete_span(self, steps: int) -> list[RunningRequest]:
        """The same for a span of ``steps`` decode steps, whose blocks are known to be there."""
        self.store.allocate(self.batch.blocks_for(steps))
        self.batch.advance(steps)
        through = self.batch.pop_ended()
        return self._ended(through) if self._ahead else through

    def steps_with_blocks(self, limit: int) -> int:
        """How many decode steps, at most ``limit``, find their blocks."""
        return self.batch.steps_within(self.store.free, limit)

    def release(self, sequences: list[RunningRequest]) -> None:
        """These leave the running set, in the order of their admission."""
        if len(sequences) > 1:
            sequences = sorted(sequences, key=lambda sequence: sequence.admission)
        for sequence in sequences:
            if sequence in self.running:
                self._remove(sequence)

    def _remove(self, sequence: RunningRequest) -> None:
        """``sequence`` leaves the running set; its blocks are free, tail first."""
        del self.running[sequence]
        self._prompts.leave(sequence)
        self._answers.stop(sequence)
        if self._state_blocks:
            self.store.give_back(self._state_blocks)
        self.store.release(sequence.holding)

    def cached_prefix_tokens(self, prompt: Prompt) -> int:
        """Leading tokens of ``prompt`` that a request admitted now would find."""
        return self._gate.cached_prefix_tokens(prompt)

    # -- who decodes ----------------------------------------------------------------------

    def _start_decoding(self, sequence: RunningRequest) -> None:
        """The prefill of ``sequence`` is done and it has tokens to go."""
        self._answers.start(sequence)
        self._youngest_decoder = max(self._youngest_decoder, sequence.admission)

    def _ended(self, through: list[RunningRequest]) -> list[RunningRequest]:
        """Async: those of ``through`` that have their last token now, and who was finishing."""
        for sequence in self.finishing:
            if sequence in self.running:
                self._answers.complete(sequence)
        ended = [*self.finishing, *(each for each in through if each.overrun)]
        self.finishing = [each for each in through if not each.overrun and not each.cancelled]
        for sequence in self.finishing:
            self._answers.stop(sequence)
        return ended

    # -- parts of a step ------------------------------------------------------------------

    def _chunk_limit(self) -> int:
        """Most tokens of one prompt in a step, the budget apart."""
        if self._threshold and len(self.running) + len(self.waiting) > 1:
            return self._threshold
        return self._budget

    def _serve_running(self, limit: int, step: SchedulerOutput) -> int:
        """Decodes and chunks of the running requests; returns what is left of the budget."""
        blocks = decode_blocks = self.batch.blocks_for(1)
        budget = self._budget - self.batch.decoders
        chunks: dict[RunningRequest, int] = {}
        short = False
        for sequence in self._prompts.prefilling:
            wanted = self._gate.chunk(sequence, limit)
            chunk = wanted if wanted <= budget else self._gate.chunk(sequence, budget)
            short = short or chunk < wanted
            if chunk:
                chunks[sequence] = chunk
                blocks += self._blocks_for(sequence, chunk)
                budget -= chunk
        if blocks > self.store.free or (short and self._decodes_behind_a_prompt()):
            chunks, budget = self._ration(limit, step)
        else:
            self.store.allocate(decode_blocks)
        for sequence, chunk in chunks.items():
            for node, _ in sequence.route:
                self._answers.catch_up(node, ahead=1, before=sequence.admission)
            self._prompts.compute(sequence, chunk, step)
        return budget

    def _decodes_behind_a_prompt(self) -> bool:
        return self._prompts.prefilling[0].admission < self._youngest_decoder

    def _ration(self, limit: int, step: SchedulerOutput) -> tuple[dict[RunningRequest, int], int]:
        """Serve one by one, in order of admission, when budget or blocks do not suffice for all.

        For whoever lacks a block others are preempted until there is one,
        possibly the one that lacks it, which ends the pass. Nothing is taken
        before everybody is through: who was served and then preempted has
        been in the step for nothing. Returns the chunks of the prompts and
        what is left of the budget.
        """
        budget = self._budget
        promised = 0
        shares: dict[RunningRequest, tuple[int, int]] = {}  # tokens and blocks
        for sequence in tuple(self.running):
            if budget <= 0:
                break
            if sequence not in self.running:
                continue
            tokens = 1 if sequence.decoding else self._gate.chunk(sequence, min(limit, budget))
            if not tokens:
                continue
            blocks = self._blocks_for(sequence, tokens)
            while self.store.free - promised < blocks and sequence in self.running:
                refund = shares.pop(self._preempt(step), (0, 0))
                budget += refund[0]
                promised -= refund[1]
            if sequence not in self.running:
                break
            shares[sequence] = tokens, blocks
            budget -= tokens
            promised += blocks
        return self._hand_out(shares, step), budget

    def _hand_out(
        self, shares: dict[RunningRequest, tuple[int, int]], step: SchedulerOutput
    ) -> dict[RunningRequest, int]:
        """Take the blocks of decodes; decoders without a share sit the step out."""
        for sequence in self.running:
            if not sequence.decoding:
                continue
            if sequence in shares:
                self.store.allocate(shares[sequence][1])
            else:
                self._answers.stop(sequence)
                step.skipped += (sequence,)
        return {each: tokens for each, (tokens, _) in shares.items() if not each.decoding}

    def _blocks_for(self, sequence: RunningRequest, tokens: int) -> int:
        """New blocks that the next ``tokens`` of a running sequence need."""
        if sequence.decoding:
            self.batch.settle(sequence)
        return self._blocks(sequence.computed + tokens) - self._blocks(sequence.computed)

    def _admit(self, budget: int, limit: int, step: SchedulerOutput) -> None:
        """Admit from the head of the queue; a head that does not fit blocks those behind it."""
        admitted: list[RunningRequest] = []
        self._stuck = False
        while self.waiting:
            if budget <= 0 or len(self.running) >= self._cap:
                self._stuck = True
                break
            sequence = self.waiting[0]
            route = path(sequence.answer, sequence.target)
            hit, chunk = self._gate.admits(sequence, route, min(limit, budget), bool(self.running))
            if not chunk:
                self._stuck = True
                break
            self.waiting.take()
            sequence.route = route
            self.running[sequence] = None
            sequence.admission = self._admissions
            self._admissions += 1
            if hit and self._gate.keeps_states:
                self.store.use_checkpoint(route, hit)
            self.store.acquire(sequence.holding, route, hit)
            if self._state_blocks:
                self.store.allocate(self._state_blocks)
            if sequence.attempt.preemptions == 0:
                sequence.attempt.cached_tokens = min(sequence.computed, sequence.prompt_tokens)
            admitted.append(sequence)
            self._prompts.compute(sequence, chunk, step)
            budget -= chunk
        step.admitted = tuple(admitted)

    def _blocked(self) -> bool:
        """Whether the head of the queue cannot be admitted before the batch changes."""
        budget = self._budget - self.batch.decoders
        if budget <= 0 or len(self.running) >= self._cap:
            return True
        head = self.waiting[0]
        route = path(head.answer, head.target)
        written = any(node in self._answers.writers for node, _ in route)
        if written or self._gate.may_need_less:
            return False  # what is generated, or evicted, may let it in at any step
        return not self._gate.admits(head, route, min(self._chunk_limit(), budget), True)[1]

    def _preempt(self, step: SchedulerOutput) -> RunningRequest:
        """Throw out whom the policy says: it will compute everything again."""
        sequence = self.waiting.victim(self.running)
        if sequence.decoding:
            step.interrupted += (sequence,)
        self._remove(sequence)
        sequence.target = sequence.prompt_tokens + sequence.emitted
        sequence.computed = 0
        if sequence.emitted:
            # Its last token, sampled but not yet fed back, is part of what is computed again.
            sequence.high_water = sequence.target
        sequence.attempt.preemptions += 1
        self.preemptions += 1
        step.preempted += (sequence,)
        if sequence.emitted < sequence.output_tokens:
            self.waiting.put_back(sequence)
        elif sequence not in self.finishing:
            self.finishing.append(sequence)  # its last token is on its way
        return sequence

    def _blocks(self, tokens: int) -> int:
        return -(-tokens // self._block_size)
