"""GPUs and models that podsim knows, and the KV capacity that follows from them."""

import math
from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

from pydantic import Field, ValidationError

from sim.errors import Fault, ScenarioError
from sim.scenario.fields import Bytes, Model, Text
from sim.scenario.nodes import Mapping, entries, plain
from sim.scenario.schema import Engine
from sim.scenario.suggest import suggestion
from sim.scenario.textfile import decode
from sim.scenario.translate import translate
from sim.scenario.yamltext import parse

Entry = TypeVar("Entry", bound=Model)

GIB: Final = 2.0**30


class Gpu(Model):
    """A GPU: the memory that its driver reports, not the figure on the label."""

    memory: Bytes = Field(description="Bytes that the driver reports as total.")
    source: Text = Field(description="Where the number is from.")


class ModelWeights(Model):
    """A model at bf16: bytes of the weights and of the KV cache of one token, over all GPUs."""

    weights: Bytes = Field(description="Bytes of all weights.")
    kv_per_token: Bytes = Field(description="Bytes of keys and values per token, all layers.")
    source: Text = Field(description="Where the numbers are from.")


@cache
def gpus() -> dict[str, Gpu]:
    """The GPUs by name, sorted; read when first asked for."""
    return _read("gpus.yaml", Gpu)


@cache
def models() -> dict[str, ModelWeights]:
    """The models by name, sorted; read when first asked for."""
    return _read("models.yaml", ModelWeights)


def kv_blocks(engine: Engine) -> int:
    """KV blocks of one pod: as given, or what the GPUs' memory leaves beside the weights.

    (gpuMemoryUtilization x tensorParallel x memory - weights - tensorParallel
    x workspace) / bytes per token / blockSize, rounded down. Raises
    ``ScenarioError`` for a GPU that is not in the catalogue, for a model that
    is not when its size is needed, and for one that does not fit; the fault's
    path is the key of the engine.
    """
    faults = []
    if engine.gpu is not None:
        faults += _unknown("gpu", engine.gpu, gpus())
    if engine.kv_blocks is None and engine.model is not None:
        faults += _unknown("model", engine.model, models())
    if faults:
        raise ScenarioError(faults)
    if engine.kv_blocks is not None:
        return engine.kv_blocks
    assert engine.gpu is not None and engine.model is not None
    model = models()[engine.model]
    weights = model.weights if engine.weights is None else engine.weights
    memory = gpus()[engine.gpu].memory
    usable = engine.gpu_memory_utilization * engine.tensor_parallel * memory
    free = usable - weights - engine.tensor_parallel * engine.workspace
    blocks = math.floor(free / model.kv_per_token / engine.block_size)
    if blocks < 1:
        raise ScenarioError([Fault("engine", 0, 0, "", _does_not_fit(engine, memory, weights))])
    return blocks


def _unknown(key: str, name: str, known: Collection[str]) -> list[Fault]:
    if name in known:
        return []
    return [Fault("engine", 0, 0, key, f"unknown {key} {name!r}{suggestion(name, known)}")]


def _does_not_fit(engine: Engine, memory: float, weights: float) -> str:
    return (
        f"the model does not fit: {engine.gpu_memory_utilization:g} x {engine.tensor_parallel} x "
        f"{memory / GIB:.1f} GiB of {engine.gpu} - {weights / GIB:.1f} GiB of weights - "
        f"{engine.tensor_parallel} x {engine.workspace / GIB:.1f} GiB of workspace leaves no room "
        "for one KV block; raise tensorParallel or take a larger gpu"
    )


def _read(name: str, entry: type[Entry]) -> dict[str, Entry]:
    resource = files("sim") / "data" / name
    root = parse(decode(resource.read_bytes(), name), name)
    assert isinstance(root, Mapping)
    found = {}
    for key, node in sorted(entries(root).items()):
        try:
            found[key] = entry.model_validate(plain(node), by_alias=True, by_name=False)
        except ValidationError as error:
            raise ScenarioError(translate(error, entry, node, (key,))) from None
    return found
