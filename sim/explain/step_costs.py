"""What a step costs, and for whom: prices by engine, and a step divided among its requests."""

from dataclasses import dataclass

from sim.core.ports import StepReport
from sim.engine.llamacpp.spec import LlamaCpp
from sim.engine.spec import Vllm
from sim.engine.steptime import StepCost
from sim.hardware.engine import Engine
from sim.hardware.step_times import step_time

TOLERANCE_S = 1e-9
"""A step that ends this close to its price costs that: both are sums of floats."""


@dataclass(frozen=True)
class StepCosts:
    """What is known of a kind of engine beside its reports.

    A request waits for a place when ``places`` are taken, for tokens when less
    than ``least_tokens`` of the ``tokens`` of a step are left. ``lockstep``: its
    ranks step together; ``ahead``: it plans a step before the one before it ends.
    """

    steptime: StepCost
    places: int
    tokens: int
    least_tokens: int = 1
    lockstep: bool = False
    ahead: bool = False


def step_costs(engine: Engine) -> StepCosts | None:
    """Return the costs of one engine of a scenario; None for a kind that podsim does not bring."""
    if isinstance(engine, Vllm):
        return StepCosts(
            StepCost(step_time(engine)),
            min(engine.max_num_seqs, engine.max_num_batched_tokens),
            engine.max_num_batched_tokens,
            engine.block_size if engine.prefix_retention == "prompt-tail" else 1,
            engine.steps_together,
            engine.async_scheduling,
        )
    if isinstance(engine, LlamaCpp):
        steptime = StepCost(step_time(engine), pass_tokens=engine.ubatch_size)
        return StepCosts(steptime, engine.slots, engine.batch_size)
    return None


def shares(report: StepReport, costs: StepCosts) -> list[tuple[float, ...]] | None:
    """Return, for each chunk of a step, seconds for decodes, other prompts and other ranks.

    What is left of the step was for its own tokens. None when the report does not say enough, or
    when the step did not last as long as these costs say: then they are not this engine's.
    """
    if len(report.starts) != len(report.chunks):
        return None
    lasted_s = report.end_s - report.start_s
    step_s = costs.steptime.step_s
    pairs = [
        tokens * (start + tokens / 2) for (_, tokens), start in zip(report.chunks, report.starts)
    ]
    decoders, context = report.decoders, report.context_tokens
    alone_s = step_s(report.prefill_tokens, sum(pairs), decoders, context)
    slower_s = lasted_s - alone_s
    if slower_s < -TOLERANCE_S or (slower_s > TOLERANCE_S and not costs.lockstep):
        return None
    return [
        _share(
            step_s(tokens, pair, 0, 0), step_s(tokens, pair, decoders, context), alone_s, lasted_s
        )
        for (_, tokens), pair in zip(report.chunks, pairs)
    ]


def _share(own_s: float, with_decodes_s: float, all_s: float, lasted_s: float) -> tuple[float, ...]:
    """Divide a step; a curve that falls somewhere makes no part negative."""
    own_s = min(own_s, lasted_s)
    with_decodes_s = min(max(own_s, with_decodes_s), lasted_s)
    all_s = min(max(with_decodes_s, all_s), lasted_s)
    if lasted_s - all_s <= TOLERANCE_S:
        all_s = lasted_s
    return with_decodes_s - own_s, all_s - with_decodes_s, lasted_s - all_s
