"""Open-loop requests: rates, independence from the cluster, and the end of a finite list."""

import numpy as np
import pytest
from pydantic import ValidationError

from sim.core.request import Status
from sim.workload.requests import Requests, RequestsSpec
from tests.workload.fakes import after, content, run


def spec(**keys):
    written = {
        "kind": "requests",
        "arrivals": {"kind": "poisson", "rate": 100},
        "promptTokens": 2000,
        "outputTokens": {"geometric": {"mean": 200}},
        "count": 10_000,
    }
    return RequestsSpec.model_validate(written | keys)


def gaps_s(**keys):
    arrivals = run({"short": (Requests, spec(**keys))}).arrivals()
    return np.diff([0.0, *arrivals])


def test_poisson_gaps_are_exponential():
    """If this fails, "Poisson at 100 per second" is another process or another rate."""
    gaps = gaps_s()
    assert gaps.mean() == pytest.approx(0.01, rel=0.03)
    assert gaps.std() / gaps.mean() == pytest.approx(1.0, abs=0.03)
    assert np.mean(gaps > 0.01) == pytest.approx(np.exp(-1), abs=0.02)


@pytest.mark.parametrize("cv", [0.5, 3.0])
def test_gamma_gaps_have_the_stated_rate_and_burstiness(cv):
    """If this fails, bursts are weaker or stronger than the scenario says, or change the rate."""
    gaps = gaps_s(arrivals={"kind": "gamma", "rate": 100, "cv": cv}, count=40_000)
    assert gaps.mean() == pytest.approx(0.01, rel=0.05)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.05)


def test_constant_arrivals_do_not_drift():
    """If this fails, rounding each gap to 1 µs adds up: request 9,999 at 3/s comes 3.3 ms early."""
    arrivals = run({"short": (Requests, spec(arrivals={"kind": "constant", "rate": 3}))}).arrivals()
    assert arrivals[:4] == [0.0, 0.333333, 0.666667, 1.0]
    assert arrivals[9_999] == 3333.0


def test_arrivals_do_not_wait_for_the_cluster():
    """C62: if this fails, a slow cluster delays the intended arrivals and hides its own queue."""
    constant = spec(arrivals={"kind": "constant", "rate": 10}, count=8)
    slow = run({"short": (Requests, constant)}, service=after(0.5))
    assert slow.arrivals() == [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7]
    random = spec(count=500)
    fast = run({"short": (Requests, random)}, service=after(0.001))
    slow = run({"short": (Requests, random)}, service=after(100.0))
    assert fast.arrivals() == slow.arrivals()
    assert content(fast.requests) == content(slow.requests)


def test_requests_share_nothing_and_have_no_session():
    """If this fails, unrelated prompts hit each other's cache, a sessionless request sticks, or
    the times of single requests are reported as those of sessions."""
    requests = run({"short": (Requests, spec(count=50))}).requests
    assert len({request.prompt.node for request in requests}) == 50
    assert {request.session_key for request in requests} == {None}
    assert {request.turn for request in requests} == {1}
    assert not any(request.closes_session for request in requests)
    assert [request.session_id for request in requests[:2]] == ["short/0", "short/1"]


def test_keys_per_request_are_distinct_and_change_no_other_draw():
    """If this fails, asking for session keys gives another workload, or keys that collide."""
    plain = run({"short": (Requests, spec(count=5000))}).requests
    keyed = run({"short": (Requests, spec(count=5000, sessionKeys="per-request"))}).requests
    keys = [request.session_key for request in keyed]
    assert len(set(keys)) == 5000
    assert all(0 <= key < 2**64 for key in keys)
    assert max(keys) > 2**63
    assert [r.arrival_s for r in plain] == [r.arrival_s for r in keyed]
    assert [r.output_tokens for r in plain] == [r.output_tokens for r in keyed]


def test_the_list_is_that_of_the_seed():
    """C66: if this fails, seeds do not seed, or another workload shifts this one's draws."""
    alone = run({"short": (Requests, spec(count=5000))}, seed=3)
    beside = run(
        {"other": (Requests, spec(count=9)), "short": (Requests, spec(count=5000))}, seed=3
    )
    mine = [request for request in beside.requests if request.workload == "short"]
    assert content(mine) == content(alone.requests)
    assert [r.arrival_s for r in mine] == alone.arrivals()
    other_seed = run({"short": (Requests, spec(count=5000))}, seed=4)
    assert other_seed.arrivals() != alone.arrivals()


def test_a_count_beyond_one_chunk_is_exact_and_ends_once():
    """If this fails, requests are lost or doubled where a new chunk of draws begins."""
    ran = run({"short": (Requests, spec(count=8193))}, service=after(2.0))
    assert [request.session_id for request in ran.requests] == [f"short/{i}" for i in range(8193)]
    assert ran.arrivals() == sorted(ran.arrivals())
    assert ran.finished_s == [ran.requests[-1].end_s]


def test_without_a_count_arrivals_go_on_and_nobody_is_told_of_an_end():
    """If this fails, an endless workload stops, or stops the run."""
    ran = run({"short": (Requests, spec(count=None))}, horizon_s=100.0)
    assert len(ran.requests) == pytest.approx(10_000, rel=0.05)
    assert ran.finished_s == []
    assert spec().finite
    assert not spec(count=None).finite
    short = run({"short": (Requests, spec(count=100))})  # begins as the endless one does
    assert content(ran.requests[:100]) == content(short.requests)


def test_refusals_end_a_finite_list_too():
    """If this fails, a run whose requests are all refused never ends."""
    ran = run({"short": (Requests, spec(count=10))}, service=lambda request: (0.0, Status.REJECTED))
    assert len(ran.finished_s) == 1


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        (
            {"arrivals": {"kind": "constant", "rate": 1e-6}, "count": 1000},
            "at 1e-06/s the last one comes after 11,574 days; at most 366d are simulated",
        ),
        ({"arrivals": {"kind": "gamma", "rate": 1}}, "Field required"),
        ({"arrivals": {"kind": "constant", "rate": 1, "cv": 2}}, "not permitted"),
    ],
)
def test_nonsense_is_refused(keys, said):
    """C73: if this fails, an impossible rate, count or length reaches the run."""
    with pytest.raises(ValidationError, match=said):
        spec(**keys)
