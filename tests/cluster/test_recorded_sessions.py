"""Recorded Claude Code sessions on the fleet: what a replica's cache must hold."""

from pathlib import Path

import pytest

import sim

FILE = Path(__file__).parents[2] / "scenarios" / "traces" / "claude-code.yaml"
BLOCK_TOKENS = 16
UNLIMITED = 100e6


def hit_percent(kv_tokens: float, *settings: str) -> float:
    """Token-weighted hit rate of session-table placement without queueing.

    Decode at 77 tok/s and prefill for nearly nothing, as in the toy model
    whose figures are the reference: what is left is placement and LRU.
    """
    runs = sim.run(
        FILE,
        variants=("session-table",),
        seeds=(1,),
        settings=(
            f"engines.qwen-27b.kvBlocks={int(kv_tokens / BLOCK_TOKENS)}",
            "engines.qwen-27b.stepTime={a: 13.0, b: 0.01}",
            "engines.qwen-27b.maxNumBatchedTokens=10M",
            "window={warmup: 15m, measure: 5m}",
            *settings,
        ),
    )
    ratio: float = runs.runs[0].summary["prompt_cache_hit_ratio"]
    return 100 * ratio


def test_hit_rate_rises_with_the_cache_as_in_the_reference() -> None:
    """Reference: 47.5, 79.3, 86.2 and 96.9 % at 1M, 2M, 3M and without limit (shape only).

    A cache by whole sessions that never evicts a part, or that counts a miss
    as all or nothing, has another shape.
    """
    found = [hit_percent(tokens) for tokens in (1e6, 2e6, 3e6, UNLIMITED)]
    assert found == sorted(found)
    assert 40 < found[0] < 70
    assert 75 < found[1] < 90
    assert 83 < found[2] < 94
    assert found[3] == pytest.approx(96.9, abs=1.0)


def test_random_placement_does_not_give_an_eighth() -> None:
    """Each replica keeps an older prefix of the session: 79 % without limit, 26 % at 3M tokens."""
    random = (
        "backends.qwen.policy={kind: random}",
        "workloads.coding.think=recorded",
        "workloads.coding.cap=60s",
    )
    assert hit_percent(UNLIMITED, *random) == pytest.approx(79.5, abs=4)
    assert hit_percent(3e6, *random) == pytest.approx(26, abs=6)
