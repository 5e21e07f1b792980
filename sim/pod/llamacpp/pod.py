"""The pod of ``kind: llamacpp``."""

from sim.kernel import Kernel
from sim.pod.llamacpp.slots import Slots
from sim.pod.llamacpp.spec import LlamaCpp
from sim.pod.pod import Pod
from sim.registry import family


@family(LlamaCpp)
class LlamaCppPod(Pod):
    """llama.cpp's server."""

    def __init__(self, name: str, engine: LlamaCpp, kernel: Kernel) -> None:
        super().__init__(name, engine, Slots(engine), kernel)
