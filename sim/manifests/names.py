"""What people call models and GPUs, and what the catalogue calls them."""

import re
from collections.abc import Iterable
from typing import Final

from sim.scenario import catalog
from sim.scenario.fields import MAX_NAME

_SEPARATOR: Final = "[-_. ]?"


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
