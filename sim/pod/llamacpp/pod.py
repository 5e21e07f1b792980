"""The pod of ``kind: llamacpp``."""

from sim.kernel import Kernel
from sim.pod.intake import Intake
from sim.pod.llamacpp.slots import Slots
from sim.pod.llamacpp.spec import LlamaCpp
from sim.pod.pod import Pod
from sim.pod.steptime import StepTime
from sim.registry import family
from sim.scenario.presets import step_time


@family(LlamaCpp)
class LlamaCppPod(Pod):
    """llama.cpp's server: prompt and answer fill the context of a slot, which is never shifted."""

    def __init__(self, name: str, engine: LlamaCpp, kernel: Kernel) -> None:
        steptime = StepTime(step_time(engine), pass_tokens=engine.ubatch_size)
        context_tokens = engine.context_tokens()
        intake = Intake(longest_prompt=context_tokens - 1, longest_sequence=context_tokens)
        super().__init__(name, Slots(engine), steptime, intake, kernel)

    @classmethod
    def replica(cls, name: str, engine: LlamaCpp, kernel: Kernel) -> list[Pod]:
        """A server is one pod."""
        return [cls(name, engine, kernel)]
