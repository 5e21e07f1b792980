"""A pod: the port to the router, the scheduler's work, and reports of what became of it.

``sim.pod.lockstep`` says when its steps start and end.
"""

from sim.kernel import Kernel
from sim.pod.batch import Sequence
from sim.pod.lockstep import Lockstep
from sim.pod.scheduler import Scheduler, Step
from sim.pod.spec import Vllm
from sim.pod.steptime import Span, StepTime
from sim.ports import PodTotals, Published
from sim.registry import family
from sim.request import Attempt, HttpStatus, Reason, Status
from sim.scenario.presets import step_time


@family(Vllm)
class Pod:
    """One engine process with its KV cache: an engine of its own, or a data-parallel rank.

    Ranks that step together share a ``lockstep``.
    """

    def __init__(
        self, name: str, engine: Vllm, kernel: Kernel, lockstep: Lockstep | None = None
    ) -> None:
        self.name = name
        self._kernel = kernel
        self._lockstep = lockstep or Lockstep(kernel)
        self._lockstep.join(self)
        self._steptime = StepTime(step_time(engine))
        self._scheduler = Scheduler(engine)
        self._batch = self._scheduler.batch
        self._sequences: dict[Attempt, Sequence] = {}
        self._step: Step | None = None  # what is in flight when it is a single step
        self._cancelled: list[Sequence] = []
        self._waiting_scheduled = 0  # queue as the scheduling of the step in flight left it
        self._left_queue = 0  # those of them whose clients have gone since
        self._published_waiting = 0
        self._published_running = 0
        self._published_held = 0  # KV blocks
        self._emitted = 0
        self._computed = 0

    @classmethod
    def replica(cls, name: str, engine: Vllm, kernel: Kernel) -> "list[Pod]":
        """The pods of one replica: its data-parallel ranks, or a single one with its name."""
        if engine.data_parallel == 1:
            return [cls(name, engine, kernel)]
        shared = Lockstep(kernel) if engine.enable_expert_parallel else None
        ranks = range(engine.data_parallel)
        return [cls(f"{name}-rank-{rank}", engine, kernel, shared) for rank in ranks]

    # -- the port -------------------------------------------------------------------------

    def submit(self, attempt: Attempt) -> None:
        """Queue an attempt, or refuse at once a prompt that can never be served (HTTP 400)."""
        prompt_tokens = attempt.request.prompt.tokens
        refusal = self._scheduler.refusal(prompt_tokens)
        if refusal is not None:
            self._end(attempt, Status.REJECTED, self._kernel.now_s, HttpStatus.BAD_REQUEST, refusal)
            return
        wanted = attempt.request.output_tokens
        allowed = self._scheduler.output_limit(prompt_tokens, wanted)
        sequence = Sequence(attempt, allowed, truncated=allowed < wanted)
        self._sequences[attempt] = sequence
        self._scheduler.waiting.append(sequence)
        self._lockstep.arrived()

    def cancel(self, attempt: Attempt) -> None:
        """Forget an attempt whose client has left.

        A waiting one leaves at once; a running one keeps its place and its
        blocks until the end of the step in flight, whose token is lost.
        """
        sequence = self._sequences.pop(attempt)
        attempt.emitted_tokens = self._emitted_by(sequence)
        if sequence in self._scheduler.running:
            sequence.cancelled = True
            self._cancelled.append(sequence)
            if self._lockstep.steps == 0:
                self._release(self._drop_cancelled(0))
        else:
            self._leave_queue(sequence)
        self._lockstep.left()

    def _leave_queue(self, sequence: Sequence) -> None:
        """A client that leaves during a step is not in the queue published at its end."""
        waiting = self._scheduler.waiting
        if self._lockstep.steps:
            scheduled = self._waiting_scheduled - self._left_queue
            self._left_queue += waiting.index(sequence) < scheduled
        waiting.remove(sequence)

    def published(self, now_s: float) -> Published:
        """What a metrics poll reads: the state after the last finished step."""
        waiting, running = self._published_waiting, self._published_running
        held, capacity = self._published_held, self._scheduler.store.capacity
        done = self._lockstep.steps_done(now_s)
        if done:
            waiting, running = self._waiting_scheduled, len(self._scheduler.running)
            held = self._scheduler.store.held + self._batch.blocks_for(done)
        return Published(waiting, running, held / capacity)

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of all before ``now_s``, which must be the present instant."""
        lockstep, scheduler = self._lockstep, self._scheduler
        done = lockstep.steps_done_before(now_s)
        return PodTotals(
            self._emitted + done * self._batch.decoders,
            self._computed,
            scheduler.recomputed_tokens,
            scheduler.preemptions,
            lockstep.finished_steps + done,
            lockstep.busy_s(now_s),
        )

    # -- steps ----------------------------------------------------------------------------

    def steps_ahead(self) -> int | None:
        """How many decode steps need no scheduling; None when nobody runs or waits here."""
        scheduler = self._scheduler
        if scheduler.decodes_only():
            return scheduler.steps_with_blocks(self._batch.next_end())
        return 0 if scheduler.running or scheduler.waiting else None

    def span(self, start_s: float) -> Span:
        """Begin decode steps without scheduling; how long they would last on their own."""
        self._waiting_scheduled = len(self._scheduler.waiting)
        return self._steptime.span(start_s, self._batch.decoders, self._batch.context_tokens)

    def schedule(self, start_s: float) -> float | None:
        """Begin one step; how many seconds it would last on its own, None for an empty one."""
        scheduler, batch = self._scheduler, self._batch
        step = scheduler.plan()
        self._waiting_scheduled = len(scheduler.waiting)
        if not batch.decoders and not step.prefill_tokens:
            return None
        for sequence in step.admitted:
            if sequence.attempt.scheduled_s is None:
                sequence.attempt.scheduled_s = start_s
        self._step = step
        return self._steptime.step_s(
            step.prefill_tokens, step.pairs, batch.decoders, batch.context_tokens
        )

    def finish(self, steps: int, end_s: float) -> None:
        """Apply what has been in flight at its end: tokens, first tokens, ends, then publish."""
        scheduler, batch, step = self._scheduler, self._batch, self._step
        if step is None:
            scheduler.grow(steps)
        self._emitted += steps * batch.decoders
        batch.advance(steps)
        self._step = None
        left = self._drop_cancelled(steps) if self._cancelled else []
        ended = batch.pop_ended()
        if step is not None:
            self._computed += step.prefill_tokens
            for sequence in step.filled:
                self._sample(sequence, end_s, ended)
        if ended or left:
            self._release(ended + left)
        self._published_waiting = self._waiting_scheduled - self._left_queue
        self._left_queue = 0
        self._published_running = len(scheduler.running)
        self._published_held = scheduler.store.held
        for sequence in ended:
            self._complete(sequence, end_s, Reason.LENGTH if sequence.truncated else None)

    def _sample(self, sequence: Sequence, now_s: float, ended: list[Sequence]) -> None:
        """The step that completed its prefill gives ``sequence`` a token."""
        if sequence.cancelled:
            return
        sequence.emitted += 1
        self._emitted += 1
        attempt = sequence.attempt
        if attempt.first_token_s is None:
            attempt.first_token_s = now_s
            attempt.listener.first_token(attempt)
        if sequence.emitted >= sequence.output_tokens:
            ended.append(sequence)
        else:
            self._scheduler.start_decoding(sequence)

    def _drop_cancelled(self, steps: int) -> list[Sequence]:
        """Take the sequences whose clients left out of the batch; a step's token is lost."""
        dropped, self._cancelled = self._cancelled, []
        for sequence in dropped:
            if sequence.decoding:
                self._batch.leave(sequence)
                self._emitted -= min(steps, 1)
        return dropped

    def _release(self, sequences: list[Sequence]) -> None:
        """Free what ends with this step, in running order, each its tail first."""
        if len(sequences) > 1:
            sequences.sort(key=lambda sequence: sequence.admission)
        for sequence in sequences:
            self._scheduler.remove(sequence)

    def _complete(self, sequence: Sequence, now_s: float, end_reason: str | None) -> None:
        attempt = sequence.attempt
        del self._sequences[attempt]
        attempt.emitted_tokens = sequence.emitted
        self._end(attempt, Status.COMPLETED, now_s, HttpStatus.OK, end_reason)

    def _end(
        self, attempt: Attempt, status: str, now_s: float, http_status: int, reason: str | None
    ) -> None:
        attempt.status = status
        attempt.end_s = now_s
        attempt.http_status = http_status
        attempt.end_reason = reason
        attempt.listener.ended(attempt)

    def _emitted_by(self, sequence: Sequence) -> int:
        """Tokens that ``sequence`` has sent so far; the step in flight has sent none yet."""
        if not sequence.decoding:
            return sequence.emitted
        done = self._lockstep.steps_done(self._kernel.now_s)
        return sequence.emitted + self._batch.steps - sequence.joined + done
