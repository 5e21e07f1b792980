"""The pool against the slow and obvious reference: same answers at the same times, same swaps."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.engine.strategies import many
from tests.pool.harness import Desk
from tests.pool.reference import Ask, Reference, Script

HORIZON_S = 80
MEMBERS = "abc"
seconds = st.integers(0, 40)
member = st.sampled_from(MEMBERS)
asks = st.builds(
    lambda at_s, rule, if_idle, service_s, patience_s: Ask(
        at_s,
        "".join(dict.fromkeys(rule)),
        if_idle,
        service_s,
        None if patience_s is None else at_s + patience_s,
    ),
    seconds,
    st.text(MEMBERS, min_size=1, max_size=3),
    st.booleans(),
    st.sampled_from([0, 1, 2, 5, 12]),
    st.none() | st.integers(0, 15),
)
scripts = st.builds(
    Script,
    st.lists(asks, min_size=1, max_size=14).map(tuple),
    st.lists(st.tuples(seconds, member, st.sampled_from([0, 1, 7, 20])), max_size=3).map(tuple),
    st.lists(st.tuples(seconds, member), max_size=2).map(tuple),
    st.lists(seconds, max_size=1).map(tuple),
    st.lists(st.tuples(member, st.integers(1, 8)), max_size=3).map(tuple),
)
loads = st.fixed_dictionaries(
    {
        name: st.tuples(st.sampled_from([0, 1, 3, 6, 10]), st.sampled_from([0, 1, 4]))
        for name in "abc"
    }
)


@st.composite
def options(draw: st.DrawFn) -> dict[str, Any]:
    """Which options are on is drawn as well, so that most are off at a time."""

    def sometimes(strategy: st.SearchStrategy[Any], otherwise: Any) -> Any:
        return draw(strategy) if draw(st.integers(0, 2)) == 0 else otherwise

    most = sometimes(st.integers(1, 2), None)
    order = sometimes(st.just("fifo"), "coalesce")
    default = draw(st.none() | member)
    return {
        "swapPolicy": "sticky" if default is None else draw(st.sampled_from(["sticky", "reclaim"])),
        "default": default,
        "initial": draw(st.none() | st.just("cold") | member),
        "reclaimAfter": sometimes(st.integers(1, 12), 10),
        "reclaimPoll": sometimes(st.sampled_from([1, 2, 3, 5]), 0),
        "swapBudget": draw(st.none() | st.integers(1, 25)),
        "order": order,
        "grantTargetWaitersFirst": sometimes(st.just(False), True),
        "maxInFlight": most,
        "maxHeld": None if most is None else sometimes(st.integers(0, 2), None),
        "maxWait": sometimes(st.integers(1, 12), None) if order == "coalesce" else None,
        "idleProbe": sometimes(st.just("always-idle"), "exact"),
        "idleProbeInterval": sometimes(st.integers(1, 3), 0),
        "readyPollInterval": sometimes(st.integers(1, 3), 0),
        "beliefRecheck": sometimes(st.integers(0, 10), 5),
        "recheckOnError": sometimes(st.just(False), True),
        "swapErrorTo": sometimes(st.just("first"), "all"),
        "reloadIncumbent": sometimes(st.just(True), False),
        "compat": {"tieOrder": sometimes(st.just("hold-first"), "swap-first")},
    }


@many(250)
@given(loads, options(), scripts)
def test_the_pool_does_what_the_reference_does(
    times: dict[str, tuple[int, int]], chosen: dict[str, Any], script: Script
) -> None:
    """A rule would be broken in some combination of options and events that nobody thought of."""
    reference = Reference(times, chosen, script)
    reference.run(HORIZON_S)
    desk = Desk(times, failures=script.failures, **chosen)
    for ask in script.asks:
        desk.ask(
            ask.at_s, *ask.rule, if_idle=ask.if_idle, service_s=ask.service_s, leaves_s=ask.leaves_s
        )
    for at_s, name, service_s in script.directs:
        desk.direct(at_s, name, service_s)
    for at_s, name in script.losses:
        desk.lose(at_s, name)
    for at_s in script.restarts:
        desk.restart(at_s)
    desk.run(HORIZON_S)
    assert [client.log for client in desk.clients] == [trip.log for trip in reference.trips]
    assert [client.told for client in desk.clients] == [
        (trip.outcome, trip.end_s) for trip in reference.trips
    ]
    assert [list(swap) for swap in desk.swaps] == reference.rows
