"""What a policy may know: no output lengths, and metrics as old as they are said to be."""

from types import SimpleNamespace
from typing import Any

import pytest

import sim
from sim.core.kernel import Kernel, Order
from sim.core.recorder import Recorder
from sim.core.registry import load as load_registry
from sim.engine.spec import Vllm
from sim.engine.vllm import VllmPod
from sim.hardware.engine import StepTime
from sim.router.signals import PodColumns, Poller
from tests.cluster.scenarios import fleet

POLICIES = sorted(load_registry().policies)


def placements(policy: str, outputs: list[int], backend: str = "b") -> list[tuple[Any, ...]]:
    """Pod index, outcome and reason of a burst of requests with these output lengths."""
    rows = [
        {"arrival": 0.001 * index, "session": f"s{index}", "promptTokens": 500, "outputTokens": out}
        for index, out in enumerate(outputs)
    ]
    scenario = fleet({"kind": "script", "rows": rows}, {"kind": policy}, replicas=4)
    scenario["backends"] = {backend: scenario["backends"].pop("b")}
    scenario["router"]["rules"][0]["backends"] = [backend]
    table = sim.run(scenario, check=True).runs[0].placements
    pods = [int(pod.rpartition("-")[2]) for pod in table.pod]
    return list(zip(pods, table.outcome, table.reason.fillna("")))


@pytest.mark.parametrize("policy", POLICIES)
def test_output_lengths_decide_nothing(policy: str) -> None:
    """INV-9: a router cannot know how long an answer will be."""
    assert placements(policy, [2] * 20) == placements(policy, list(range(1000, 1020)))


@pytest.mark.parametrize("policy", ["least-loaded", "round-robin"])
def test_names_decide_nothing_where_nothing_is_hashed(policy: str) -> None:
    """Renaming the pods may only rename the results of a policy that treats them alike."""
    assert placements(policy, [50] * 20) == placements(policy, [50] * 20, backend="another")


def test_metrics_are_as_old_as_their_last_poll() -> None:
    """INV-10: a column that is updated between polls would be fresher than its age says."""
    kernel = Kernel()
    engine = Vllm(step_time=StepTime(a=10.0), kv_blocks=100)
    pods = [VllmPod("a", engine, kernel), VllmPod("b", engine, kernel)]
    columns = PodColumns([pod.name for pod in pods])
    poller = Poller([SimpleNamespace(pods=pods, columns=columns)], 0.4, kernel, Recorder())
    assert columns.metrics_age_s(0, 0.0) == float("inf")
    ages_s = []
    kernel.spawn(poller.run())
    for time_s in (0.0, 0.3, 0.4, 1.0):
        kernel.at(
            time_s, Order.ARRIVAL, lambda: ages_s.append(columns.metrics_age_s(1, kernel.now_s))
        )
    kernel.run_until(1.1)
    assert ages_s == pytest.approx([0.0, 0.3, 0.0, 0.2])
