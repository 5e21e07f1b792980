"""Requests that a policy keeps in the proxy: what ends their wait, and what it is counted as."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar

from sim.core.content import Node, Prompt
from sim.core.kernel import Kernel, Order
from sim.core.recorder import Recorder
from sim.core.request import Attempt, Request, RequestView, Status
from sim.router.ingress import Ingress
from sim.router.proxy import Proxy
from sim.router.routes import Routes
from sim.router.upstream import Upstream
from sim.router.views import Decision, Hold, Place, PodView, Reject
from sim.scenario.routing import Router
from sim.scenario.schema import Backend

SERVICE_S = 1.0


@dataclass
class Pod:
    """Answers after a second."""

    name: str
    kernel: Kernel
    taken: list[Attempt] = field(default_factory=list)

    def submit(self, attempt: Attempt) -> None:
        self.taken.append(attempt)
        end_s = self.kernel.now_s + SERVICE_S
        self.kernel.at(end_s, Order.STEP_END, partial(self._end, attempt))

    def cancel(self, attempt: Attempt) -> None:
        """It ends by itself, unheard."""

    def _end(self, attempt: Attempt) -> None:
        if attempt.status == Status.IN_FLIGHT:
            attempt.first_token_s = self.kernel.now_s
            attempt.listener.first_token(attempt)
            attempt.end(Status.COMPLETED, self.kernel.now_s, 200, None)


@dataclass
class Told:
    """A policy that decides as it is told, one decision after the other."""

    decisions: Iterator[Decision]
    observes: ClassVar[frozenset[type]] = frozenset()
    has_home: ClassVar[bool] = False
    tick_interval_s: float | None = None
    asked_s: list[float] = field(default_factory=list)

    def choose(self, request: RequestView, pods: PodView, now_s: float) -> Decision:
        self.asked_s.append(now_s)
        return next(self.decisions)

    def observe(self, fact: Any) -> None:
        """It wants to know nothing."""


class Desk:
    """A proxy in front of backend a, with one pod, and of b behind it."""

    def __init__(self, *decisions: Decision) -> None:
        self.kernel, self.recorder = Kernel(), Recorder()
        self.policy = Told(iter(decisions))
        free = Told(iter(lambda: Place(0, "placed"), None))
        self.pods = {name: Pod(f"{name}-0", self.kernel) for name in "ab"}
        self.upstreams = {
            name: Upstream(name, [self.pods[name]], policy, self.kernel)  # type: ignore[list-item]
            for name, policy in (("a", lambda: self.policy), ("b", lambda: free))
        }
        router = Router.model_validate(
            {"rules": ({"name": "all", "backends": ("a", "b")},), "defaultRoute": None}
        )
        plain = Backend.model_construct(capabilities=(), timeout=None)
        routes = Routes(router, {"a": plain, "b": plain}, self.upstreams)
        ingress = Ingress(self.kernel, self.recorder)
        self.proxy = Proxy(
            "p", routes, list(self.upstreams.values()), ingress, self.kernel, self.recorder
        )
        self.ended: list[Request] = []
        node = Node()
        prompt = Prompt(node, 10)
        self.request = Request("s", "", 1, None, prompt, node, 1, on_end=self.ended.append)
        self.at(0.0, Order.ARRIVAL, lambda: self.proxy.submit(self.request))

    def at(self, time_s: float, order: int, callback: Callable[[], None]) -> None:
        self.kernel.at(time_s, order, callback)

    def run(self) -> tuple[str, int | None, float | None, float]:
        """How the request ended, and how long it was held."""
        self.kernel.run_until(100.0)
        assert self.ended == [self.request]
        assert [way.columns.in_flight for way in self.upstreams.values()] == [[0], [0]]
        request = self.request
        return request.status, request.http_status, request.end_s, request.hold_s


HERE = Place(0, "placed")


def test_a_policy_that_holds_is_asked_again() -> None:
    """The request would be lost, or be placed without the policy; the time that it was held would
    be missing."""
    desk = Desk(Hold(2.0), Hold(5.0), HERE)
    assert desk.run() == ("completed", 200, 6.0, 5.0)
    assert desk.policy.asked_s == [0.0, 2.0, 5.0]


def test_a_held_request_may_be_refused_in_the_end() -> None:
    """Its wait would not count, or it would go on to backends that the policy has not meant."""
    desk = Desk(Hold(2.0), Reject(429, "enough"))
    assert desk.run() == ("rejected", 429, 2.0, 2.0)
    assert desk.request.reason == "enough"
    assert not desk.recorder.failed_attempts


def test_a_client_that_leaves_while_it_is_held_is_not_placed() -> None:
    """The end of the hold would place a request that is over."""
    desk = Desk(Hold(5.0), HERE)
    desk.at(3.0, Order.CLIENT_TIMEOUT, lambda: desk.proxy.cancel(desk.request))
    assert desk.run() == ("cancelled", 499, 3.0, 3.0)
    assert desk.policy.asked_s == [0.0]
    assert not desk.recorder.attempts


def test_a_restart_breaks_what_the_proxy_holds() -> None:
    """The hold would outlive the process that held it; its time would not be counted."""
    desk = Desk(Hold(5.0), HERE)
    desk.at(3.0, Order.FAULT, desk.proxy.restart)
    assert desk.run() == ("failed", None, 3.0, 3.0)
    assert desk.request.reason == "proxy_restart"
    assert desk.policy.asked_s == [0.0]


def test_a_client_that_comes_back_after_a_restart_is_not_woken_by_its_old_hold() -> None:
    """The end of the hold before the restart would place the second try early, or twice."""
    desk = Desk(Hold(5.0), Hold(20.0), HERE)
    desk.at(3.0, Order.FAULT, desk.proxy.restart)

    def again(request: Request) -> None:
        desk.recorder.retries.append(request.try_again("m"))
        request.on_end = desk.ended.append
        desk.at(4.0, Order.ARRIVAL, lambda: desk.proxy.submit(request))

    desk.request.on_end = again
    assert desk.run() == ("completed", 200, 21.0, 3.0 + 16.0)
    assert desk.policy.asked_s == [0.0, 4.0, 20.0]
    assert len(desk.recorder.attempts) == 1


def test_a_pod_that_dies_while_a_request_is_held_leads_to_the_next_backend() -> None:
    """A policy would be asked without a pod to choose; the wait would be lost on the way."""
    desk = Desk(Hold(5.0), HERE)
    desk.at(3.0, Order.FAULT, lambda: desk.upstreams["a"].set_up(0, False))
    assert desk.run() == ("completed", 200, 6.0, 5.0)
    assert [failure.error for failure in desk.recorder.failed_attempts] == ["no_ready_pod"]
    assert [attempt.pod for attempt in desk.recorder.attempts] == ["b-0"]


def test_a_client_that_leaves_between_two_tries_ends_once() -> None:
    """Somebody who leaves while nothing is under way would never be over, or be over twice."""
    desk = Desk(Reject(503, "busy"))
    desk.request.on_end = lambda request: desk.recorder.retries.append(request.try_again("m"))

    def leave() -> None:
        desk.request.on_end = desk.ended.append
        desk.proxy.cancel(desk.request)
        desk.proxy.cancel(desk.request)

    desk.at(3.0, Order.CLIENT_TIMEOUT, leave)
    assert desk.run() == ("cancelled", 499, 3.0, 0.0)
