"""Tests for policies of one's own, in any package: what podsim's own keep to as well.

Three lines in a test file, and pytest finds the rest::

    from sim.testing import PolicyContract

    class TestMine(PolicyContract):
        kind = "my-policy"

``FakeFleet`` and ``FakeRouter`` drive a policy by hand, for tests of what it decides.
"""

import json
import random
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar, Final

from sim.core import registry
from sim.core.content import Node, Prompt
from sim.core.request import Outcome, RequestView
from sim.core.rng import Streams
from sim.execution.runner import run_set
from sim.router.decisions import REASONS, end_of_hold, examined, known_reasons
from sim.router.views import (
    Decision,
    Hold,
    Place,
    PodAdded,
    PodNotReady,
    PodReady,
    PodRemoved,
    PolicyContext,
    Tick,
)
from sim.scenario.load import load_dict

AWAY: Final = (Outcome.SPILL, Outcome.MIGRATED)
"""Outcomes that have a reason."""


# -- a policy driven by hand ------------------------------------------------------------------


class FakeFleet:
    """The columns of a ``PodView``; tests write into them, policies only read."""

    def __init__(self, names: Sequence[str]) -> None:
        count = len(names)
        self.names = list(names)
        self.ready = [True] * count
        self.in_flight = [0] * count
        self.waiting = [0] * count
        self.running = [0] * count
        self.kv_usage = [0.0] * count
        self.polled_s = [0.0] * count

    def metrics_age_s(self, pod: int, now_s: float) -> float:
        """Seconds since the last poll that the pod answered."""
        return now_s - self.polled_s[pod]

    def poll(self, now_s: float) -> None:
        """Every pod answers a poll; what it says is what the columns hold."""
        self.polled_s = [now_s] * len(self.names)


class FakeRouter:
    """Asks one policy, counts what is in flight and passes on the facts it wants."""

    def __init__(self, policy: Any, fleet: FakeFleet) -> None:
        self.policy = policy
        self.fleet = fleet
        self._reasons = known_reasons(policy)
        for pod, name in enumerate(fleet.names):
            self.tell(PodAdded(pod, name, 0.0))

    def tell(self, fact: Any) -> None:
        """Something has happened; the policy hears of it if it wants to."""
        if type(fact) in self.policy.observes:
            self.policy.observe(fact)

    def tick(self, now_s: float) -> None:
        """A tick is due."""
        self.tell(Tick(now_s))

    def join(self, name: str, now_s: float = 0.0) -> int:
        """A new pod, ready and idle; returns its slot."""
        fleet = self.fleet
        fleet.names.append(name)
        fleet.ready.append(True)
        for column in (fleet.in_flight, fleet.waiting, fleet.running, fleet.kv_usage):
            column.append(0)
        fleet.polled_s.append(now_s)
        self.tell(PodAdded(len(fleet.names) - 1, name, now_s))
        return len(fleet.names) - 1

    def leave(self, pod: int, now_s: float = 0.0) -> None:
        """A pod is gone for good."""
        self.fleet.ready[pod] = False
        self.tell(PodRemoved(pod, now_s))

    def decide(self, key: int | None, now_s: float = 0.0, **fields: Any) -> Any:
        """One decision for a session, a ``Place`` as a rule; loads stay as they are.

        Raises ``Misuse`` for one that a run would not take.
        """
        decision = self.policy.choose(request(key, **fields), self.fleet, now_s)
        if isinstance(decision, Hold):
            end_of_hold(decision, self.policy, now_s, now_s, 0)
        return examined(decision, self.policy, self.fleet.ready, self._reasons)

    def send(self, key: int | None, now_s: float = 0.0) -> Any:
        """One decision, a ``Place``, and the request stays in flight until ``end``."""
        place = self.decide(key, now_s)
        self.fleet.in_flight[place.pod] += 1
        return place

    def end(self, pod: int) -> None:
        """A request that was sent to ``pod`` is over."""
        self.fleet.in_flight[pod] -= 1


def pods(count: int, prefix: str = "qwen") -> FakeFleet:
    """``count`` idle pods that were polled at time 0."""
    return FakeFleet([f"{prefix}-{index}" for index in range(count)])


def context(seed: int = 1, backend: str = "qwen") -> PolicyContext:
    """What a policy of this backend is built with under ``seed``."""
    return PolicyContext("proxy-0", backend, Streams(seed), str(seed))


def router(kind: Any, fleet: FakeFleet, seed: int = 1, **settings: Any) -> FakeRouter:
    """A router whose policy is of the class ``kind``, with these settings of its spec."""
    return FakeRouter(kind(kind.spec_type(**settings), context(seed)), fleet)


def request(
    key: int | None, prompt: Prompt | None = None, headers: tuple[tuple[str, str], ...] = ()
) -> RequestView:
    """A request of the session ``key``, with 100 tokens of its own when no ``prompt`` is given."""
    said = prompt or Prompt(Node(), 100)
    return RequestView(key, "qwen", headers, said.tokens, None, said)


def keys(count: int, seed: int = 1) -> list[int]:
    """Session keys as a workload deals them: 64 random bits each."""
    streams = Streams(seed)
    return [streams.key(f"session/{index}") for index in range(count)]


# -- what every policy keeps to ---------------------------------------------------------------


class PolicyContract:
    """Tests of the policy that is published as ``kind``.

    ``settings`` are keys of its spec as a scenario gives them, where the defaults
    will not do. What a policy may answer is checked with every decision, as in a run.
    """

    kind: str
    settings: ClassVar[Mapping[str, Any]] = {}

    def policy(self, seed: int = 1) -> Any:
        """A fresh instance."""
        return fresh(self.kind, self.settings, seed)

    def test_it_can_be_built_and_declares_what_it_wants(self) -> None:
        """A run would break off before its first request."""
        known_reasons(self.policy())

    def test_its_spec_documents_itself_and_its_defaults_are_legal(self) -> None:
        """A default would be refused when written out, or a setting would have no explanation."""
        spec = _spec(self.kind, self.settings)
        written = spec.model_dump(by_alias=True)
        assert type(spec).model_validate(written) == spec
        fields = type(spec).model_fields.items()
        bare = [name for name, field in fields if name != "kind" and not field.description]
        assert bare == [], f"these settings need a Field(description=...): {bare}"

    def test_outcomes_away_from_home_have_a_reason_and_no_others(self) -> None:
        """Tables would count moves that nobody can explain."""
        reasons = REASONS | set(getattr(self.policy(), "reasons", ()))
        for decision in shaken(self.kind, self.settings):
            if isinstance(decision, Place) and decision.outcome in AWAY:
                assert decision.reason in reasons, f"{decision}: needs a reason"
            elif isinstance(decision, Place):
                assert decision.reason is None, f"{decision}: a reason is for {', '.join(AWAY)}"

    def test_it_places(self) -> None:
        """Every request would be held or refused, whatever the state of the pods."""
        assert any(isinstance(each, Place) for each in shaken(self.kind, self.settings))

    def test_the_same_seed_and_sequence_give_the_same_decisions(self) -> None:
        """A run could not be repeated, or two instances in one process would share state."""
        first, second = (list(shaken(self.kind, self.settings)) for _ in range(2))
        assert first == second, "draw from context.streams; keep state in the instance"

    def test_another_process_gives_the_same_decisions(self) -> None:
        """What hash() or the order of a set decides differs from process to process."""
        first, second = (_elsewhere(self.kind, self.settings, seed) for seed in ("1", "2"))
        assert first == second, "neither hash() nor the order of a set may decide"

    def test_a_single_pod_takes_everything_and_nothing_moves(self) -> None:
        """A backend of one pod would fail, or report moves where there is nowhere to go."""
        for decision in shaken(self.kind, self.settings, 1, 200):
            assert not isinstance(decision, Place) or decision.outcome not in AWAY, decision

    def test_the_view_is_only_read(self) -> None:
        """A policy that writes into the columns breaks off the run."""
        asked = FakeRouter(self.policy(), pods(4))
        frozen = SimpleNamespace(
            names=tuple(asked.fleet.names),
            ready=(True, False, True, True),
            in_flight=(3, 0, 2, 9),
            waiting=(0, 0, 0, 4),
            running=(3, 0, 2, 5),
            kv_usage=(0.2, 0.0, 0.99, 0.99),
            metrics_age_s=lambda pod, now_s: 1.0,
        )
        for key in [None, *keys(50)] * 2:
            decision = asked.policy.choose(request(key), frozen, 0.0)
            assert not isinstance(decision, Place) or decision.pod in (0, 2, 3), decision

    def test_pods_come_and_go(self) -> None:
        """A policy would cling to the pods it started with."""
        asked = FakeRouter(self.policy(), pods(3))
        fleet = asked.fleet

        def reached(now_s: float) -> set[int]:
            decisions = [asked.decide(key, now_s) for key in (None, *keys(40))]
            return {each.pod for each in decisions if isinstance(each, Place)}

        reached(0.0)
        asked.leave(1)
        assert 1 not in reached(1.0)
        joined = asked.join("qwen-late")
        fleet.ready[0] = fleet.ready[2] = False
        asked.tell(PodNotReady(0, 2.0))
        asked.tell(PodNotReady(2, 2.0))
        assert reached(2.0) <= {joined}
        fleet.ready[0] = True
        asked.tell(PodReady(0, 3.0))
        fleet.ready[joined] = False
        asked.tell(PodNotReady(joined, 3.0))
        assert reached(3.0) <= {0}

    def test_a_request_without_a_session_has_no_home(self) -> None:
        """Single-shot prompts would be counted as sessions."""
        asked = FakeRouter(self.policy(), pods(4))
        for decision in [asked.decide(None) for _ in range(200)]:
            known = not isinstance(decision, Place) or decision.outcome in ("unkeyed", "placed")
            assert known, f"{decision}: the outcome of a request without a key is unkeyed or placed"

    def test_a_run_survives_a_lost_pod_and_a_restart(self) -> None:
        """It would break off, or a second run would come to other results."""
        run_set(load_dict(_scenario(self.kind, self.settings)), check=True)


def fresh(kind: str, settings: Mapping[str, Any], seed: int = 1) -> Any:
    """A new policy that is published as ``kind``, with these settings as a scenario gives them."""
    spec = _spec(kind, settings)
    return registry.load().policies[kind].implementation(spec, context(seed))


def shaken(
    kind: str, settings: Mapping[str, Any], count: int = 6, decisions: int = 400
) -> Iterator[Decision]:
    """Decisions of a fresh policy on ``count`` pods that change all the time."""
    chance = random.Random(7)
    asked = FakeRouter(fresh(kind, settings), pods(count))
    sessions = [None, *keys(30)]
    for step in range(decisions):
        now_s = step * 7.0
        shake(asked.fleet, chance, now_s)
        asked.tick(now_s)
        yield asked.decide(chance.choice(sessions), now_s)


def shake(fleet: FakeFleet, chance: random.Random, now_s: float) -> None:
    """Any state that a fleet may be in, with at least one ready pod."""
    for pod in range(len(fleet.names)):
        fleet.ready[pod] = chance.random() < 0.7
        fleet.in_flight[pod] = chance.randrange(12)
        fleet.waiting[pod] = chance.choice([0, 0, 1, 5])
        fleet.kv_usage[pod] = chance.choice([0.1, 0.94, 0.95, 1.0])
        fleet.polled_s[pod] = now_s - chance.choice([0.0, 1.0, 5.0, 6.0])
    fleet.ready[chance.randrange(len(fleet.names))] = True


def _elsewhere(kind: str, settings: Mapping[str, Any], hash_seed: str) -> str:
    """The decisions of another process, whose ``hash()`` starts from ``hash_seed``."""
    program = (
        "import json, sys\n"
        "from sim.testing import shaken\n"
        "for decision in shaken(sys.argv[1], json.loads(sys.argv[2])):\n"
        "    print(*decision)\n"
    )
    search = ":".join(filter(None, sys.path))  # a package may be on the path and not installed
    child = subprocess.run(
        [sys.executable, "-c", program, kind, json.dumps(settings)],
        capture_output=True,
        text=True,
        env={"PYTHONHASHSEED": hash_seed, "PYTHONPATH": search},
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def _spec(kind: str, settings: Mapping[str, Any]) -> Any:
    """The settings as a run has them; raises ``ScenarioError``."""
    return load_dict(_scenario(kind, settings)).variants[0].backends["pods"].policy


def _scenario(kind: str, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Agents and single requests on four pods; one of them is lost, and the proxy restarts."""
    return {
        "name": "contract",
        "window": {"measure": "90s"},
        "engines": {"small": {"kvBlocks": 20_000, "stepTime": {"a": 10, "b": 50, "f": 10}}},
        "backends": {
            "pods": {"engine": "small", "replicas": 4, "policy": {"kind": kind, **settings}}
        },
        "router": {"rules": [{"name": "all", "backends": ["pods"]}]},
        "workloads": {
            "coding": {"kind": "agents", "agents": 12, "set": "A", "ramp": "5s"},
            "single": {
                "kind": "requests",
                "arrivals": {"kind": "poisson", "rate": 1},
                "promptTokens": 500,
                "outputTokens": 20,
            },
        },
        "events": [
            {"kind": "pod-lost", "at": "30s", "for": "20s", "backend": "pods", "replica": 1},
            {"kind": "proxy-restart", "at": "60s"},
        ],
    }
