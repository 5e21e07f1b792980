"""What people call models, GPUs and number formats, and what the catalogue calls them."""

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sim.scenario import catalog
from sim.scenario.dtypes import WeightDtype
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


class Format(NamedTuple):
    """A format of weights that podsim knows; not ``exact`` where it is only the nearest."""

    dtype: WeightDtype
    exact: bool


_FORMATS: Final[Mapping[str, Format]] = {
    r"q8_0": Format("q8_0", True),
    r"q4_0": Format("q4_0", True),
    r"q[56]_[01k](?:_[a-z]+)?": Format("q8_0", False),
    r"i?q[1234]_[a-z0-9]+(?:_[a-z]+)?": Format("q4_0", False),
    r"bf16|f16|fp16|bfloat16|float16": Format("bf16", True),
    r"fp8(?:_[a-z0-9]+)?|w8a8": Format("fp8", True),
    r"nvfp4|modelopt_fp4": Format("nvfp4", True),
    r"mxfp4": Format("mxfp4", True),
    r"awq(?:_marlin)?|gptq(?:_marlin)?|int4|w4a16": Format("int4", True),
    r"squeezellm|bitsandbytes|4bit": Format("int4", False),
}


def weight_format(text: str) -> Format | None:
    """The format that ``text`` names, such as a quantization or a file; None if none.

    llama.cpp's K-quants and others that podsim does not know are taken for the
    nearest that it does: up to 4 bits ``q4_0``, above ``q8_0``.
    """
    for pattern, found in _FORMATS.items():
        if re.search(f"(?<![a-z0-9])(?:{pattern})(?![a-z0-9])", text.lower()):
            return found
    return None


def scenario_name(text: str) -> str:
    """``text`` as a name of a scenario: letters, digits and hyphens; "" if nothing is left."""
    return re.sub("[^A-Za-z0-9-]", "-", text)[:MAX_NAME].strip("-") if text.isascii() else ""
