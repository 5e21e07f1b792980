"""GPUs and models that podsim knows, and the KV capacity that follows from them."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Generic, TypeVar

from pydantic import ValidationError

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import Model
from sim.core.rules import Unusable, known
from sim.core.textfile import decode
from sim.hardware.architecture import Architecture
from sim.hardware.engine import MAX_TENSOR_PARALLEL, Engine
from sim.hardware.gpu import Gpu, gib
from sim.hardware.hubnames import gpu_spelled, model_spelled, near_gpus, near_models
from sim.scenario.nodes import entries, plain, text_of
from sim.scenario.translate import translate
from sim.scenario.yamltext import parse

Entry = TypeVar("Entry", bound=Model)


class Catalogue(Mapping[str, Entry], Generic[Entry]):
    """The entries of a file of ``sim/data`` by name, sorted; each is read when it is asked for.

    A run needs one or two of them, and reading them all takes longer than a short run.
    One that is a name is the same as that.
    """

    def __init__(self, file: str, entry: type[Entry]) -> None:
        text = decode((files("sim") / "data" / file).read_bytes(), file)
        blocks = re.split(r"^(?=\w)", text, flags=re.MULTILINE)[1:]
        self._texts = dict(sorted((block.partition(":")[0], block) for block in blocks))
        self._read: dict[str, Entry] = {}
        self._file, self._entry = file, entry

    def __getitem__(self, name: str) -> Entry:
        if name not in self._read:
            node = entries(parse(self._texts[name], self._file))[name]
            if (same := text_of(node)) is not None:
                return self[same]
            try:
                found = self._entry.model_validate(plain(node), by_alias=True, by_name=False)
            except ValidationError as error:
                raise ScenarioError(translate(error, self._entry, node, (name,))) from None
            self._read[name] = found
        return self._read[name]

    def __contains__(self, name: object) -> bool:
        return name in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


@cache
def gpus() -> Catalogue[Gpu]:
    """The GPUs."""
    return Catalogue("gpus.yaml", Gpu)


@cache
def models() -> Catalogue[Architecture]:
    """The models."""
    return Catalogue("models.yaml", Architecture)


def gpu(given: str | Gpu | None) -> Gpu | None:
    """The data sheet that an engine's ``gpu`` means; None where nobody says or knows it."""
    return _gpu_called(given) if isinstance(given, str) else given


def model(given: str | Architecture | None) -> Architecture | None:
    """The dimensions that an engine's ``model`` means; None where nobody says or knows them.

    A name as model hubs write it may say how the weights are stored: those of
    ``Qwen/Qwen3-32B-FP8`` are published in fp8.
    """
    return _model_called(given) if isinstance(given, str) else given


@cache
def _gpu_called(name: str) -> Gpu | None:
    if name in gpus():
        return gpus()[name]
    spelled = gpu_spelled(name, {known: each.memory for known, each in gpus().items()})
    return None if spelled is None else gpus()[spelled]


@cache
def _model_called(name: str) -> Architecture | None:
    spelled = model_spelled(name, models())
    if spelled is None:
        return None
    found = models()[spelled.name]
    return found.model_copy(update={"weight_dtype": spelled.dtype}) if spelled.dtype else found


def check_names(engine: Engine, unless: str | None = None) -> None:
    """Raise ``ScenarioError`` for a gpu or a model that is not in the catalogue.

    Where the field ``unless`` is given, the model may have any name: its size is
    not needed. One that is known must split over the GPUs in any case.
    """
    unknown_model = _unknown_model(engine, unless)
    faults = [*known(_unsplit(engine)), *known(_unknown_gpu(engine)), *known(unknown_model)]
    if faults:
        raise ScenarioError(faults)


def unknown_names(engine: Engine) -> list[Fault]:
    """The faults of gpu and model where something is to be derived from both; or none."""
    return [*known(_unknown_gpu(engine)), *known(_unknown_model(engine))]


def _unknown_gpu(engine: Engine) -> Iterator[Fault]:
    if isinstance(engine.gpu, str) and gpu(engine.gpu) is None:
        message = f"unknown gpu {engine.gpu!r}{near_gpus(engine.gpu, gpus())}"
        yield Fault("engine", 0, 0, "gpu", message)


def _unknown_model(engine: Engine, unless: str | None = None) -> Iterator[Fault]:
    if unless is not None and engine.gives(unless):
        return
    name = engine.model if engine.gives("gpu", "model") else None
    if isinstance(name, str) and model(name) is None:
        yield Fault("engine", 0, 0, "model", unknown_model(name))


def unknown_model(name: str) -> str:
    """Why nothing is known of the model ``name``, and what to write instead."""
    return f"unknown model {name!r}{near_models(name, models())}"


def kv_tokens(engine: Engine) -> float:
    """Tokens of KV that the GPUs' memory leaves room for beside the weights; may be negative.

    (gpuMemoryUtilization x tensorParallel x memory - weights - tensorParallel
    x workspace) / bytes per token. ``gpu`` and ``model`` must be given; raises
    ``ScenarioError`` when the catalogue does not know them, and for a model
    that does not split over the GPUs.
    """
    check_names(engine)
    sheet, dimensions = gpu(engine.gpu), model(engine.model)
    if sheet is None or dimensions is None:
        raise Unusable
    usable = engine.gpu_memory_utilization * engine.tensor_parallel * sheet.memory
    free = usable - weights_bytes(engine) - engine.tensor_parallel * engine.workspace
    return free / dimensions.kv_bytes_per_token(engine.kv_cache_dtype, engine.tensor_parallel)


def does_not_fit(engine: Engine, what: str) -> str:
    """Why there is no room ``what`` for; ``gpu`` and ``model`` are in the catalogue."""
    sheet = gpu(engine.gpu)
    assert sheet is not None
    return (
        f"the model does not fit: {engine.gpu_memory_utilization:g} x {engine.tensor_parallel} x "
        f"{gib(sheet.memory)} of {engine.gpu_name} - "
        f"{gib(weights_bytes(engine))} of weights - {engine.tensor_parallel} x "
        f"{gib(engine.workspace)} of workspace leaves no room {what}; "
        "raise tensorParallel or take a larger gpu"
    )


def weights_bytes(engine: Engine) -> float:
    """Of the weights on all GPUs of a pod; ``weights`` or a model of the catalogue is given."""
    if engine.weights is not None:
        return engine.weights
    dimensions = model(engine.model)
    assert dimensions is not None
    return dimensions.weights_bytes(engine.weight_dtype)


def _unsplit(engine: Engine) -> Iterator[Fault]:
    """The fault of heads that cannot be shared out evenly, as vLLM refuses them; or none."""
    dimensions = model(engine.model)
    if dimensions is None or dimensions.splits_over(engine.tensor_parallel):
        return
    every = range(1, MAX_TENSOR_PARALLEL + 1)
    good = [str(gpus) for gpus in every if dimensions.splits_over(gpus)]
    message = (
        f"must share out the {dimensions.heads} query heads and {dimensions.kv_heads} KV "
        f"heads of {engine.model_name} evenly, so be one of {', '.join(good)}; got "
        f"{engine.tensor_parallel}"
    )
    yield Fault("engine", 0, 0, "tensorParallel", message)
