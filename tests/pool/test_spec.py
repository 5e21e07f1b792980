"""What may be written of a pool, and what is refused with a reason."""

from typing import Any

import pytest
from pydantic import ValidationError

from sim.core.registry import load
from sim.pool.scheduler import PoolScheduler
from sim.pool.spec import ModelPool

MEMBERS = {"a": {"load": "30s"}, "b": {"load": "30s", "unload": "1s"}}


def spec(**keys: Any) -> ModelPool:
    return ModelPool.model_validate({"members": MEMBERS, **keys})


def test_the_kind_is_found() -> None:
    """A scenario with a pool could not be loaded."""
    family = load().pools["model-pool"]
    assert (family.spec, family.implementation) == (ModelPool, PoolScheduler)


def test_the_defaults_are_those_of_the_rules() -> None:
    """A manifest that says nothing would be another pool than in LLMKube."""
    pool = spec()
    assert (pool.swap_policy, pool.reclaim_after, pool.swap_budget) == ("sticky", 300, 300)
    assert (pool.idle_probe_interval, pool.ready_poll_interval) == (3, 1)
    assert (pool.belief_recheck, pool.order, pool.wake_order) == (5, "coalesce", "joining")
    assert pool.grant_target_waiters_first and pool.recheck_on_error
    assert not pool.quarantine_pooled and not pool.reload_incumbent
    assert (pool.reclaim_poll_s, pool.ready_at_start) == (30, None)
    assert spec(swapBudget=None).swap_budget is None


def test_who_is_ready_at_the_start() -> None:
    """A pool would be cold, or warm with somebody else."""
    assert spec(default="a").ready_at_start == "a"
    assert spec(default="a", initial="b").ready_at_start == "b"
    assert spec(default="a", initial="cold").ready_at_start is None


def test_the_router_is_told_what_concerns_it() -> None:
    """compat and quarantinePooled would have no effect."""
    side = spec(
        quarantinePooled=True, compat={"swapDeadlineStatus": 502, "allBusyStatus": 502}
    ).router_side
    assert (side.quarantine, side.swap_deadline_status, side.all_busy_status) == (True, 502, 502)
    assert spec().router_side.swap_deadline_status == spec().router_side.all_busy_status == 503


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"swapPolicy": "reclaim"}, "swapPolicy: reclaim needs default, the member to bring back"),
        ({"default": "x"}, "default: must be one of the members (a, b); got 'x'"),
        ({"initial": "x"}, "initial: must be cold or one of the members (a, b); got 'x'"),
        ({"default": "cold"}, "default: must be one of the members (a, b); got 'cold'"),
        ({"maxHeld": 3}, "maxHeld: needs maxInFlight: without it nobody is held for the resident"),
        (
            {"order": "fifo", "wakeOrder": "random"},
            "wakeOrder: random means nothing with order fifo; use joining",
        ),
        (
            {"order": "fifo", "maxWait": 60},
            "maxWait: means nothing with order fifo: nobody passes those who wait for longer",
        ),
        (
            {"members": {"cold": {"load": "1s"}}},
            "members: 'cold' means that nobody is ready; name it otherwise",
        ),
    ],
)
def test_what_makes_no_sense_is_refused_with_the_reason(keys: dict[str, Any], said: str) -> None:
    """A setting would be without effect and the user not learn why."""
    with pytest.raises(ValidationError) as refused:
        spec(**keys)
    assert [each["msg"] for each in refused.value.errors()] == [said]


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Users would mend one key after another."""
    with pytest.raises(ValidationError) as refused:
        spec(default="x", initial="y", maxHeld=1)
    (error,) = refused.value.errors()
    assert len(error["ctx"]["problems"]) == 3


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("swapBudget", 0),
        ("reclaimAfter", 0),
        ("maxWait", 1e-6),
        ("idleProbeInterval", 1e-6),
        ("readyPollInterval", 1e-6),
        ("reclaimPoll", 1e-6),
        ("maxInFlight", 0),
        ("maxHeld", -1),
        ("swapPolicy", "eager"),
        ("order", "lifo"),
        ("idleProbe", "never"),
        ("compat", {"tieOrder": "swap"}),
        ("compat", {"swapDeadlineStatus": 500}),
        ("members", {}),
        ("members", {"a": {}}),
    ],
)
def test_values_out_of_range_are_refused(key: str, value: Any) -> None:
    """A run would not move on, or do something that nobody has asked for."""
    with pytest.raises(ValidationError):
        spec(**{key: value})
