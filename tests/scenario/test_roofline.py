"""Step times from data sheets: sums by hand, published figures, and what no machine can do."""

from collections.abc import Iterator

import pytest

from sim.engine.steptime import StepCost
from sim.hardware.architecture import Architecture
from sim.hardware.catalog import Gpu, gpus, models
from sim.hardware.gpu import KvDtype, WeightDtype
from sim.hardware.step_times import Machine, derive

DTYPES: tuple[tuple[WeightDtype, KvDtype], ...] = (
    ("bf16", "bf16"),
    ("fp8", "fp8"),
    ("nvfp4", "fp8"),
    ("mxfp4", "bf16"),
    ("int4", "bf16"),
    ("q8_0", "bf16"),
)
BATCHES = (1, 2, 3, 8, 32, 100, 256, 1024, 8192)


def machine(
    gpu: str, tensor_parallel: int = 1, weights: WeightDtype = "bf16", kv: KvDtype = "bf16"
) -> Machine:
    return Machine(gpus()[gpu], tensor_parallel, weights, kv)


def every_machine(model: Architecture) -> Iterator[Machine]:
    """All that the catalogue can put ``model`` on, whether it fits there or not."""
    for gpu in gpus().values():
        for tensor_parallel in (1, 2, 8):
            known = tensor_parallel == 1 or max(gpu.all_reduce, default=0) >= tensor_parallel
            if known and model.splits_over(tensor_parallel):
                for weights, kv in DTYPES:
                    yield Machine(gpu, tensor_parallel, weights, kv)


def peaks(gpu: Gpu, tensor_parallel: int) -> tuple[float, float]:
    """The best that the data sheet promises for any precision, and for bf16; per second."""
    best = max(gpu.teraflops.values())
    return 1e12 * tensor_parallel * best, 1e12 * tensor_parallel * gpu.teraflops["bf16"]


def test_a_dense_model_is_the_sum_that_one_does_by_hand() -> None:
    """A term would be missing, doubled or in another unit."""
    found = derive(models()["llama-3.1-8b"], machine("h100"))
    layers = 32 * (4096 * (2 * 4096 + 2 * 1024) + 3 * 4096 * 14_336)
    head = 128_256 * 4096
    assert found.a == pytest.approx(32 * 0.055)
    assert found.b == 0
    assert found.c == pytest.approx(131_072 * 1e5 / (0.96 * 3.35e12) * 1e3)
    assert found.d == pytest.approx(4 * 4096 * 32 * 1e8 / (0.60 * 989e12) * 1e3)
    assert found.f == pytest.approx(2 * head * 100 / (0.77 * 989e12) * 1e3)
    assert found.computed is not None
    read_ms = 2 * (layers + head) / (0.92 * 3.35e12) * 1e3
    token_ms = 2 * layers / (0.77 * 989e12) * 1e3
    assert found.computed.ms[0] == pytest.approx(read_ms)
    assert found.computed.ms[-1] == pytest.approx(token_ms * found.computed.tokens[-1])
    assert found.computed.tokens[1] == pytest.approx(read_ms / token_ms, abs=1)


def test_two_gpus_halve_the_work_and_add_their_all_reduces() -> None:
    """Tensor parallelism would be free, or not worth it."""
    model = models()["llama-3.1-70b"]
    one, two = (derive(model, machine("h200", number, "fp8")) for number in (1, 2))
    assert one.computed is not None and two.computed is not None
    assert two.computed.ms[0] == pytest.approx(one.computed.ms[0] / 2)
    assert (two.c, two.d) == (pytest.approx(one.c / 2), pytest.approx(one.d / 2))
    assert two.a - one.a == pytest.approx(160 * 4.6e-3)
    assert two.b - one.b == pytest.approx(160 * 1e3 * 16_384 * 0.887 / 2**27)
    per_sequence_ms = 160 * 16_384 * (20.5e-3 - 4.6e-3) / (2**21 - 2**14)
    assert two.f - one.f / 2 == pytest.approx(100 * per_sequence_ms)


@pytest.mark.parametrize(
    ("gpu", "model", "measured_ms", "slope_ms", "within"),
    [
        ("h100", "llama-3.1-8b", 6.44, 4.37e-5, 0.05),
        ("b200", "llama-3.1-8b", 3.93, 1.80e-5, 0.05),
        ("h100", "gpt-oss-20b", 4.05, 8.94e-6, 0.15),
        ("b200", "gpt-oss-20b", 3.15, 3.56e-6, 0.15),
    ],
)
def test_single_requests_are_as_fast_as_vllms_blog_says(
    gpu: str, model: str, measured_ms: float, slope_ms: float, within: float
) -> None:
    """The efficiencies would not be those of real engines.

    Inter-token latency of one request, vLLM 0.19.1: intercept and slope over
    its context (vLLM blog, 2026-04-22, FP8 KV cache). They took no part in the
    fit of the efficiencies, the gpt-oss intercepts apart, which set a layer's
    cost with experts.
    """
    found = derive(models()[model], machine(gpu, weights=models()[model].weight_dtype))
    step = StepCost(found)
    assert 1e3 * step.step_s(0, 0.0, 1, 0) == pytest.approx(measured_ms, rel=within)
    assert found.c / 1e5 == pytest.approx(slope_ms, rel=0.2)


def test_experts_are_read_as_they_are_touched() -> None:
    """A lone token would read all experts, or a large batch only a few."""
    model = models()["gpt-oss-120b"]
    on = machine("b200", weights="mxfp4")
    curve = derive(model, on).computed
    assert curve is not None
    everybodys, experts = model.read_bytes(), model.expert_bytes()
    one = (everybodys + experts * 4 / 128) / on.weights_per_s
    many = (everybodys + experts) / on.weights_per_s
    by_tokens = dict(zip(curve.tokens, curve.ms))
    assert by_tokens[1] == pytest.approx(1e3 * one)
    assert by_tokens[32] == pytest.approx(1e3 * (one + (many - one) * 0.63), rel=0.02)
    assert by_tokens[512] == pytest.approx(1e3 * many, rel=1e-3)


def test_unknown_arithmetic_falls_back_to_bf16() -> None:
    """An A100 would multiply in fp8, which it cannot, or not run fp8 weights at all."""
    model = models()["llama-3.1-8b"]
    a100 = derive(model, machine("a100-80gb", weights="fp8")).computed
    h100 = derive(model, machine("h100", weights="fp8")).computed
    assert a100 is not None and h100 is not None
    rates = [curve.tokens[-1] / curve.ms[-1] for curve in (a100, h100)]
    assert rates[0] == pytest.approx(rates[1] * (0.77 * 312) / (0.57 * 1979))


@pytest.mark.parametrize("name", list(models()))
def test_no_batch_computes_more_than_the_gpu(name: str) -> None:
    """A wide batch would be free: the utilisation of the data sheet's peak would pass 1.

    The peak is that of the weights' format, also for the parts that stay in bf16.
    """
    model = models()[name]
    operations = 2 * (model.active_parameters + model.head_parameters)
    for on in every_machine(model):
        step = StepCost(derive(model, on))
        for batch in BATCHES:
            assert operations * batch <= on.peak_per_s * step.step_s(0, 0.0, batch, 0)


@pytest.mark.parametrize("name", list(models()))
def test_throughput_saturates_with_the_batch(name: str) -> None:
    """Batching would cost throughput, or pay for ever: contexts of 1,000 tokens must be read."""
    model = models()[name]
    for on in every_machine(model):
        step = StepCost(derive(model, on))
        rates = [batch / step.step_s(0, 0.0, batch, 1000 * batch) for batch in BATCHES]
        assert rates == sorted(rates)
        read = 1000 * model.kv_bytes_per_token(on.kv_dtype, on.tensor_parallel)
        assert rates[-1] * read <= on.tensor_parallel * on.gpu.bandwidth


@pytest.mark.parametrize("name", list(models()))
def test_a_long_prompt_costs_no_less_than_its_operations_at_peak(name: str) -> None:
    """Prompts of 75k tokens would be computed faster than the GPU can."""
    model = models()[name]
    tokens = 75_000
    for on in every_machine(model):
        step = StepCost(derive(model, on))
        chunks = [(start, min(8192, tokens - start)) for start in range(0, tokens, 8192)]
        prompt_s = sum(
            step.step_s(chunk, chunk * (start + chunk / 2), 0, 0) for start, chunk in chunks
        )
        peak, bf16_peak = peaks(on.gpu, on.tensor_parallel)
        attention = 4 * model.heads * model.head_dim * model.full_attention * tokens**2 / 2
        assert prompt_s >= 2 * model.active_parameters * tokens / peak + attention / bf16_peak
