"""What people call models and GPUs, and what the catalogue calls them."""

import re
from collections.abc import Collection, Iterable, Sequence
from math import log
from typing import Final

from sim.core.fields import MAX_NAME
from sim.hardware import catalog

ANY_MODEL: Final = "llama-3.1-8b"
"""Assumed for a model of which nothing is known."""

_SEPARATOR: Final = "[-_. ]?"
_SIZE: Final = re.compile(r"(?<![a-z0-9.])e?([0-9]{1,4}(?:\.[0-9]+)?)b(-a[0-9.]+b)?(?![a-z0-9])")


def model_named(text: str) -> str | None:
    """The model of the catalogue whose name stands in ``text``, such as a path or a repository.

    ``Qwen/Qwen2.5-Coder-32B-Instruct-GGUF`` and ``qwen2-5-coder-32b``, as names
    of objects are written, are both ``qwen2.5-coder-32b``. The longest name counts.
    """
    found = [name for name in catalog.models() if _model_pattern(name).search(text.lower())]
    return max(found, key=len, default=None)


def _model_pattern(name: str) -> re.Pattern[str]:
    parts = [re.escape(part) for part in re.split("[-.]", name)]
    return re.compile(f"(?<![a-z0-9]){_SEPARATOR.join(parts)}(?![a-z0-9])")


def nearest_model(texts: Sequence[str], among: Collection[str]) -> str:
    """The model ``among`` some of the catalogue that comes nearest to names it does not know.

    That is one whose name begins so (``qwen3-coder``); else the one of the size
    that stands there (``3B``, ``30B-A3B``), with experts or without them; else
    the one of the size of ``ANY_MODEL``. The first text that says something decides.
    """
    known = catalog.models()
    for text in texts:
        name = text.lower().rsplit("/", 1)[-1]
        if begun := [each for each in among if len(name) > 3 and each.startswith(name)]:
            return min(begun, key=len)
    sizes = (_SIZE.search(text.lower()) for text in texts)
    size = next((each for each in sizes if each is not None and float(each[1])), None)
    published = {name: each.parameters or 1.0 for name, each in known.items()}
    billions = published[ANY_MODEL] if size is None else float(size[1])
    dense = size is None or not size[2]
    alike = [name for name in among if (known[name].experts is None) == dense]
    return min(alike or among, key=lambda name: abs(log(published[name] / billions)))


def gpu_named(label: str) -> str | None:
    """The GPU of the catalogue that a node label such as ``NVIDIA-H100-80GB-HBM3`` is about.

    The parts of the catalogue's name stand there in order, others in between.
    """
    words = re.split("[^a-z0-9]+", label.lower())
    found = [name for name in catalog.gpus() if _in_order(name.split("-"), words)]
    return max(found, key=len, default=None)


def _in_order(parts: Iterable[str], words: Iterable[str]) -> bool:
    remaining = iter(words)
    return all(part in remaining for part in parts)


def scenario_name(text: str) -> str:
    """``text`` as a name of a scenario: letters, digits and hyphens; "" if nothing is left."""
    return re.sub("[^A-Za-z0-9-]", "-", text)[:MAX_NAME].strip("-") if text.isascii() else ""
