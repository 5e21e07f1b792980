"""The slow engine: one step at a time, one KV block at a time, written to be obviously right.

It is the reference for the pods of ``sim`` and shares no code with them.
Prompts are token ids, a block's identity is its tokens chained to its parent's
identity, and nothing is skipped or summed in closed form. Times are seconds,
``StepTime`` is in the units of the coefficient tables (milliseconds).

One step: schedule at its start, let the time pass, take effect at its end.
Events at one instant: end of a step, arrivals, planning, cancellations.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import takewhile
from math import ceil, sqrt

BOUNDARY_TOLERANCE_S = 1e-9
"""An arrival at most this long after the end of a step counts as at its end."""


@dataclass(frozen=True)
class StepTime:
    """ms = a + b·P/1e3 + c·S/1e5 + d·A/1e8 + f·B/1e2 + g·√B.

    P prefill tokens; B sequences that decode; S their known tokens (prompt and
    produced so far) at the start of the step; A = Σ chunk·(context before + chunk/2).
    """

    a: float
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    f: float = 0.0
    g: float = 0.0

    def seconds(self, prefill: int, decoding: int, context: int, pairs: float) -> float:
        linear_ms = self.a + self.b * prefill / 1e3 + self.c * context / 1e5
        return (linear_ms + self.d * pairs / 1e8 + self._decoding_ms(decoding)) / 1e3

    def _decoding_ms(self, decoding: int) -> float:
        return self.f * decoding / 1e2 + self.g * sqrt(decoding)


@dataclass(frozen=True)
class Settings:
    """One pod."""

    step_time: StepTime
    kv_blocks: int
    block_size: int = 16
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 8192
    max_model_len: int | None = None
    reserve_full_prompt: bool = True
    enable_prefix_caching: bool = True
    evict_unhashed_first: bool = False
    prompt_tail: bool = False  # states at the tail of prompts and at junctions; else everywhere
    state_blocks: int = 0  # of a running sequence and of a checkpoint


@dataclass(frozen=True)
class Job:
    """A request: what it says, the tokens it will be answered with, when the client leaves."""

    arrival_s: float
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    cancel_s: float | None = None


FollowUp = Callable[[int, float], Job | None]
"""Called with a job's index and its end (s): the client's next job (closed loop) or None."""


@dataclass
class JobTrace:
    """What became of a job. Names and meaning are those of ``sim.request.Attempt``.

    Every prefill token counts either as ``computed_tokens`` (a prompt token
    that is computed for the first time) or as ``recomputed_tokens``: what a
    resumed job computes again, its last produced token included.
    """

    status: str = "in_flight"
    end_reason: str | None = None
    http_status: int | None = None
    scheduled_s: float | None = None
    first_token_s: float | None = None
    end_s: float | None = None
    cached_tokens: int = 0
    computed_tokens: int = 0
    recomputed_tokens: int = 0
    preemptions: int = 0
    emitted_tokens: int = 0
    token_s: list[float] = field(default_factory=list)


@dataclass(frozen=True)
class Published:
    """What the metrics endpoint says from the end of one step to the end of the next."""

    waiting: int = 0
    running: int = 0
    kv_usage: float = 0.0


@dataclass(frozen=True)
class StepTrace:
    """One step: its work and what is published at its end.

    ``pairs`` is A, ``context`` is S of ``StepTime``. ``free_blocks`` counts
    blocks that nobody holds, ``cached_blocks`` those with a hash, both after
    the finished requests have left.
    """

    start_s: float
    end_s: float
    prefill_tokens: int
    decoding: int
    context: int
    pairs: float
    published: Published
    free_blocks: int
    cached_blocks: int


@dataclass
class Trace:
    """A whole run."""

    jobs: list[JobTrace]
    steps: list[StepTrace]

    def published_at(self, time_s: float) -> Published:
        """Answer of a poll at ``time_s``: the last step that has ended then, idle or not."""
        ended = bisect_right(self.steps, time_s, key=lambda step: step.end_s)
        return self.steps[ended - 1].published if ended else Published()


def simulate(settings: Settings, jobs: Iterable[Job], follow_up: FollowUp | None = None) -> Trace:
    """Run ``jobs`` (in input order at equal times) and whatever follows up to the last end."""
    return _Engine(settings, list(jobs), follow_up).run()


class BlockPool:
    """The KV cache: numbered blocks, a free queue in LRU order, an index of full blocks.

    A *state* is what a recurrent layer knows after the chain that it is filed
    under: a few blocks, of which the loss of one is the loss of all.
    """

    def __init__(self, blocks: int, unhashed_first: bool = False) -> None:
        self.free: OrderedDict[int, None] = OrderedDict.fromkeys(range(blocks))
        self._unhashed_first = unhashed_first
        self._states: dict[int, list[int]] = {}  # chain: the blocks of its state
        self._holders = [0] * blocks
        self._chain: list[int | None] = [None] * blocks
        self._copies: dict[int, OrderedDict[int, None]] = {}  # chain: its blocks, oldest first

    @property
    def cached_blocks(self) -> int:
        return sum(chain is not None for chain in self._chain)

    def cached_chains(self) -> list[int]:
        return list(self._copies)

    def is_cached(self, chain: int) -> bool:
        return chain in self._copies

    def lookup(self, chains: Iterable[int]) -> list[int]:
        """The earliest cached block of each chain, up to the first one that is missing."""
        return [next(iter(self._copies[chain])) for chain in takewhile(self.is_cached, chains)]

    def take(self, blocks: Iterable[int]) -> None:
        """Hold blocks that a lookup has found."""
        for block in blocks:
            self._holders[block] += 1
            self.free.pop(block, None)

    def allocate(self) -> int:
        """Hold the free block that was released longest ago; what it cached is gone."""
        block, _ = self.free.popitem(last=False)
        self._holders[block] = 1
        chain, self._chain[block] = self._chain[block], None
        if chain is not None:
            del self._copies[chain][block]
            if not self._copies[chain]:
                del self._copies[chain]
        for chain, state in list(self._states.items()):
            if block in state:
                del self._states[chain]
        return block

    def has_state(self, chain: int) -> bool:
        return chain in self._states

    def keep_state(self, chain: int, blocks: int) -> None:
        """A copy of a running state, which nobody holds; none when there is no room for it."""
        if not self.has_state(chain) and len(self.free) >= blocks:
            state = [self.allocate() for _ in range(blocks)]
            for block in state:
                self._holders[block] = 0
                self.free[block] = None
            self._states[chain] = state
        else:
            self.use_state(chain)

    def use_state(self, chain: int) -> None:
        """The state is read now: of all that nobody holds it has been used last."""
        for block in self._states.get(chain, ()):
            self.free.move_to_end(block)

    def seal(self, block: int, chain: int) -> None:
        """The block is full: it can be found from now on."""
        self._chain[block] = chain
        self._copies.setdefault(chain, OrderedDict())[block] = None

    def release(self, blocks: Sequence[int]) -> None:
        """One holder lets go of its blocks, tail first."""
        for block in reversed(blocks):
            self._holders[block] -= 1
            if not self._holders[block]:
                self.free[block] = None
                if self._unhashed_first and self._chain[block] is None:
                    self.free.move_to_end(block, last=False)


class Chains:
    """Identity of full blocks: equal exactly when the block and all before it say the same."""

    def __init__(self, block_size: int) -> None:
        self.block_size = block_size
        self.parents: dict[int, int] = {}  # of each chain; -1 for the first block of a text
        self._ids: dict[tuple[int, tuple[int, ...]], int] = {}

    def extend(self, chains: list[int], tokens: Sequence[int]) -> None:
        """Append to ``chains`` the identities of the full blocks that ``tokens`` has more."""
        size = self.block_size
        for start in range(len(chains) * size, len(tokens) - size + 1, size):
            parent = chains[-1] if chains else -1
            key = (parent, tuple(tokens[start : start + size]))
            chain = self._ids.setdefault(key, len(self._ids))
            self.parents[chain] = parent
            chains.append(chain)


class _Sequence:
    """A job inside the engine. ``known`` is its prompt and what it has produced."""

    def __init__(self, number: int, job: Job) -> None:
        self.number = number
        self.job = job
        self.trace = JobTrace()
        self.known = list(job.prompt)
        self.computed = 0  # leading tokens whose KV the pod holds for it
        self.once_computed = 0  # the most that ``computed`` has been after a prefill
        self.blocks: list[int] = []
        self.state: list[int] = []  # blocks of the recurrent layers' running state
        self.chains: list[int] = []
        self.stops: list[int] = []  # where a chunk of its prefill must end, to keep the state
        self.chunk = 0  # tokens that the present step computes
        self.prefilling = True  # until the first token after an admission
        self.leaving = False  # the client has gone, the step in flight has not ended


class _Engine:
    def __init__(self, settings: Settings, jobs: list[Job], follow_up: FollowUp | None) -> None:
        self.settings = settings
        self.follow_up = follow_up
        self.pool = BlockPool(settings.kv_blocks, settings.evict_unhashed_first)
        self.chains = Chains(settings.block_size)
        self.sequences = [_Sequence(number, job) for number, job in enumerate(jobs)]
        self.arrivals = [(seq.job.arrival_s, seq.number, seq) for seq in self.sequences]
        heapify(self.arrivals)
        self.waiting: deque[_Sequence] = deque()
        self.running: list[_Sequence] = []
        self.due: list[int] = []  # chains whose states the last step has computed
        self.steps: list[StepTrace] = []

    def run(self) -> Trace:
        now_s = 0.0
        while True:
            if not self.running and not self.waiting:
                if not self.arrivals:
                    break
                now_s = max(now_s, self.arrivals[0][0])
            self._take_arrivals(now_s)
            self._schedule(now_s)
            if any(seq.chunk for seq in self.running):
                now_s = self._pass_step(now_s)
            else:
                assert not self.running and not self.waiting, "an engine with work stands still"
        return Trace([seq.trace for seq in self.sequences], self.steps)

    # Arrivals and departures

    def _take_arrivals(self, now_s: float) -> None:
        while self.arrivals and self.arrivals[0][0] <= now_s + BOUNDARY_TOLERANCE_S:
            _, _, seq = heappop(self.arrivals)
            arrival_s, cancel_s = seq.job.arrival_s, seq.job.cancel_s
            if self._is_too_long(len(seq.known)):
                seq.trace.http_status = 400
                self._end(seq, "rejected", arrival_s, "prompt_too_long")
            elif cancel_s is not None and cancel_s < now_s:
                self._end(seq, "cancelled", cancel_s)  # came and went during the step
            else:
                self.waiting.append(seq)

    def _is_too_long(self, prompt_tokens: int) -> bool:
        limit = self.settings.max_model_len
        return self._outgrows(prompt_tokens) or (limit is not None and prompt_tokens > limit)

    def _outgrows(self, tokens: int) -> bool:
        """Does the KV of so many tokens not fit the pod, whoever else is there?"""
        needed = ceil(tokens / self.settings.block_size) + self.settings.state_blocks
        return needed > self.settings.kv_blocks

    def _can_say_no_more(self, tokens: int) -> bool:
        """Is the model limit reached, or would the next token outgrow the whole pod?"""
        limit = self.settings.max_model_len
        return self._outgrows(tokens) or (limit is not None and tokens >= limit)

    def _end(self, seq: _Sequence, status: str, end_s: float, reason: str | None = None) -> None:
        seq.trace.status = status
        seq.trace.end_s = end_s
        seq.trace.end_reason = reason
        following = self.follow_up(seq.number, end_s) if self.follow_up else None
        if following is not None:
            successor = _Sequence(len(self.sequences), following)
            self.sequences.append(successor)
            heappush(self.arrivals, (following.arrival_s, successor.number, successor))

    def _release(self, seq: _Sequence) -> None:
        self.pool.release(seq.state)
        self.pool.release(seq.blocks)
        seq.blocks = []
        seq.state = []
        seq.computed = 0

    # Scheduling

    def _schedule(self, now_s: float) -> None:
        for chain in self.due:
            self.pool.keep_state(chain, self.settings.state_blocks)
        self.due = []
        for seq in self.running:
            seq.chunk = 0
        budget, preempted = self._schedule_running(self.settings.max_num_batched_tokens)
        if not preempted:
            self._admit(now_s, budget)

    def _schedule_running(self, budget: int) -> tuple[int, bool]:
        """Serve the running requests in admission order; what is left, and was one preempted?"""
        preempted = False
        index = 0
        while index < len(self.running) and budget > 0:
            seq = self.running[index]
            chunk = self._chunk(seq, budget)
            while seq in self.running and not self._fits(seq, chunk):
                self._preempt(self.running.pop())
                preempted = True
            if seq in self.running:
                self._compute(seq, chunk)
                budget -= chunk
                index += 1
        return budget, preempted

    def _fits(self, seq: _Sequence, chunk: int) -> bool:
        return self._missing_blocks(seq, chunk) <= len(self.pool.free)

    def _missing_blocks(self, seq: _Sequence, chunk: int) -> int:
        needed = ceil((seq.computed + chunk) / self.settings.block_size)
        return max(0, needed - len(seq.blocks))

    def _preempt(self, seq: _Sequence) -> None:
        self._release(seq)
        seq.trace.preemptions += 1
        self.waiting.appendleft(seq)

    def _admit(self, now_s: float, budget: int) -> None:
        """First come, first served; the head of the queue blocks those behind it."""
        while self.waiting and budget > 0 and len(self.running) < self.settings.max_num_seqs:
            seq = self.waiting[0]
            hits = self._hits(seq)
            cached = len(hits) * self.settings.block_size
            seq.computed = cached
            seq.prefilling = True
            chunk = self._chunk(seq, budget)
            if not chunk or not self._may_enter(seq, hits, cached + chunk):
                seq.computed = 0
                break
            self.waiting.popleft()
            self.running.append(seq)
            if self.settings.prompt_tail and hits:
                self.pool.use_state(seq.chains[len(hits) - 1])
            self.pool.take(hits)
            seq.blocks = hits
            seq.state = [self.pool.allocate() for _ in range(self.settings.state_blocks)]
            if seq.trace.scheduled_s is None:
                seq.trace.scheduled_s = now_s
                seq.trace.cached_tokens = seq.once_computed = cached
            self._compute(seq, chunk)
            budget -= chunk

    def _hits(self, seq: _Sequence) -> list[int]:
        """Cached leading blocks; the last known token is always computed."""
        if not self.settings.enable_prefix_caching:
            return []
        self.chains.extend(seq.chains, seq.known)
        limit = (len(seq.known) - 1) // self.settings.block_size
        hits = self.pool.lookup(seq.chains[:limit])
        if not self.settings.prompt_tail:
            return hits
        shared = len(hits)
        while hits and not self.pool.has_state(seq.chains[len(hits) - 1]):
            hits.pop()
        stops = {limit, shared} - {len(hits), 0}
        seq.stops = [self.settings.block_size * stop for stop in sorted(stops)]
        return hits

    def _chunk(self, seq: _Sequence, budget: int) -> int:
        """Tokens that it computes in a step with ``budget`` tokens left; 0: not in this step.

        Where states are kept, a prefill ends its chunks at block boundaries up
        to the last boundary of which the state is kept, and at each of those.
        """
        end = min(len(seq.known), seq.computed + budget)
        stop = next((stop for stop in seq.stops if stop > seq.computed), None)
        if seq.prefilling and stop is not None:
            size = self.settings.block_size
            end = stop if end >= stop else end // size * size
        return max(0, end - seq.computed)

    def _may_enter(self, seq: _Sequence, hits: list[int], first_chunk_end: int) -> bool:
        tokens = len(seq.known) if self.settings.reserve_full_prompt else first_chunk_end
        own = ceil(tokens / self.settings.block_size) - len(hits) + self.settings.state_blocks
        unheld_hits = sum(block in self.pool.free for block in hits)
        return own + unheld_hits <= len(self.pool.free)

    def _compute(self, seq: _Sequence, chunk: int) -> None:
        """Put the chunk into the present step: blocks for it, and the full ones can be found."""
        for _ in range(self._missing_blocks(seq, chunk)):
            seq.blocks.append(self.pool.allocate())
        seq.chunk = chunk
        if not self.settings.enable_prefix_caching:
            return
        self.chains.extend(seq.chains, seq.known)
        size = self.settings.block_size
        for position in range(seq.computed // size, (seq.computed + chunk) // size):
            self.pool.seal(seq.blocks[position], seq.chains[position])

    # The step itself

    def _pass_step(self, start_s: float) -> float:
        """Let the scheduled step happen; returns its end."""
        scheduled = [seq for seq in self.running if seq.chunk]
        decoding = [seq for seq in scheduled if not seq.prefilling]
        prefilling = [seq for seq in scheduled if seq.prefilling]
        prefill = sum(seq.chunk for seq in prefilling)
        context = sum(len(seq.known) for seq in decoding)
        pairs = sum((seq.chunk * (seq.computed + seq.chunk / 2) for seq in prefilling), 0.0)
        duration_s = self.settings.step_time.seconds(prefill, len(decoding), context, pairs)
        end_s = start_s + duration_s
        queue = list(self.waiting)
        self._take_cancellations(end_s)
        for seq in list(self.running):
            self._take_effect(seq, end_s)
        self.running = [seq for seq in self.running if seq.trace.status == "in_flight"]
        held = self.settings.kv_blocks - len(self.pool.free)
        still_waiting = sum(seq.trace.status == "in_flight" for seq in queue)
        published = Published(still_waiting, len(self.running), held / self.settings.kv_blocks)
        self.steps.append(
            StepTrace(
                start_s,
                end_s,
                prefill,
                len(decoding),
                context,
                pairs,
                published,
                len(self.pool.free),
                self.pool.cached_blocks,
            )
        )
        return end_s

    def _take_cancellations(self, end_s: float) -> None:
        """Clients that leave from the start of the step (after planning) to before its end."""
        for seq in [*self.waiting, *self.running]:
            cancel_s = seq.job.cancel_s
            seq.leaving = cancel_s is not None and cancel_s < end_s
        for seq in [seq for seq in self.waiting if seq.leaving]:
            self.waiting.remove(seq)
            self._end(seq, "cancelled", seq.job.cancel_s)

    def _take_effect(self, seq: _Sequence, end_s: float) -> None:
        """What the end of the step means for one running request."""
        self._count(seq)
        seq.computed += seq.chunk
        if seq.prefilling and seq.chunk and seq.computed in seq.stops:
            self.due.append(seq.chains[seq.computed // self.settings.block_size - 1])
        if seq.leaving:
            self._release(seq)
            self._end(seq, "cancelled", seq.job.cancel_s)
        elif seq.chunk and seq.computed == len(seq.known):
            self._emit(seq, end_s)

    def _count(self, seq: _Sequence) -> None:
        """Prefill tokens: prompt tokens that are computed for the first time, or recomputation."""
        if not seq.prefilling:
            return
        end = seq.computed + seq.chunk
        first = max(0, min(end, len(seq.job.prompt)) - max(seq.computed, seq.once_computed))
        seq.trace.computed_tokens += first
        seq.trace.recomputed_tokens += seq.chunk - first
        seq.once_computed = max(seq.once_computed, end)

    def _emit(self, seq: _Sequence, now_s: float) -> None:
        seq.prefilling = False
        trace = seq.trace
        seq.known.append(seq.job.output[trace.emitted_tokens])
        trace.emitted_tokens += 1
        trace.token_s.append(now_s)
        if trace.first_token_s is None:
            trace.first_token_s = now_s
        complete = trace.emitted_tokens == len(seq.job.output)
        if complete or self._can_say_no_more(len(seq.known)):
            self._release(seq)
            self._end(seq, "completed", now_s, None if complete else "length")
