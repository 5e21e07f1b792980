"""What a pod tells an observer of its work."""

from sim.core.ports import StepReport
from sim.engine.scheduling import Scheduling, Step


def step_report(
    pod: str, start_s: float, end_s: float, step: Step, waiting: int, scheduler: Scheduling
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
