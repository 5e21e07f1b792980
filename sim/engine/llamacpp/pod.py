"""The pod of ``kind: llamacpp``."""

from sim.core.kernel import Kernel
from sim.core.registry import family
from sim.engine.llamacpp.slots import Slots
from sim.engine.llamacpp.spec import LlamaCpp
from sim.engine.output_processor import RequestLimits
from sim.engine.pod import Pod
from sim.engine.steptime import StepCost
from sim.hardware.step_times import step_time


@family(LlamaCpp)
class LlamaCppPod(Pod):
    """llama.cpp's server: prompt and answer fill the context of a slot, which is never shifted."""

    def __init__(self, name: str, engine: LlamaCpp, kernel: Kernel) -> None:
        steptime = StepCost(step_time(engine), pass_tokens=engine.ubatch_size)
        context_tokens = engine.context_tokens()
        intake = RequestLimits(longest_prompt=context_tokens - 1, longest_sequence=context_tokens)
        super().__init__(name, Slots(engine), steptime, intake, kernel)

    @classmethod
    def replica(cls, name: str, engine: LlamaCpp, kernel: Kernel) -> list[Pod]:
        """A server is one pod."""
        return [cls(name, engine, kernel)]
