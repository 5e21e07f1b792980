"""The KV cache of a pod: what the GPUs' memory leaves beside the weights."""

import math

from sim.errors import Fault, ScenarioError
from sim.scenario.architecture import Architecture
from sim.scenario.catalog import GIB, gpus, models, unknown
from sim.scenario.schema import MAX_TENSOR_PARALLEL, Engine


def kv_blocks(engine: Engine) -> int:
    """KV blocks of one pod: as given, or what the GPUs' memory leaves beside the weights.

    (gpuMemoryUtilization x tensorParallel x memory - weights - tensorParallel
    x workspace) / bytes per token / blockSize, rounded down. Raises
    ``ScenarioError`` for a GPU that is not in the catalogue, for a model that
    is not when its size is needed, for one that does not split over the GPUs
    and for one that does not fit; the fault's path is the key of the engine.
    """
    faults = []
    if engine.gpu is not None:
        faults += unknown("gpu", engine.gpu, gpus())
    if engine.kv_blocks is None and engine.model is not None:
        faults += unknown("model", engine.model, models())
    if engine.model is not None and engine.model in models():
        faults += _unsplit(models()[engine.model], engine)
    if faults:
        raise ScenarioError(faults)
    if engine.kv_blocks is not None:
        return engine.kv_blocks
    assert engine.gpu is not None and engine.model is not None
    model = models()[engine.model]
    weights = model.weights_bytes(engine.weight_dtype) if engine.weights is None else engine.weights
    memory = gpus()[engine.gpu].memory
    usable = engine.gpu_memory_utilization * engine.tensor_parallel * memory
    free = usable - weights - engine.tensor_parallel * engine.workspace
    per_token = model.kv_bytes_per_token(engine.kv_cache_dtype, engine.tensor_parallel)
    blocks = math.floor(free / per_token / engine.block_size)
    if blocks < 1:
        raise ScenarioError([Fault("engine", 0, 0, "", _does_not_fit(engine, memory, weights))])
    return blocks


def _unsplit(model: Architecture, engine: Engine) -> list[Fault]:
    """The fault of heads that cannot be shared out evenly, as vLLM refuses them; or none."""
    if model.splits_over(engine.tensor_parallel):
        return []
    good = [str(gpus) for gpus in range(1, MAX_TENSOR_PARALLEL + 1) if model.splits_over(gpus)]
    message = (
        f"must share out the {model.heads} query heads and {model.kv_heads} KV heads of "
        f"{engine.model} evenly, so be one of {', '.join(good)}; got {engine.tensor_parallel}"
    )
    return [Fault("engine", 0, 0, "tensorParallel", message)]


def _does_not_fit(engine: Engine, memory: float, weights: float) -> str:
    return (
        f"the model does not fit: {engine.gpu_memory_utilization:g} x {engine.tensor_parallel} x "
        f"{memory / GIB:.1f} GiB of {engine.gpu} - {weights / GIB:.1f} GiB of weights - "
        f"{engine.tensor_parallel} x {engine.workspace / GIB:.1f} GiB of workspace leaves no room "
        "for one KV block; raise tensorParallel or take a larger gpu"
    )
