"""Closed-loop benchmarks: the rows, the protocol, and how near podsim comes to them."""

from collections.abc import Iterable

import pytest

from sim.engine.steptime import StepCost
from sim.hardware.step_times import step_time
from sim.validation import closed_loops
from sim.validation.closed_loops import Loop, LoopGroup, compare, groups, loops, scenario
from sim.validation.figures import FigureTable


def chosen(rows: Iterable[Loop], every: int) -> tuple[Loop, ...]:
    return tuple(rows)[::every]


def by_what(group: LoopGroup) -> dict[str, FigureTable]:
    ttft, tpot = compare(group)
    return {"ttft": ttft, "tpot": tpot}


def test_each_row_is_in_one_judged_or_reported_group() -> None:
    """Rows would be left out where podsim fails."""
    rows = loops()
    assert len(rows) == len(set(rows)) == 429
    found = [row for group in groups(rows) if group.kv_dtype == "bf16" for row in group.loops]
    assert sorted(found) == sorted(rows)
    judged = [group for group in groups(rows) if group.judged]
    assert [len(group.loops) for group in judged] == [165]


def test_rows_that_are_reported_apart_have_none_of_the_benchmarks_lengths() -> None:
    """Rows would be set apart because podsim is wrong about them, not because they differ."""
    apart = [row for row in loops() if row.vllm == closed_loops.NOT_INFERENCEX]
    assert len(apart) == 24
    ours = {(row.isl, row.osl) for row in loops() if row not in apart}
    assert ours == {(1024, 1024), (1024, 8192), (8192, 1024)}
    assert not {(row.isl, row.osl) for row in apart} & ours


def test_a_judged_median_is_told_with_the_rows_set_apart_too() -> None:
    """A reader would take the median of chosen rows for that of all."""
    group = next(group for group in groups(loops()) if group.judged)
    some = group._replace(loops=chosen(group.loops, 40), apart=chosen(group.apart, 8))
    alone = some._replace(loops=some.loops + some.apart, apart=())
    for table, everything in zip(compare(some), compare(alone)):
        assert len(table.figures) == len(some.loops)
        assert table.median != everything.median
        (note,) = table.notes
        assert note.startswith("with the 3 rows of another benchmark")
        assert note.endswith(f"median error {everything.median:.1%}")


def test_the_benchmark_is_run_as_its_scripts_say() -> None:
    """Predicted and measured would be about different benchmarks."""
    row = next(row for row in loops() if row.clients == 8 and row.isl == 8192)
    (variant,) = scenario([row], "fp8").variants
    (engine,) = variant.engines.values()
    assert (engine.gpu, engine.kv_cache_dtype) == (row.gpu, "fp8")
    assert engine.gpu_memory_utilization == 0.9
    assert getattr(engine, "max_num_batched_tokens", None) == 8192
    assert getattr(engine, "enable_prefix_caching", None) is False
    (clients,) = variant.workloads.values()
    assert (clients.agents, clients.sessions_per_agent, clients.turns.constant) == (8, 10, 1)
    assert (clients.fresh_prompt.uniform.min, clients.fresh_prompt.uniform.max) == (6553, 8192)


def test_dense_rows_are_met_with_nothing_fitted() -> None:
    """Step times from data sheets would not be those of real engines: every 12th judged row."""
    group = next(group for group in groups(loops()) if group.judged)
    found = by_what(group._replace(loops=chosen(group.loops, 12), apart=()))
    assert found["tpot"].median_bound == 0.08 and found["tpot"].median_ok
    assert found["ttft"].median_bound == 0.15 and found["ttft"].median_ok


@pytest.mark.parametrize("clients", [4, 16, 64])
def test_the_simulated_loop_is_its_closed_form(clients: int) -> None:
    """Queueing, chunking or batching would cost time that the step time does not say.

     TPOT = a decode step of all clients + the prefills of the others per token
    , with mean lengths of 0.9 of the nominal.
    """
    row = next(row for row in loops() if row[:3] == ("llama-3.1-70b", "h200", 4))
    row = row._replace(isl=1024, osl=1024, clients=clients)
    (variant,) = scenario([row], "bf16").variants
    step = StepCost(step_time(variant.engines["vllm"]))
    prompt, answer = round(0.9 * 1024), round(0.9 * 1024)
    decode_s = step.step_s(0, 0.0, clients, int(clients * (prompt + answer / 2)))
    mixed_s = step.step_s(prompt, prompt**2 / 2, clients, int(clients * (prompt + answer / 2)))
    expected_s = decode_s + (clients - 1) / answer * (mixed_s - decode_s)
    found = by_what(LoopGroup("one row", (row,), "bf16"))["tpot"].figures[0]
    assert found.predicted == pytest.approx(1e3 * expected_s, rel=0.06)
