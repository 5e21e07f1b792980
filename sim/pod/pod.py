"""A pod: binds the scheduler to the clock and reports to whoever dispatched the attempt.

Between two changes of the batch the pod sleeps: a *span* is any number of
decode steps in closed form, up to the next completion or the step whose KV
blocks are not there; an arrival or a cancellation cuts it at a step boundary.
Steps that prefill or that are short of blocks go one at a time.

With async scheduling the step that starts has been planned when the one
before it started, and the scheduler already counts it as done (``_applied``);
the next one is planned now. Otherwise a step is planned when it starts, and
counts as done when it ends.
"""

from functools import partial

from sim.kernel import BOUNDARY_TOLERANCE_S, Kernel, Order
from sim.pod.batch import Sequence
from sim.pod.gauges import Gauges
from sim.pod.intake import Intake
from sim.pod.scheduler import Scheduler, Step
from sim.pod.spec import Vllm
from sim.pod.steptime import Span, StepTime
from sim.ports import PodTotals, Published
from sim.registry import family
from sim.request import Attempt, HttpStatus, Reason, Status


@family(Vllm)
class Pod:
    """One engine process with its KV cache."""

    def __init__(self, name: str, engine: Vllm, kernel: Kernel) -> None:
        self.name = name
        self._kernel = kernel
        self._steptime = StepTime(engine.step_time)
        self._scheduler = Scheduler(engine)
        self._batch = self._scheduler.batch
        self._async = engine.async_scheduling
        self._intake = Intake(engine)
        self._gauges = Gauges()
        self._sequences: dict[Attempt, Sequence] = {}
        self._start_s = 0.0  # of the step or span in flight
        self._end_s = 0.0  # of the step or span in flight, as planned or cut
        self._steps = 0  # steps in flight: 0 when idle
        self._span: Span | None = None  # what is in flight when it is a span
        self._applied: Step | None = None  # async: in flight or about to start, done for scheduling
        self._planned: Step | None = None  # in flight; async: behind the one in flight
        self._giving = 0  # tokens that each step in flight gives
        self._lost = 0  # of those of the last one, for their clients have gone
        self._plan = 0  # number of the present plan: wake-ups of older ones are stale
        self._planning = False  # a planning event is on its way
        self._cancelled: list[Sequence] = []
        self._emitted = 0
        self._computed = 0
        self._finished_steps = 0
        self._busy_s = 0.0

    # -- the port -------------------------------------------------------------------------

    def submit(self, attempt: Attempt) -> None:
        """Queue an attempt, or refuse it at once.

        HTTP 400 for a prompt that can never be served, 503 when the pod has
        as many requests or prompt tokens as it may.
        """
        prompt_tokens = attempt.request.prompt.tokens
        refusal = self._intake.refusal(prompt_tokens)
        if refusal is not None:
            self._end(attempt, Status.REJECTED, self._kernel.now_s, *refusal)
            return
        self._intake.take(prompt_tokens)
        limit = self._intake.output_limit(prompt_tokens)
        self._sequences[attempt] = self._scheduler.enqueue(attempt, limit)
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
        self._intake.leave(sequence.prompt_tokens if attempt.first_token_s is None else 0)
        if self._steps and self._awaits_token(sequence):
            self._lost += 1
        sequence.cancelled = True
        finishing = sequence in self._scheduler.finishing
        if finishing:
            self._scheduler.finishing.remove(sequence)
        if sequence in self._scheduler.running:
            self._cancelled.append(sequence)
            if self._steps == 0:
                self._release(self._drop_cancelled())
        elif not finishing:
            self._scheduler.waiting.remove(sequence)
            if self._steps:
                self._gauges.leave_queue(sequence)
        if self._span is not None:
            self._cut(self._span, self._span.steps_until(self._kernel.now_s) + 1)

    def published(self, now_s: float) -> Published:
        """What a metrics poll reads: the state after the last finished step."""
        gauges, scheduler = self._gauges, self._scheduler
        waiting, running, held = gauges.waiting, gauges.running, gauges.held
        if self._span is not None:
            done = self._steps_done(self._span, now_s)
            if done:
                waiting, running = gauges.scheduled, len(scheduler.running)
                held = scheduler.store.held + self._batch.blocks_for(done)
        return Published(waiting, running, held / scheduler.store.capacity)

    def totals(self, now_s: float) -> PodTotals:
        """Running totals of all before ``now_s``, which must be the present instant."""
        emitted, steps, busy_s = self._emitted, self._finished_steps, self._busy_s
        if self._steps:
            busy_s += now_s - self._start_s
            if self._span is not None:
                done = min(self._span.steps_before(now_s), self._steps)
                steps += done
                emitted += done * self._giving
        scheduler = self._scheduler
        return PodTotals(
            emitted,
            self._computed,
            scheduler.recomputed_tokens,
            scheduler.preemptions,
            steps,
            busy_s,
        )

    # -- planning -------------------------------------------------------------------------

    def _plan_at(self, start_s: float) -> None:
        """Plan the step that starts at ``start_s``, after everything else of this instant."""
        if not self._planning:
            self._planning = True
            self._start_s = start_s
            self._kernel.at(self._kernel.now_s, Order.PLANNING, self._begin_due)

    def _plan_next(self, start_s: float) -> None:
        """Plan now if nothing else is due within the tolerance of this boundary, else after it."""
        due_s = self._kernel.next_s()
        if due_s > start_s + BOUNDARY_TOLERANCE_S:
            self._begin(start_s)
        else:
            self._planning = True
            self._start_s = start_s
            self._kernel.at(max(due_s, self._kernel.now_s), Order.PLANNING, self._begin_due)

    def _begin_due(self) -> None:
        self._planning = False
        self._begin(self._start_s)

    def _begin(self, start_s: float) -> None:
        """Start the next step or span at ``start_s``; the pod is idle when there is no work."""
        self._plan += 1
        self._start_s = start_s
        scheduler, batch = self._scheduler, self._batch
        if self._async and self._applied is None:
            self._applied = self._schedule_first(start_s)
            if self._applied is None:
                return
            scheduler.complete(self._applied)
        if (self._applied is None or self._goes_on(self._applied)) and scheduler.decodes_only():
            steps = scheduler.steps_with_blocks(batch.next_end())
            if steps:
                self._start_span(start_s, steps)
                return
        if self._applied is not None:
            step = self._applied
            resumed = sum(not sequence.cancelled for sequence in step.skipped)
            self._giving = batch.decoders - resumed + len(scheduler.finishing)
            self._planned = self._schedule(start_s)
        else:
            self._planned = self._schedule_first(start_s)
            if self._planned is None:
                return
            step = self._planned
            self._giving = step.decoders + len(step.filled)
        self._steps = 1
        duration_s = self._steptime.step_s(
            step.prefill_tokens, step.pairs, step.decoders, step.context_tokens
        )
        self._wake_at(start_s + duration_s)

    def _schedule_first(self, now_s: float) -> Step | None:
        """Plan the step that starts now; None when there is nothing to do."""
        step = self._schedule(now_s)
        while step.is_empty and step.preempted:
            self._scheduler.take_back(step)
            step = self._schedule(now_s)
        return None if step.is_empty else step

    def _schedule(self, now_s: float) -> Step:
        scheduler = self._scheduler
        step = scheduler.plan()
        for sequence in step.admitted:
            if sequence.attempt.scheduled_s is None:
                sequence.attempt.scheduled_s = now_s
        self._gauges.schedule(len(scheduler.waiting), scheduler.arrivals)
        return step

    def _goes_on(self, step: Step) -> bool:
        """Whether ``step``, scheduled before, is a decode of the very batch that is there now."""
        batch = self._batch
        return (
            not step.prefill_tokens
            and not step.skipped
            and not self._scheduler.finishing
            and step.decoders == batch.decoders
            and step.context_tokens == batch.context_tokens - batch.decoders
        )

    def _start_span(self, start_s: float, steps: int) -> None:
        batch = self._batch
        context_tokens = batch.context_tokens
        if self._async:
            context_tokens -= batch.decoders
        self._steps = steps
        self._giving = batch.decoders
        self._gauges.schedule(len(self._scheduler.waiting), self._scheduler.arrivals)
        self._span = self._steptime.span(start_s, batch.decoders, context_tokens)
        self._wake_at(self._span.end_s(steps))

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
        scheduler = self._scheduler
        now_s = self._end_s
        self._finished_steps += self._steps
        self._busy_s += now_s - self._start_s
        self._emitted += self._steps * self._giving - self._lost
        self._lost = 0
        flown = self._applied if self._async else self._planned
        ended = self._complete_plan()
        self._steps = 0
        left: list[Sequence] = []
        if self._cancelled:
            ended = [sequence for sequence in ended if not sequence.cancelled]
            left = self._drop_cancelled()
        if flown is not None:
            self._computed += flown.prefill_tokens
            for sequence in flown.filled:
                self._answer(sequence, now_s)
        if ended or left:
            self._release(ended + left)
        self._gauges.publish(len(scheduler.running), scheduler.store.held)
        for sequence in ended:
            self._complete(sequence, now_s, Reason.LENGTH if sequence.truncated else None)

    def _complete_plan(self) -> list[Sequence]:
        """What has been planned counts as done; returns the sequences that end now."""
        scheduler, batch = self._scheduler, self._batch
        planned, self._planned = self._planned, None
        if self._span is not None:
            self._span = None
            if self._async:
                context_tokens = batch.context_tokens + (self._steps - 1) * batch.decoders
                self._applied = Step(decoders=batch.decoders, context_tokens=context_tokens)
            return scheduler.complete_span(self._steps)
        assert planned is not None
        if self._async:
            self._applied = None if planned.is_empty else planned
        return scheduler.complete(planned)

    def _answer(self, sequence: Sequence, now_s: float) -> None:
        """The step that completed its prefill gives ``sequence`` a token."""
        attempt = sequence.attempt
        if not sequence.cancelled and attempt.first_token_s is None:
            self._intake.answer(sequence.prompt_tokens)
            attempt.first_token_s = now_s
            attempt.listener.first_token(attempt)

    def _drop_cancelled(self) -> list[Sequence]:
        """Take the sequences whose clients left out of the batch."""
        dropped, self._cancelled = self._cancelled, []
        for sequence in dropped:
            if sequence.decoding:
                self._batch.leave(sequence)
        return dropped

    def _release(self, sequences: list[Sequence]) -> None:
        """Free what ends with this step, in running order, each its tail first."""
        if len(sequences) > 1:
            sequences.sort(key=lambda sequence: sequence.admission)
        for sequence in sequences:
            if sequence in self._scheduler.running:
                self._scheduler.remove(sequence)

    def _complete(self, sequence: Sequence, now_s: float, end_reason: str | None) -> None:
        attempt = sequence.attempt
        del self._sequences[attempt]
        self._intake.leave(0)
        attempt.emitted_tokens = sequence.output_tokens
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
        emitted = sequence.emitted
        if sequence.decoding:
            emitted += self._batch.steps - sequence.joined
            if self._span is not None:
                emitted += self._steps_done(self._span, self._kernel.now_s)
        if self._async and self._awaits_token(sequence):
            emitted -= 1
        return emitted

    def _awaits_token(self, sequence: Sequence) -> bool:
        """Whether the step in flight, or the one about to start, gives ``sequence`` a token."""
        applied, planned = self._applied, self._planned
        if not self._async:
            return sequence.decoding or (planned is not None and sequence in planned.filled)
        if applied is None or sequence in applied.skipped:
            return False
        if sequence.decoding or sequence in self._scheduler.finishing:
            return True
        return planned is not None and (
            sequence in planned.skipped or sequence in planned.interrupted
        )

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
