"""InferenceService, and the Model that it serves, to an engine."""

from collections.abc import Iterator, Mapping
from typing import Final, TypeAlias

from sim.manifests import names
from sim.manifests.engine import Engine, Setting
from sim.manifests.fields import Fields
from sim.manifests.notes import NoteKind, Notes
from sim.manifests.objects import MODEL, Object, Objects
from sim.manifests.options import (
    MODEL_FLAGS,
    OPTIONS,
    Flag,
    NotModelledError,
    Option,
    Word,
    flag_of,
    flags,
)
from sim.manifests.writing import Plain
from sim.scenario.nodes import Place

MAX_REPLICAS: Final = 10_000
MAX_GPUS: Final = 64

LLAMACPP_FIELDS: Final = (
    *("contextSize", "parallelSlots", "batchSize", "uBatchSize", "cacheTypeK"),
)
COMMAND_LINES: Final = ("command", "args", "extraArgs")

Options: TypeAlias = Mapping[str, Option]

_KINDS: Final = {"vllm": "vllm", "llamacpp": "llamacpp"}
_KINDS_BY_IMAGE: Final = {"vllm": "vllm", "llama": "llamacpp"}
_DEFAULT_RUNTIME: Final = "llamacpp"

_NO_MODEL: Final = (
    "the catalogue does not know the model: give model (`podsim list models`), or stepTime and "
)
_NO_GPU: Final = "names a GPU that podsim knows: give gpu (`podsim list gpus`) or use --gpu"
_CAPACITY: Final = {"vllm": "kvBlocks", "llamacpp": "ctxSize"}


def translate(
    service: Object, objects: Objects, gpu: str | None, slot_labels: dict[str, str] | None
) -> Engine:
    """The engine of ``service``.

    ``gpu`` is the catalogue's name of the GPU whatever labels say. A member of
    a pool has one pod, and the labels of the slot are asked where the service
    has none; ``slot_labels`` is None for any other service.
    """
    model = _model(service, objects)
    reading = _Reading(service, model, objects.notes)
    engine = Engine(service, reading.kind(), _replicas(service.spec, slot_labels is not None))
    reading.settings(engine)
    reading.gpus(engine, gpu, slot_labels or {})
    service.spec.ignore_unread()
    return engine


def _model(service: Object, objects: Objects) -> Object | None:
    name = service.spec.name("modelRef")
    if name is None:
        if "modelRef" not in service.spec:
            service.spec.fault("modelRef", "is missing")
        return None
    model = objects.find(MODEL, name, service)
    if model is None:
        service.spec.fault("modelRef", objects.missing(MODEL, name, service))
    return model


def _replicas(spec: Fields, pooled: bool) -> int:
    replicas = spec.whole("replicas", 0, MAX_REPLICAS)
    spec.ignore("autoscaling", "the number of pods is fixed")
    if pooled:
        if replicas is not None and replicas > 1:
            spec.note(NoteKind.WARNING, "replicas", "a member of a pool has one pod")
        return 1
    if replicas == 0:
        message = "a service of no pods serves nobody; 1 is assumed"
        spec.note(NoteKind.WARNING, "replicas", message)
    return replicas or 1


def _origin(origin: str, text: str, value: Plain) -> str:
    """Where a value is from, and how it stands there if otherwise."""
    same = text in (str(value), str(value).lower()) or isinstance(value, bool)
    return origin if same else f"{origin}: {text}"


class _Reading:
    """Reads one service and its model."""

    def __init__(self, service: Object, model: Object | None, notes: Notes) -> None:
        self._spec = service.spec
        self._service = service
        self._model = model
        self._notes = notes
        self._named: list[str] = []  # by flags, such as --model
        self._words: list[str] = []

    def kind(self) -> str:
        """The kind of engine that comes nearest to the runtime."""
        runtime, image = self._spec.name("runtime"), self._spec.name("image")
        if runtime in _KINDS:
            return _KINDS[runtime]
        for word, kind in _KINDS_BY_IMAGE.items():
            if word in (image or ""):
                return kind
        if runtime is None:
            return _DEFAULT_RUNTIME
        message = f"podsim has no engine like {runtime!r}; vLLM's scheduler is assumed"
        self._spec.note(NoteKind.WARNING, "runtime", message)
        return "vllm"

    def settings(self, engine: Engine) -> None:
        """What fields and command lines set, and the model with its format."""
        engine.settings["kind"] = Setting(engine.kind, self._kind_reason())
        found = dict(self._from_fields(engine.kind))
        found.update(self._from_command_lines(engine.kind))
        weights = found.pop("weightDtype", None)
        self._name_model(engine, weights)
        engine.settings.update(found)

    def _kind_reason(self) -> str:
        for key in ("runtime", "image"):
            if key in self._spec:
                text = self._spec.text(key) or ""
                return f"spec.{key}" + ("" if text in _KINDS else f": {text}")
        return "the default runtime"

    def _from_fields(self, kind: str) -> Iterator[tuple[str, Setting]]:
        options = OPTIONS[kind]
        if kind == "llamacpp":
            yield from self._fields(self._spec, LLAMACPP_FIELDS, options)
            if self._spec.text("cacheTypeV") != self._spec.text("cacheTypeK"):
                self._spec.ignore("cacheTypeV", "values are stored as keys are (cacheTypeK)")
            return
        config = self._spec.child("vllmConfig")
        if config is not None:
            known = tuple(key for key in config.node.values if flag_of(key) in options)
            yield from self._fields(config, known, options)

    def _fields(
        self, fields: Fields, keys: tuple[str, ...], options: Options
    ) -> Iterator[tuple[str, Setting]]:
        for key in keys:
            text = fields.text(key)
            if text is None:
                continue
            option, path = options[flag_of(key)], (*fields.path, key)
            value = self._value(option, text, fields.place_of(key), path)
            if value is not None:
                yield option.key, Setting(value, _origin(fields.origin(key), text, value))

    def _from_command_lines(self, kind: str) -> Iterator[tuple[str, Setting]]:
        for key in COMMAND_LINES:
            words = [Word(*pair) for pair in self._spec.placed_texts(key)]
            for flag in flags(words, OPTIONS[kind]):
                yield from self._flag(flag, key, OPTIONS[kind])

    def _flag(self, flag: Flag, key: str, options: Options) -> Iterator[tuple[str, Setting]]:
        path = (*self._spec.path, key)
        option = options.get(flag.name)
        if flag.value is not None and flag.name in ("", *MODEL_FLAGS):
            # A flag is surer than a word, which may be a program or a subcommand.
            (self._named if flag.name else self._words).append(flag.value)
        elif option is None:
            message = f"podsim does not model the option {flag.written}"
            self._notes.add(NoteKind.IGNORED, flag.place, path, message)
        elif flag.value is None:
            self._notes.fault(flag.place, path, f"the option {flag.written} needs a value")
        else:
            value = self._value(option, flag.value, flag.place, (*path, flag.name))
            if value is not None:
                why = _origin(f"{flag.written} in spec.{key}", flag.value, value)
                yield option.key, Setting(value, why)

    def _value(self, option: Option, text: str, place: Place, path: tuple[str | int, ...]) -> Plain:
        try:
            return option.read(text)
        except NotModelledError as error:
            self._notes.add(NoteKind.IGNORED, place, path, f"{text}: {error}")
        except ValueError as error:
            self._notes.fault(place, path, f"{error}; got {text!r}")
        return None

    def _name_model(self, engine: Engine, weights: Setting | None) -> None:
        texts = self._model_texts()
        known = next(filter(None, (names.model_named(text) for _, text in texts)), None)
        if known is None:
            called = texts[0][1] if self._model is None else self._source or self._model.name
            engine.to_add.append(f"{_NO_MODEL}{_CAPACITY[engine.kind]}. It is {called}.")
            message = f"engine {self._service.name}: {_NO_MODEL}{_CAPACITY[engine.kind]}"
            self._notes.add(
                NoteKind.TO_ADD, self._service.place, self._service.spec.path[:1], message
            )
            return
        why = next(f"{origin}: {text}" for origin, text in texts if names.model_named(text))
        engine.settings["model"] = Setting(known, why)
        setting = weights or self._weights(texts)
        if setting is not None:
            engine.settings["weightDtype"] = setting

    def _weights(self, texts: list[tuple[str, str]]) -> Setting | None:
        for origin, text in self._quantization() + texts:
            found = names.weight_format(text)
            if found is not None:
                nearest = "" if found.exact else f", the nearest that podsim knows to {text}"
                return Setting(found.dtype, f"{origin}{nearest}")
        return None

    def _quantization(self) -> list[tuple[str, str]]:
        text = None if self._model is None else self._model.spec.text("quantization")
        return [] if not text else [(f"{self._model_name} spec.quantization", text)]

    @property
    def _source(self) -> str | None:
        return None if self._model is None else self._model.spec.text("source")

    @property
    def _model_name(self) -> str:
        return "" if self._model is None else f"{MODEL} {self._model.name}"

    def _model_texts(self) -> list[tuple[str, str]]:
        """What may say which model it is, best first, and where that stands."""
        texts = [("the command line", text) for text in (*self._named[::-1], *self._words[::-1])]
        if self._model is not None:
            if self._source:
                texts.append((f"{self._model_name} spec.source", self._source))
            texts.append(("spec.modelRef", self._model.name))
        return [*texts, ("its name", self._service.name)]

    def gpus(self, engine: Engine, gpu: str | None, slot_labels: dict[str, str]) -> None:
        """Which GPUs a pod has, and how many."""
        found = self._gpu(gpu, slot_labels)
        if found is not None:
            engine.settings["gpu"] = found
        else:
            labels = ", ".join({**slot_labels, **self._spec.labels("nodeSelector")}.values())
            missing = f"no node label{labels and f' ({labels})'} {_NO_GPU}"
            engine.to_add.append(f"{missing}.")
            message = f"engine {self._service.name}: {missing}"
            self._notes.add(
                NoteKind.TO_ADD, self._service.place, self._service.spec.path[:1], message
            )
        count = self._gpu_count()
        if count is not None and "tensorParallel" not in engine.settings:
            engine.settings["tensorParallel"] = count
            if engine.kind == "llamacpp":
                caution = "llama.cpp gives each GPU a part of the layers by default; podsim "
                engine.cautions.append(f"{caution}knows only tensor parallelism.")

    def _gpu(self, gpu: str | None, slot_labels: dict[str, str]) -> Setting | None:
        labels = {
            f"label {name} in spec.nodeSelector": text
            for name, text in self._spec.labels("nodeSelector").items()
        }
        labels |= {f"label {name} of the pool's slot": text for name, text in slot_labels.items()}
        if gpu is not None:
            return Setting(gpu, "--gpu")
        for origin, text in labels.items():
            if (known := names.gpu_named(text)) is not None:
                return Setting(known, f"{origin}: {text}")
        return None

    def _gpu_count(self) -> Setting | None:
        """How many GPUs a pod has, where that is more than one."""
        resources = self._spec.child("resources")
        count = None if resources is None else resources.whole("gpu", 0, MAX_GPUS)
        origin = "spec.resources.gpu"
        hardware = None if self._model is None else self._model.spec.child("hardware")
        gpu = None if hardware is None else hardware.child("gpu")
        if gpu is not None:
            gpu.leave("enabled", "vendor")
            of_model = gpu.whole("count", 0, MAX_GPUS)
            if count is None:
                count, origin = of_model, f"{self._model_name} spec.hardware.gpu.count"
        return Setting(count, origin) if count is not None and count > 1 else None
