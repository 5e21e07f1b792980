"""C61 (ii): the wave of a cold start belongs to the warm-up, and draining would bring it back."""

import numpy as np

import sim
from tests.cluster.scenarios import agents, fleet


def test_c61_requests_are_left_out_by_arrival() -> None:
    """C61: a warm-up by count of completions keeps the cold misses of the first wave."""
    workload = agents(48)
    cold = fleet(workload, {"kind": "session-table"}, window={"measure": "240s"})
    warm = fleet(workload, {"kind": "session-table"}, window={"warmup": "60s", "measure": "180s"})
    everything = sim.run(cold).runs[0]
    measured = sim.run(warm).runs[0]
    arrivals_s = everything.requests.arrival_s
    left_out = int((arrivals_s < 60).sum())
    assert left_out > 0
    assert measured.summary["requests"] == everything.summary["requests"] - left_out
    assert measured.summary["ttft_s"]["mean"] < everything.summary["ttft_s"]["mean"]
    assert measured.summary["prompt_cache_hit_ratio"] > everything.summary["prompt_cache_hit_ratio"]
    assert np.array_equal(arrivals_s, measured.requests.arrival_s)
