"""The catalogue of GPUs and models, under the names that drivers and model hubs give them.

Only a certain match counts: a name of which something is left that
could mean another card or another size is unknown, and answered with the
nearest.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Final, Generic, NamedTuple, TypeVar

from pydantic import ValidationError

from sim.core.document import parse, placed
from sim.core.errors import Fault, ScenarioError
from sim.core.fields import Model
from sim.core.messages import findings
from sim.core.suggest import suggestion
from sim.core.textfile import decode
from sim.hardware.architecture import Architecture
from sim.hardware.engine import MAX_TENSOR_PARALLEL, Engine
from sim.hardware.gpu import GIB, Gpu, WeightDtype, gib, weight_format

NEAR_MEMORY: Final = 0.1
"""Labels of cards and what their drivers report differ by up to so much: an L4 of 24 GB, 22.05."""

_MAKERS: Final = frozenset(
    (
        *("nvidia", "amd", "tesla", "geforce", "radeon", "instinct", "quadro", "rtx", "ai", "pro"),
        *("sxm", "sxm4", "sxm5", "sxm6", "hgx", "oam", "hbm2e", "hbm3", "hbm3e"),
        *("blackwell", "server", "workstation", "edition"),
    )
)
"""Says nothing that the rest of the name does not: who made it, and the one form it has here."""

_TUNED: Final = (
    r"(?:instruct|it|chat|base|hf|gguf|thinking|turbo|\d{4}|v\d+(?:\.\d+)*|dynamic|block|k[ms]"
    r"|quantized|fp8|nvfp4|mxfp4|awq|gptq|int4|w4a16|w8a8|bf16|fp16|f16|q8_0|q4_0|modelopt)"
)
"""What hubs append to the name of a size, which changes none of its dimensions."""

_LATENT: Final = r"deepseek-?(?:v2|v3|r1(?!-distill))|kimi-?k2"
"""Models with multi-head latent attention, letter case aside."""

_EIGHT_BITS: Final = r"int8|8bit"
"""Says of a format that is otherwise of 4 bits that it is not."""


class SpelledModel(NamedTuple):
    """A model of the catalogue, and how its weights are stored where the name says it."""

    name: str
    dtype: WeightDtype | None


def model_spelled(name: str, known: Collection[str]) -> SpelledModel | None:
    """The model that ``name`` means, such as ``Qwen/Qwen3-32B-FP8``; None where that is unsure."""
    if name in known:
        return SpelledModel(name, None)
    base = name.rpartition("/")[2].lower()
    tuned = re.fullmatch(rf"(?:meta-)?(.+?)((?:[-_.]{_TUNED})*)", base)
    folded = {_folded(each): each for each in known}
    found = folded.get(_folded(tuned[1])) if tuned else None
    if found is None or tuned is None:
        return None
    stored = weight_format(tuned[2])
    if stored is not None and (not stored.exact or re.search(_EIGHT_BITS, tuned[2])):
        return None
    return SpelledModel(found, None if stored is None else stored.dtype)


def gpu_spelled(name: str, known: Mapping[str, float]) -> str | None:
    """The GPU that ``name`` means, such as ``NVIDIA H100 80GB HBM3``; None where that is unsure.

    ``known`` are the bytes of memory by name: a size in ``name`` must be theirs.
    """
    words = _words(name)
    found = [each for each, memory in known.items() if _means(words, each, memory / GIB)]
    return found[0] if len(found) == 1 else None


def _means(words: Iterable[str], known: str, memory_gib: float) -> bool:
    """Whether all ``words`` are about the card that is called ``known``."""
    sizes = [word for word in words if re.fullmatch(r"\d+gb?", word)]
    own = [word for word in known.split("-") if word != "rtx"]
    named = [word for word in own if not re.fullmatch(r"\d+gb", word)]
    rest = [word for word in words if word not in sizes and word not in named]
    of_its_size = all(
        abs(float(size.rstrip("gb")) - memory_gib) <= NEAR_MEMORY * memory_gib for size in sizes
    )
    complete = set(named) <= set(words) and (bool(sizes) or named == own)
    return complete and of_its_size and _MAKERS.issuperset(rest)


def near_models(name: str, known: Collection[str]) -> str:
    """What to add to "unknown model": why, the nearest name, or what else to give."""
    if re.search(_LATENT, name.lower()):
        return (
            ": podsim has no formula for latent attention (MLA); give stepTime, and kvBlocks or "
            "ctxSize"
        )
    base = name.rpartition("/")[2]
    stored = None if re.search(_EIGHT_BITS, base.lower()) else weight_format(base)
    otherwise = "`podsim list models` shows those known, or give the path of its config.json"
    said = suggestion(_contained(base, known) or base, known, otherwise)
    hint = f" with weightDtype: {stored.dtype}" if stored and "did you mean" in said else ""
    return f"{said.removesuffix('?')}{hint}?" if hint else said


def near_gpus(name: str, known: Collection[str]) -> str:
    """What to add to "unknown gpu": the nearest name, or what else to give."""
    words = _words(name)
    near = [each for each in known if set(words) & (set(each.split("-")) - {"rtx", "pro"})]
    if near:
        return f"; did you mean {' or '.join(map(repr, near))}?"
    otherwise = (
        "`podsim list gpus` shows those known, or give its data sheet: {memory: 48GiB, "
        "bandwidth: 1TB/s, teraflops: {bf16: 180}}"
    )
    return suggestion(name, known, otherwise)


def _words(name: str) -> list[str]:
    return re.findall(r"rtx|[a-z0-9]+?(?=rtx|[^a-z0-9]|$)", name.lower())


def _contained(name: str, known: Collection[str]) -> str | None:
    """The longest known name that stands at the beginning of ``name``."""
    folded = _folded(name)
    found = [each for each in known if folded.startswith(_folded(each))]
    return max(found, key=len, default=None)


def _folded(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.lower())


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
            root = parse(self._texts[name], self._file)
            written = root[name]
            if isinstance(written, str):
                return self[written]
            try:
                found = self._entry.model_validate(written, by_alias=True, by_name=False)
            except ValidationError as error:
                wrong = findings(error, self._entry, written)
                raise ScenarioError([placed(each.below((name,)), root) for each in wrong]) from None
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
    faults = [*_unsplit(engine), *_unknown_gpu(engine), *_unknown_model(engine, unless)]
    if faults:
        raise ScenarioError(faults)


def unknown_names(engine: Engine) -> list[Fault]:
    """The faults of gpu and model where something is to be derived from both; or none."""
    return [*_unknown_gpu(engine), *_unknown_model(engine)]


def _unknown_gpu(engine: Engine) -> Iterator[Fault]:
    if isinstance(engine.gpu, str) and gpu(engine.gpu) is None:
        message = f"unknown gpu {engine.gpu!r}{near_gpus(engine.gpu, gpus())}"
        yield Fault("engine", 0, 0, "gpu", message)


def _unknown_model(engine: Engine, unless: str | None = None) -> Iterator[Fault]:
    if unless is not None and getattr(engine, unless) is not None:
        return
    name = engine.model if engine.gpu is not None and engine.model is not None else None
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
    assert sheet is not None
    assert dimensions is not None
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
