"""A pool under whatever may come, at times that are sums of floats: what must always hold."""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from sim.core.kernel import BOUNDARY_TOLERANCE_S
from tests.engine.strategies import many
from tests.pool.harness import Client, Desk
from tests.pool.machine import MEMBERS, Whatever, loads, members, sometimes, steps_s

options = st.fixed_dictionaries(
    {
        "swapPolicy": st.sampled_from(["sticky", "reclaim"]),
        "default": members,
        "initial": st.sampled_from(["cold", "a", "b", None]),
        "reclaimAfter": st.sampled_from([0.3, 3.0]),
        "reclaimPoll": sometimes(st.sampled_from([0.1, 1.1]), 0),
        "swapBudget": st.sampled_from([0.3, 2.2, 3.3, 30.0, None]),
        "order": sometimes(st.just("fifo"), "coalesce"),
        "grantTargetWaitersFirst": st.booleans(),
        "maxInFlight": sometimes(st.integers(1, 2), None),
        "maxWait": sometimes(st.sampled_from([0.3, 2.2]), None),
        "idleProbe": sometimes(st.just("always-idle"), "exact"),
        "idleProbeInterval": sometimes(st.sampled_from([0.1, 0.7]), 0),
        "readyPollInterval": sometimes(st.sampled_from([0.1, 0.7]), 0),
        "beliefRecheck": sometimes(st.just(0), 5),
        "recheckOnError": st.booleans(),
        "swapErrorTo": st.sampled_from(["all", "first"]),
        "reloadIncumbent": st.booleans(),
        "compat": st.fixed_dictionaries(
            {"tieOrder": st.sampled_from(["swap-first", "hold-first", "random"])}
        ),
    }
)


class PoolMachine(Whatever):
    """A model pool: whom it grants, holds and skips."""

    @initialize(
        times=st.fixed_dictionaries(dict.fromkeys(MEMBERS, loads)),
        chosen=options,
        waking=sometimes(st.just("random"), "joining"),
        seed=st.integers(0, 3),
    )
    def begin(self, times: Any, chosen: dict[str, Any], waking: str, seed: int) -> None:
        if chosen["order"] == "coalesce":
            chosen = chosen | {"wakeOrder": waking}
        else:
            chosen = chosen | {"maxWait": None}
        self.desk = Desk(times, header_timeout_s=2.2, seed=seed, **chosen)
        self.since_restart = 0  # how many clients there were

    @rule(
        wanted=st.lists(members, min_size=1, max_size=2, unique=True),
        if_idle=st.booleans(),
        service_s=st.sampled_from([0.0, 0.1, 0.3, 1.1, 6.0]),
        patience_s=st.one_of(st.none(), steps_s),
    )
    def ask(
        self, wanted: list[str], if_idle: bool, service_s: float, patience_s: float | None
    ) -> None:
        leaves_s = None if patience_s is None else self.now_s + patience_s
        self.desk.ask(self.now_s, *wanted, if_idle=if_idle, service_s=service_s, leaves_s=leaves_s)

    # -- at any moment ----------------------------------------------------------------------

    @invariant()
    def at_most_one_is_there(self) -> None:
        there = [pod.name for pod in self.desk.pods.values() if pod.ready or pod.loading]
        assert len(there) <= 1

    @invariant()
    def nobody_waits_beyond_the_hold(self) -> None:
        for activation in self.desk.pool._belief.waiting:
            assert activation.hold_until_s >= self.now_s - BOUNDARY_TOLERANCE_S

    @invariant()
    def nobody_waits_for_nothing(self) -> None:
        """Whoever waits does so for a swap, or for those who are in flight."""
        belief = self.desk.pool._belief
        if belief.swap is not None:
            assert belief.swap.bound_s >= self.now_s - BOUNDARY_TOLERANCE_S
            return
        for activation in belief.waiting:
            assert belief.busy or self.now_s > activation.hold_until_s - BOUNDARY_TOLERANCE_S
            assert not activation.if_idle or activation.member == belief.resident

    @invariant()
    def counts_are_those_of_the_clients(self) -> None:
        counts = self.desk.pool._belief.counts
        for member in MEMBERS:
            assert counts[member].waiting == sum(
                client.held and client.member == member for client in self.desk.clients
            )
            assert (
                0
                <= counts[member].in_flight
                <= sum(in_flight(client, member) for client in self.desk.clients)
            )
            assert counts[member].in_flight >= sum(
                in_flight(client, member) for client in self.desk.clients[self.since_restart :]
            )

    @invariant()
    def limits_hold(self) -> None:
        limit = self.desk.pool._spec.max_in_flight
        if limit is not None:
            for counts in self.desk.pool._belief.counts.values():
                assert counts.in_flight <= limit

    def teardown(self) -> None:
        """In the end everybody has been told, once, and every row is complete."""
        if not hasattr(self, "desk"):
            return
        self.desk.run(self.now_s + 1000)
        assert all(client.outcome for client in self.desk.clients)
        told = [entry for client in self.desk.clients for entry in client.log]
        left = sum(client.outcome == "gone" and client.left_a_hold for client in self.desk.clients)
        rows = [*self.desk.rows("hold"), *self.desk.rows("skip")]
        assert len(rows) == len(told) + left
        assert all(event.end_s is not None and event.result for event in rows)
        belief = self.desk.pool._belief
        # A reclaim whose bound is shorter than the load may be tried for ever.
        moves = [move for move in (belief.swap, belief.unclaimed) if move is not None]
        unfinished = [row for row in self.desk.rows("swap") if row.end_s is None]
        assert unfinished == [move.event for move in moves]
        assert not list(belief.waiting)


def in_flight(client: Client, member: str) -> bool:
    granted = client.job is not None and not client.held and not client.outcome
    return granted and client.member == member


PoolMachine.TestCase.settings = many(120)
test_pool_machine = PoolMachine.TestCase
