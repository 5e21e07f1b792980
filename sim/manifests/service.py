"""InferenceService and Model to an engine: its model, weight format and options."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

from sim.core.document import Path, Place
from sim.hardware import catalog
from sim.hardware.gpu import weight_format
from sim.manifests import fields, hardware, writing
from sim.manifests.engines import Given, ImportedEngine, Setting
from sim.manifests.fields import Fields
from sim.manifests.objects import MODEL, Object, Objects
from sim.manifests.options import (
    MODEL_FLAGS,
    OPTIONS,
    Flag,
    Nearest,
    NotModelledError,
    Option,
    Word,
    fields_of,
    flag_of,
    flags,
)
from sim.manifests.writing import NoteKind, Plain

LEAST_HYBRID_BUDGET: Final = 2048
"""Tokens of a step: vLLM's least default, above every block of a hybrid model."""

_CAPACITY: Final = {"vllm": "kvBlocks", "llamacpp": "ctxSize"}


@dataclass
class Served:
    """What a command line says about its model, in its order.

    A flag such as ``--model`` is surer than a word that belongs to no flag,
    which may be a program or a subcommand.
    """

    named: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


class _Said(NamedTuple):
    origin: str
    text: str


def add_model(
    engine: ImportedEngine,
    model: Object | None,
    line: Served,
    options: Mapping[str, Setting | None],
    given: Given,
) -> None:
    """Add ``model``, and ``weightDtype`` where no option gives it."""
    said = _said(engine, model, line)
    known = next((each for each in said if writing.model_named(each.text)), None)
    source = (None if model is None else model.spec.text("source")) or said[0].text
    if engine.service.name in given.models:
        engine.settings["model"] = Setting(given.models[engine.service.name], "--model")
    elif known is not None:
        name = writing.model_named(known.text)
        engine.settings["model"] = Setting(name, f"{known.origin}: {known.text}")
    elif given.assume:
        name = writing.nearest_model([each.text for each in said], _able(options))
        engine.assume(
            "model", name, f"the catalogue does not know the model {source}; {name} is assumed"
        )
    else:
        engine.lacks(
            f"the catalogue does not know the model {source}: give model (`podsim list models`) or "
            f"use --model {engine.service.name}=NAME or --assume; or give stepTime and "
            f"{_CAPACITY[engine.kind]}"
        )
    written = _format(model, said)
    setting = options.get("weightDtype") or written
    if setting is not None:
        engine.settings["weightDtype"] = setting


def _able(options: Mapping[str, Setting | None]) -> list[str]:
    """The models that can be served as ``options`` say; all of them where none can."""
    experts, split = options.get("enableExpertParallel"), options.get("tensorParallel")
    known = catalog.models()
    able = [
        name
        for name, each in known.items()
        if (experts is None or not experts.value or each.experts is not None)
        and (split is None or each.splits_over(int(split.value)))
    ]
    return able or list(known)


def add_retention(engine: ImportedEngine) -> None:
    """The cache that vLLM gives a model with recurrent layers, unless it is switched off.

    It sizes blocks after the recurrent state by itself, whatever is asked for.
    """
    settings = engine.settings
    known = catalog.models().get(settings["model"].value) if "model" in settings else None
    if engine.kind != "vllm" or known is None or known.recurrent is None:
        return
    caching, budget = settings.get("enablePrefixCaching"), settings.get("maxNumBatchedTokens")
    if (caching is not None and not caching.value) or "kvBlocks" in settings:
        return
    if budget is not None and int(budget.value) < LEAST_HYBRID_BUDGET:
        return
    settings.pop("blockSize", None)
    why = f"what vLLM keeps of a model with recurrent layers, as {settings['model'].value} is"
    settings["prefixRetention"] = Setting("prompt-tail", why)


def _said(engine: ImportedEngine, model: Object | None, line: Served) -> list[_Said]:
    """What may say which model it is, best first."""
    said = [_Said("the command line", text) for text in (*line.named[::-1], *line.words[::-1])]
    if model is not None:
        source = model.spec.text("source")
        if source:
            said.append(_Said(f"{MODEL} {model.name} spec.source", source))
        said.append(_Said("spec.modelRef", model.name))
    return [*said, _Said("its name", engine.service.name)]


def _format(model: Object | None, said: list[_Said]) -> Setting | None:
    quantization = None if model is None else model.spec.text("quantization")
    if model is not None and quantization:
        said = [_Said(f"{MODEL} {model.name} spec.quantization", quantization), *said]
    for origin, text in said:
        found = weight_format(text)
        if found is not None:
            nearest = "" if found.exact else f", the nearest that podsim knows to {text}"
            return Setting(found.dtype, f"{origin}{nearest}")
    return None


MAX_REPLICAS: Final = 10_000

LLAMACPP_FIELDS: Final = (
    *("contextSize", "parallelSlots", "batchSize", "uBatchSize", "cacheTypeK", "cacheTypeCustomK"),
)
COMMAND_LINES: Final = ("command", "args", "extraArgs")

Options: TypeAlias = Mapping[str, Option]
Found: TypeAlias = Iterator[tuple[str, Setting | None]]
"""Engine keys; the last one wins, and None takes back what was set before."""

_KIND_IN_IMAGE: Final = {"vllm": "vllm", "llama": "llamacpp"}
_DEFAULT_KIND: Final = "llamacpp"


def translate(
    service: Object, objects: Objects, given: Given, slot_labels: dict[str, str] | None
) -> ImportedEngine:
    """The engine of ``service``.

    A member of a pool has one pod, and the labels of the slot are asked where
    the service has none; ``slot_labels`` is None for any other service.
    """
    spec, model = service.spec, _model(service, objects)
    kind, why = _kind(spec)
    engine = ImportedEngine(service, kind, _replicas(spec, slot_labels is not None))
    engine.settings["kind"] = Setting(kind, why)
    line = Served()
    found = dict(_from_fields(spec, kind))
    found.update(_from_command_lines(spec, OPTIONS[kind], line))
    add_model(engine, model, line, found, given)
    for key, setting in found.items():
        if setting is not None:
            engine.settings[key] = setting
    add_retention(engine)
    hardware.add_gpus(engine, model, given, slot_labels or {})
    spec.ignore_unread()
    return engine


def _model(service: Object, objects: Objects) -> Object | None:
    name = service.spec.name("modelRef")
    if name is None:
        if "modelRef" not in service.spec and objects.assume:
            message = "is missing; the model is taken from what else is said"
            service.spec.note(NoteKind.WARNING, "modelRef", message)
        elif "modelRef" not in service.spec:
            service.spec.fault("modelRef", "is missing")
        return None
    return objects.refer(MODEL, name, service, service.spec, "modelRef")


def _replicas(spec: Fields, pooled: bool) -> int:
    replicas = spec.whole("replicas", 0, MAX_REPLICAS)
    if pooled:
        if replicas is not None and replicas > 1:
            spec.note(NoteKind.WARNING, "replicas", "a member of a pool has one pod")
        return 1
    if replicas == 0:
        message = "a service of no pods serves nobody; 1 is assumed"
        spec.note(NoteKind.WARNING, "replicas", message)
    return replicas or 1


def _kind(spec: Fields) -> tuple[str, str]:
    """The kind of engine that comes nearest to the runtime, and why it is that."""
    runtime, image = spec.name("runtime"), spec.name("image")
    if runtime is not None and runtime in OPTIONS:
        return runtime, "spec.runtime"
    for word, kind in _KIND_IN_IMAGE.items():
        if image is not None and word in image:
            return kind, f"spec.image: {image}"
    if runtime is None:
        return _DEFAULT_KIND, "the default runtime"
    message = f"podsim has no engine like {runtime!r}; vLLM's scheduler is assumed"
    spec.note(NoteKind.WARNING, "runtime", message)
    return "vllm", f"assumed for spec.runtime: {runtime}"


def _from_fields(spec: Fields, kind: str) -> Found:
    if kind == "llamacpp":
        yield from _fields(spec, LLAMACPP_FIELDS, OPTIONS[kind])
        keys, values = (
            spec.text(f"cacheTypeCustom{part}") or spec.text(f"cacheType{part}") for part in "KV"
        )
        if keys != values:
            for key in ("cacheTypeV", "cacheTypeCustomV"):
                spec.ignore(key, "values are stored as keys are (cacheTypeK)")
        return
    # The operator renders it as --max-num-seqs, unless extraArgs have that (runtime_vllm_args.go).
    yield from _fields(spec, ("parallelSlots",), {"parallel": OPTIONS[kind]["max-num-seqs"]})
    config = spec.child("vllmConfig")
    if config is not None:
        known = [key for key in config.node if flag_of(key) in OPTIONS[kind]]
        known.sort(key=lambda key: "Custom" in key)  # it wins over its standard field
        yield from _fields(config, known, OPTIONS[kind])
        config.leave(*fields_of(OPTIONS[kind]))


def _fields(fields: Fields, keys: Sequence[str], options: Options) -> Found:
    for key in keys:
        text = fields.text(key)
        if text is not None:
            option, path = options[flag_of(key)], (*fields.path, key)
            value = _value(fields, option, text, fields.place_of(key), path)
            yield option.key, _setting(value, text, fields.origin(key))


def _from_command_lines(spec: Fields, options: Options, line: Served) -> Found:
    for key in COMMAND_LINES:
        words = [Word(*pair) for pair in spec.placed_texts(key)]
        for flag in flags(words, options):
            if flag.value is not None and not flag.name:
                line.words.append(flag.value)
            elif flag.value is not None and flag.name in MODEL_FLAGS:
                line.named.append(flag.value)
            else:
                yield from _flag(spec, flag, key, options)


def _flag(spec: Fields, flag: Flag, key: str, options: Options) -> Found:
    path = (*spec.path, key)
    option = options.get(flag.name)
    if option is None:
        matters = fields.flag_matters(flag.name, flag.value)
        if matters is False:
            spec.notes.leave_out(flag.place, flag.written)
            return
        lacks = "model" if matters else "know"
        message = f"podsim does not {lacks} the option {flag.written}"
        spec.notes.add(NoteKind.NOT_MODELLED, flag.place, path, message)
    elif flag.value is None:
        spec.notes.fault(flag.place, path, f"the option {flag.written} needs a value")
    else:
        value = _value(spec, option, flag.value, flag.place, (*path, flag.name))
        yield option.key, _setting(value, flag.value, f"{flag.written} in spec.{key}")


def _value(fields: Fields, option: Option, text: str, place: Place, path: Path) -> Plain:
    try:
        return option.read(text)
    except NotModelledError as error:
        fields.notes.add(NoteKind.NOT_MODELLED, place, path, f"{text}: {error}")
    except ValueError as error:
        fields.notes.fault(place, path, f"{error}; got {text!r}")
    return None


def _setting(value: Plain, text: str, origin: str) -> Setting | None:
    """A value, where it is from, and how it stands there if otherwise."""
    if value is None:
        return None
    if isinstance(value, Nearest):
        return Setting(value.value, f"{origin}, the nearest that podsim knows to {text}")
    same = text == str(value) or isinstance(value, bool)
    return Setting(value, origin if same else f"{origin}: {text}")
