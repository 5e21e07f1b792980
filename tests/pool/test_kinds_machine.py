"""Each kind of pool under whatever may come: what must hold at any moment."""

from itertools import combinations
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, rule

from sim.desk.runner import State
from tests.engine.strategies import many
from tests.pool.harness import Desk, Pod
from tests.pool.machine import MEMBERS, Whatever, loads, members, sometimes, steps_s
from tests.pool.test_pool_machine import in_flight

GB = 1e9

at_start = st.lists(members, max_size=1).map(tuple)
booleans = st.booleans()
groups = st.dictionaries(
    st.sampled_from(["x", "y"]),
    st.fixed_dictionaries({"swap": booleans, "exclusive": booleans, "persistent": booleans}),
)
llama_swap = st.fixed_dictionaries(
    {
        "initial": at_start,
        "globalTTL": st.sampled_from([0, 0.3, 3.0]),
        "unloadTimeout": st.sampled_from([0, 0.7, 10]),
        "members": st.fixed_dictionaries(
            dict.fromkeys(
                MEMBERS,
                st.fixed_dictionaries(
                    {"concurrencyLimit": st.integers(1, 3), "priority": st.integers(0, 1)}
                ),
            )
        ),
    }
)
ollama = st.fixed_dictionaries(
    {
        "initial": at_start,
        "maxQueue": st.sampled_from([0, 1, 3, 512]),
        "maxLoadedModels": st.integers(1, 3),
        "numParallel": st.integers(1, 2),
        "keepAlive": st.sampled_from([None, 0, 0.3, 3.0]),
        "vramRecovery": st.sampled_from([0, 0.1, 1.1]),
        "loadTimeout": st.sampled_from([1.0, 300]),
        "members": st.fixed_dictionaries(
            dict.fromkeys(
                MEMBERS,
                st.fixed_dictionaries(
                    {
                        "memory": st.sampled_from([5.1 * GB, 7.3 * GB, 20 * GB]),
                        "numCtx": st.just(4096),
                    }
                ),
            )
        ),
    }
)
fair = st.fixed_dictionaries(
    {
        "swapPolicy": st.sampled_from(["sticky", "reclaim"]),
        "default": members,
        "initial": st.sampled_from(["cold", "a"]),
        "reclaimAfter": st.just(3.0),
        "swapBudget": st.sampled_from([2.2, 30.0, None]),
        "maxInFlight": sometimes(st.integers(1, 2), None),
        "maxWait": sometimes(st.sampled_from([0.3, 2.2]), None),
        "minResidency": st.sampled_from([0, 0.3, 2.2]),
        "minServed": st.integers(0, 2),
        "grantTargetWaitersFirst": booleans,
        "members": st.fixed_dictionaries(
            dict.fromkeys(MEMBERS, st.fixed_dictionaries({"priority": st.integers(0, 2)}))
        ),
    }
)


class AnyKind(Whatever):
    """What is asked of every kind, and what they all must keep to."""

    def begin(self, times: Any, parallel: int | None, **options: Any) -> None:
        self.desk = Desk(times, header_timeout_s=2.2, parallel=parallel, **options)
        self.since_restart = 0  # how many clients there were

    @rule(
        wanted=st.lists(members, min_size=1, max_size=2, unique=True),
        service_s=st.sampled_from([0.0, 0.1, 0.3, 1.1, 6.0]),
        patience_s=st.one_of(st.none(), steps_s),
        times=st.integers(1, 3),
        num_ctx=st.sampled_from([None, None, 4096, 8192]),
    )
    def ask(
        self,
        wanted: list[str],
        service_s: float,
        patience_s: float | None,
        times: int,
        num_ctx: int | None,
    ) -> None:
        leaves_s = None if patience_s is None else self.now_s + patience_s
        for _ in range(times):
            self.desk.ask(
                self.now_s, *wanted, service_s=service_s, leaves_s=leaves_s, num_ctx=num_ctx
            )

    @property
    def attempts(self) -> Any:
        pool = self.desk.pool
        return getattr(pool, "_attempts", None) or pool._belief

    def there(self) -> list[Pod]:
        return [pod for pod in self.desk.pods.values() if pod.ready or pod.loading]

    # -- at any moment ----------------------------------------------------------------------

    @invariant()
    def counts_are_those_of_the_clients(self) -> None:
        clients = self.desk.clients
        for member, counts in self.attempts.counts.items():
            assert counts.waiting == sum(
                client.held and client.member == member for client in clients
            )
            known = sum(in_flight(client, member) for client in clients[self.since_restart :])
            everybody = sum(in_flight(client, member) for client in clients)
            assert known <= counts.in_flight <= everybody

    @invariant()
    def the_kind_keeps_its_rules(self) -> None:
        """What only one kind promises."""

    def teardown(self) -> None:
        """In the end everybody has been told, once, and every row is complete."""
        if not hasattr(self, "desk"):
            return
        self.desk.run(self.now_s + 2000)
        clients, events = self.desk.clients, self.desk.events
        assert all(client.outcome for client in clients)
        assert all(row.end_s is not None and row.result for row in events)
        at_once = ("pool_queue_full", "concurrency_limit")
        told = [entry for client in clients for entry in client.log if entry[1] not in at_once]
        left = sum(client.outcome == "gone" and client.left_a_hold for client in clients)
        assert len(self.desk.rows("hold")) == len(told) + left
        for row in self.desk.rows("swap"):
            parts_s = [row.drain_s or 0, row.unload_s or 0, row.load_s or 0]
            assert min(parts_s) >= 0 and sum(parts_s) <= row.end_s - row.start_s + 1e-6


class LlamaSwapMachine(AnyKind):
    @initialize(
        times=st.fixed_dictionaries(dict.fromkeys(MEMBERS, loads)),
        parallel=st.sampled_from([None, 1]),
        options=llama_swap,
        kinds=groups,
        homes=st.lists(st.sampled_from(["x", "y", None]), min_size=3, max_size=3),
        matrix=st.sampled_from([None, None, "a & b | c", "a & (b | c)", "(a | b) & c"]),
    )
    def start(
        self, times: Any, parallel: Any, options: Any, kinds: Any, homes: Any, matrix: Any
    ) -> None:
        if matrix is not None:
            costs = {"a": 2, "b": 3}
            written = {"evictCosts": costs, "sets": {"s": matrix}}
            self.begin(times, parallel, kind="llama-swap", matrix=written, **options)
            return
        written = {}
        for group, settings in kinds.items():
            inside = tuple(m for m, home in zip(MEMBERS, homes, strict=True) if home == group)
            if inside:
                written[group] = {**settings, "members": inside}
        self.begin(times, parallel, kind="llama-swap", groups=written, **options)

    @invariant()
    def the_kind_keeps_its_rules(self) -> None:
        """Those that unload each other are never there together; nobody waits for nothing."""
        pool = self.desk.pool
        for one, other in combinations([pod.name for pod in self.there()], 2):
            assert not (pool._evicts(one, (other,)) and pool._evicts(other, (one,)))
        for member, counts in pool._attempts.counts.items():
            limit = pool._spec.members[member].concurrency_limit
            assert counts.in_flight + counts.waiting <= limit
        busy = any(counts.in_flight for counts in pool._attempts.counts.values())
        assert not pool._attempts.waiting_count or busy or pool._active


class OllamaMachine(AnyKind):
    @initialize(
        times=st.fixed_dictionaries(dict.fromkeys(MEMBERS, loads)),
        parallel=st.sampled_from([None, 1]),
        options=ollama,
    )
    def start(self, times: Any, parallel: Any, options: Any) -> None:
        self.begin(times, parallel, kind="ollama", memory=20 * GB, **options)

    @invariant()
    def the_kind_keeps_its_rules(self) -> None:
        """No more than fits, than may be loaded, than has slots; nobody waits for nothing."""
        pool = self.desk.pool
        spec, memory = pool._spec, pool._memory
        there = [pod.name for pod in self.there()]
        taken = sum(self.desk.context.resident_bytes[name] for name in there)
        assert taken <= memory.taken_bytes + 1 and memory.taken_bytes <= spec.memory
        assert len(there) <= spec.max_loaded_models
        assert sum(runner.state is State.LOADING for runner in pool._runners.values()) <= 1
        for counts in pool._attempts.counts.values():
            assert counts.in_flight <= spec.num_parallel
        for client in self.desk.clients:
            if client.job is not None and not client.job.result and not client.outcome:
                asked = client.request.num_ctx or 4096
                assert pool._loaded_ctx[client.member] == asked
        queued = pool._attempts.waiting_count - (pool._turn is not None)
        assert queued <= max(spec.max_queue, 0)
        for activation in pool._attempts.waiting:
            full = not pool._has_slot(activation.member)
            waits_for_a_slot = pool._runners[activation.member].ready and full
            assert pool._turn is not None or waits_for_a_slot
            assert activation not in pool._pending or pool._turn is not None


class FairMachine(AnyKind):
    @initialize(
        times=st.fixed_dictionaries(dict.fromkeys(MEMBERS, loads)),
        parallel=st.sampled_from([None, 1]),
        options=fair,
    )
    def start(self, times: Any, parallel: Any, options: Any) -> None:
        self.begin(times, parallel, kind="fair", **options)

    @invariant()
    def the_kind_keeps_its_rules(self) -> None:
        """One at a time; whoever waits does so for a swap, the busy, or the end of a residency."""
        assert len(self.there()) <= 1
        pool = self.desk.pool
        belief, now_s = pool._belief, self.now_s
        # A residency that ends at this very instant has a timer that is still to come.
        kept = pool._decision._is_kept(now_s - 1e-6)
        if belief.swap is None and not belief.busy and not kept:
            assert all(each.hold_until_s <= now_s + 1e-6 for each in belief.waiting)


LlamaSwapMachine.TestCase.settings = many(80)
OllamaMachine.TestCase.settings = many(80)
FairMachine.TestCase.settings = many(80)
test_llama_swap = LlamaSwapMachine.TestCase
test_ollama = OllamaMachine.TestCase
test_fair = FairMachine.TestCase
