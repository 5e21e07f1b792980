"""Pools in whole runs under whatever may come: what must hold for any scenario."""

from collections import Counter
from itertools import combinations, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sim.core.request import PoolError
from tests.cluster.scenarios import Ran, Row, ask, script
from tests.engine.strategies import many

POOLS = {"desk": ("a", "b", "c"), "attic": ("d", "e")}
ORDINARY = "x"
CALM_S = 200.0
"""When all that was asked for is over, and a request for each member follows."""
APART_S = 25.0

times_s = st.sampled_from([0.0, 0.1, 0.2, 0.3, 0.1 + 0.2, 0.7, 1.0, 1.1, 2.2, 3.3, 5.0, 9.7])
spans_s = st.sampled_from([0.1, 0.3, 0.1 + 0.2, 0.7, 1.1, 2.2, 6.0])
looks_s = st.sampled_from([0, 0, 0.1, 0.7])


def sometimes(strategy: st.SearchStrategy[Any], otherwise: Any = None) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(otherwise), st.just(otherwise), strategy)


def members(names: tuple[str, ...]) -> st.SearchStrategy[dict[str, Any]]:
    member = st.fixed_dictionaries(
        {
            "load": st.sampled_from([0.1, 0.3, 1.1, 6.0]),
            "unload": st.sampled_from([0, 0, 0.1, 2.2]),
        },
        optional={
            "loadFailure": st.fixed_dictionaries(
                {"probability": st.just(0.3)}, optional={"after": spans_s}
            )
        },
    )
    return st.fixed_dictionaries(dict.fromkeys(names, member))


@st.composite
def pools(draw: st.DrawFn, names: tuple[str, ...]) -> dict[str, Any]:
    among = st.sampled_from(names)
    pool = {
        "members": draw(members(names)),
        "swapPolicy": draw(st.sampled_from(["sticky", "reclaim"])),
        "default": draw(among),
        "initial": draw(st.one_of(st.none(), st.just("cold"), among)),
        "reclaimAfter": draw(st.sampled_from([0.3, 3.0, 9.0])),
        "reclaimPoll": draw(looks_s),
        "swapBudget": draw(st.sampled_from([0.3, 3.3, 30.0, 30.0, None])),
        "order": draw(sometimes(st.just("fifo"), "coalesce")),
        "grantTargetWaitersFirst": draw(st.booleans()),
        "maxInFlight": draw(sometimes(st.integers(1, 2))),
        "idleProbe": draw(st.sampled_from(["exact", "exact", "exact", "always-idle"])),
        "idleProbeInterval": draw(looks_s),
        "readyPollInterval": draw(looks_s),
        "beliefRecheck": draw(sometimes(st.just(0), 5)),
        "recheckOnError": draw(st.booleans()),
        "quarantinePooled": draw(st.booleans()),
        "swapErrorTo": draw(st.sampled_from(["all", "first"])),
        "reloadIncumbent": draw(st.booleans()),
        "compat": {
            "tieOrder": draw(st.sampled_from(["swap-first", "hold-first", "random"])),
            "swapDeadlineStatus": draw(st.sampled_from([502, 503])),
            "allBusyStatus": draw(st.sampled_from([502, 503])),
        },
    }
    if pool["maxInFlight"] is not None:
        pool["maxHeld"] = draw(sometimes(st.integers(0, 2)))
    if pool["order"] == "coalesce" and draw(st.booleans()):
        pool |= {"kind": "fair", "minResidency": draw(sometimes(st.just(0.3), 0))}
        pool["minServed"] = draw(sometimes(st.integers(1, 3), 0))
        for member in pool["members"].values():
            member["priority"] = draw(st.integers(0, 2))
    if pool["order"] == "coalesce":
        pool["wakeOrder"] = draw(sometimes(st.just("random"), "joining"))
        pool["maxWait"] = draw(sometimes(st.sampled_from([0.3, 2.2])))
    return pool


@st.composite
def rules(draw: st.DrawFn, backends: list[str]) -> dict[str, Any]:
    return {
        "backends": draw(st.lists(st.sampled_from(backends), min_size=1, max_size=3, unique=True)),
        "poolActivation": draw(st.sampled_from(["Wait", "IfIdle"])),
        "failClosed": draw(st.booleans()),
        **({"timeout": draw(spans_s)} if draw(st.integers(0, 3)) == 0 else {}),
    }


@st.composite
def rows(draw: st.DrawFn, models: list[str]) -> Row:
    row = ask(draw(st.sampled_from(models)), draw(times_s), draw(st.integers(1, 30)))
    if draw(st.integers(0, 3)) == 0:
        row["cancel"] = draw(spans_s)
    return row


def clients(models: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """What clients do but wait."""
    backoff = st.fixed_dictionaries(
        {"initial": spans_s, "max": st.just(6.0), "jitter": st.sampled_from([0, 0.5])}
    )
    retry = st.fixed_dictionaries(
        {
            "on": st.sampled_from([[503], [502, 503]]),
            "max": st.integers(1, 3),
            "onConnectionError": st.booleans(),
            "honourRetryAfter": st.booleans(),
            "backoff": backoff,
        }
    )
    habits: dict[str, st.SearchStrategy[Any]] = {
        "retry": retry,
        "clientTimeout": spans_s,
        "patience": spans_s,
        "fallbackModels": st.lists(st.sampled_from(models), max_size=2),
    }
    return st.fixed_dictionaries(
        {}, optional={name: sometimes(habit) for name, habit in habits.items()}
    ).map(lambda given: {name: habit for name, habit in given.items() if habit})


def events(backends: list[str], pooled: list[str]) -> st.SearchStrategy[Row]:
    """Nothing that lasts until the calm, but for members that have to be loaded again."""
    at, member = {"at": times_s}, st.sampled_from(pooled)
    fixed = st.fixed_dictionaries
    return st.one_of(
        fixed({**at, "kind": st.just("pod-lost"), "backend": member}),
        fixed({**at, "kind": st.just("pod-lost"), "backend": st.just(ORDINARY), "for": spans_s}),
        fixed({**at, "kind": st.just("proxy-restart")}),
        fixed(
            {
                **at,
                "kind": st.just("backend-errors"),
                "backend": st.sampled_from(backends),
                "for": st.sampled_from([1.1, 6.0]),
                "httpStatus": st.sampled_from([404, 500]),
            }
        ),
        fixed(
            {
                **at,
                "kind": st.just("load-failure"),
                "backend": member,
                "after": spans_s,
                "loads": st.integers(1, 2),
            }
        ),
    )


@st.composite
def scenarios(draw: st.DrawFn) -> dict[str, Any]:
    """One or two pools and an ordinary backend; at the end each member is asked for in the calm."""
    chosen = ["desk", "attic"][: draw(st.integers(1, 2))]
    sizes = {name: POOLS[name][: draw(st.integers(2, len(POOLS[name])))] for name in chosen}
    pooled = [member for names in sizes.values() for member in names]
    backends = [*pooled, ORDINARY]
    named = {model: draw(rules(backends)) for model in ("m", "n", "o")}
    named |= {member: {"backends": [member], "poolActivation": "IfIdle"} for member in pooled}
    asked = draw(st.lists(rows([*named, *named, "unheard-of"]), min_size=8, max_size=40))
    calm = [ask(member, CALM_S + number * APART_S, 1) for number, member in enumerate(pooled)]
    past_the_router = st.tuples(st.sampled_from(pooled), rows(["any"]))
    direct = draw(st.lists(past_the_router, max_size=4))
    return {
        "name": "fire",
        "engines": {
            "e": {
                "kvBlocks": 1000,
                "stepTime": {"a": 100, "b": draw(st.sampled_from([0, 7]))},
                "maxNumSeqs": draw(st.sampled_from([1, 2, 256])),
            }
        },
        "backends": {name: {"engine": "e"} for name in backends},
        "pools": {name: draw(pools(sizes[name])) for name in chosen},
        "router": {
            "rules": [
                {"name": name, "match": {"models": [name]}, **rule} for name, rule in named.items()
            ],
            "proxy": {
                "responseHeaderTimeout": draw(st.sampled_from([0.3, 20, 20])),
                "quarantineDuration": draw(st.sampled_from([0, 1, 15])),
            },
            "metrics": {"pollInterval": 1.1},
        },
        "workloads": {
            "through": script(*asked, **draw(sometimes(clients(list(named)), {}))),
            "calm": script(*calm),
            **{
                f"past-{number}": script(row, direct=member)
                for number, (member, row) in enumerate(direct)
            },
        },
        "events": draw(st.lists(events(backends, pooled), max_size=5)),
    }


OUTCOMES = {
    ("completed", 200): {None},
    ("cancelled", 499): {"client_closed"},
    ("rejected", 404): {"backend_error"},
    ("rejected", 500): {"backend_error"},  # beside the router
    ("rejected", 502): {"all_backends_failed"},
    ("rejected", 503): {
        "pool_activation_timeout",
        "pool_incumbent_busy",
        "pool_queue_full",
        "fail_closed_runtime",
        "no_route",
    },
    ("failed", None): {"connection_lost", "connection_refused", "proxy_restart"},
}


def every_request_ends_once(ran: Ran) -> None:
    for row in ran.requests:
        assert row["reason"] in OUTCOMES[row["status"], row["http_status"]], row


def every_hold_ends_once(ran: Ran) -> None:
    held_s: Counter[int] = Counter()
    for row in ran.rows("hold"):
        assert row["end_s"] >= row["start_s"] and row["result"] is not None
        held_s[row["request_id"]] += row["end_s"] - row["start_s"]
    for request in ran.requests:
        assert request["hold_s"] == pytest.approx(held_s[request["request_id"]], abs=1e-6)


def refusals_are_failed_attempts(ran: Ran) -> None:
    told = (
        PoolError.INCUMBENT_BUSY,
        PoolError.HOLD_BUDGET,
        PoolError.SWAP_DEADLINE,
        PoolError.SWAP_FAILED,
    )
    by_pool = Counter(row["result"] for row in ran.pool_rows if row["kind"] != "swap")
    by_rule = Counter(row["error"] for row in ran.failed_attempts)
    assert [by_pool[error] for error in told] == [by_rule[error] for error in told]


def members_take_turns(scenario: dict[str, Any], ran: Ran) -> None:
    """Nobody is served by one member while another one serves or loads."""
    end_s = ran.result.facts.end_s
    for name, pool in scenario["pools"].items():
        taken = [
            (row["scheduled_s"], row["end_s"], row["backend"])
            for row in ran.placements
            if row["backend"] in pool["members"] and row["scheduled_s"] is not None
        ]
        swaps = [row for row in ran.rows("swap") if row["pool"] == name]
        for one, other in pairwise(swaps):
            assert one["end_s"] is not None and one["end_s"] <= other["start_s"]
        taken += [
            (row["end_s"] - row["load_s"], row["end_s"], row["member"])
            for row in swaps
            if row["load_s"]
        ]
        for one, other in combinations(sorted(taken, key=lambda each: each[0]), 2):
            assert one[2] == other[2] or one[1] <= other[0] + 1e-6, (one, other)
        totals = dict(zip(ran.result.facts.pods, ran.result.facts.closed))
        lives = [totals[f"{member}-0"] for member in pool["members"]]
        assert sum(life.ready_s + life.loading_s for life in lives) <= end_s + 1e-6
        loads = sum(life.loads for life in lives)
        assert loads - len([row for row in swaps if row["load_s"] is not None]) in (0, 1)


def loads_may_fail(scenario: dict[str, Any]) -> bool:
    """Also in the calm: a scripted failure waits for its load."""
    members = [each for pool in scenario["pools"].values() for each in pool["members"].values()]
    scripted = any(event["kind"] == "load-failure" for event in scenario["events"])
    return scripted or any("loadFailure" in member for member in members)


def nobody_is_stuck(scenario: dict[str, Any], ran: Ran) -> None:
    """In the calm nobody is busy, and who has time to be loaded is served."""
    late = [row for row in ran.requests if row["arrival_s"] >= CALM_S]
    pool_of = {member: pool for pool in scenario["pools"].values() for member in pool["members"]}
    assert len(late) == len(pool_of)
    assert not [row for row in ran.rows("skip") if row["start_s"] >= CALM_S]
    for row in late:
        if pool_of[row["model"]]["swapBudget"] == 30.0 and not loads_may_fail(scenario):
            assert row["http_status"] == 200, row


def reordered(value: Any) -> Any:
    """The same scenario with the keys of its mappings backwards, where their order says nothing."""
    if isinstance(value, list | tuple):
        return [reordered(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: reordered(value[key]) for key in reversed(value)}


def without_defaults(scenario: dict[str, Any]) -> dict[str, Any]:
    """The same scenario with Wait left out."""
    rules = [
        {key: value for key, value in rule.items() if (key, value) != ("poolActivation", "Wait")}
        for rule in scenario["router"]["rules"]
    ]
    return {**scenario, "router": {**scenario["router"], "rules": rules}}


@many(60)
@given(scenario=scenarios(), seed=st.integers(0, 3))
def test_whatever_happens(scenario: dict[str, Any], seed: int) -> None:
    """Two members would be there at once, a request be lost or answered twice, a pool be stuck."""
    ran = Ran(scenario, seed)
    every_request_ends_once(ran)
    every_hold_ends_once(ran)
    refusals_are_failed_attempts(ran)
    members_take_turns(scenario, ran)
    nobody_is_stuck(scenario, ran)


@many(12)
@given(scenario=scenarios(), seed=st.integers(0, 3))
def test_only_what_means_something_counts(scenario: dict[str, Any], seed: int) -> None:
    """A run would depend on the order of keys, on the process, or on Wait being written."""
    digest = Ran(scenario, seed).result.digest
    assert Ran(scenario, seed).result.digest == digest
    assert Ran(without_defaults(scenario), seed).result.digest == digest
    kept = {key: scenario[key] for key in ("workloads", "backends")}
    kept["pools"] = {name: reordered(pool) for name, pool in scenario["pools"].items()}
    assert Ran({**reordered(scenario), **kept}, seed).result.digest == digest
