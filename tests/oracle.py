"""The slow engine: one step at a time, one KV block at a time, written to be obviously right.

It is the reference for the pods of ``sim`` and shares no code with them.
Prompts are token ids, a block's identity is its tokens chained to its parent's
identity, and nothing is skipped or summed in closed form. Times are seconds,
``StepTime`` is in the units of the coefficient tables (milliseconds).

A batch is scheduled, waits its turn, runs as a step and takes effect at the end of
it. A batch is scheduled when the step before it has ended or, with
``async_scheduling``, when the step before it starts: one batch runs, one is queued.
Events at one instant: end of a step, arrivals, planning, cancellations.
"""

from bisect import bisect_right
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from heapq import heapify, heappop, heappush
from itertools import pairwise, takewhile
from math import ceil, sqrt
from typing import Literal

BOUNDARY_TOLERANCE_S = 1e-9
"""An arrival at most this long after the end of a step counts as at its end."""


@dataclass(frozen=True)
class Curve:
    """ms at so many tokens computed, straight between the points.

    Level before the first point, straight on after the last.
    """

    tokens: tuple[int, ...]
    ms: tuple[float, ...]

    def at_ms(self, tokens: int) -> float:
        if tokens <= self.tokens[0]:
            return self.ms[0]
        for (start, low), (end, high) in pairwise(zip(self.tokens, self.ms)):
            if tokens <= end or end == self.tokens[-1]:
                return low + (high - low) / (end - start) * (tokens - start)
        raise AssertionError("a curve has two points")


@dataclass(frozen=True)
class Prefilling:
    """ms = a + c·S/1e5 + f·B/1e2, only in a step that prefills."""

    a: float = 0.0
    c: float = 0.0
    f: float = 0.0


@dataclass(frozen=True)
class StepTime:
    """ms = a + b·P/1e3 + c·S/1e5 + d·A/1e8 + f·B/1e2 + g·√B, a curve and prefilling beside it.

    P prefill tokens; B sequences that decode; S their known tokens (prompt and
    produced so far) at the start of the step; A = Σ chunk·(context before + chunk/2).
    """

    a: float
    b: float = 0.0
    c: float = 0.0
    d: float = 0.0
    f: float = 0.0
    g: float = 0.0
    computed: Curve | None = None
    prefilling: Prefilling = Prefilling()

    def seconds(self, prefill: int, decoding: int, context: int, pairs: float) -> float:
        ms = self.a + self.b * prefill / 1e3 + self.c * context / 1e5
        ms += self.d * pairs / 1e8 + self._decoding_ms(decoding)
        if self.computed is not None:
            ms += self.computed.at_ms(prefill + decoding)
        if prefill:
            more = self.prefilling
            ms += more.a + more.c * context / 1e5 + more.f * decoding / 1e2
        return ms / 1e3

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
    long_prefill_token_threshold: int = 0
    watermark: float = 0.0
    max_num_queued_reqs: int | None = None
    max_num_queued_tokens: int | None = None
    scheduling_policy: Literal["fcfs", "priority"] = "fcfs"
    async_scheduling: bool = False


@dataclass(frozen=True)
class Job:
    """A request: what it says, the tokens it will be answered with, when the client leaves.

    A job of a lower ``priority`` number is more urgent. ``rank`` serves it
    when there are several.
    """

    arrival_s: float
    prompt: tuple[int, ...]
    output: tuple[int, ...]
    cancel_s: float | None = None
    priority: int = 0
    rank: int = 0


FollowUp = Callable[[int, float], Job | None]
"""Called with a job's index and its end (s): the client's next job (closed loop) or None."""


@dataclass
class JobTrace:
    """What became of a job. Names and meaning are those of ``sim.core.request.Attempt``.

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
    the finished requests have left. ``work_left`` says whether anybody is still
    there who came before the step began, or a batch that has been queued.
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
    work_left: bool


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
    return simulate_ranks(settings, 1, jobs, follow_up)[0]


def simulate_ranks(
    settings: Settings, ranks: int, jobs: Iterable[Job], follow_up: FollowUp | None = None
) -> list[Trace]:
    """The same on equal ranks in lockstep; a trace for each, with the jobs that it served.

    All ranks take a step together while any of them has work: it lasts as
    long as the step of the slowest, and who has nothing to do takes an empty one.
    """
    return _Lockstep(settings, ranks, list(jobs), follow_up).run()


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

    def __init__(self, number: int, job: Job, cause: "tuple[int, float] | None" = None) -> None:
        self.number = number
        self.job = job
        self.cause = cause  # the job whose departure brought this one about, and when
        self.trace = JobTrace()
        self.place = -1  # among all arrivals
        self.known = list(job.prompt)
        self.coming = 0  # tokens that scheduled batches will produce
        self.computed = 0  # leading tokens whose KV the pod holds for it once those have run
        self.once_computed = 0  # the most that ``computed`` has been after a prefill
        self.blocks: list[int] = []
        self.chains: list[int] = []
        self.state: list[int] = []  # blocks of the recurrent layers' running state
        self.stops: list[int] = []  # where a chunk of its prefill must end, to keep the state
        self.sealed = 0  # leading blocks that can be found
        self.prefilling = True  # until the batch that gives the first token after an admission
        self.leaving = False  # the client has gone, the step in flight has not ended


@dataclass(frozen=True)
class _Work:
    """What one sequence does in a batch."""

    seq: _Sequence
    chunk: int
    start: int  # tokens before the chunk
    context: int  # known tokens when the batch runs
    prefills: bool
    gives_token: bool


_Batch = list[_Work]


class _Lockstep:
    def __init__(
        self, settings: Settings, ranks: int, jobs: list[Job], follow_up: FollowUp | None
    ) -> None:
        self.follow_up = follow_up
        self.engines = [_Engine(settings, self._ended) for _ in range(ranks)]
        self.sequences = [_Sequence(number, job) for number, job in enumerate(jobs)]
        self.arrivals = [(seq.job.arrival_s, seq.number, seq) for seq in self.sequences]
        heapify(self.arrivals)

    def run(self) -> list[Trace]:
        now_s = 0.0
        engines = self.engines
        while True:
            if not any(engine.has_work() for engine in engines):
                if not self.arrivals:
                    break
                now_s = max(now_s, self.arrivals[0][0])
            self._take_arrivals(now_s)
            batches = [engine.next_batch(now_s) for engine in engines]
            if any(batches):
                # An empty step lasts no longer than those of ranks that compute something.
                end_s = now_s + max(
                    engine.seconds(batch) for engine, batch in zip(engines, batches) if batch
                )
                for engine, batch in zip(engines, batches):
                    engine.pass_step(batch, now_s, end_s)
                now_s = end_s
            else:
                assert not any(engine.has_work() for engine in engines), "work stands still"
        return [self._trace(rank) for rank in range(len(engines))]

    def _trace(self, rank: int) -> Trace:
        jobs = [seq.trace for seq in self.sequences if seq.job.rank == rank]
        return Trace(jobs, self.engines[rank].steps)

    def _take_arrivals(self, now_s: float) -> None:
        while self.arrivals and self.arrivals[0][0] <= now_s + BOUNDARY_TOLERANCE_S:
            _, _, seq = heappop(self.arrivals)
            self.engines[seq.job.rank].arrive(seq, now_s)

    def _ended(self, number: int, end_s: float) -> None:
        following = self.follow_up(number, end_s) if self.follow_up else None
        if following is not None:
            left = self.sequences[number].trace.status == "cancelled"
            cause = (number, end_s) if left else None  # who is refused has not left: it arrived
            successor = _Sequence(len(self.sequences), following, cause)
            self.sequences.append(successor)
            heappush(self.arrivals, (following.arrival_s, successor.number, successor))


class _Engine:
    def __init__(self, settings: Settings, ended: Callable[[int, float], None]) -> None:
        self.settings = settings
        self.ended = ended
        self.pool = BlockPool(settings.kv_blocks, settings.evict_unhashed_first)
        self.chains = Chains(settings.block_size)
        self.arrived: list[_Sequence] = []
        self.waiting: list[_Sequence] = []
        self.running: list[_Sequence] = []
        self.batches: deque[_Batch] = deque()
        self.due: list[int] = []  # chains whose states the last batch computes
        self.steps: list[StepTrace] = []

    def has_work(self) -> bool:
        return bool(self.running or self.waiting or self.batches)

    def next_batch(self, now_s: float) -> _Batch:
        """The batch that runs now, or nobody; what follows it is queued as far as it may be."""
        depth = 2 if self.settings.async_scheduling else 1
        while len(self.batches) < depth:
            batch, preempted = self._schedule(now_s)
            if batch:
                self.batches.append(batch)
            elif self.batches or not preempted:
                break  # else all that happened is that somebody had to make room: try again
        return self.batches.popleft() if self.batches else []

    # Arrivals and departures

    def arrive(self, seq: _Sequence, now_s: float) -> None:
        arrival_s, cancel_s = seq.job.arrival_s, seq.job.cancel_s
        if self._is_too_long(len(seq.known)):
            seq.trace.http_status = 400
            self._end(seq, "rejected", arrival_s, "prompt_too_long")
            return
        if self._queue_is_full(seq):
            seq.trace.http_status = 503
            self._end(seq, "rejected", arrival_s, "queue_full")
            return
        seq.place = len(self.arrived)
        self.arrived.append(seq)
        if cancel_s is not None and cancel_s < now_s:
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

    def _queue_is_full(self, newcomer: _Sequence) -> bool:
        """Do the limits on requests, or on tokens of prompts in prefill, refuse a newcomer?"""
        there = [seq for seq in self.arrived if not self._is_gone(seq, newcomer)]
        requests, tokens = self.settings.max_num_queued_reqs, self.settings.max_num_queued_tokens
        now_s = newcomer.job.arrival_s
        prefilling = [
            len(seq.job.prompt)
            for seq in there
            if seq.trace.first_token_s is None or seq.trace.first_token_s > now_s
        ]
        return (requests is not None and len(there) >= requests) or (
            tokens is not None and sum(prefilling) >= tokens
        )

    def _is_gone(self, seq: _Sequence, newcomer: _Sequence) -> bool:
        """Is the client of ``seq`` served or away when ``newcomer`` arrives?

        Of one instant, steps end first, then requests arrive, then clients
        leave, in the order of their jobs; what a departure brings about
        arrives before the next one.
        """
        now_s, end_s = newcomer.job.arrival_s, seq.trace.end_s
        if end_s is None or end_s > now_s:
            return False
        if end_s < now_s or seq.trace.status != "cancelled":
            return True
        return newcomer.cause is not None and newcomer.cause >= (seq.number, now_s)

    def _end(self, seq: _Sequence, status: str, end_s: float, reason: str | None = None) -> None:
        seq.trace.status = status
        seq.trace.end_s = end_s
        seq.trace.end_reason = reason
        self.ended(seq.number, end_s)

    def _release(self, seq: _Sequence) -> None:
        self.pool.release(seq.state)
        self.pool.release(seq.blocks)
        seq.blocks = []
        seq.state = []
        seq.computed = seq.sealed = 0

    # Scheduling

    def _schedule(self, now_s: float) -> tuple[_Batch, bool]:
        """The next batch, and whether somebody was preempted for it.

        Nobody is in it if there is nothing to do or nobody has room.
        """
        for chain in self.due:
            self.pool.keep_state(chain, self.settings.state_blocks)
        self.due = []
        limit = self.settings.max_num_batched_tokens
        if self.settings.long_prefill_token_threshold and len(self.running) + len(self.waiting) > 1:
            limit = self.settings.long_prefill_token_threshold
        shares, budget, preempted = self._share_out(limit)
        batch = [self._compute(seq, chunk) for seq, chunk in shares.items()]
        if not preempted:
            batch += self._admit(now_s, budget, limit)
        return batch, preempted

    def _share_out(self, limit: int) -> tuple[dict[_Sequence, int], int, bool]:
        """Who of the running requests computes how much, in the order of their admission.

        Returns that, the budget that is left, and whether somebody was
        preempted. Who is preempted has no share any more.
        """
        budget = self.settings.max_num_batched_tokens
        shares: dict[_Sequence, int] = {}
        preempted = False
        for seq in list(self.running):
            if budget == 0:
                break
            if seq not in self.running or self._is_done_with(seq):
                continue
            chunk = self._chunk(seq, min(limit, budget))
            if not chunk:
                continue
            while seq in self.running and not self._fits(shares | {seq: chunk}):
                victim = self._victim()
                budget += shares.pop(victim, 0)
                self._preempt(victim)
                preempted = True
            if seq not in self.running:
                break
            shares[seq] = chunk
            budget -= chunk
        return shares, budget, preempted

    def _is_done_with(self, seq: _Sequence) -> bool:
        """Is its last token on its way, and does the engine know that by the limits on length?"""
        return seq.coming > 0 and self._can_say_no_more(len(seq.known) + seq.coming)

    def _fits(self, shares: dict[_Sequence, int]) -> bool:
        missing = sum(self._missing_blocks(seq, chunk) for seq, chunk in shares.items())
        return missing <= len(self.pool.free)

    def _missing_blocks(self, seq: _Sequence, chunk: int) -> int:
        needed = ceil((seq.computed + chunk) / self.settings.block_size)
        return max(0, needed - len(seq.blocks))

    def _victim(self) -> _Sequence:
        if self.settings.scheduling_policy == "fcfs":
            return self.running[-1]
        return max(self.running, key=_urgency)

    def _preempt(self, seq: _Sequence) -> None:
        self.running.remove(seq)
        self._release(seq)
        seq.trace.preemptions += 1
        self.waiting.insert(0, seq)

    def _head(self) -> _Sequence:
        if self.settings.scheduling_policy == "fcfs":
            return self.waiting[0]
        return min(self.waiting, key=_urgency)

    def _admit(self, now_s: float, budget: int, limit: int) -> _Batch:
        """The head of the queue blocks those behind it."""
        batch = []
        while self.waiting and budget > 0 and len(self.running) < self.settings.max_num_seqs:
            seq = self._head()
            hits = self._hits(seq)
            cached = len(hits) * self.settings.block_size
            seq.computed = cached
            seq.prefilling = True
            chunk = self._chunk(seq, min(limit, budget))
            if not chunk or not self._may_enter(seq, hits, cached + chunk):
                seq.computed = 0
                break
            self.waiting.remove(seq)
            self.running.append(seq)
            if self.settings.prompt_tail and hits:
                self.pool.use_state(seq.chains[len(hits) - 1])
            self.pool.take(hits)
            seq.blocks = hits
            seq.sealed = len(hits)
            seq.state = [self.pool.allocate() for _ in range(self.settings.state_blocks)]
            if seq.trace.scheduled_s is None:
                seq.trace.scheduled_s = now_s
                seq.trace.cached_tokens = seq.once_computed = cached
            batch.append(self._compute(seq, chunk))
            budget -= chunk
        return batch

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
        end = min(len(seq.known) + seq.coming, seq.computed + budget)
        stop = next((stop for stop in seq.stops if stop > seq.computed), None)
        if seq.prefilling and stop is not None:
            size = self.settings.block_size
            end = stop if end >= stop else end // size * size
        return max(0, end - seq.computed)

    def _may_enter(self, seq: _Sequence, hits: list[int], first_chunk_end: int) -> bool:
        tokens = len(seq.known) if self.settings.reserve_full_prompt else first_chunk_end
        own = ceil(tokens / self.settings.block_size) - len(hits) + self.settings.state_blocks
        unheld_hits = sum(block in self.pool.free for block in hits)
        spare = int(self.settings.watermark * self.settings.kv_blocks) if self.running else 0
        return own + unheld_hits + spare <= len(self.pool.free)

    def _compute(self, seq: _Sequence, chunk: int) -> _Work:
        """Blocks for the chunk, and the full ones of what is known can be found."""
        for _ in range(self._missing_blocks(seq, chunk)):
            seq.blocks.append(self.pool.allocate())
        start = seq.computed
        context = len(seq.known) + seq.coming
        complete = start + chunk == context
        work = _Work(seq, chunk, start, context, seq.prefilling, complete)
        self._count(seq, chunk)
        seq.computed += chunk
        if seq.prefilling and seq.computed in seq.stops:
            self.due.append(seq.chains[seq.computed // self.settings.block_size - 1])
        self._seal(seq, min(seq.computed, len(seq.known)))
        if complete:
            seq.coming += 1
            seq.prefilling = False
        return work

    def _count(self, seq: _Sequence, chunk: int) -> None:
        """Prefill tokens: prompt tokens that are computed for the first time, or recomputation."""
        if not seq.prefilling:
            return
        end = seq.computed + chunk
        first = max(0, min(end, len(seq.job.prompt)) - max(seq.computed, seq.once_computed))
        seq.trace.computed_tokens += first
        seq.trace.recomputed_tokens += chunk - first
        seq.once_computed = max(seq.once_computed, end)

    def _seal(self, seq: _Sequence, tokens: int) -> None:
        """The full blocks among its first ``tokens`` can be found from now on."""
        if not self.settings.enable_prefix_caching:
            return
        self.chains.extend(seq.chains, seq.known)
        while (seq.sealed + 1) * self.settings.block_size <= tokens:
            self.pool.seal(seq.blocks[seq.sealed], seq.chains[seq.sealed])
            seq.sealed += 1

    # The step itself

    def seconds(self, batch: _Batch) -> float:
        """How long the step lasts when no other rank's is longer."""
        return self.settings.step_time.seconds(*_totals(batch))

    def pass_step(self, batch: _Batch, start_s: float, end_s: float) -> None:
        """Let a batch run."""
        queue = list(self.waiting)
        self._take_cancellations(end_s)
        self._take_effect(batch, end_s)
        held = self.settings.kv_blocks - len(self.pool.free)
        still_waiting = sum(seq.trace.status == "in_flight" for seq in queue)
        published = Published(still_waiting, len(self.running), held / self.settings.kv_blocks)
        self.steps.append(
            StepTrace(
                start_s,
                end_s,
                *_totals(batch),
                published,
                len(self.pool.free),
                self.pool.cached_blocks,
                self.has_work(),
            )
        )

    def _take_cancellations(self, end_s: float) -> None:
        """Clients that leave from the start of the step (after planning) to before its end."""
        for seq in [*self.waiting, *self.running]:
            cancel_s = seq.job.cancel_s
            seq.leaving = cancel_s is not None and cancel_s < end_s
        for seq in [seq for seq in self.waiting if seq.leaving]:
            self.waiting.remove(seq)
            self._end(seq, "cancelled", seq.job.cancel_s)

    def _take_effect(self, batch: _Batch, end_s: float) -> None:
        """What the end of the step means, to the running requests in order of admission first.

        Who has ended or left while its batch was queued is in it for nothing.
        """
        giving = {work.seq for work in batch if work.gives_token}
        preempted = [work.seq for work in batch if work.seq in self.waiting]
        for seq in [*self.running, *preempted]:
            if seq.leaving:
                self._release(seq)
                self._end(seq, "cancelled", seq.job.cancel_s)
            elif seq in giving:
                self._emit(seq, end_s)
        self.running = [seq for seq in self.running if seq.trace.status == "in_flight"]
        self.waiting = [seq for seq in self.waiting if seq.trace.status == "in_flight"]

    def _emit(self, seq: _Sequence, now_s: float) -> None:
        trace = seq.trace
        seq.coming -= 1
        seq.known.append(seq.job.output[trace.emitted_tokens])
        trace.emitted_tokens += 1
        trace.token_s.append(now_s)
        if trace.first_token_s is None:
            trace.first_token_s = now_s
        if seq in self.running:
            self._seal(seq, seq.computed - seq.coming)
        complete = trace.emitted_tokens == len(seq.job.output)
        if complete or self._can_say_no_more(len(seq.known)):
            self._release(seq)
            trace.http_status = 200
            self._end(seq, "completed", now_s, None if complete else "length")


def _totals(batch: _Batch) -> tuple[int, int, int, float]:
    """P, B, S and A of ``StepTime``."""
    decoding = [work for work in batch if not work.prefills]
    prefilling = [work for work in batch if work.prefills]
    prefill = sum(work.chunk for work in prefilling)
    context = sum(work.context for work in decoding)
    pairs = sum((work.chunk * (work.start + work.chunk / 2) for work in prefilling), 0.0)
    return prefill, len(decoding), context, pairs


def _urgency(seq: _Sequence) -> tuple[int, int]:
    """Who has the smallest is served first, who has the largest is preempted first."""
    return seq.job.priority, seq.place
