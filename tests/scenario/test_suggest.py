"""What a name of another tool, or a slip of the pen, is said to mean."""

import pytest

from sim.core.messages import key_names
from sim.core.suggest import meant, nearest, suggestion
from sim.engine.llamacpp.spec import LlamaCpp
from sim.engine.spec import Vllm

ROWS = ("id", "session", "arrival_s", "arrival_ms", "arrival_us", "promptTokens", "outputTokens")


@pytest.mark.parametrize(
    ("written", "meant_by_it"),
    [
        ("input_tokens", "promptTokens"),
        ("ContextTokens", "promptTokens"),
        ("Request tokens", "promptTokens"),
        ("prefill-length", "promptTokens"),
        ("num_prefill_tokens", "promptTokens"),
        ("isl", "promptTokens"),
        ("prompt_tokenz", "promptTokens"),
        ("Response tokens", "outputTokens"),
        ("GeneratedTokens", "outputTokens"),
        ("completion_tokens", "outputTokens"),
        ("decode_len", "outputTokens"),
        ("max_tokens", "outputTokens"),
        ("arrival_time_us", "arrival_us"),
        ("timestamp_ms", "arrival_ms"),
        ("arrivalTimeSeconds", "arrival_s"),
        ("conversation_id", "session"),
    ],
)
def test_the_names_of_the_field_are_known(written: str, meant_by_it: str) -> None:
    """``input_tokens`` was answered "did you mean 'outputTokens'", ``arrival_time_us`` 'arrival_s':
    whoever followed had the lengths exchanged, or times a millionfold."""
    assert nearest(written, ROWS) == meant_by_it
    assert nearest(written, ROWS[::-1]) == meant_by_it


@pytest.mark.parametrize(
    ("written", "known"),
    [
        ("input_tokens", ["outputTokens"]),
        ("generated_tokens", ["promptTokens"]),
        ("arrival_ns", ["arrival_s", "arrival_ms", "arrival_us"]),
        ("pipelineParallel", ["tensorParallel", "dataParallel"]),
        ("minReplicas", ["maxReplicas"]),
        ("unload", ["load"]),
        ("ttft_ms.p95", ["ttft_s.p95", "tpot_s.p95"]),
    ],
)
def test_nothing_is_suggested_that_turns_the_meaning_round(written: str, known: list[str]) -> None:
    """It is spelt alike and means the opposite, or counts in another unit."""
    assert nearest(written, known) is None
    assert "did you mean" not in suggestion(written, known)


def test_what_is_there_already_is_not_suggested() -> None:
    """The file would have the key twice; and what is next alike is not meant either."""
    said = suggestion("kvBlock", ["kvBlocks", "blockSize"], present=["kvBlocks", "kvBlock"])
    assert said == "; 'kvBlocks' is there already"
    assert suggestion("input_tokens", ROWS, present=ROWS).endswith("is there already")
    assert meant(["kvBlock", "kvBlocks"], ["kvBlocks"]) == set()


def test_the_unit_is_told_where_it_belongs() -> None:
    """A bare number under the suggested key would be read in seconds or bytes."""
    assert suggestion("timeout_ms", ["timeout"]) == (
        "; did you mean 'timeout'? Its value has the unit, such as 5ms."
    )
    assert suggestion("workspaceGiB", ["workspace"]).endswith("such as 5GiB.")
    assert suggestion("ttft_ms.p95", ["ttft_s.p95"]) == "; 'ttft_s.p95' is that in s"


@pytest.mark.parametrize(
    ("model", "names"),
    [
        (
            Vllm,
            {
                "max_model_len": "maxModelLen",
                "n_ctx": "maxModelLen",
                "ctx-size": "maxModelLen",
                "max_position_embeddings": "maxModelLen",
                "tp": "tensorParallel",
                "tensor-parallel-size": "tensorParallel",
                "dp": "dataParallel",
                "quantization": "weightDtype",
                "dtype": "weightDtype",
                "num_gpu_blocks_override": "kvBlocks",
                "kv_cache_dtype": "kvCacheDtype",
                "gpu_memory_utilisation": "gpuMemoryUtilization",
                "max_batch_size": "maxNumSeqs",
            },
        ),
        (
            LlamaCpp,
            {
                "n_ctx": "ctxSize",
                "ctx-size": "ctxSize",
                "max_model_len": "ctxSize",
                "np": "parallel",
                "n_parallel": "parallel",
                "ubatch-size": "ubatchSize",
                "cache_type_k": "kvCacheDtype",
            },
        ),
    ],
)
def test_settings_of_engines_are_known_by_their_own_names(
    model: type, names: dict[str, str]
) -> None:
    """``quantization`` was answered with twenty keys, none of them weightDtype's neighbour."""
    known = key_names(model, ())
    assert {name: nearest(name, known) for name in names} == names


def test_what_podsim_does_not_have_is_not_taken_for_its_neighbour() -> None:
    """``pipelineParallel: 2`` was answered "did you mean 'tensorParallel'": another machine."""
    for name in ("pipelineParallel", "pp", "pipeline_parallel_size"):
        assert suggestion(name, ["tensorParallel"]) == "; podsim has no pipeline parallelism"


def test_a_kind_that_is_unknown_is_answered_with_all_there_are() -> None:
    """Whoever asks for ``least-request`` may want another of the policies, had they known."""
    kinds = ["least-loaded", "random"]
    assert suggestion("least_requests", kinds, every=True) == (
        "; did you mean 'least-loaded'? Known: least-loaded, random"
    )
    assert suggestion("prefix", kinds, every=True) == "; known: least-loaded, random"
    assert suggestion("radom", kinds, "see there", every=True) == (
        "; did you mean 'random'? See there"
    )
