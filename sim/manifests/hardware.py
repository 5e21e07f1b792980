"""Which GPUs a pod has, as far as labels and requests for resources say it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sim.hardware import catalog
from sim.hardware.gpu import GIB
from sim.manifests import writing
from sim.manifests.engines import Given, ImportedEngine, Setting, WithoutGpu
from sim.manifests.objects import MODEL, Object

MAX_GPUS: Final = 64

AMD: Final = ("strix-halo", "r9700", "mi300x")
VENDORS: Final = {"amd": "amd", "rocm": "amd"}
"""Of accelerators that are of one vendor."""
ELSEWHERE: Final = {"cpu": "a CPU", "metal": "Apple's Metal", "intel": "a GPU of Intel"}
"""Accelerators and vendors of which the catalogue has no GPU."""
LEAST_OF_LABEL: Final = 0.9
"""Of the memory that is sold, what a driver reports at least: 44.4 GiB of 48 GB."""
SAME_SIZE: Final = 1.1
"""Cards sold with the same memory report up to so much more than each other."""

LEAST_TOKENS: Final = 8192
WORKSPACE: Final = 4 * GIB
SHARE_FOR_USE: Final = 0.9

_UNITS: Final = {"Gi": 2.0**30, "G": 1e9, "Mi": 2.0**20, "M": 1e6}


def add_gpus(
    engine: ImportedEngine, model: Object | None, given: Given, slot_labels: dict[str, str]
) -> None:
    """Add ``gpu``, and ``tensorParallel`` where no option gives it.

    That of ``given`` wins over all labels, those of the service over those of a slot.
    """
    own = engine.service.spec.labels("nodeSelector")
    labels = {f"label {name} in spec.nodeSelector": text for name, text in own.items()}
    labels |= {f"label {name} of the pool's slot": text for name, text in slot_labels.items()}
    found = _from_labels(labels) if given.gpu is None else Setting(given.gpu, "--gpu")
    said = _said(engine, model)
    if said.count > 1 and "tensorParallel" not in engine.settings:
        count = said.count
        if engine.kind == "llamacpp":
            engine.cautions.append(
                "llama.cpp gives each GPU a part of the layers by default; podsim knows only "
                "tensor parallelism."
            )
            count = _most_that_share(engine, count)
            if count < said.count:
                engine.warns(f"at most {count} of {said.count} GPUs can share its heads evenly")
        engine.settings["tensorParallel"] = Setting(count, said.origin)
    if found is not None:
        engine.settings["gpu"] = found
        if said.elsewhere:
            engine.warns(f"{found.value} stands in for {said.elsewhere}, on which it runs")
        return
    shown = f" ({', '.join(labels.values())})" if labels else ""
    lacking = f"no node label{shown} names a GPU that podsim knows"
    if said.elsewhere:
        lacking = f"it runs on {said.elsewhere}, which podsim does not model"
    hint = f"{said.memory_said} fits {', '.join(said.gpus)}; " if said.gpus else ""
    if given.assume:
        engine.without_gpu = WithoutGpu(lacking, hint or "the smallest that has room; ", said.gpus)
    else:
        way = "stepTime and ctxSize, or a GPU in its place" if said.elsewhere else "gpu"
        engine.lacks(f"{lacking}: {hint}give {way} (`podsim list gpus`), or use --gpu or --assume")


def _most_that_share(engine: ImportedEngine, count: int) -> int:
    """The most GPUs up to ``count`` that share the heads of the model evenly."""
    setting = engine.settings.get("model")
    model = None if setting is None else catalog.models().get(setting.value)
    return next((n for n in range(count, 1, -1) if model is None or model.splits_over(n)), 1)


def assume_gpu(engines: Sequence[ImportedEngine]) -> None:
    """Give ``engines``, which take turns on one slot, the smallest GPU that has room for each."""
    lacking = [each for each in engines if each.without_gpu is not None]
    known = [each.settings["gpu"].value for each in engines if "gpu" in each.settings]
    fitting = [_smallest(each) for each in lacking]
    for each in lacking:
        assert each.without_gpu is not None
        why, reason, _ = each.without_gpu
        gpu = max(known or fitting, key=_by_memory().index)
        each.assume("gpu", gpu, f"{why}; {reason}{gpu} is assumed")


@dataclass(frozen=True)
class _HardwareSaid:
    """What service and model say of their hardware; ``gpus`` have the memory that is meant."""

    count: int
    origin: str
    elsewhere: str
    memory_said: str
    gpus: tuple[str, ...]


def _said(engine: ImportedEngine, model: Object | None) -> _HardwareSaid:
    resources = engine.service.spec.child("resources")
    if model is not None:
        model.spec.child("resources")
    hardware = None if model is None else model.spec.child("hardware")
    gpu = None if hardware is None else hardware.child("gpu")
    count = None if resources is None else resources.whole("gpu", 0, MAX_GPUS)
    origin, memory, gpus_of_memory = "spec.resources.gpu", None, 1
    accelerator, vendor, on_cpu = None, None, False
    if resources is not None:
        memory, gpus_of_memory = resources.text("gpuMemory"), count or 1
    if hardware is not None:
        accelerator = hardware.text("accelerator")
    if model is not None and gpu is not None:
        of_model, vendor = gpu.whole("count", 0, MAX_GPUS), gpu.text("vendor")
        gpu.leave("runtime")
        if (of_one := gpu.text("memory")) is not None:
            memory, gpus_of_memory = of_one, 1
        if count is None:
            count, origin = of_model, f"{MODEL} {model.name} spec.hardware.gpu.count"
        on_cpu = gpu.flag("enabled") is False
    maker = vendor or VENDORS.get(accelerator or "")
    where = "cpu" if on_cpu else maker if maker in ELSEWHERE else accelerator
    elsewhere = "" if where == "cpu" and count else ELSEWHERE.get(where or "", "")
    if elsewhere or (memory is None and maker != "amd"):
        return _HardwareSaid(count or 0, origin, elsewhere, "", ())
    fitting = AMD if memory is None else _with_memory(memory, gpus_of_memory, maker)
    of_all = f" of {gpus_of_memory} GPUs" if gpus_of_memory > 1 else ""
    told = "vendor amd" if memory is None else f"GPU memory {memory}{of_all}"
    return _HardwareSaid(count or 0, origin, "", told, fitting)


def _with_memory(text: str, gpus: int, vendor: str | None) -> tuple[str, ...]:
    """The GPUs of which so many are sold with at least so much memory, the least of them first."""
    quantity = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(Gi|G|Mi|M)", text)
    if quantity is None:
        return ()
    wanted = float(quantity[1]) * _UNITS[quantity[2]] / gpus
    amd = vendor == "amd"
    enough = [
        name
        for name in _by_memory()
        if catalog.gpus()[name].memory >= LEAST_OF_LABEL * wanted and (name in AMD) == amd
    ]
    least = min((catalog.gpus()[name].memory for name in enough), default=0.0)
    return tuple(name for name in enough if catalog.gpus()[name].memory <= least * SAME_SIZE)


def _by_memory() -> tuple[str, ...]:
    return tuple(sorted(catalog.gpus(), key=lambda name: (catalog.gpus()[name].memory, name)))


def _smallest(engine: ImportedEngine) -> str:
    """The first GPU that has room for the model and one sequence; the last if none has.

    Those that share the host's memory are not thought of, unless they are meant.
    """
    settings = engine.settings
    said = () if engine.without_gpu is None else engine.without_gpu.gpus
    among = said or [name for name in _by_memory() if catalog.gpus()[name].host_link is not None]
    model = catalog.models().get(settings["model"].value) if "model" in settings else None
    if model is None:
        return among[0]
    dtype = settings["weightDtype"].value if "weightDtype" in settings else None
    tokens = max(engine.sequence_tokens or 0, LEAST_TOKENS)
    needed = model.weights_bytes(dtype) + tokens * model.kv_bytes_per_token()
    gpus = int(settings["tensorParallel"].value) if "tensorParallel" in settings else 1
    among = [name for name in among if gpus == 1 or catalog.gpus()[name].all_reduce] or among
    share = needed / gpus + WORKSPACE
    room = (name for name in among if SHARE_FOR_USE * catalog.gpus()[name].memory >= share)
    return next(room, among[-1])


def _from_labels(labels: dict[str, str]) -> Setting | None:
    for origin, text in labels.items():
        known = writing.gpu_named(text)
        if known is not None:
            return Setting(known, f"{origin}: {text}")
    return None
