"""The engine core: what is in flight, which tokens it gives, and when a request has ended.

``sim.engine.lockstep`` says when steps start and end, the scheduler what they
compute. With async scheduling the step that starts was scheduled when the one before it
started, and the scheduler already counts it as done (``_applied``); the next one is
scheduled now. Otherwise a step is scheduled when it starts, and counts as done when it ends.
``Gauges`` are what a metrics endpoint publishes after each step.
"""

from collections.abc import Callable

from sim.core.kernel import Kernel
from sim.core.ports import PodObserver, StepReport
from sim.engine.batch import RunningRequest
from sim.engine.lockstep import Lockstep
from sim.engine.output_processor import OutputProcessor
from sim.engine.scheduling import SchedulerOutput, Scheduling
from sim.engine.steptime import Span, StepCost


class Gauges:
    """Published values, and of the queue what the latest scheduling has seen of it."""

    def __init__(self) -> None:
        self.waiting = 0
        self.running = 0
        self.held = 0  # KV blocks
        self.scheduled = 0  # queue as the latest scheduling left it: what the next will publish
        self._left = 0  # those of them whose clients have gone since
        self._arrivals = 0  # attempts that had arrived by the latest scheduling

    def schedule(self, waiting: int, arrivals: int) -> None:
        """A step has been scheduled."""
        self.scheduled = waiting
        self._arrivals = arrivals

    def leave_queue(self, sequence: RunningRequest) -> None:
        """A client that leaves during a step is not in the queue published at its end."""
        if sequence.arrival < self._arrivals:
            self._left += 1

    def publish(self, running: int, held: int) -> None:
        """A step has ended."""
        self.waiting = self.scheduled - self._left
        self._left = 0
        self.running = running
        self.held = held


def step_report(
    pod: str,
    start_s: float,
    end_s: float,
    step: SchedulerOutput,
    waiting: int,
    scheduler: Scheduling,
) -> StepReport:
    """The report of a single step; what ends with it has not left yet."""
    return StepReport(
        pod=pod,
        start_s=start_s,
        end_s=end_s,
        steps=1,
        prefill_tokens=step.prefill_tokens,
        decoders=step.decoders,
        context_tokens=step.context_tokens,
        waiting=waiting,
        running=len(scheduler.running),
        kv_usage=scheduler.held / scheduler.capacity,
        chunks=tuple((each.attempt.request.request_id, tokens) for each, tokens in step.chunks),
        preempted=tuple(each.attempt.request.request_id for each in step.preempted),
        starts=step.starts,
    )


def span_report(
    pod: str,
    start_s: float,
    end_s: float,
    steps: int,
    context_tokens: int,
    waiting: int,
    scheduler: Scheduling,
) -> StepReport:
    """The report of a span of decode steps, of which the KV is not taken yet."""
    held = scheduler.held + scheduler.batch.blocks_for(steps)
    return StepReport(
        pod=pod,
        start_s=start_s,
        end_s=end_s,
        steps=steps,
        prefill_tokens=0,
        decoders=scheduler.batch.decoders,
        context_tokens=context_tokens,
        waiting=waiting,
        running=len(scheduler.running),
        kv_usage=held / scheduler.capacity,
        chunks=(),
        preempted=(),
    )


class EngineCore:
    """A rank of ``lockstep``, which it joins: it works for ``clients`` and tells them of it.

    ``gauges`` are what its steps publish, ``computed_tokens`` the prompt tokens of
    those that have ended; its ``observer``, if any, is told of each step or
    span when it is over.
    """

    def __init__(
        self,
        name: str,
        scheduler: Scheduling,
        steptime: StepCost,
        clients: OutputProcessor,
        kernel: Kernel,
        lockstep: Lockstep,
    ) -> None:
        self.gauges = Gauges()
        self.computed_tokens = 0
        self.observer: PodObserver | None = None
        self._name = name
        self._scheduler = scheduler
        self._batch = scheduler.batch
        self._async = scheduler.plans_ahead
        self._steptime = steptime
        self._clients = clients
        self._kernel = kernel
        self._lockstep = lockstep
        self._on_idle: list[Callable[[], None]] = []
        self._coasting = False  # what is in flight is a span
        self._applied: SchedulerOutput | None = (
            None  # async: in flight or about to start, done for scheduling
        )
        self._planned: SchedulerOutput | None = None  # in flight; async: behind the one in flight
        self._giving = 0  # tokens that each step in flight gives
        self._lost = 0  # of those of the last one, for their clients have gone
        self._cancelled: list[RunningRequest] = []
        self._emitted = 0
        lockstep.join(self)

    # -- as a rank ------------------------------------------------------------------------

    def steps_ahead(self) -> int | None:
        """How many decode steps need no scheduling; None when nobody runs or waits here."""
        scheduler, applied = self._scheduler, self._applied
        if applied is None and not scheduler.running and not scheduler.waiting:
            return None
        if self._async and (applied is None or not self._goes_on(applied)):
            return 0
        if not scheduler.decodes_only():
            return 0
        return scheduler.steps_with_blocks(self._batch.next_end())

    def span(self, start_s: float) -> Span:
        """Begin decode steps without scheduling; how long they would last on their own."""
        batch, scheduler = self._batch, self._scheduler
        self._coasting = True
        self._giving = batch.decoders
        self.gauges.schedule(len(scheduler.waiting), scheduler.arrivals)
        return self._steptime.span(start_s, batch.decoders, self._span_context())

    def schedule(self, start_s: float) -> float | None:
        """Begin one step; how many seconds it would last on its own, None for an empty one."""
        scheduler = self._scheduler
        self._coasting = False
        self._giving = 0
        step = self._applied or self._schedule_first(start_s)
        if step is None:
            return None
        if self._async:
            if self._applied is None:
                scheduler.complete(step)
                self._applied = step
            resumed = sum(not sequence.cancelled for sequence in step.skipped)
            self._giving = self._batch.decoders - resumed + len(scheduler.finishing)
            self._planned = self._schedule(start_s)
        else:
            self._giving = step.decoders + len(step.filled)
            self._planned = step
        return self._steptime.step_s(
            step.prefill_tokens, step.pairs, step.decoders, step.context_tokens
        )

    def finish(self, steps: int, end_s: float) -> None:
        """Apply what has been in flight at its end: tokens, first tokens, ends, then publish."""
        scheduler = self._scheduler
        if self.observer is not None:
            self._report(self.observer, steps, end_s)
        self._emitted += steps * self._giving - self._lost
        self._lost = 0
        flown = self._applied if self._async else self._planned
        ended = self._complete_plan(steps)
        left: list[RunningRequest] = []
        if self._cancelled:
            ended = [sequence for sequence in ended if not sequence.cancelled]
            left = self._drop_cancelled()
        if flown is not None:
            self.computed_tokens += flown.prefill_tokens
            for sequence in flown.filled:
                self._clients.answer(sequence, end_s)
        if ended or left:
            scheduler.release(ended + left)
        self.gauges.publish(len(scheduler.running), scheduler.held)
        for sequence in ended:
            self._clients.complete(sequence, end_s)
        if self._on_idle:
            self._tell_idle()

    def halt(self, steps: int) -> None:
        """Nobody is here any more; of what was in flight ``steps`` steps have ended."""
        scheduler, lockstep, now_s = self._scheduler, self._lockstep, self._kernel.now_s
        if self.observer is not None and lockstep.steps and lockstep.start_s < now_s:
            self._report(self.observer, lockstep.steps_begun(now_s), now_s)
        inside = {*scheduler.running, *scheduler.waiting, *scheduler.finishing}
        for sequence in self._clients.lose(inside):
            sequence.attempt.emitted_tokens = self.given_tokens(sequence)
        self._emitted += self._given(steps)
        self.gauges = Gauges()
        self._on_idle.clear()

    def hang_up(self) -> None:
        """Tell those who were here that their connection is lost."""
        self._clients.hang_up(self._kernel.now_s)

    # -- parts of a step ------------------------------------------------------------------

    def _goes_on(self, step: SchedulerOutput) -> bool:
        """Whether ``step``, scheduled before, is a decode of the very batch that is there now."""
        batch = self._batch
        return (
            not step.prefill_tokens
            and not step.skipped
            and not self._scheduler.finishing
            and step.decoders == batch.decoders
            and step.context_tokens == batch.context_tokens - batch.decoders
        )

    def _span_context(self) -> int:
        """Context tokens that the first step of the span in flight reads."""
        batch = self._batch
        # Async: what counts as done already has read its context, one token less of each.
        return batch.context_tokens - (batch.decoders if self._async else 0)

    def _schedule_first(self, now_s: float) -> SchedulerOutput | None:
        """Plan the step that starts now; None when there is nothing to do."""
        step = self._schedule(now_s)
        while step.is_empty and step.preempted:
            self._scheduler.take_back(step)
            step = self._schedule(now_s)
        return None if step.is_empty else step

    def _schedule(self, now_s: float) -> SchedulerOutput:
        scheduler = self._scheduler
        step = scheduler.plan()
        for sequence in step.admitted:
            if sequence.attempt.scheduled_s is None:
                sequence.attempt.scheduled_s = now_s
        self.gauges.schedule(len(scheduler.waiting), scheduler.arrivals)
        if step.failed:
            self._fail(step.failed, now_s)
            if self._lockstep.stopped:
                return SchedulerOutput()  # one of them has ended the process by what it did then
        return step

    def _fail(self, sequences: tuple[RunningRequest, ...], now_s: float) -> None:
        """Answer those who broke off before a step; they have left the engine already."""
        self.gauges.publish(len(self._scheduler.running), self._scheduler.held)
        for sequence in sequences:
            self._clients.fail(sequence, now_s)
        self._tell_idle()

    def _complete_plan(self, steps: int) -> list[RunningRequest]:
        """What has been planned counts as done; returns the sequences that end now."""
        scheduler, batch = self._scheduler, self._batch
        planned, self._planned = self._planned, None
        if self._coasting:
            self._coasting = False
            if self._async and batch.decoders:
                context_tokens = batch.context_tokens + (steps - 1) * batch.decoders
                self._applied = SchedulerOutput(
                    decoders=batch.decoders, context_tokens=context_tokens
                )
            return scheduler.complete_span(steps)
        if planned is None:
            return []  # an empty step, beside those of other ranks
        if self._async:
            self._applied = None if planned.is_empty else planned
        return scheduler.complete(planned)

    # -- who leaves, and what has been given ----------------------------------------------

    def leave(self, sequence: RunningRequest) -> None:
        """The client of ``sequence`` has left.

        A waiting one leaves at once; a running one keeps its place and its
        blocks until the end of the step in flight, whose token is lost.
        """
        sequence.attempt.emitted_tokens = self.given_tokens(sequence)
        if self._lockstep.steps and self._awaits_token(sequence):
            self._lost += 1
        sequence.cancelled = True
        finishing = sequence in self._scheduler.finishing
        if finishing:
            self._scheduler.finishing.remove(sequence)
        if sequence in self._scheduler.running:
            self._cancelled.append(sequence)
            if self._lockstep.steps == 0:
                self._scheduler.release(self._drop_cancelled())
        elif not finishing:
            self._scheduler.waiting.remove(sequence)
            if self._lockstep.steps:
                self.gauges.leave_queue(sequence)
        self._lockstep.left()
        self._tell_idle()

    def emitted_tokens(self, steps: int) -> int:
        """Tokens given so far, if of those in flight ``steps`` steps have ended."""
        return self._emitted + self._given(steps)

    def _given(self, steps: int) -> int:
        """Tokens of the first ``steps`` steps in flight; the last one of all gives some nobody."""
        lost = self._lost if steps == self._lockstep.steps else 0
        return steps * self._giving - lost

    def given_tokens(self, sequence: RunningRequest) -> int:
        """Tokens that ``sequence`` has sent so far; the step in flight has sent none yet."""
        emitted = sequence.emitted
        if sequence.decoding:
            emitted += self._batch.steps - sequence.joined
            emitted += self._lockstep.steps_done(self._kernel.now_s)
        if self._async and self._awaits_token(sequence):
            emitted -= 1
        return emitted

    def _awaits_token(self, sequence: RunningRequest) -> bool:
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

    def _drop_cancelled(self) -> list[RunningRequest]:
        """Take the sequences whose clients left out of the batch."""
        dropped, self._cancelled = self._cancelled, []
        for sequence in dropped:
            if sequence.decoding:
                self._batch.leave(sequence)
        return dropped

    # -- what others are told -------------------------------------------------------------

    def report(self) -> None:
        """Tell the observer, if any, of the step or span in flight, up to its planned end."""
        lockstep = self._lockstep
        if self.observer is not None and lockstep.steps:
            self._report(self.observer, lockstep.steps, lockstep.end_s)

    def _report(self, observer: PodObserver, steps: int, end_s: float) -> None:
        start_s, scheduler = self._lockstep.start_s, self._scheduler
        waiting = self.gauges.scheduled
        if self._coasting:
            if self._batch.decoders:
                context = self._span_context()
                report = span_report(self._name, start_s, end_s, steps, context, waiting, scheduler)
                observer.stepped(report)
            return
        step = self._applied if self._async else self._planned
        if step is not None:
            observer.stepped(step_report(self._name, start_s, end_s, step, waiting, scheduler))

    @property
    def idle(self) -> bool:
        """Whether nobody is here, nor in a step for nothing, and all that ended have been told."""
        if self._lockstep.stopped:
            return True
        return not self._clients and not self._scheduler.running and self._applied is None

    def when_idle(self, callback: Callable[[], None]) -> None:
        """Call once: now, or at the end of the step after which nobody is here."""
        self._on_idle.append(callback)
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self._on_idle and self.idle:
            callbacks, self._on_idle = self._on_idle, []
            for callback in callbacks:
                callback()
