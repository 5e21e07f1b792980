"""Batches timed alone, prompts first and then tokens, beside step times from data sheets.

Splitwise ran vLLM of 2023 on A100 and H100 (its data are medians); llama.cpp
published ``llama-batched-bench`` on a DGX Spark. No scheduler takes part: a
prediction is one step, or the steps of one prompt cut into micro-batches.
"""

import csv
from collections.abc import Callable, Iterator
from importlib.resources import files
from typing import Final, TypeAlias, cast

from sim.engine.steptime import StepCost
from sim.hardware.catalog import gpus, models
from sim.hardware.gpu import WeightDtype
from sim.hardware.step_times import Machine, derive
from sim.validation.figures import FigureTable, MeasuredFigure

MICRO_BATCH: Final = 512
"""Tokens that llama.cpp computes at once (its ``-ub``)."""

TheoryRow: TypeAlias = dict[str, str]


def tables() -> Iterator[FigureTable]:
    """Splitwise, then llama.cpp on a DGX Spark."""
    yield from splitwise()
    yield from dgx_spark()


def splitwise() -> Iterator[FigureTable]:
    """One table for prompts and one for tokens of each kind of rows."""
    rows = _rows("splitwise.csv")
    crowded = [row for row in rows if _crowded(row)]
    capped = [row for row in rows if row["power_capped"] == "yes" and row not in crowded]
    free = [row for row in rows if row not in crowded and row not in capped]
    queues = "the weights leave too little memory for the batches: they queue in it"
    rates = "the data sheet's rates are those of 700 W"
    old = "vLLM of 2023, which launched every kernel from Python"
    for name, chosen, notes in (
        ("bf16", free, (old,)),
        ("bf16, power-capped H100", capped, (old, rates)),
        ("bf16, llama-2-70b on two GPUs", crowded, (old, queues)),
    ):
        prompts = tuple(_figure(row, "prompt_ms", _prompts_ms) for row in chosen)
        tokens = tuple(_figure(row, "token_ms", _token_ms) for row in chosen)
        yield FigureTable(f"Splitwise, {name}: prompts, ms", prompts, notes=notes)
        yield FigureTable(f"Splitwise, {name}: time per token, ms", tokens, notes=notes)


def dgx_spark() -> Iterator[FigureTable]:
    """One table for prompts and one for outputs, dense models and experts apart."""
    rows = _rows("llamacpp_gb10.csv")
    gguf = "gpt-oss: llama.cpp has attention and output head in 8 bits, the published weights 16"
    for name, with_experts, notes in (("dense", False, ()), ("experts", True, (gguf,))):
        chosen = [row for row in rows if _has_experts(row) is with_experts]
        prompts = tuple(_figure(row, "prompts_s", _micro_batches_s) for row in chosen)
        outputs = tuple(_figure(row, "outputs_s", _outputs_s) for row in chosen)
        yield FigureTable(f"llama.cpp on a DGX Spark, {name}: prompts, s", prompts, notes=notes)
        yield FigureTable(f"llama.cpp on a DGX Spark, {name}: outputs, s", outputs, notes=notes)


def _rows(name: str) -> list[TheoryRow]:
    text = (files("sim") / "data" / "measured" / name).read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines()))


def _figure(
    row: TheoryRow, measured: str, predict: Callable[[TheoryRow, StepCost], float]
) -> MeasuredFigure:
    machine = f"{row.get('gpu', 'gb10')}x{row.get('tensor_parallel', '1')}"
    what = f"{row['model']} {machine} {row['sequences']} x {row['prompt_tokens']}"
    return MeasuredFigure(what, predict(row, _step_time(row)), float(row[measured]))


def _step_time(row: TheoryRow) -> StepCost:
    dtype = cast(WeightDtype, row.get("weight_dtype", "bf16"))
    gpu = gpus()[row.get("gpu", "gb10")]
    machine = Machine(gpu, int(row.get("tensor_parallel", "1")), dtype, "bf16")
    return StepCost(derive(models()[row["model"]], machine))


def _has_experts(row: TheoryRow) -> bool:
    return models()[row["model"]].experts is not None


def _crowded(row: TheoryRow) -> bool:
    return row["model"] == "llama-2-70b" and row["tensor_parallel"] == "2"


def _prompts_ms(row: TheoryRow, step_time: StepCost) -> float:
    """All prompts in one step, as vLLM ran them before it cut prompts into chunks."""
    sequences, prompt = int(row["sequences"]), int(row["prompt_tokens"])
    return 1e3 * step_time.step_s(sequences * prompt, sequences * prompt**2 / 2, 0, 0)


def _token_ms(row: TheoryRow, step_time: StepCost) -> float:
    """A decode step half way through the outputs."""
    sequences = int(row["sequences"])
    context = int(row["prompt_tokens"]) + int(row["output_tokens"]) // 2
    return 1e3 * step_time.step_s(0, 0.0, sequences, sequences * context)


def _micro_batches_s(row: TheoryRow, step_time: StepCost) -> float:
    """The prompts one after the other, each in steps of ``MICRO_BATCH`` tokens."""
    sequences, prompt = int(row["sequences"]), int(row["prompt_tokens"])
    starts = range(0, prompt, MICRO_BATCH)
    pairs = [MICRO_BATCH * (start + MICRO_BATCH / 2) for start in starts]
    return sequences * sum(step_time.step_s(MICRO_BATCH, each, 0, 0) for each in pairs)


def _outputs_s(row: TheoryRow, step_time: StepCost) -> float:
    """Decode steps of the whole batch."""
    sequences, prompt = int(row["sequences"]), int(row["prompt_tokens"])
    first = sequences * (prompt + 1)
    return step_time.span(0.0, sequences, first).end_s(int(row["output_tokens"]))
