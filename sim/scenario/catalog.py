"""GPUs and models that podsim knows, and the KV capacity that follows from them."""

from collections.abc import Collection
from functools import cache
from importlib.resources import files
from typing import Final, TypeVar

from pydantic import Field, ValidationError

from sim.errors import Fault, ScenarioError
from sim.scenario.engine import Engine
from sim.scenario.fields import Bytes, Model, Text
from sim.scenario.nodes import Mapping, entries, plain
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


def check_names(engine: Engine, gpu_only: bool = False) -> None:
    """Raise ``ScenarioError`` for a gpu or a model that is not in the catalogue.

    With ``gpu_only`` the model may have any name: its size is not needed.
    """
    faults = []
    if engine.gpu is not None:
        faults += _unknown("gpu", engine.gpu, gpus())
    if engine.model is not None and not gpu_only:
        faults += _unknown("model", engine.model, models())
    if faults:
        raise ScenarioError(faults)


def kv_tokens(engine: Engine) -> float:
    """Tokens of KV that the GPUs' memory leaves room for beside the weights; may be negative.

    (gpuMemoryUtilization x tensorParallel x memory - weights - tensorParallel
    x workspace) / bytes per token. ``gpu`` and ``model`` must be given; raises
    ``ScenarioError`` when the catalogue does not know them.
    """
    check_names(engine)
    assert engine.gpu is not None and engine.model is not None
    usable = engine.gpu_memory_utilization * engine.tensor_parallel * gpus()[engine.gpu].memory
    free = usable - _weights(engine) - engine.tensor_parallel * engine.workspace
    return free / models()[engine.model].kv_per_token


def does_not_fit(engine: Engine, what: str) -> str:
    """Why there is no room ``what`` for; ``gpu`` and ``model`` are in the catalogue."""
    assert engine.gpu is not None
    return (
        f"the model does not fit: {engine.gpu_memory_utilization:g} x {engine.tensor_parallel} x "
        f"{gpus()[engine.gpu].memory / GIB:.1f} GiB of {engine.gpu} - "
        f"{_weights(engine) / GIB:.1f} GiB of weights - {engine.tensor_parallel} x "
        f"{engine.workspace / GIB:.1f} GiB of workspace leaves no room {what}; "
        "raise tensorParallel or take a larger gpu"
    )


def _weights(engine: Engine) -> float:
    assert engine.model is not None
    return models()[engine.model].weights if engine.weights is None else engine.weights


def _unknown(key: str, name: str, known: Collection[str]) -> list[Fault]:
    if name in known:
        return []
    return [Fault("engine", 0, 0, key, f"unknown {key} {name!r}{suggestion(name, known)}")]


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
