"""Step times of an engine: its own coefficients, a preset, or a roofline from data sheets.

The terms of the roofline are those of ``StepTime``: weights are read or
multiplied, whichever takes longer, by the tokens that a step computes
(``StepTime.computed``). That is b and g as well: the experts that a batch
touches are counted, not fitted. The all-reduces of decoding sequences are
counted too; without them wide batches on many GPUs would be too fast.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from typing import Any, Final, Literal

from pydantic import Field

from sim.core.errors import Fault, ScenarioError
from sim.core.fields import DottedName, Model, Text
from sim.core.suggest import suggestion
from sim.hardware import catalog
from sim.hardware.architecture import Architecture
from sim.hardware.catalog import Catalogue, unknown_names
from sim.hardware.engine import Curve, Engine, StepTime
from sim.hardware.gpu import MESSAGES_BYTES, WEIGHT_FORMATS, Arithmetic, Gpu, KvDtype, WeightDtype

ALL_REDUCES_PER_LAYER: Final = 2
ACTIVATION_BYTES: Final = 2.0
MS: Final = 1e3
MANY_TOKENS: Final = 10**6
"""So many that all experts are touched."""


@dataclass(frozen=True)
class Efficiencies:
    """What kernels reach of the data sheet: one set for all GPUs and models.

    ``products`` (μ_g): medians over GPUs of the GEMM kernels of 2,048 to 16,384
    rows that AIConfigurator's database has for vLLM on B200, H200, H100, A100,
    L40S and RTX PRO 6000; of fp8 those with one scale per tensor, of fp4 those
    of two GPUs, B200 at 0.43 and RTX PRO 6000 at 0.63. Whole
    steps summed from such tables give 0.69 and 0.43 instead: these
    reach less, for they count element-wise kernels that engines fuse. The others
    are fitted to those sums, which know of no
    experts: the constant of their layers is what gpt-oss-20b takes for a single
    request beyond reading weights, 111 µs on H100 and 106 on B200 (vLLM blog,
    2026-04-22). Nothing is fitted to a benchmark.
    """

    products: Mapping[Arithmetic, float] = field(
        default_factory=lambda: {"bf16": 0.77, "fp8": 0.57, "fp4": 0.53}
    )
    attention: float = 0.60  # μ_a, of the bf16 peak
    wide_weights: float = 0.92  # η_w of bf16
    narrow_weights: float = 0.80  # η_w of 8 bits and less
    kv: Mapping[KvDtype, float] = field(default_factory=lambda: {"bf16": 0.96, "fp8": 0.74})  # η_kv
    dense_layer_s: float = 55e-6  # o: launches, norms and activations of a layer
    expert_layer_s: float = 110e-6  # o of one that routes to experts


@dataclass(frozen=True)
class Machine:
    """What a model runs on: ``tensor_parallel`` equal GPUs, and the number formats."""

    gpu: Gpu
    tensor_parallel: int
    weight_dtype: WeightDtype
    kv_dtype: KvDtype
    efficiencies: Efficiencies = field(default_factory=Efficiencies)

    @property
    def weights_per_s(self) -> float:
        """Bytes of weights that all GPUs read per second."""
        wide = WEIGHT_FORMATS[self.weight_dtype].bits >= 16
        reached = self.efficiencies.wide_weights if wide else self.efficiencies.narrow_weights
        return self.tensor_parallel * reached * self.gpu.bandwidth

    @property
    def kv_per_s(self) -> float:
        """Bytes of the KV cache and of recurrent states that all GPUs read per second."""
        return self.tensor_parallel * self.efficiencies.kv[self.kv_dtype] * self.gpu.bandwidth

    @property
    def attention_per_s(self) -> float:
        """Operations of attention per second: bf16, whatever the cache is stored in."""
        peak = self.gpu.teraflops["bf16"] * 1e12
        return self.tensor_parallel * self.efficiencies.attention * peak

    @property
    def peak_per_s(self) -> float:
        """F: operations per second that the data sheet promises for the weights' format."""
        return self.tensor_parallel * self.gpu.teraflops[self._arithmetic] * 1e12

    @property
    def products_per_s(self) -> float:
        """Operations of large matrix products per second, in the weights' format.

        The parts that stay in bf16 (output head, gpt-oss' attention) are
        charged at this rate, too, though it is above the bf16 peak.
        """
        return self.efficiencies.products[self._arithmetic] * self.peak_per_s

    @property
    def _arithmetic(self) -> Arithmetic:
        """Weights are unpacked to bf16 where the GPU cannot multiply them as they are."""
        stored = WEIGHT_FORMATS[self.weight_dtype]
        return stored.arithmetic if stored.requires in self.gpu.teraflops else "bf16"


class UnknownAllReduceError(Exception):
    """The catalogue has no all-reduce between so many of these GPUs."""


@dataclass(frozen=True)
class AllReduce:
    """Seconds of one all-reduce: a latency, and more per byte, less in large messages."""

    latency_s: float
    s_per_byte: float
    s_per_large_byte: float

    @classmethod
    def of(cls, gpu: Gpu, tensor_parallel: int) -> "AllReduce":
        """Between ``tensor_parallel`` GPUs; that of the next larger number if unmeasured.

        Raises ``UnknownAllReduceError`` when the catalogue knows of none as large.
        """
        if tensor_parallel == 1:
            return cls(0.0, 0.0, 0.0)
        measured = min((n for n in gpu.all_reduce if n >= tensor_parallel), default=None)
        if measured is None:
            raise UnknownAllReduceError
        small_s, medium_s, large_s = gpu.all_reduce[measured]
        small, medium, large = MESSAGES_BYTES
        return cls(small_s, (medium_s - small_s) / (medium - small), large_s / large)


def derive(model: Architecture, machine: Machine) -> StepTime:
    """The step time of ``model`` on ``machine``.

    Raises ``UnknownAllReduceError`` when nothing is known of one between so
    many GPUs.
    """
    reduce = AllReduce.of(machine.gpu, machine.tensor_parallel)
    reductions = ALL_REDUCES_PER_LAYER * model.layers
    message = ACTIVATION_BYTES * model.hidden  # of one token
    windows_s = _attention_s(model, machine, _windowed(model) * model.window)
    read = model.kv_bytes_per_token(machine.kv_dtype, machine.tensor_parallel)
    return StepTime(
        a=MS * (_layers_s(model, machine) + reductions * reduce.latency_s),
        b=MS * 1e3 * (windows_s + reductions * message * reduce.s_per_large_byte),
        c=MS * 1e5 * read / machine.kv_per_s,
        d=MS * 1e8 * _attention_s(model, machine, model.full_attention),
        f=MS * 1e2 * (_sequence_s(model, machine) + reductions * message * reduce.s_per_byte),
        computed=_products(model, machine),
    )


def _layers_s(model: Architecture, machine: Machine) -> float:
    """o in all layers."""
    efficiencies = machine.efficiencies
    per_layer_s = efficiencies.expert_layer_s if model.experts else efficiencies.dense_layer_s
    return model.layers * per_layer_s


def _products(model: Architecture, machine: Machine) -> Curve:
    """Matrix products by the tokens computed: bound by reading weights, then by multiplying.

    Of E experts with k per token, T tokens that choose alike touch
    E(1 - (1 - k/E)^T). The curve has its points where that bends, at the powers
    of two, and where multiplying takes over.
    """
    token_s = 2 * model.active_parameters / machine.products_per_s

    def read_s(tokens: int) -> float:
        return _touched_bytes(model, machine.weight_dtype, tokens) / machine.weights_per_s

    knee = ceil(read_s(MANY_TOKENS) / token_s)
    bends = {2**power for power in range(knee.bit_length())} if model.experts else {1}
    tokens = sorted({*bends, knee, 2 * knee})
    ms = tuple(MS * max(read_s(count), token_s * count) for count in tokens)
    return Curve(tokens=tuple(tokens), ms=ms)


def _touched_bytes(model: Architecture, dtype: WeightDtype, tokens: int) -> float:
    """W: the weights that a step over ``tokens`` reads."""
    everybodys = model.read_bytes(dtype)
    if model.experts is None:
        return everybodys
    missed = (1 - model.experts.per_token / model.experts.count) ** tokens
    return everybodys + model.expert_bytes(dtype) * (1 - missed)


def _sequence_s(model: Architecture, machine: Machine) -> float:
    """What each decoding sequence adds for itself.

    Its recurrent state is read and written, its windows are read, and the
    output head is computed.
    """
    windows = model.window_bytes(machine.kv_dtype, machine.tensor_parallel)
    moved_s = (2 * model.state_bytes + windows) / machine.kv_per_s
    return moved_s + 2 * model.head_parameters / machine.products_per_s


def _windowed(model: Architecture) -> int:
    """Layers that attend to a window only."""
    return model.layers - model.full_attention if model.window else 0


def _attention_s(model: Architecture, machine: Machine, pairs: float) -> float:
    """Attention over ``pairs`` of query and key in each head: two products per pair."""
    return 4 * model.heads * model.head_dim * pairs / machine.attention_per_s


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
    assert gpu is not None
    assert model is not None
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
    settings: list[tuple[str, Any, Any]] = [
        ("model", _model(engine, preset), preset.model),
        ("gpu", _gpu(engine, preset), preset.gpu),
        ("tensorParallel", engine.tensor_parallel, preset.tensor_parallel),
        ("weightDtype", weight_dtype(engine), preset.weight_dtype),
        ("kvCacheDtype", engine.kv_cache_dtype, preset.kv_cache_dtype),
    ]
    return [
        Fault("engine", 0, 0, key, f"must be {wanted}, as in preset {name}; got {found}")
        for key, found, wanted in settings
        if found not in (None, wanted)
    ]


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
