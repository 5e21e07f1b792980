"""What a pod tells an observer of its work."""

from sim.pod.scheduler import Scheduler, Step
from sim.ports import StepReport


def step_report(
    pod: str,
    start_s: float,
    end_s: float,
    steps: int,
    step: Step | None,
    waiting: int,
    scheduler: Scheduler,
) -> StepReport:
    """The report of ``step``, or of a span of ``steps`` decode steps when there is none.

    The batch must still be as it was when the step began.
    """
    batch, store = scheduler.batch, scheduler.store
    chunks = step.chunks if step else ()
    preempted = step.preempted if step else ()
    return StepReport(
        pod=pod,
        start_s=start_s,
        end_s=end_s,
        steps=steps,
        prefill_tokens=step.prefill_tokens if step else 0,
        decoders=batch.decoders,
        context_tokens=batch.context_tokens,
        waiting=waiting,
        running=len(scheduler.running),
        kv_usage=store.held / store.capacity,
        chunks=tuple((sequence.attempt.request.request_id, tokens) for sequence, tokens in chunks),
        preempted=tuple(sequence.attempt.request.request_id for sequence in preempted),
    )
