"""Command lines of vLLM and llama-server, read as their own parsers do."""

import pytest

from sim.core.document import Place
from sim.manifests import fields as unmodelled
from sim.manifests.options import (
    LLAMACPP,
    MODEL_FLAGS,
    VLLM,
    Nearest,
    NotModelledError,
    Word,
    flag_of,
    flags,
)

HERE = Place("m.yaml", 1, 1)


def read(words: list[str], known=VLLM) -> dict[str, object]:
    """ImportedEngine keys of a command line."""
    found = flags([Word(word, HERE) for word in words], known)
    return {
        known[flag.name].key: known[flag.name].read(flag.value)
        for flag in found
        if flag.name in known and flag.value is not None
    }


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["--max-num-seqs", "64"], {"maxNumSeqs": 64}),
        (["--max-num-seqs=64"], {"maxNumSeqs": 64}),
        (["--max_num_seqs", "64"], {"maxNumSeqs": 64}),
        (["-tp", "2", "-dp=4"], {"tensorParallel": 2, "dataParallel": 4}),
        (["--max-model-len", "32k"], {"maxModelLen": 32_000}),
        (["--max-model-len", "32K"], {"maxModelLen": 32_768}),
        (["--enable-expert-parallel", "--max-num-seqs", "8"],
         {"enableExpertParallel": True, "maxNumSeqs": 8}),
        (["--no-enable-prefix-caching"], {"enablePrefixCaching": False}),
        (["--gpu-memory-utilization", "0.9"], {"gpuMemoryUtilization": 0.9}),
        (["--num-gpu-blocks-override", "1001"], {"kvBlocks": 1000}),
        (["--kv-cache-dtype", "fp8_e5m2"], {"kvCacheDtype": "fp8"}),
        (["-q", "awq"], {"weightDtype": "int4"}),
        (["sh", "-c", "exec vllm serve x --block-size 32"], {"blockSize": 32}),
        (["serve", "x", "--seed", "1", "--max-num-seqs", "1", "--max-num-seqs", "2"],
         {"maxNumSeqs": 2}),
    ],
)  # fmt: skip
def test_flags_of_vllm(words: list[str], keys: dict[str, object]):
    """The engine would have other limits than the pod; the last of two flags counts."""
    assert read(words) == keys


@pytest.mark.parametrize(
    ("words", "keys"),
    [
        (["-c", "8192", "-np", "4", "-ub", "256"],
         {"ctxSize": 8192, "parallel": 4, "ubatchSize": 256}),
        (["/bin/sh", "-c", "llama-server -c 4096 -kvu"], {"ctxSize": 4096, "kvUnified": True}),
        (["-kvu", "--kv-unified-per-slot", "50000"],
         {"kvUnified": True, "kvUnifiedPerSlot": 50000}),
        (["--parallel", "-1"], {"parallel": None}),
        (["--cache-ram", "0", "-sps", "0.5"], {"cacheRam": "0MiB", "slotPromptSimilarity": 0.5}),
        (["-ngl", "99", "--no-cache-prompt"], {"cachePrompt": False}),
    ],
)  # fmt: skip
def test_flags_of_llama_server(words: list[str], keys: dict[str, object]):
    """Slots, context or batch would be others than the pod's; a shell's -c is not llama.cpp's."""
    assert read(words, LLAMACPP) == keys


@pytest.mark.parametrize("text", ["many", "1.5", "-1", "", "0", "1e3", "٣"])
def test_what_is_no_number_is_refused(text: str):
    """It would end in a traceback, or in a limit that nobody wrote."""
    with pytest.raises(ValueError, match="must be"):
        VLLM["max-num-seqs"].read(text)


def test_what_podsim_has_nothing_like_is_not_taken_for_something_else():
    """A cache of a format that nobody knows would be simulated as another without a word."""
    with pytest.raises(NotModelledError):
        VLLM["kv-cache-dtype"].read("zigzag")


@pytest.mark.parametrize("text", ["turbo2", "turboquant_3bit", "q4_0", "q8_0", "iq4_nl", "tbqp3"])
def test_a_cache_of_fewer_bits_is_taken_for_the_nearest(text: str):
    """A cache of 2 bits was simulated as one of 16: eight times too small."""
    assert LLAMACPP["cache-type-k"].read(text) == Nearest("fp8")


def test_fields_are_their_flags():
    """A field of the manifest would be ignored while its flag is understood."""
    assert flag_of("maxNumBatchedTokens") == "max-num-batched-tokens"
    assert flag_of("contextSize") == "ctx-size"


def test_what_is_left_out_has_an_effect_or_none():
    """A field or an option in both lists would be called harmless and not modelled at once."""
    assert not unmodelled.NO_EFFECT & unmodelled.EFFECTS.keys()
    assert not unmodelled.NO_FLAG_EFFECT & unmodelled.FLAG_EFFECTS
    known = VLLM.keys() | LLAMACPP.keys() | set(MODEL_FLAGS)
    assert not known & (unmodelled.NO_FLAG_EFFECT | unmodelled.FLAG_EFFECTS)
