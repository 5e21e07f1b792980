"""Batches timed alone: every row is compared, and what is predicted is what the step time says."""

import pytest

from sim.engine.steptime import StepCost
from sim.hardware.catalog import gpus, models
from sim.hardware.step_times import Machine, derive
from sim.validation.batches import dgx_spark, splitwise


def test_every_row_is_compared_twice() -> None:
    """Rows would be left out where podsim fails."""
    assert sum(len(table.figures) for table in splitwise()) == 2 * 228
    assert sum(len(table.figures) for table in dgx_spark()) == 2 * 90
    assert all(table.median is not None for table in [*splitwise(), *dgx_spark()])


def test_a_batch_is_its_steps() -> None:
    """Prompts would be counted as one, or outputs as a single step."""
    machine = Machine(gpus()["gb10"], 1, "q8_0", "bf16")
    step = StepCost(derive(models()["qwen2.5-coder-7b"], machine))
    prompts, outputs = (
        next(each for each in table.figures if each.what == "qwen2.5-coder-7b gb10x1 2 x 4096")
        for table in dgx_spark()
        if "dense" in table.name
    )
    micro_batches_s = 8 * step.step_s(512, 0.0, 0, 0) + step.step_s(1, 4096**2 / 2, 0, 0)
    micro_batches_s -= step.step_s(1, 0.0, 0, 0)
    assert prompts.predicted == pytest.approx(2 * micro_batches_s)
    decode_s = sum(step.step_s(0, 0.0, 2, 2 * (4097 + done)) for done in range(32))
    assert outputs.predicted == pytest.approx(decode_s)


def test_dense_decoding_on_a_dgx_spark_is_met() -> None:
    """A bandwidth-bound step would not be bound by the data sheet's bandwidth."""
    outputs = next(table for table in dgx_spark() if "dense: outputs" in table.name)
    alone = [each for each in outputs.figures if "qwen2.5-coder-7b gb10x1 1 x" in each.what]
    assert len(alone) == 3
    assert all(each.error is not None and abs(each.error) < 0.06 for each in alone)
