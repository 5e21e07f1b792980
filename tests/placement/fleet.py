"""A backend driven by hand: the columns that a proxy keeps, and as little proxy as needed."""

from typing import Any

from sim.content import Node, Prompt
from sim.request import RequestView
from sim.rng import Streams
from sim.router.views import Place, PodAdded, PodRemoved, PolicyContext, Tick


class Fleet:
    """Columns of ``PodView``; tests write into them, policies only read."""

    def __init__(self, names: list[str]) -> None:
        count = len(names)
        self.names = list(names)
        self.ready = [True] * count
        self.in_flight = [0] * count
        self.waiting = [0] * count
        self.running = [0] * count
        self.kv_usage = [0.0] * count
        self.polled_s = [0.0] * count

    def metrics_age_s(self, pod: int, now_s: float) -> float:
        return now_s - self.polled_s[pod]

    def poll(self, now_s: float) -> None:
        """Every pod answers a poll; what it says is what the columns hold."""
        self.polled_s = [now_s] * len(self.names)


class Router:
    """Asks one policy, counts what is in flight and passes on the facts it wants."""

    def __init__(self, policy: Any, fleet: Fleet) -> None:
        self.policy = policy
        self.fleet = fleet
        for pod, name in enumerate(fleet.names):
            self.tell(PodAdded(pod, name, 0.0))

    def tell(self, fact: Any) -> None:
        if type(fact) in self.policy.observes:
            self.policy.observe(fact)

    def tick(self, now_s: float) -> None:
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
        self.fleet.ready[pod] = False
        self.tell(PodRemoved(pod, now_s))

    def decide(self, key: int | None, now_s: float = 0.0, **fields: Any) -> Place:
        """One decision for a session; loads stay as they are."""
        return self.policy.choose(request(key, **fields), self.fleet, now_s)

    def send(self, key: int | None, now_s: float = 0.0) -> Place:
        """One decision, and the request stays in flight until ``end``."""
        place = self.decide(key, now_s)
        self.fleet.in_flight[place.pod] += 1
        return place

    def end(self, pod: int) -> None:
        self.fleet.in_flight[pod] -= 1


def pods(count: int, prefix: str = "qwen") -> Fleet:
    """``count`` idle pods that were polled at time 0."""
    return Fleet([f"{prefix}-{index}" for index in range(count)])


def context(seed: int = 1, backend: str = "qwen") -> PolicyContext:
    return PolicyContext("proxy-0", backend, Streams(seed), str(seed))


def router(kind: type, fleet: Fleet, seed: int = 1, **settings: Any) -> Router:
    """A router whose policy is ``kind`` with the given settings of its spec."""
    return Router(kind(kind.spec_type(**settings), context(seed)), fleet)


def request(
    key: int | None, prompt: Prompt | None = None, headers: tuple[tuple[str, str], ...] = ()
) -> RequestView:
    said = prompt or Prompt(Node(), 100)
    return RequestView(key, "qwen", headers, said.tokens, None, said)


def keys(count: int, seed: int = 1) -> list[int]:
    """Session keys as a workload deals them: 64 random bits each."""
    streams = Streams(seed)
    return [streams.key(f"session/{index}") for index in range(count)]
