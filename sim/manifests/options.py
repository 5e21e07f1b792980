"""Options of vLLM and llama-server, as flags or as fields of a manifest, to engine keys.

The fields of an InferenceService are the flags in camelCase, so one table per
kind of engine reads both; a flag in ``args`` comes later and wins, as on the
command line that the operator builds.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from sim.core.document import Place
from sim.hardware.gpu import weight_format
from sim.manifests.writing import Plain

MAX_SHORT: Final = 3
"""Letters of a flag with one hyphen, such as -kvu."""

_SHELLS: Final = frozenset(("sh", "bash", "ash", "dash"))


class NotModelledError(Exception):
    """podsim has nothing like this value; ``args[0]`` says what it does instead."""


@dataclass(frozen=True)
class Nearest:
    """A value that is not the same as what is written; podsim knows no nearer one."""

    value: str


@dataclass(frozen=True)
class Option:
    """The engine key that an option sets.

    ``read`` gives its value, a ``Nearest`` one or None where it means the default; raises
    ``ValueError`` with what would be right, or ``NotModelledError``. A switch
    has no value of its own on a command line.
    """

    key: str
    read: Callable[[str], Plain]
    switch: bool = False


class Word(NamedTuple):
    """One word of a command line, and where it is written."""

    text: str
    place: Place


class Flag(NamedTuple):
    """A flag of a command line without its hyphens, its value if it has one, and its place.

    ``written`` is how it stands there, without its value.
    """

    name: str
    value: str | None
    place: Place
    written: str = ""


# vLLM: 32k is 32,000 and 32K is 32,768.
_SIZES: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}


def _whole(text: str) -> int:
    match = re.fullmatch(r"([0-9]{1,15})([kmgKMG]?)", text, re.ASCII)
    if match is None:
        raise ValueError("must be a whole number")
    return int(match[1]) * _SIZES.get(match[2], 1)


def _positive(text: str) -> int:
    number = _whole(text)
    if not number:
        raise ValueError("must be at least 1")
    return number


def _share(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        raise ValueError("must be a number from 0 to 1") from None
    if not 0.0 <= number <= 1.0:
        raise ValueError("must be a number from 0 to 1")
    return number


def _on(text: str) -> bool:
    if text not in ("true", "false"):
        raise ValueError("must be true or false")
    return text == "true"


def _off(text: str) -> bool:
    return not _on(text)


def _scheduling(text: str) -> str:
    if text not in ("fcfs", "priority"):
        raise ValueError("must be fcfs or priority")
    return text


def _weights(text: str) -> str | Nearest | None:
    if text in ("auto", "none"):
        return None
    found = weight_format(text)
    if found is None:
        raise NotModelledError("podsim does not know this format; the model's own is assumed")
    return found.dtype if found.exact else Nearest(found.dtype)


def _kv_cache(text: str) -> str | Nearest | None:
    """Of formats below 8 bits, such as q4_0 and TurboQuant's, fp8 is the nearest."""
    if text.startswith("fp8"):
        return "fp8"
    if text in ("auto", "bfloat16", "float16", "f16", "bf16"):
        return None
    if re.fullmatch(r"f32|float32", text):
        raise NotModelledError("podsim has no KV cache of 32 bits; bf16 is assumed")
    if re.search(r"[q_]?[1-8]|turbo|nvfp4", text):
        return Nearest("fp8")  # q8_0 has a scale of 16 bits for 32 values besides
    raise NotModelledError("podsim does not know this format of the KV cache; bf16 is assumed")


def _precision(text: str) -> None:
    """What vLLM computes in: as wide as the weights are published, whichever of these it is."""
    if text not in ("auto", "half", "float16", "bfloat16"):
        raise NotModelledError("podsim computes in the precision of the weights")


def _usable_blocks(text: str) -> int:
    blocks = _whole(text) - 1  # vLLM keeps one, its null block
    if blocks < 1:
        raise ValueError("must be at least 2")
    return blocks


def _mebibytes(text: str) -> str:
    if text == "-1":
        raise NotModelledError("no limit is not modelled; the default of 8 GiB is assumed")
    return f"{_whole(text)}MiB"


def _slots(text: str) -> int | None:
    return None if text == "-1" else _positive(text)


VLLM: Final[Mapping[str, Option]] = {
    "tensor-parallel-size": Option("tensorParallel", _positive),
    "tp": Option("tensorParallel", _positive),
    "data-parallel-size": Option("dataParallel", _positive),
    "dp": Option("dataParallel", _positive),
    "enable-expert-parallel": Option("enableExpertParallel", _on, switch=True),
    "quantization": Option("weightDtype", _weights),
    "q": Option("weightDtype", _weights),
    "dtype": Option("dtype", _precision),
    "kv-cache-dtype": Option("kvCacheDtype", _kv_cache),
    "kv-cache-custom-dtype": Option("kvCacheDtype", _kv_cache),  # a field that wins, no flag
    "gpu-memory-utilization": Option("gpuMemoryUtilization", _share),
    "num-gpu-blocks-override": Option("kvBlocks", _usable_blocks),
    "block-size": Option("blockSize", _positive),
    "max-model-len": Option("maxModelLen", _positive),
    "max-num-seqs": Option("maxNumSeqs", _positive),
    "max-num-batched-tokens": Option("maxNumBatchedTokens", _positive),
    "enable-prefix-caching": Option("enablePrefixCaching", _on, switch=True),
    "no-enable-prefix-caching": Option("enablePrefixCaching", _off, switch=True),
    "long-prefill-token-threshold": Option("longPrefillTokenThreshold", _whole),
    "scheduling-policy": Option("schedulingPolicy", _scheduling),
    "async-scheduling": Option("asyncScheduling", _on, switch=True),
    "no-async-scheduling": Option("asyncScheduling", _off, switch=True),
}

LLAMACPP: Final[Mapping[str, Option]] = {
    "ctx-size": Option("ctxSize", _positive),
    "c": Option("ctxSize", _positive),
    "parallel": Option("parallel", _slots),
    "np": Option("parallel", _slots),
    "kv-unified": Option("kvUnified", _on, switch=True),
    "kvu": Option("kvUnified", _on, switch=True),
    "kv-unified-per-slot": Option("kvUnifiedPerSlot", _positive),
    "no-kv-unified": Option("kvUnified", _off, switch=True),
    "batch-size": Option("batchSize", _positive),
    "b": Option("batchSize", _positive),
    "ubatch-size": Option("ubatchSize", _positive),
    "ub": Option("ubatchSize", _positive),
    "cache-type-k": Option("kvCacheDtype", _kv_cache),
    "ctk": Option("kvCacheDtype", _kv_cache),
    "cache-type-custom-k": Option("kvCacheDtype", _kv_cache),  # a field that wins, no flag
    "cache-ram": Option("cacheRam", _mebibytes),
    "cram": Option("cacheRam", _mebibytes),
    "slot-prompt-similarity": Option("slotPromptSimilarity", _share),
    "sps": Option("slotPromptSimilarity", _share),
    "cache-prompt": Option("cachePrompt", _on, switch=True),
    "no-cache-prompt": Option("cachePrompt", _off, switch=True),
}

OPTIONS: Final[Mapping[str, Mapping[str, Option]]] = {"vllm": VLLM, "llamacpp": LLAMACPP}

MODEL_FLAGS: Final = ("model", "m", "hf-repo", "hf", "hf-file", "model-path", "model-id")
"""Flags that say which model is served."""

# Fields of an InferenceService that are not called as their flag is.
_FLAGS_OF_FIELDS: Final = {
    "contextSize": "ctx-size",
    "parallelSlots": "parallel",
    "uBatchSize": "ubatch-size",
}


def flag_of(field: str) -> str:
    """The flag that a field stands for: ``maxNumSeqs`` is ``max-num-seqs``."""
    return _FLAGS_OF_FIELDS.get(field) or re.sub("(?=[A-Z])", "-", field).lower()


def fields_of(options: Mapping[str, Option]) -> Iterator[str]:
    """The fields that stand for ``options``, those of one letter or two aside."""
    for flag in options:
        if len(flag) > MAX_SHORT:
            yield re.sub("-(.)", lambda match: match[1].upper(), flag)


def flags(words: Iterable[Word], known: Mapping[str, Option]) -> Iterator[Flag]:
    """The flags of a command line; a word that is neither flag nor value has an empty name.

    A shell's whole line in one word is taken apart.
    """
    apart = [single for word in _without_shell(words) for single in _split(word)]
    position = 0
    while position < len(apart):
        word = apart[position]
        position += 1
        if not _is_flag(word.text):
            yield Flag("", word.text, word.place)
            continue
        written, equals, value = word.text.partition("=")
        name = written.lstrip("-").replace("_", "-")
        option = known.get(name)
        follows = position < len(apart) and not _is_flag(apart[position].text)
        if equals:
            yield Flag(name, value, word.place, written)
        elif option is not None and option.switch:
            yield Flag(name, "true", word.place, written)
        elif follows:
            yield Flag(name, apart[position].text, word.place, written)
            position += 1
        else:
            yield Flag(name, None, word.place, written)


def _without_shell(words: Iterable[Word]) -> list[Word]:
    """``words`` without ``sh -c`` before them: that flag is the shell's."""
    kept = list(words)
    if kept and kept[0].text.rsplit("/", 1)[-1] in _SHELLS:
        kept = kept[2:] if len(kept) > 1 and _is_flag(kept[1].text) else kept[1:]
    return kept


def _is_flag(text: str) -> bool:
    return re.match(r"--?[A-Za-z]", text) is not None


def _split(word: Word) -> list[Word]:
    if not re.search(r"\s--?[A-Za-z]", word.text):
        return [word]
    try:
        parts = shlex.split(word.text)
    except ValueError:  # a quote without its other half
        parts = word.text.split()
    return [Word(part, word.place) for part in parts]
