"""Names of GPUs and models as drivers and model hubs write them, and the catalogue's for them.

Only what is certain is taken for it: a name of which something is left that
could mean another card or another size is unknown, and answered with the
nearest.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from sim.core.suggest import suggestion
from sim.hardware.dtypes import WeightDtype, weight_format
from sim.hardware.gpu import GIB

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
