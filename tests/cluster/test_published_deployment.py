"""C05: the published deployment comes out in the published order, by mechanisms alone."""

from pathlib import Path
from typing import Any

import pytest

import sim

FILE = Path(__file__).parents[2] / "scenarios" / "b200-agents.yaml"
VARIANTS = ("ring-0.10.7", "session-table", "plain-hash", "session-table-16k")


@pytest.fixture(scope="module")
def figures() -> dict[str, dict[str, Any]]:
    """One seed of the file as it is: ``{metric: {variant: mean}}``."""
    comparison = sim.run(FILE, variants=VARIANTS, seeds=(1,), jobs=2).comparison
    return {
        metric: {variant: cell["mean"] for variant, cell in row.items()}
        for metric, row in comparison.items()
    }


def test_c05_the_session_table_beats_the_ring(figures: dict[str, dict[str, Any]]) -> None:
    """C05: a cache that never overflows or prefill that is free would show no difference."""
    ring, table = "ring-0.10.7", "session-table"
    assert figures["ttft_s.p95"][table] < figures["ttft_s.p95"][ring] / 2
    for better_up in (
        "stream_tokens_per_s.p50",
        "stream_tokens_per_s.p5",
        "output_tokens_per_s",
        "prompt_cache_hit_ratio",
    ):
        assert figures[better_up][table] > figures[better_up][ring]
    assert figures["spill_ratio"][ring] > 3 * figures["spill_ratio"][table]
    assert figures["spill_ratio"][ring] > 0.10 > 0.01 > figures["spill_ratio"][table]


def test_c05_plain_hashing_lies_below_the_ring(figures: dict[str, dict[str, Any]]) -> None:
    """The ring's bound, not its hashing, costs the latency: without the bound it is better."""
    assert figures["ttft_s.p95"]["plain-hash"] < figures["ttft_s.p95"]["ring-0.10.7"]
    assert figures["spill_ratio"]["plain-hash"] == 0


def test_every_spill_of_the_table_is_pressure(figures: dict[str, dict[str, Any]]) -> None:
    """The table moves sessions for waiting requests or a full cache and for nothing else."""
    for variant in ("session-table", "session-table-16k"):
        reasons = {
            metric.removeprefix("placements.by_reason."): row[variant]
            for metric, row in figures.items()
            if metric.startswith("placements.by_reason.") and row[variant]
        }
        assert set(reasons) <= {"waiting", "kv_full"}


def test_the_token_budget_decides_how_much_the_table_spills(
    figures: dict[str, dict[str, Any]],
) -> None:
    """With 16,384 tokens per step cold prompts keep others waiting, and waiting moves sessions."""
    spills = figures["spill_ratio"]
    assert spills["session-table-16k"] > 5 * spills["session-table"]
