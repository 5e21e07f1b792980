"""Which GPUs a pod has, as far as labels and requests for resources say it."""

from typing import Final

from sim.manifests import names
from sim.manifests.engine import Engine, Setting
from sim.manifests.objects import MODEL, Object

MAX_GPUS: Final = 64


def add_gpus(
    engine: Engine, model: Object | None, gpu: str | None, slot_labels: dict[str, str]
) -> None:
    """Add ``gpu``, and ``tensorParallel`` where no option gives it.

    ``gpu`` wins over all labels, those of the service over those of a slot.
    """
    own = engine.service.spec.labels("nodeSelector")
    labels = {f"label {name} in spec.nodeSelector": text for name, text in own.items()}
    labels |= {f"label {name} of the pool's slot": text for name, text in slot_labels.items()}
    found = _from_labels(labels) if gpu is None else Setting(gpu, "--gpu")
    if found is not None:
        engine.settings["gpu"] = found
    else:
        shown = f" ({', '.join(labels.values())})" if labels else ""
        engine.lacks(
            f"no node label{shown} names a GPU that podsim knows: give gpu (`podsim list gpus`) "
            "or use --gpu"
        )
    count = _count(engine, model)
    if count is not None and "tensorParallel" not in engine.settings:
        engine.settings["tensorParallel"] = count
        if engine.kind == "llamacpp":
            engine.cautions.append(
                "llama.cpp gives each GPU a part of the layers by default; podsim knows only "
                "tensor parallelism."
            )


def _from_labels(labels: dict[str, str]) -> Setting | None:
    for origin, text in labels.items():
        known = names.gpu_named(text)
        if known is not None:
            return Setting(known, f"{origin}: {text}")
    return None


def _count(engine: Engine, model: Object | None) -> Setting | None:
    """How many GPUs a pod has, where that is more than one."""
    resources = engine.service.spec.child("resources")
    count = None if resources is None else resources.whole("gpu", 0, MAX_GPUS)
    origin = "spec.resources.gpu"
    hardware = None if model is None else model.spec.child("hardware")
    gpu = None if hardware is None else hardware.child("gpu")
    if model is not None and gpu is not None:
        gpu.leave("enabled", "vendor")
        of_model = gpu.whole("count", 0, MAX_GPUS)
        if count is None:
            count, origin = of_model, f"{MODEL} {model.name} spec.hardware.gpu.count"
    return Setting(count, origin) if count is not None and count > 1 else None
