"""A pod: binds the scheduler to the clock and reports to whoever dispatched the attempt.

Between two changes of the batch the pod sleeps: a *span* is any number of
decode steps in closed form, up to the next completion or the step whose KV
blocks are not there; an arrival or a cancellation cuts it at a step boundary.
Steps that prefill or that are short of blocks go one at a time.
"""

from functools import partial

from sim.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order
from sim.pod.batch import Sequence
from sim.pod.report import step_report
from sim.pod.scheduler import Scheduler, Step
from sim.pod.spec import Vllm
from sim.pod.steptime import Span, StepTime
from sim.ports import PodObserver, PodTotals, Published
from sim.registry import family
from sim.request import Attempt, HttpStatus, Reason, Status


@family(Vllm)
class Pod:
    """One engine process with its KV cache."""

    def __init__(self, name: str, engine: Vllm, kernel: Kernel) -> None:
        self.name = name
        self._kernel = kernel
        self._observer: PodObserver | None = None
        self._steptime = StepTime(engine.step_time)
        self._scheduler = Scheduler(engine)
        self._batch = self._scheduler.batch
        self._sequences: dict[Attempt, Sequence] = {}
        self._start_s = 0.0  # of the step or span in flight
        self._end_s = 0.0  # of the step or span in flight, as planned or cut
        self._steps = 0  # steps in flight: 0 when idle
        self._span: Span | None = None  # what is in flight when it is a span
        self._step: Step | None = None  # what is in flight when it is a single step
        self._plan = 0  # number of the present plan: wake-ups of older ones are stale
        self._planning = False  # a planning event is on its way
        self._cancelled: list[Sequence] = []
        self._waiting_scheduled = 0  # queue as the scheduling of the step in flight left it
        self._left_queue = 0  # those of them whose clients have gone since
        self._published_waiting = 0
        self._published_running = 0
        self._published_held = 0  # KV blocks
        self._emitted = 0
        self._computed = 0
        self._finished_steps = 0
        self._busy_s = 0.0

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
        if self._steps == 0:
            self._plan_at(self._kernel.now_s)
        elif self._span is not None:
            self._cut_for_arrival(self._span)

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
            if self._steps == 0:
                self._release(self._drop_cancelled(0))
        else:
            self._leave_queue(sequence)
        if self._span is not None:
            self._cut(self._span, self._span.steps_until(self._kernel.now_s) + 1)

    def _leave_queue(self, sequence: Sequence) -> None:
        """A client that leaves during a step is not in the queue published at its end."""
        waiting = self._scheduler.waiting
        if self._steps and waiting.index(sequence) < self._waiting_scheduled - self._left_queue:
            self._left_queue += 1
        waiting.remove(sequence)

    def published(self, now_s: float) -> Published:
        """What a metrics poll reads: the state after the last finished step."""
        waiting, running = self._published_waiting, self._published_running
        held, capacity = self._published_held, self._scheduler.store.capacity
        if self._span is not None:
            done = self._steps_done(self._span, now_s)
            if done:
                waiting, running = self._waiting_scheduled, len(self._scheduler.running)
                held = self._scheduler.store.held + self._batch.blocks_for(done)
        return Published(waiting, running, held / capacity)

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of all before ``now_s``, which must be the present instant."""
        emitted, steps, busy_s = self._emitted, self._finished_steps, self._busy_s
        if self._steps:
            busy_s += now_s - self._start_s
            if self._span is not None:
                done = min(self._span.steps_before(now_s), self._steps)
                steps += done
                emitted += done * self._batch.decoders
        scheduler = self._scheduler
        return PodTotals(
            emitted,
            self._computed,
            scheduler.recomputed_tokens,
            scheduler.preemptions,
            steps,
            busy_s,
        )

    def watch(self, observer: PodObserver) -> None:
        """Tell ``observer`` of every step or span when it is over."""
        self._observer = observer

    def report(self) -> None:
        """Tell the observer, if any, of the step or span in flight, up to its planned end."""
        if self._observer is not None and self._steps:
            report = step_report(
                self.name,
                self._start_s,
                self._end_s,
                self._steps,
                self._step,
                self._waiting_scheduled,
                self._scheduler,
            )
            self._observer.stepped(report)

    # -- planning -------------------------------------------------------------------------

    def _plan_at(self, start_s: float) -> None:
        """Plan the step that starts at ``start_s``, after everything else of this instant."""
        if not self._planning:
            self._planning = True
            self._start_s = start_s
            self._kernel.at(self._kernel.now_s, Order.PLANNING, self._planned)

    def _plan_next(self, start_s: float) -> None:
        """Plan now if nothing else is due within the tolerance of this boundary, else after it."""
        due_s = self._kernel.next_s()
        if due_s > start_s + BOUNDARY_TOLERANCE_S:
            self._begin(start_s)
        else:
            self._planning = True
            self._start_s = start_s
            self._kernel.at(max(due_s, self._kernel.now_s), Order.PLANNING, self._planned)

    def _planned(self) -> None:
        self._planning = False
        self._begin(self._start_s)

    def _begin(self, start_s: float) -> None:
        """Start the next step or span at ``start_s``; the pod is idle when there is no work."""
        self._plan += 1
        self._start_s = start_s
        scheduler, batch = self._scheduler, self._batch
        if scheduler.decodes_only():
            steps = scheduler.steps_with_blocks(batch.next_end())
            if steps:
                self._steps = steps
                self._waiting_scheduled = len(scheduler.waiting)
                self._span = self._steptime.span(start_s, batch.decoders, batch.context_tokens)
                self._wake_at(self._span.end_s(steps))
                return
        step = scheduler.plan()
        if not batch.decoders and not step.prefill_tokens:
            self._steps = 0
            return
        for sequence in step.admitted:
            if sequence.attempt.scheduled_s is None:
                sequence.attempt.scheduled_s = start_s
        self._step = step
        self._steps = 1
        self._waiting_scheduled = len(scheduler.waiting)
        duration_s = self._steptime.step_s(
            step.prefill_tokens, step.pairs, batch.decoders, batch.context_tokens
        )
        self._wake_at(start_s + duration_s)

    def _wake_at(self, end_s: float) -> None:
        self._end_s = end_s
        # A step that began up to the tolerance ago may be over already.
        wake_s = max(end_s, self._kernel.now_s)
        self._kernel.at(wake_s, Order.STEP_END, partial(self._woken, self._plan))

    # -- the end of a step or span --------------------------------------------------------

    def _woken(self, plan: int) -> None:
        if plan == self._plan:
            self._finish_steps()
            self._plan_next(self._end_s)

    def _finish_steps(self) -> None:
        """Apply what is in flight at its end: tokens, first tokens, ends, then publish."""
        scheduler, batch = self._scheduler, self._batch
        now_s, steps, step = self._end_s, self._steps, self._step
        if step is None:
            scheduler.grow(steps)
        if self._observer is not None:
            self.report()
        self._finished_steps += steps
        self._busy_s += now_s - self._start_s
        self._emitted += steps * batch.decoders
        batch.advance(steps)
        self._steps = 0
        self._span = self._step = None
        left = self._drop_cancelled(steps) if self._cancelled else []
        ended = batch.pop_ended()
        if step is not None:
            self._computed += step.prefill_tokens
            for sequence in step.filled:
                self._sample(sequence, now_s, ended)
        if ended or left:
            self._release(ended + left)
        self._published_waiting = self._waiting_scheduled - self._left_queue
        self._left_queue = 0
        self._published_running = len(scheduler.running)
        self._published_held = scheduler.store.held
        for sequence in ended:
            self._complete(sequence, now_s, Reason.LENGTH if sequence.truncated else None)

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

    # -- spans ----------------------------------------------------------------------------

    def _steps_done(self, span: Span, now_s: float) -> int:
        return min(span.steps_until(now_s), self._steps)

    def _emitted_by(self, sequence: Sequence) -> int:
        """Tokens that ``sequence`` has sent so far; the step in flight has sent none yet."""
        if not sequence.decoding:
            return sequence.emitted
        steps = self._batch.steps - sequence.joined
        if self._span is not None:
            steps += self._steps_done(self._span, self._kernel.now_s)
        return sequence.emitted + steps

    def _cut(self, span: Span, steps: int) -> None:
        """End the span in flight after ``steps`` steps instead of where it was planned to end."""
        if steps < self._steps:
            self._plan += 1
            self._steps = steps
            self._wake_at(span.end_s(steps))

    def _cut_for_arrival(self, span: Span) -> None:
        """An arrival is taken in at the next step boundary, or at the one it has just met.

        What arrives because a client has left at this very instant is too late
        for the step that starts at it: planning came before the client left.
        """
        now_s = self._kernel.now_s
        done = self._steps_done(span, now_s)
        boundary_s = span.end_s(done)
        too_late = self._kernel.phase > Order.PLANNING
        if too_late or now_s - boundary_s > BOUNDARY_TOLERANCE_S:
            self._cut(span, done + 1)
        elif done < self._steps:
            self._plan += 1
            self._steps = done
            self._end_s = boundary_s
            if done:
                self._finish_steps()
            self._span = None
            self._plan_at(boundary_s)
