"""Data-parallel ranks in whole runs: how they are named, counted, coupled and balanced."""

from collections import Counter
from typing import Any

import pytest

import sim
from sim.core.errors import ScenarioError
from sim.results.result import RunResult
from tests.cluster.scenarios import fleet

ROUND_ROBIN = {"kind": "round-robin"}


def run(
    rows: list[dict[str, Any]], policy: dict[str, Any], poll: str = "1s", **settings: Any
) -> RunResult:
    scenario = fleet({"kind": "script", "rows": rows}, policy, **settings)
    scenario["router"]["metrics"] = {"pollInterval": poll}
    return sim.run(scenario, seeds=(1,), check=True).runs[0]


def row(arrival_s: float, prompt_tokens: int, output_tokens: int = 2) -> dict[str, Any]:
    return {
        "arrival": arrival_s,
        "promptTokens": prompt_tokens,
        "outputTokens": output_tokens,
    }


def test_each_rank_is_a_pod_with_its_gpus() -> None:
    """Figures per GPU would be wrong, or a policy would see replicas and not ranks."""
    rows = [row(0.0, 100)] * 4
    result = run(rows, ROUND_ROBIN, dataParallel=2, tensorParallel=4)
    assert result.facts.pods == ("b-0-rank-0", "b-0-rank-1", "b-1-rank-0", "b-1-rank-1")
    assert result.facts.gpus == 16
    assert list(result.placements["pod"]) == list(result.facts.pods)
    assert run(rows, ROUND_ROBIN).facts.pods == ("b-0", "b-1")


@pytest.mark.parametrize(
    ("shares_experts", "ends_s"), [(True, (0.0251, 0.025, 0.01)), (False, (0.0251, 0.0201, 0.01))]
)
def test_only_ranks_that_share_experts_step_together(
    shares_experts: bool, ends_s: tuple[float, float, float]
) -> None:
    """Ranks of a dense model, or those of two replicas, would wait for each other; or those of one
    mixture-of-experts model would not.
    """
    rows = [row(0.0, 100), row(0.0, 1, 2), row(0.0, 1, 1), row(0.0, 1, 1)]
    result = run(rows, ROUND_ROBIN, dataParallel=2, enableExpertParallel=shares_experts)
    assert tuple(result.requests["end_s"])[:3] == pytest.approx(ends_s, abs=1e-4)


def test_a_rank_without_work_is_busy_while_its_experts_serve() -> None:
    """Utilisation would say that half of the GPUs of a mixture-of-experts model are free."""
    settings = {"replicas": 1, "dataParallel": 2, "enableExpertParallel": True}
    result = run([row(0.0, 100, 50)], ROUND_ROBIN, **settings)
    busy, empty = (closed.busy_s for closed in result.facts.closed)
    assert busy == empty > 0.5


def test_inc_32_a_rank_in_a_long_step_looks_empty_after_each_broadcast() -> None:
    """INC-32: a broadcast would not wipe out what has been dispatched, and vLLM's imbalance would
    not be seen. 512 requests in 0.41 s on eight ranks of 64 places; rank 0 computes 8,192 tokens
    for so long, and each broadcast in that time says that nothing waits there.
    """

    def spread(poll: str) -> int:
        rows = [row(0.0, 8192), *(row(i / 1250, 100, 200) for i in range(1, 512))]
        settings = {"replicas": 1, "dataParallel": 8, "maxNumSeqs": 64}
        served = Counter(run(rows, {"kind": "vllm-dp"}, poll, **settings).placements["pod"])
        return max(served.values()) - min(served.values())

    assert spread("100ms") > 20
    assert spread("100s") <= 1


def test_a_capacity_that_depends_on_how_experts_are_spread_must_be_given() -> None:
    """A rank would be given the KV capacity that is left beside all experts."""
    settings = {"dataParallel": 2, "enableExpertParallel": True, "kvBlocks": None}
    with pytest.raises(ScenarioError, match="a rank holds its share of the experts only"):
        run([row(0.0, 1)], ROUND_ROBIN, gpu="h200", model="qwen3-32b", **settings)
