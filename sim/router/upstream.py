"""A backend as a proxy knows it: its pods, what it has sent them, whom it avoids."""

from collections.abc import Callable
from math import inf
from typing import Any

from sim.kernel import Kernel, Order, Process, instant
from sim.ports import PodPort, PoolPort
from sim.request import Attempt
from sim.router.signals import PodColumns
from sim.router.views import (
    Dispatched,
    Ended,
    FirstToken,
    PodAdded,
    PodNotReady,
    PodReady,
    Policy,
    Tick,
)
from sim.scenario.pool import RouterSide


class Upstream:
    """The pods of one backend behind one policy, with exact counts.

    The load of a pod is the number of requests that this proxy has dispatched
    to it and whose response has not ended. A pod is avoided while it is down or
    in quarantine; when all that are up are in quarantine, that does not count.
    ``pool`` is the pool whose member the backend is, if it is one, and ``side``
    what the router does differently then; whether its pod serves is the pool's
    to say.
    """

    def __init__(
        self,
        name: str,
        pods: list[PodPort],
        make_policy: Callable[[], Policy],
        kernel: Kernel,
        pool: PoolPort | None = None,
        side: RouterSide | None = None,
    ) -> None:
        self.name = name
        self.pods = pods
        self.pool = pool
        self.side = side or RouterSide()
        self.columns = PodColumns([pod.name for pod in pods])
        self.policy = make_policy()
        self.fault_http_status: int | None = None  # what its pods answer instead of serving
        self._make_policy = make_policy
        self._kernel = kernel
        self._up = [True] * len(pods)
        self._quarantined_until_s = [-inf] * len(pods)
        self._learn()

    def start(self) -> None:
        """Tell the policy of its pods and start its ticks; called once, at time 0."""
        self._introduce()
        interval_s = self.policy.tick_interval_s
        if interval_s is not None:
            self._kernel.spawn(self._ticks(interval_s))

    def restart(self) -> None:
        """The proxy has forgotten everything but which pods there are."""
        self.policy = self._make_policy()
        self._learn()
        self.columns.forget()
        self._quarantined_until_s = [-inf] * len(self.pods)
        self._refresh()
        self._introduce()

    def _learn(self) -> None:
        observes = self.policy.observes
        self._wants_dispatched = Dispatched in observes
        self._wants_first_token = FirstToken in observes
        self._wants_ended = Ended in observes

    def _introduce(self) -> None:
        self._tell(PodAdded, *((index, name) for index, name in enumerate(self.columns.names)))
        down = [(index,) for index, ready in enumerate(self.columns.ready) if not ready]
        self._tell(PodNotReady, *down)

    # -- who serves -----------------------------------------------------------------------

    @property
    def serves(self) -> bool:
        """Whether there is anybody to place a request on."""
        return True in self.columns.ready

    @property
    def quarantined(self) -> bool:
        """Whether a pooled backend is avoided: it has no other pods to go to."""
        now_s = instant(self._kernel.now_s)
        return self.pool is not None and instant(self._quarantined_until_s[0]) > now_s

    def set_up(self, pod: int, up: bool) -> None:
        """A pod has died, or serves again."""
        self._up[pod] = up
        self._refresh()

    def quarantine(self, pod: int, duration_s: float) -> None:
        """A pod has answered 500 or more, or its connection broke."""
        if duration_s <= 0.0 or (self.pool is not None and not self.side.quarantine):
            return
        until_s = self._kernel.now_s + duration_s
        self._quarantined_until_s[pod] = until_s
        if self.pool is None:
            self._refresh()
            self._kernel.at_instant(until_s, Order.HOLD_EXPIRY, self._refresh)

    def _refresh(self) -> None:
        """Who is up and not in quarantine; if there is none, who is up."""
        now_s = instant(self._kernel.now_s)
        quarantined_until_s = self._quarantined_until_s
        sound = [up and instant(end) <= now_s for up, end in zip(self._up, quarantined_until_s)]
        ready = self.columns.ready
        before, ready[:] = list(ready), sound if any(sound) else self._up
        changed = [pod for pod, was in enumerate(before) if ready[pod] != was]
        self._tell(PodReady, *((pod,) for pod in changed if ready[pod]))
        self._tell(PodNotReady, *((pod,) for pod in changed if not ready[pod]))

    # -- what is under way ----------------------------------------------------------------

    def dispatched(self, attempt: Attempt) -> None:
        """``attempt`` leaves for its pod."""
        self.columns.in_flight[attempt.pod_index] += 1
        if self._wants_dispatched:
            view = attempt.request.view()
            self.policy.observe(Dispatched(view, attempt.pod_index, self._kernel.now_s))

    def first_token(self, attempt: Attempt) -> None:
        """The first token of ``attempt`` passes through the proxy."""
        if self._wants_first_token:
            view = attempt.request.view()
            self.policy.observe(FirstToken(view, attempt.pod_index, self._kernel.now_s))

    def ended(self, attempt: Attempt) -> None:
        """``attempt`` is over, however it ended."""
        pod = attempt.pod_index
        self.columns.in_flight[pod] -= 1
        if self._wants_ended:
            fact = Ended(attempt.request.view(), pod, attempt.status, self._kernel.now_s)
            self.policy.observe(fact)

    def _tell(self, kind: Any, *facts: tuple[Any, ...]) -> None:
        if kind in self.policy.observes:
            for fact in facts:
                self.policy.observe(kind(*fact, self._kernel.now_s))

    def _ticks(self, interval_s: float) -> Process:
        ticks = 1
        while True:
            yield self._kernel.sleep_until(ticks * interval_s, Order.POLL)
            self.policy.observe(Tick(self._kernel.now_s))
            ticks += 1
