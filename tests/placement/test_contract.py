"""What every placement policy keeps to, run over all that are registered."""

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from sim.core import registry
from sim.core.request import RequestView
from sim.testing import FakeFleet, FakeRouter, PolicyContract, fresh, keys, pods, request, shake

POLICIES = sorted(registry.load().policies)


class TestOwn(PolicyContract):
    """The tests that other packages run over theirs."""

    @pytest.fixture(autouse=True, params=POLICIES)
    def _each(self, request: pytest.FixtureRequest) -> None:
        self.kind = request.param


@pytest.fixture(params=POLICIES)
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


def build(kind: str, seed: int = 1) -> Any:
    return fresh(kind, {}, seed)


def test_every_pod_is_reached(kind: str) -> None:
    """Pods would stay idle whatever the load."""
    chance = random.Random(7)
    router = FakeRouter(build(kind), pods(6))
    sessions = [None, *keys(30)]
    reached = set()
    for step in range(400):
        shake(router.fleet, chance, step * 7.0)
        router.tick(step * 7.0)
        reached.add(router.decide(chance.choice(sessions), step * 7.0).pod)
    assert reached == set(range(6))


def test_those_who_come_and_those_who_stay_are_all_reached(kind: str) -> None:
    """A pod that joins would stay idle."""
    router = FakeRouter(build(kind), pods(3))
    sessions = [None, *keys(40)]
    assert {router.decide(key).pod for key in sessions} == {0, 1, 2}
    joined = router.join("qwen-late")
    router.fleet.ready[0] = router.fleet.ready[1] = False
    assert {router.decide(key).pod for key in keys(80)} == {2, joined}


def test_requests_without_a_session_go_everywhere(kind: str) -> None:
    """Single-shot prompts would hash to one place."""
    router = FakeRouter(build(kind), pods(4))
    assert {router.send(None).pod for _ in range(200)} == {0, 1, 2, 3}


def test_a_decision_depends_on_names_or_on_slots_never_on_both(kind: str) -> None:
    """Permuting pod names would not just permute the results of a symmetric policy."""
    sessions = keys(200)
    names = pods(5).names
    shuffled = [names[index] for index in (3, 0, 4, 1, 2)]

    def slots(order: list[str]) -> list[int]:
        router = FakeRouter(build(kind), FakeFleet(order))
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
    router = FakeRouter(build(kind), fleet)
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
