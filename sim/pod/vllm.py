"""The pod of ``kind: vllm``."""

from sim.kernel import Kernel
from sim.pod.pod import Pod
from sim.pod.scheduler import Scheduler
from sim.pod.spec import Vllm
from sim.registry import family


@family(Vllm)
class VllmPod(Pod):
    """vLLM's V1 engine."""

    def __init__(self, name: str, engine: Vllm, kernel: Kernel) -> None:
        super().__init__(name, engine, Scheduler(engine), kernel)
