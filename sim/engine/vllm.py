"""The pods of ``kind: vllm``."""

from sim.core.kernel import Kernel
from sim.core.registry import family
from sim.engine.lockstep import Lockstep
from sim.engine.output_processor import RequestLimits
from sim.engine.pod import Pod
from sim.engine.scheduler import Scheduler
from sim.engine.spec import Vllm, kv_blocks
from sim.engine.steptime import StepCost
from sim.hardware.step_times import step_time


@family(Vllm)
class VllmPod(Pod):
    """vLLM's V1 engine: one of its own, or a data-parallel rank.

    Ranks that step together share a ``lockstep``.
    """

    def __init__(
        self, name: str, engine: Vllm, kernel: Kernel, lockstep: Lockstep | None = None
    ) -> None:
        steptime = StepCost(step_time(engine))
        super().__init__(name, Scheduler(engine), steptime, intake(engine), kernel, lockstep)

    @classmethod
    def replica(cls, name: str, engine: Vllm, kernel: Kernel) -> list[Pod]:
        """The pods of one replica: its data-parallel ranks, or a single one with its name."""
        if engine.data_parallel == 1:
            return [cls(name, engine, kernel)]
        shared = Lockstep(kernel) if engine.steps_together else None
        ranks = range(engine.data_parallel)
        return [cls(f"{name}-rank-{rank}", engine, kernel, shared) for rank in ranks]


def intake(engine: Vllm) -> RequestLimits:
    """Lengths end at the model limit, or where the next token would need more than all blocks."""
    pod_tokens = (kv_blocks(engine) - engine.state_blocks) * engine.block_size
    model_tokens = engine.model_tokens or pod_tokens + 1
    return RequestLimits(
        longest_prompt=min(model_tokens, pod_tokens),
        # The last token of a sequence is never fed back: it needs no KV.
        longest_sequence=min(model_tokens, pod_tokens + 1),
        most_requests=engine.max_num_queued_reqs,
        most_tokens=engine.max_num_queued_tokens,
    )
