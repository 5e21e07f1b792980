"""What every placement policy keeps to, run over all that are registered."""

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, get_args

import pytest

from sim import registry
from sim.request import Outcome, Reason, RequestView
from sim.router.views import Fact, Place, PodNotReady, PodReady, Tick
from tests.placement.fleet import Fleet, Router, context, keys, pods, request

POLICIES = registry.load().policies
OUTCOMES_WITH_REASON = {
    Outcome.SPILL: {Reason.BOUND, Reason.WAITING, Reason.KV_FULL},
    Outcome.MIGRATED: {Reason.NOT_READY},
}
OUTCOMES_WITHOUT_REASON = {
    Outcome.NEW,
    Outcome.STICKY,
    Outcome.HOME,
    Outcome.UNKEYED,
    Outcome.PLACED,
}


@pytest.fixture(params=sorted(POLICIES))
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def build(kind: str, seed: int = 1) -> Any:
    family = POLICIES[kind]
    return family.implementation(family.spec(kind=kind), context(seed))


def shake(fleet: Fleet, chance: random.Random, now_s: float) -> None:
    """Any state that a fleet may be in, with at least one ready pod."""
    for pod in range(len(fleet.names)):
        fleet.ready[pod] = chance.random() < 0.7
        fleet.in_flight[pod] = chance.randrange(12)
        fleet.waiting[pod] = chance.choice([0, 0, 1, 5])
        fleet.kv_usage[pod] = chance.choice([0.1, 0.94, 0.95, 1.0])
        fleet.polled_s[pod] = now_s - chance.choice([0.0, 1.0, 5.0, 6.0])
    fleet.ready[chance.randrange(len(fleet.names))] = True


def shaken_run(kind: str, count: int = 400, seed: int = 1) -> list[tuple[Place, list[bool]]]:
    """Decisions of a fresh policy on a fleet that changes all the time, with who was ready."""
    chance = random.Random(7)
    fleet = pods(6)
    router = Router(build(kind, seed), fleet)
    sessions = [None, *keys(30)]
    run = []
    for step in range(count):
        now_s = step * 7.0
        shake(fleet, chance, now_s)
        router.tick(now_s)
        run.append((router.decide(chance.choice(sessions), now_s), list(fleet.ready)))
    return run


def test_only_ready_pods_are_chosen(kind: str) -> None:
    """Requests would be sent to pods that do not serve."""
    run = shaken_run(kind)
    assert all(ready[place.pod] for place, ready in run)
    assert len({place.pod for place, _ in run}) == 6


def test_outcomes_and_reasons_come_from_the_vocabulary(kind: str) -> None:
    """Tables would hold words that no reader of the documentation knows."""
    for place, _ in shaken_run(kind):
        if place.outcome in OUTCOMES_WITH_REASON:
            assert place.reason in OUTCOMES_WITH_REASON[place.outcome]
        else:
            assert place.outcome in OUTCOMES_WITHOUT_REASON
            assert place.reason is None


def test_the_same_seed_and_sequence_give_the_same_decisions(kind: str) -> None:
    """A run could not be repeated, or two policies in one process would share state."""
    assert shaken_run(kind) == shaken_run(kind)


def test_a_single_pod_takes_everything_and_nothing_moves(kind: str) -> None:
    """A backend of one pod would fail, or report moves where there is nowhere to go (R16)."""
    chance = random.Random(3)
    fleet = pods(1)
    router = Router(build(kind), fleet)
    sessions = [None, *keys(5)]
    for step in range(200):
        shake(fleet, chance, step * 7.0)
        place = router.decide(chance.choice(sessions), step * 7.0)
        assert place.pod == 0
        assert place.outcome in OUTCOMES_WITHOUT_REASON


def test_the_view_is_only_read(kind: str) -> None:
    """A policy that writes into the proxy's columns would corrupt every later decision."""
    fleet = pods(4)
    router = Router(build(kind), fleet)
    frozen = SimpleNamespace(
        names=tuple(fleet.names),
        ready=(True, False, True, True),
        in_flight=(3, 0, 2, 9),
        waiting=(0, 0, 0, 4),
        running=(3, 0, 2, 5),
        kv_usage=(0.2, 0.0, 0.99, 0.99),
        metrics_age_s=lambda pod, now_s: 1.0,
    )
    for key in [None, *keys(50)] * 2:
        assert router.policy.choose(request(key), frozen, 0.0).pod in {0, 2, 3}


def test_pods_come_and_go(kind: str) -> None:
    """A policy would cling to the pods it started with."""
    fleet = pods(3)
    router = Router(build(kind), fleet)
    sessions = [None, *keys(40)]

    def reached(now_s: float) -> set[int]:
        return {router.decide(key, now_s).pod for key in sessions}

    assert reached(0.0) == {0, 1, 2}
    router.leave(1)
    assert 1 not in reached(1.0)
    joined = router.join("qwen-late")
    fleet.ready[0] = fleet.ready[2] = False
    router.tell(PodNotReady(0, 2.0))
    router.tell(PodNotReady(2, 2.0))
    assert reached(2.0) == {joined}
    fleet.ready[0] = True
    router.tell(PodReady(0, 3.0))
    fleet.ready[joined] = False
    router.tell(PodNotReady(joined, 3.0))
    assert reached(3.0) == {0}


def test_a_request_without_a_session_has_no_home(kind: str) -> None:
    """Single-shot prompts would be counted as sessions and hash to one place."""
    router = Router(build(kind), pods(4))
    places = [router.send(None) for _ in range(200)]
    assert {place.outcome for place in places} <= {Outcome.UNKEYED, Outcome.PLACED}
    assert {place.pod for place in places} == {0, 1, 2, 3}


def test_a_decision_depends_on_names_or_on_slots_never_on_both(kind: str) -> None:
    """Permuting pod names would not just permute the results of a symmetric policy."""
    sessions = keys(200)
    names = pods(5).names
    shuffled = [names[index] for index in (3, 0, 4, 1, 2)]

    def slots(order: list[str]) -> list[int]:
        router = Router(build(kind), Fleet(order))
        return [router.decide(key).pod for key in sessions]

    plain, renamed = slots(names), slots(shuffled)
    by_name = [names[pod] for pod in plain] == [shuffled[pod] for pod in renamed]
    assert plain == renamed or by_name


class CountedColumn(Sequence[Any]):
    """A column that counts how often it is read."""

    def __init__(self, values: list[Any], reads: list[int]) -> None:
        self.values = values
        self.reads = reads

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, index: Any) -> Any:
        self.reads[0] += 1
        return self.values[index]


def test_ten_thousand_decisions_read_each_column_a_few_times(kind: str) -> None:
    """A decision would cost more the longer the run or the more virtual nodes there are."""
    fleet = pods(16)
    fleet.waiting = [1] * 16
    router = Router(build(kind), fleet)
    reads = [0]
    counted = SimpleNamespace(
        names=CountedColumn(fleet.names, reads),
        ready=CountedColumn(fleet.ready, reads),
        in_flight=CountedColumn(fleet.in_flight, reads),
        waiting=CountedColumn(fleet.waiting, reads),
        running=CountedColumn(fleet.running, reads),
        kv_usage=CountedColumn(fleet.kv_usage, reads),
        metrics_age_s=fleet.metrics_age_s,
    )
    costs = []
    for step, key in enumerate(keys(2_000) * 5):
        reads[0] = 0
        place = router.policy.choose(request(key), counted, step / 4096)
        costs.append(reads[0])
        fleet.in_flight[place.pod] += 1
        if step % 3:
            fleet.in_flight[place.pod] -= 1
    # Six columns, and iterating one costs a read more than it is long.
    assert max(costs) <= 6 * 17


def test_the_policy_declares_what_it_wants(kind: str) -> None:
    """The proxy would feed facts that nobody reads, or no ticks to a policy that waits for them."""
    policy = build(kind)
    assert policy.observes <= set(get_args(Fact))
    assert isinstance(policy.has_home, bool)
    assert (Tick in policy.observes) == (policy.tick_interval_s is not None)


def test_the_spec_documents_itself_and_its_defaults_are_legal(kind: str) -> None:
    """A default would be refused when written out, or a setting would have no explanation."""
    spec = POLICIES[kind].spec
    written = spec(kind=kind).model_dump(by_alias=True)
    assert spec.model_validate(written) == spec()
    properties = spec.model_json_schema()["properties"]
    assert [name for name in properties if name != "kind" and not _described(spec, name)] == []


def _described(spec: Any, alias: str) -> bool:
    return any(field.description for field in spec.model_fields.values() if field.alias == alias)


def test_a_policy_cannot_see_how_long_the_answer_will_be() -> None:
    """A policy could use what no router knows, and its results would be unreachable."""
    assert set(RequestView._fields) == {
        "session_key",
        "model",
        "headers",
        "prompt_tokens",
        "max_output_tokens",
        "prompt",
    }
