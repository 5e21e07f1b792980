"""What a pod takes of the memory of its GPUs, and whether that is there."""

from dataclasses import dataclass

from sim.core.errors import Fault, ScenarioError
from sim.hardware import catalog
from sim.hardware.engine import Engine
from sim.hardware.gpu import gib


@dataclass(frozen=True)
class Footprint:
    """Bytes in the memory of all GPUs of a pod: what is in it, and what there is.

    ``usable_bytes`` are those that ``gpuMemoryUtilization`` leaves to the
    engine; None where nobody says which GPU it is.
    """

    weights_bytes: float
    kv_bytes: float
    workspace_bytes: float
    usable_bytes: float | None

    @property
    def taken_bytes(self) -> float:
        """Weights, KV cache and workspace together."""
        return self.weights_bytes + self.kv_bytes + self.workspace_bytes


def footprint(engine: Engine) -> Footprint | None:
    """What a pod of ``engine`` takes; None when nobody says what weights or KV take.

    Raises ``ScenarioError`` as ``kv_tokens`` of the engine does.
    """
    token_bytes = _kv_token_bytes(engine)
    if token_bytes is None or not _knows_weights(engine):
        return None
    return Footprint(
        catalog.weights_bytes(engine),
        engine.kv_tokens() * token_bytes,
        engine.tensor_parallel * engine.workspace,
        _usable_bytes(engine),
    )


def resident_bytes(engine: Engine) -> float:
    """Of what a pod has in the memory of all its GPUs.

    Raises ``ScenarioError`` when nobody says what weights or KV take.
    """
    found = footprint(engine)
    if found is None:
        message = "the memory it takes is unknown: its engine has no model of the catalogue"
        raise ScenarioError([Fault("engine", 0, 0, "model", message)])
    return found.taken_bytes


def check_weights(engine: Engine) -> None:
    """Raise ``ScenarioError`` for weights that all memory of the GPUs of a pod cannot hold."""
    known = _memory_bytes(engine)
    if known is None or not _knows_weights(engine):
        return
    weights = catalog.weights_bytes(engine)
    if weights > known:
        message = (
            f"the model does not fit: {gib(weights)} of weights are more than "
            f"{memory_in_words(engine)}; raise tensorParallel or take a larger gpu"
        )
        raise ScenarioError([Fault("engine", 0, 0, "", message)])


def overcommitment(engine: Engine, key: str) -> list[Fault]:
    """The doubt of a KV cache, given by ``key``, that exceeds what the weights leave; or none."""
    found = footprint(engine)
    if found is None or found.usable_bytes is None or found.taken_bytes <= found.usable_bytes:
        return []
    message = (
        f"needs {taken_in_words(found)}; {memory_in_words(engine, usable=True)} are there: podsim "
        "assumes that all of it is on the GPU"
    )
    return [Fault("engine", 0, 0, key, message)]


def taken_in_words(found: Footprint) -> str:
    """The sum: ``17.2 GiB of weights + 2.0 GiB of KV + 1.0 GiB of workspace``."""
    return (
        f"{gib(found.weights_bytes)} of weights + {gib(found.kv_bytes)} of KV + "
        f"{gib(found.workspace_bytes)} of workspace"
    )


def memory_in_words(engine: Engine, usable: bool = False) -> str:
    """The memory of a pod whose ``gpu`` is in the catalogue: ``0.92 x 2 x 23.5 GiB``."""
    sheet = catalog.gpu(engine.gpu)
    assert sheet is not None
    share = f"{engine.gpu_memory_utilization:g} x " if usable else ""
    gpus = f"{engine.tensor_parallel} x " if engine.tensor_parallel > 1 else ""
    return f"{share}{gpus}{gib(sheet.memory)} of {engine.gpu_name}"


def _memory_bytes(engine: Engine) -> float | None:
    known = catalog.gpu(engine.gpu)
    return None if known is None else engine.tensor_parallel * known.memory


def _usable_bytes(engine: Engine) -> float | None:
    memory = _memory_bytes(engine)
    return None if memory is None else engine.gpu_memory_utilization * memory


def _knows_weights(engine: Engine) -> bool:
    return engine.weights is not None or catalog.model(engine.model) is not None


def _kv_token_bytes(engine: Engine) -> float | None:
    model = catalog.model(engine.model)
    if engine.kv_token_bytes is not None or model is None:
        return engine.kv_token_bytes
    return model.kv_bytes_per_token(engine.kv_cache_dtype, engine.tensor_parallel)
