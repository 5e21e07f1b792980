"""Did you mean: what a mistyped name, or one of another tool, is called here.

A name is read as words: ``input_tokens``, ``ContextTokens`` and ``prefill-length``
all say how long a prompt is. What other tools call a key goes before what is
spelt alike, and nothing is offered that means the opposite, counts in another
unit or stands there already.
"""

import re
from collections.abc import Collection, Iterable
from difflib import SequenceMatcher
from itertools import product
from typing import Final

MAX_LISTED: Final = 20
LIKENESS: Final = 0.6
SLIP: Final = 0.8
"""A name so like another is taken for it, and what it names is checked as well."""

_WORDS: Final = re.compile(r"[KMG]i?B\b|[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNITS: Final = {
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), "s"),
    **dict.fromkeys(("ms", "millis", "milliseconds"), "ms"),
    **dict.fromkeys(("us", "micros", "microseconds"), "us"),
    **dict.fromkeys(("ns", "nanos", "nanoseconds"), "ns"),
    **dict.fromkeys(("min", "mins", "minutes"), "min"),
    **{unit.lower(): unit for unit in ("KB", "MB", "GB", "KiB", "MiB", "GiB")},
}
_PROMPT: Final = ("prompt", "input", "context", "prefill", "request")
_OUTPUT: Final = ("output", "response", "generated", "generation", "completion", "decode")
_LENGTHS: Final = ("tokens", "toks", "length", "len")
_OPPOSITES: Final[tuple[tuple[Collection[str], ...], ...]] = (
    (_PROMPT, _OUTPUT),
    (("tensor",), ("pipeline",), ("data",), ("expert",)),
    (("min", "least"), ("max", "most"), ("mean", "median")),
    (("first",), ("last",)),
    (("enable",), ("disable",)),
    (("load",), ("unload",)),
    (("start", "begin"), ("end",)),
    (("read",), ("write",)),
    (("before",), ("after",)),
    (("ttft",), ("tpot", "itl"), ("e2e",)),
)

_ELSEWHERE: Final[dict[str, str]] = {
    # The field's names of a request's lengths and times, and those of public traces.
    "promptTokens": "isl numprompt num_prefill_tokens num_prompt_tokens num_input_tokens "
    "random_input_len prompt_size",
    "outputTokens": "osl max_tokens max_new_tokens max_completion_tokens n_predict "
    "num_decode_tokens num_output_tokens num_generated_tokens random_output_len",
    "arrival": "arrival_time arrived_at timestamp time request_time start_time",
    "session": "session_id conversation_id conversation chat_id",
    "rate": "qps rps request_rate",
    # Settings under vLLM's, llama.cpp's, Hugging Face's and Kubernetes' names.
    "ctxSize": "n_ctx c num_ctx context_size context_length max_model_len max_context_len",
    "maxModelLen": "n_ctx ctx_size num_ctx context_size context_length max_position_embeddings "
    "max_context_len max_seq_len max_sequence_length max_total_tokens",
    "parallel": "np n_parallel num_slots slots max_num_seqs",
    "maxNumSeqs": "max_concurrency max_batch_size max_running_requests parallel n_parallel",
    "maxNumBatchedTokens": "max_prefill_tokens chunked_prefill_size max_batch_prefill_tokens",
    "tensorParallel": "tp tp_size num_gpus gpus split_mode",
    "dataParallel": "dp dp_size",
    "enableExpertParallel": "ep ep_size expert_parallel",
    "weightDtype": "quantization quant quantize dtype",
    "kvCacheDtype": "cache_type_k cache_type_v kv_dtype",
    "kvBlocks": "num_gpu_blocks num_gpu_blocks_override num_kv_blocks",
    "enablePrefixCaching": "prefix_caching",
    "gpuMemoryUtilization": "mem_fraction_static gpu_util",
    "replicas": "num_replicas replica_count pods instances",
    "model": "model_id model_name served_model_name",
    "gpu": "gpu_type accelerator",
    # Kinds of placement policies.
    "least-loaded": "least_request least_requests least_connections shortest_queue jsq",
    "power-of-two": "power_of_two_choices p2c",
    "session-table": "session session_affinity sticky sticky_session load_aware",
}
_ABSENT: Final = {
    **dict.fromkeys(
        ("pipelineparallel", "pipelineparallelsize", "pp", "ppsize"),
        "podsim has no pipeline parallelism",
    ),
    **dict.fromkeys(
        ("speculativeconfig", "speculativemodel", "numspeculativetokens"),
        "podsim has no speculative decoding",
    ),
}


def _folded(name: str) -> str:
    return re.sub(r"[-_ ]", "", name.lower())


_HERE: Final[dict[str, list[str]]] = {}
"""By a name of elsewhere, letter case aside, what it may be called here."""
for _key, _names in _ELSEWHERE.items():
    for _name in _names.split():
        _HERE.setdefault(_folded(_name), []).append(_key)
for _key, _kinds in (("promptTokens", _PROMPT), ("outputTokens", _OUTPUT)):
    for _kind, _length in product(_kinds, _LENGTHS):
        _HERE.setdefault(_kind + _length, []).append(_key)


def nearest(name: str, known: Iterable[str], likeness: float = LIKENESS) -> str | None:
    """The known name that is meant by ``name``, letter case and ``_`` for ``-`` aside, or None.

    What other tools call it counts before what is spelt alike, unless it must
    be so alike as a slip of the pen; ``likeness`` is from 0 to 1, the same name.
    """
    stem, unit = _apart(name)
    candidates = {each: _apart(each) for each in known}
    elsewhere = dict.fromkeys((_folded(name), _folded(stem))) if likeness < SLIP else {}
    for key in (key for each in elsewhere for key in _HERE.get(each, ())):
        for candidate, (its_stem, its_unit) in candidates.items():
            if _folded(its_stem) == _folded(key) and its_unit in ("", unit or "s"):
                return candidate
    alike = [
        (_likeness(name, each), each)
        for each, (_, its_unit) in candidates.items()
        if not (unit and its_unit and unit != its_unit) and not _turns_round(name, each)
    ]
    best = max(alike, key=lambda each: each[0], default=(0.0, ""))
    return best[1] if best[0] >= likeness else None


def meant(written: Collection[str], known: Iterable[str]) -> set[str]:
    """The known names that the unknown ones of ``written`` were probably to be.

    Of a mistyped key it is enough to say so: that the right one is missing is the same slip.
    """
    names = list(known)
    near = {nearest(name, names) for name in written if name not in names}
    return {name for name in near if name is not None and name not in written}


def suggestion(
    name: str,
    known: Iterable[str],
    otherwise: str | None = None,
    every: bool = False,
    present: Collection[str] = (),
) -> str:
    """What to add to "unknown ...": the nearest name, else all of them; with ``every`` both.

    ``otherwise`` is said instead of all of them, where they would fill lines.
    What is ``present`` beside ``name`` is not offered.
    """
    names = list(known)
    near = nearest(name, names)
    if near is not None and near in present:
        return f"; {near!r} is there already"
    others = otherwise or _listed(names)
    if near is not None:
        said = f"; did you mean {near!r}?{_with_unit(name, near)}"
        return f"{said} {others[:1].upper()}{others[1:]}".rstrip() if every else said
    said = _ABSENT.get(_folded(name)) or _in_another_unit(name, names) or others
    return f"; {said}" if said else ""


def _listed(names: list[str]) -> str:
    more = ", ..." if len(names) > MAX_LISTED else ""
    return f"known: {', '.join(names[:MAX_LISTED])}{more}" if names else ""


def _in_another_unit(name: str, known: Iterable[str]) -> str | None:
    """The known name that is the same but for the unit, and which unit that is."""
    stem, unit = _apart(name)
    for each in known if unit else ():
        its_stem, its_unit = _apart(each)
        if _folded(its_stem) == _folded(stem):
            return f"{each!r} is that in {its_unit}"
    return None


def _with_unit(name: str, near: str) -> str:
    """That a unit which only ``name`` has belongs into the value."""
    unit, its_unit = _apart(name)[1], _apart(near)[1]
    return "" if its_unit or unit in ("", "s") else f" Its value has the unit, such as 5{unit}."


def _apart(name: str) -> tuple[str, str]:
    """A name without the unit at its end, and this unit; none is empty."""
    head, _, rest = name.partition(".")
    words = _WORDS.findall(head)
    unit = _UNITS.get(words[-1].lower(), "") if len(words) > 1 else ""
    if not unit:
        return name, ""
    stem = head[: -len(words[-1])].rstrip("_- ")
    return (f"{stem}.{rest}" if rest else stem), unit


def _likeness(name: str, candidate: str) -> float:
    return SequenceMatcher(None, _folded(candidate), _folded(name)).ratio()


def _turns_round(name: str, candidate: str) -> bool:
    """Whether one says the opposite of the other."""
    mine, its = ({word.lower() for word in _WORDS.findall(each)} for each in (name, candidate))
    for sides in _OPPOSITES:
        said, meant_there = (
            {i for i, side in enumerate(sides) if words & set(side)} for words in (mine, its)
        )
        if said and meant_there and not said & meant_there:
            return True
    return False
