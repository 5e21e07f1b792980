"""GPUs and models that podsim knows, and the KV capacity that follows from them."""

from collections.abc import Collection, Iterator
from functools import cache
from importlib.resources import files
from typing import Annotated, Final, TypeVar

from pydantic import BeforeValidator, Field, ValidationError

from sim.errors import Fault, ScenarioError
from sim.scenario.architecture import Architecture
from sim.scenario.dtypes import Arithmetic
from sim.scenario.engine import MAX_TENSOR_PARALLEL, Engine
from sim.scenario.fields import ByteRate, Bytes, Model, PositiveDuration, Text, real
from sim.scenario.nodes import Mapping, entries, plain
from sim.scenario.rules import Unusable, known
from sim.scenario.suggest import suggestion
from sim.scenario.textfile import decode
from sim.scenario.translate import translate
from sim.scenario.yamltext import parse

Entry = TypeVar("Entry", bound=Model)

GIB: Final = 2.0**30

MESSAGES_BYTES: Final = (2.0**14, 2.0**21, 2.0**27)
"""The messages whose all-reduce the catalogue knows: small, of a decode step, of a prefill."""


class Gpu(Model):
    """A GPU: its data sheet, and what its driver and an all-reduce really give."""

    memory: Bytes = Field(description="Bytes that the driver reports, not those on the label.")
    bandwidth: Bytes = Field(description="Bytes per second of its memory.")
    teraflops: dict[Arithmetic, Annotated[float, real(1.0, 1e6)]] = Field(
        description="Peak rate by precision, 1e12 dense operations per second."
    )
    host_link: ByteRate | None = Field(
        default=None,
        description="Bytes per second of the link to the host's memory, in one direction, as in "
        "the data sheet; missing where the memory is the host's, or no source was found.",
    )
    all_reduce: dict[
        Annotated[int, BeforeValidator(int)],
        tuple[PositiveDuration, PositiveDuration, PositiveDuration],
    ] = Field(
        default_factory=dict,
        description="By the number of GPUs, seconds for messages of 16 KiB, 2 MiB and 128 MiB.",
    )
    small_defaults: bool = Field(
        default=False,
        description="Whether vLLM gives it the defaults of small GPUs whatever its memory.",
    )
    source: Text = Field(description="Where the numbers are from.")

    @property
    def max_num_batched_tokens(self) -> int:
        """vLLM 0.33's default for its API server (engine/arg_utils.py)."""
        if self.small_defaults or self.memory < 70 * GIB:
            return 2048
        return 16_384 if self.memory >= 160 * GIB else 8192

    @property
    def max_num_seqs(self) -> int:
        """vLLM 0.33's default (engine/arg_utils.py)."""
        return 256 if self.small_defaults or self.memory < 70 * GIB else 1024


@cache
def gpus() -> dict[str, Gpu]:
    """The GPUs by name, sorted; read when first asked for."""
    return read("gpus.yaml", Gpu)


@cache
def models() -> dict[str, Architecture]:
    """The models by name, sorted; read when first asked for."""
    return read("models.yaml", Architecture)


def unknown(
    key: str, name: str, known: Collection[str], otherwise: str | None = None
) -> list[Fault]:
    """The fault of an engine whose ``key`` has a ``name`` that is not in the catalogue; or none.

    ``otherwise`` as of ``suggestion``.
    """
    if name in known:
        return []
    message = f"unknown {key} {name!r}{suggestion(name, known, otherwise, every=True)}"
    return [Fault("engine", 0, 0, key, message)]


def check_names(engine: Engine, unless: str | None = None) -> None:
    """Raise ``ScenarioError`` for a gpu or a model that is not in the catalogue.

    Where the field ``unless`` is given, the model may have any name: its size is
    not needed. One that is known must split over the GPUs in any case.
    """
    model = _unknown_model(engine, unless)
    faults = [*known(_unsplit(engine)), *known(_unknown_gpu(engine)), *known(model)]
    if faults:
        raise ScenarioError(faults)


def unknown_names(engine: Engine) -> list[Fault]:
    """The faults of gpu and model where something is to be derived from both; or none."""
    return [*known(_unknown_gpu(engine)), *known(_unknown_model(engine))]


def _unknown_gpu(engine: Engine) -> Iterator[Fault]:
    if engine.gpu is not None:
        yield from unknown("gpu", engine.gpu, gpus())


def _unknown_model(engine: Engine, unless: str | None = None) -> Iterator[Fault]:
    if unless is not None and engine.gives(unless):
        return
    if engine.gives("gpu", "model") and engine.model is not None:
        yield from unknown("model", engine.model, models())


def kv_tokens(engine: Engine) -> float:
    """Tokens of KV that the GPUs' memory leaves room for beside the weights; may be negative.

    (gpuMemoryUtilization x tensorParallel x memory - weights - tensorParallel
    x workspace) / bytes per token. ``gpu`` and ``model`` must be given; raises
    ``ScenarioError`` when the catalogue does not know them, and for a model
    that does not split over the GPUs.
    """
    check_names(engine)
    if engine.gpu is None or engine.model is None:
        raise Unusable
    usable = engine.gpu_memory_utilization * engine.tensor_parallel * gpus()[engine.gpu].memory
    free = usable - weights_bytes(engine) - engine.tensor_parallel * engine.workspace
    model = models()[engine.model]
    return free / model.kv_bytes_per_token(engine.kv_cache_dtype, engine.tensor_parallel)


def does_not_fit(engine: Engine, what: str) -> str:
    """Why there is no room ``what`` for; ``gpu`` and ``model`` are in the catalogue."""
    assert engine.gpu is not None
    return (
        f"the model does not fit: {engine.gpu_memory_utilization:g} x {engine.tensor_parallel} x "
        f"{gpus()[engine.gpu].memory / GIB:.1f} GiB of {engine.gpu} - "
        f"{weights_bytes(engine) / GIB:.1f} GiB of weights - {engine.tensor_parallel} x "
        f"{engine.workspace / GIB:.1f} GiB of workspace leaves no room {what}; "
        "raise tensorParallel or take a larger gpu"
    )


def weights_bytes(engine: Engine) -> float:
    """Of the weights on all GPUs of a pod; ``weights`` or a model of the catalogue is given."""
    if engine.weights is not None:
        return engine.weights
    assert engine.model is not None
    return models()[engine.model].weights_bytes(engine.weight_dtype)


def _unsplit(engine: Engine) -> Iterator[Fault]:
    """The fault of heads that cannot be shared out evenly, as vLLM refuses them; or none."""
    model = None if engine.model is None else models().get(engine.model)
    if model is None or model.splits_over(engine.tensor_parallel):
        return
    every = range(1, MAX_TENSOR_PARALLEL + 1)
    good = [str(gpus) for gpus in every if model.splits_over(gpus)]
    message = (
        f"must share out the {model.heads} query heads and {model.kv_heads} KV heads of "
        f"{engine.model} evenly, so be one of {', '.join(good)}; got {engine.tensor_parallel}"
    )
    yield Fault("engine", 0, 0, "tensorParallel", message)


def read(name: str, entry: type[Entry]) -> dict[str, Entry]:
    """The entries of a file of ``sim/data``, sorted by name."""
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
