"""Step times from kernel tables: the fit finds what is in them, and only that."""

from itertools import product
from pathlib import Path

import numpy as np
import pytest

from sim.engine.spec import Vllm
from sim.engine.steptime import StepCost
from sim.hardware.architecture import Architecture
from sim.hardware.architecture import Experts as ExpertLayers
from sim.hardware.catalog import models
from sim.hardware.engine import StepTime
from sim.validation import kernels
from sim.validation.kernels import (
    Attention,
    ExpertTimes,
    KernelSweep,
    KernelTables,
    fit,
    read_tables,
)

FOLDER = Path(__file__).parents[2] / "sim/data/recordings"
LAYERS = 4
DENSE = Architecture(
    layers=LAYERS, hidden=64, heads=4, kv_heads=2, head_dim=16, feed_forward=128, vocabulary=100,
    parameters=0.001, source="made up",
)  # fmt: skip
ENGINE = Vllm(step_time=StepTime(a=1.0), kv_blocks=500, max_num_seqs=32, max_num_batched_tokens=512)


def attention_us(chunk: float, prefix: float, decoders: float, tokens: float) -> float:
    """Attention of one layer, in the terms that the fit looks for."""
    context, pairs = decoders * tokens, chunk * (prefix + chunk / 2)
    time_us = 7.0 + 0.002 * context + 1e-5 * pairs + 0.4 * decoders
    return time_us + (5.0 + 0.001 * context + 0.6 * decoders if chunk else 0.0)


def made_up(spoilt_beyond: float = np.inf) -> KernelTables:
    """KernelTables of a machine whose kernels cost what ``attention_us`` says."""
    grid = [
        (chunk, prefix, decoders, tokens)
        for chunk, prefix, decoders, tokens in product(
            (0, 16, 64, 256), (0, 128, 1024), (0, 1, 4, 16, 64), (0, 16, 256, 2048)
        )
        if (chunk or not prefix) and bool(decoders) == bool(tokens) and (chunk or decoders)
    ]
    times = [
        attention_us(*point) * (10.0 if point[2] * point[3] + sum(point[:2]) > spoilt_beyond else 1)
        for point in grid
    ]
    tokens = np.array([1.0, 8.0, 64.0, 512.0])
    return KernelTables(
        Attention(*np.array([(*point, time) for point, time in zip(grid, times)]).T),
        {
            "embedding": KernelSweep(tokens, tokens),
            "layernorm": KernelSweep(tokens, 1.0 + tokens),
            "qkv_proj": KernelSweep(tokens, np.maximum(50.0, tokens)),
        },
        {"lm_head": KernelSweep(np.array([1.0, 64.0]), np.array([102.0, 228.0]))},
    )


def test_the_fit_finds_the_terms_that_are_in_the_tables():
    """A unit or a number of layers would be wrong, and every step time with it."""
    found = fit(made_up(), DENSE, ENGINE)
    head_ms = 0.002  # per sequence beside 100 µs; without any decode one is sampled all the same
    assert found.a == pytest.approx(LAYERS * 0.007 + 0.1, rel=0.01)
    assert found.c == pytest.approx(LAYERS * 0.002e-3 * 1e5, rel=0.01)
    assert found.d == pytest.approx(LAYERS * 1e-8 * 1e8, rel=0.01)
    beside = kernels.UNTABLED_MS_PER_100_SEQUENCES
    assert found.f == pytest.approx(100 * (LAYERS * 0.4e-3 + head_ms) + beside, rel=0.01)
    assert found.prefilling.a == pytest.approx(LAYERS * 0.005, rel=0.1)
    assert found.prefilling.c == pytest.approx(LAYERS * 0.001e-3 * 1e5, rel=0.05)
    assert found.prefilling.f == pytest.approx(100 * LAYERS * 0.6e-3, rel=0.05)


def test_dense_kernels_become_the_curve():
    """A norm runs twice in each layer, the embedding once in a step."""
    curve = fit(made_up(), DENSE, ENGINE).computed
    assert curve is not None and curve.tokens == (1, 8, 64, 512)
    wanted_us = [at + LAYERS * (2 * (1 + at) + max(50, at)) for at in curve.tokens]
    assert curve.ms == pytest.approx([us / 1e3 for us in wanted_us])


def test_batches_that_the_engine_cannot_meet_do_not_count():
    """Four million tokens of context would decide how a pod of 8,000 is timed."""
    assert fit(made_up(spoilt_beyond=8000), DENSE, ENGINE) == fit(made_up(), DENSE, ENGINE)
    assert fit(made_up(spoilt_beyond=1000), DENSE, ENGINE) != fit(made_up(), DENSE, ENGINE)


def test_ranks_share_the_experts_and_exchange_tokens():
    """A rank would read all experts, or only those that its own tokens choose."""
    chosen = ExpertLayers(count=4, per_token=2, feed_forward=32)
    mixture = DENSE.model_copy(update={"experts": chosen, "feed_forward": 0})
    touched = KernelSweep(np.array([0.0, 4.0]), np.array([0.0, 400.0]))  # 100 µs per expert
    exchange = KernelSweep(np.array([0.0, 1e6]), np.array([10.0, 10.0 + 1e6]))  # 1 µs per byte
    tables = made_up()
    shared = KernelTables(
        tables.attention,
        tables.dense,
        tables.per_sequence,
        ExpertTimes({1: touched, 512: touched}, (exchange, exchange)),
    )
    ranks = ENGINE.model_copy(update={"data_parallel": 2, "enable_expert_parallel": True})
    alone, both = fit(tables, mixture, ENGINE).computed, fit(shared, mixture, ranks).computed
    assert alone is not None and both is not None
    # Two tokens, one of each rank, leave an expert of the rank's two untouched with (1/2)^2.
    expert_us = 100 * 2 * (1 - 0.5**2)
    exchange_us = 2 * (10 + 64 * 2)
    routing_us = kernels.ROUTING_US_PER_LAYER
    wanted_ms = LAYERS * (routing_us + expert_us + exchange_us) / 1e3
    assert both.ms[0] - alone.ms[0] == pytest.approx(wanted_ms)
    wanted_ms = LAYERS * (routing_us + 200 + 2 * (10 + 512 * 128)) / 1e3
    assert both.ms[-1] - alone.ms[-1] == pytest.approx(wanted_ms)


@pytest.mark.parametrize(
    ("name", "kv_blocks", "sequences"),
    [("rtx4090.llama-3.1-8b.tp1", 2588, 256), ("rtxpro6000.llama-3.1-8b.tp1", 35_531, 128)],
)
def test_shipped_tables_are_met_within_two_percent_where_a_step_only_decodes(
    name, kv_blocks, sequences
):
    """Most steps only decode; the terms of the formula would not be enough for real kernels."""
    tables, model = read_tables(FOLDER, name), models()["llama-3.1-8b"]
    engine = ENGINE.model_copy(
        update={
            "kv_blocks": kv_blocks,
            "max_num_seqs": sequences,
            "max_num_batched_tokens": 2048,
        }
    )
    found = fit(tables, model, engine)
    steps = StepCost(found)
    beside_s = kernels.UNTABLED_MS_PER_100_SEQUENCES / 1e5
    errors = []
    for chunk, _, decoders, tokens, layer_us in zip(*tables.attention):
        context = decoders * tokens
        if chunk or decoders > sequences or context > 16 * kv_blocks:
            continue
        sweeps_us = sum(np.interp(decoders, *sweep) for sweep in tables.per_sequence.values())
        step_us = np.interp(decoders, found.computed.tokens, found.computed.ms) * 1e3
        step_us += sweeps_us + model.layers * layer_us
        fitted_s = steps.step_s(0, 0.0, int(decoders), int(context)) - beside_s * decoders
        errors.append(abs(fitted_s * 1e6 / step_us - 1))
    assert len(errors) > 50
    assert np.median(errors) < 0.01
    assert np.percentile(errors, 90) < 0.02
