"""Pools of other kinds in whole runs under whatever may come."""

from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from sim.hardware.loading import Member
from tests.cluster.scenarios import Ran
from tests.cluster.test_pools_under_fire import (
    CALM_S,
    OUTCOMES,
    every_hold_ends_once,
    refusals_are_failed_attempts,
    scenarios,
)
from tests.engine.strategies import many

GB = 1e9
ANY_KIND = {field.alias for field in Member.model_fields.values()}
TOLD = {**OUTCOMES, ("rejected", 429): {"concurrency_limit"}}


def of_kind(draw: st.DrawFn, kind: str, members: dict[str, Any]) -> dict[str, Any]:
    """A pool with the members of another, as far as any kind has them."""
    members = {
        name: {key: value for key, value in member.items() if key in ANY_KIND}
        for name, member in members.items()
    }
    small = st.sampled_from([0, 0.3, 3.0])
    if kind == "llama-swap":
        names = tuple(members)
        group = {"members": names[:2], "swap": draw(st.booleans()), "exclusive": True}
        limits = {name: {"concurrencyLimit": draw(st.integers(1, 3))} for name in members}
        pair = {"matrix": {"sets": {"pair": " & ".join(names[:2])}}}
        settings = {
            **draw(st.sampled_from([{}, {"groups": {"some": group}}, pair])),
            "globalTTL": draw(small),
            "unloadTimeout": draw(small),
        }
    elif kind == "ollama":
        sizes = st.sampled_from([5 * GB, 8 * GB, 20 * GB])
        limits = {name: {"memory": draw(sizes)} for name in members}
        settings = {
            "memory": 20 * GB,
            "maxQueue": draw(st.sampled_from([1, 512])),
            "numParallel": draw(st.integers(1, 3)),
            "keepAlive": draw(small),
            "vramRecovery": draw(small),
        }
    else:
        limits = {name: {"priority": draw(st.integers(0, 2))} for name in members}
        settings = {
            "minResidency": draw(small),
            "minServed": draw(st.integers(0, 2)),
            "swapBudget": 30.0,
        }
    return {
        "kind": kind,
        "members": {name: {**member, **limits[name]} for name, member in members.items()},
        **settings,
    }


@st.composite
def with_other_kinds(draw: st.DrawFn) -> dict[str, Any]:
    scenario = draw(scenarios())
    for name, pool in scenario["pools"].items():
        kind = draw(st.sampled_from(["llama-swap", "ollama", "fair"]))
        for member in pool["members"].values():
            member.pop("priority", None)  # of a fair one, which not all kinds know
        scenario["pools"][name] = of_kind(draw, kind, pool["members"])
    for rule in scenario["router"]["rules"]:
        rule["poolActivation"] = "Wait"
    return scenario


def together(pool: dict[str, Any], one: str, other: str) -> bool:
    """Whether two members may be in memory at the same time."""
    if pool["kind"] == "llama-swap":
        groups = pool.get("groups", {}).values()
        sets = pool.get("matrix", {"sets": {}})["sets"].values()
        return any({one, other} == set(each.split(" & ")) for each in sets) or any(
            {one, other} <= set(group["members"]) and not group["swap"] for group in groups
        )
    if pool["kind"] == "ollama":
        sizes = [pool["members"][name]["memory"] for name in (one, other)]
        return sum(sizes) <= pool["memory"]
    return False


def only_those_serve_together_that_may(scenario: dict[str, Any], ran: Ran) -> None:
    for pool in scenario["pools"].values():
        taken = sorted(
            (row["scheduled_s"], row["end_s"], row["backend"])
            for row in ran.placements
            if row["backend"] in pool["members"] and row["scheduled_s"] is not None
        )
        for one, other in combinations(taken, 2):
            apart = one[2] == other[2] or one[1] <= other[0] + 1e-6
            assert apart or together(pool, one[2], other[2]), (one, other)


def nobody_is_stuck(scenario: dict[str, Any], ran: Ran) -> None:
    """In the calm everybody is served but by members whose loads may fail even then."""
    late = [row for row in ran.requests if row["arrival_s"] >= CALM_S]
    fails = {
        name: any("loadFailure" in member for member in pool["members"].values())
        for pool in scenario["pools"].values()
        for name in pool["members"]
    }
    assert len(late) == len(fails)
    for event in scenario["events"]:  # one that is said to fail may not have been loaded before
        if event["kind"] == "load-failure":
            fails[event["backend"]] = True
    assert all(row["http_status"] == 200 or fails[row["model"]] for row in late)


@many(60)
@given(scenario=with_other_kinds(), seed=st.integers(0, 3))
def test_whatever_happens(scenario: dict[str, Any], seed: int) -> None:
    """A request would be lost or answered twice, a pool be stuck, or memory be exceeded."""
    ran = Ran(scenario, seed)
    for row in ran.requests:
        assert row["reason"] in TOLD[row["status"], row["http_status"]], row
    assert all(row["result"] is not None for row in ran.pool_rows)
    every_hold_ends_once(ran)
    refusals_are_failed_attempts(ran)
    only_those_serve_together_that_may(scenario, ran)
    nobody_is_stuck(scenario, ran)
    assert Ran(scenario, seed).result.digest == ran.result.digest
