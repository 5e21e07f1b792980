"""Where the step time of an engine is from: its own coefficients, a preset, or data sheets."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any, Final, Literal

from pydantic import Field

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import DottedName, Model, Text
from sim.core.rules import Unusable, known
from sim.core.suggest import suggestion
from sim.hardware import catalog
from sim.hardware.catalog import Catalogue, unknown_names
from sim.hardware.dtypes import KvDtype, WeightDtype
from sim.hardware.engine import Engine, StepTime
from sim.hardware.gpu import Gpu
from sim.hardware.roofline import Machine, UnknownAllReduceError, derive

Origin = Literal["given", "preset", "derived"]

WHERE_LISTED: Final = "podsim list engines shows the presets"
"""Their names are long, and too many for a line."""


class Preset(Model):
    """Step-time coefficients of one model on one machine, with their source."""

    model: DottedName
    gpu: DottedName
    tensor_parallel: int
    weight_dtype: WeightDtype
    kv_cache_dtype: KvDtype = "bf16"
    step_time: StepTime = Field(description="Coefficients in ms.")
    source: Text = Field(description="Where they are from.")


@dataclass(frozen=True)
class SourcedStepTime:
    """The coefficients in effect, and where they are from."""

    coefficients: StepTime
    origin: Origin


@cache
def presets() -> Catalogue[Preset]:
    """The presets."""
    return Catalogue("engines.yaml", Preset)


def step_time(engine: Engine) -> StepTime:
    """The coefficients in effect; raises as ``sourced_step_time``."""
    return sourced_step_time(engine).coefficients


def sourced_step_time(engine: Engine) -> SourcedStepTime:
    """The coefficients of ``engine``: as given, of its preset, or derived from data sheets.

    Raises ``ScenarioError`` for a preset that is not there or is about another
    engine than this one, and when data sheets are not enough; the fault's path
    is the key of the engine.
    """
    if isinstance(engine.step_time, StepTime):
        return SourcedStepTime(engine.step_time, "given")
    if engine.step_time is None:
        return SourcedStepTime(_derived(engine), "derived")
    preset = presets().get(engine.step_time)
    if preset is None:
        message = suggestion(engine.step_time, presets(), WHERE_LISTED)
        message = f"unknown stepTime {engine.step_time!r}{message}"
        raise ScenarioError([Fault("engine", 0, 0, "stepTime", message)])
    if faults := _contradictions(engine, engine.step_time, preset):
        raise ScenarioError(faults)
    return SourcedStepTime(preset.step_time, "preset")


def _derived(engine: Engine) -> StepTime:
    if faults := unknown_names(engine):
        raise ScenarioError(faults)
    model, gpu = catalog.model(engine.model), catalog.gpu(engine.gpu)
    if gpu is None or model is None or not gpu.is_whole:
        raise Unusable
    dtype = engine.weight_dtype or model.weight_dtype
    machine = Machine(gpu, engine.tensor_parallel, dtype, engine.kv_cache_dtype)
    try:
        return derive(model, machine)
    except UnknownAllReduceError:
        otherwise = ", or its allReduce" if isinstance(engine.gpu, Gpu) else ""
        message = (
            f"nothing is known of an all-reduce between {engine.tensor_parallel} "
            f"{engine.gpu_name}, which the step time takes in: give stepTime{otherwise}"
        )
        raise ScenarioError([Fault("engine", 0, 0, "tensorParallel", message)]) from None


def _contradictions(engine: Engine, name: str, preset: Preset) -> list[Fault]:
    """What the engine says otherwise than its preset; generations of one size are one model."""
    settings: list[tuple[str, Callable[[Engine], Any], Any]] = [
        ("model", lambda each: _model(each, preset), preset.model),
        ("gpu", lambda each: _gpu(each, preset), preset.gpu),
        ("tensorParallel", lambda each: each.tensor_parallel, preset.tensor_parallel),
        ("weightDtype", weight_dtype, preset.weight_dtype),
        ("kvCacheDtype", lambda each: each.kv_cache_dtype, preset.kv_cache_dtype),
    ]

    def contradiction(key: str, read: Callable[[Engine], Any], wanted: Any) -> Iterator[Fault]:
        found = read(engine)
        if found not in (None, wanted):
            message = f"must be {wanted}, as in preset {name}; got {found}"
            yield Fault("engine", 0, 0, key, message)

    return [fault for setting in settings for fault in known(contradiction(*setting))]


def _model(engine: Engine, preset: Preset) -> str | None:
    """The model of ``engine``, by the name that the preset has for it; its format aside."""
    given, named = catalog.model(engine.model), catalog.models()[preset.model]
    published = {"weight_dtype": named.weight_dtype}
    same = given is not None and given.model_copy(update=published) == named
    return preset.model if same else engine.model_name


def _gpu(engine: Engine, preset: Preset) -> str | None:
    same = catalog.gpu(engine.gpu) == catalog.gpus()[preset.gpu]
    return preset.gpu if same else engine.gpu_name


def weight_dtype(engine: Engine) -> WeightDtype | None:
    """The format of the weights: as given, or that of the model as published; None if unknown."""
    model = catalog.model(engine.model)
    return model.weight_dtype if model and engine.weight_dtype is None else engine.weight_dtype
