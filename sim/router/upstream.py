"""A backend as the proxy sees it: its pods, requests in flight, health and quarantine."""

from collections.abc import Callable, Iterable
from math import inf

from sim.core.kernel import Kernel, Order, Process, instant
from sim.core.ports import PodPort, PoolPort
from sim.core.request import Attempt, Reason, Status
from sim.router.decisions import guarded_choice, known_reasons
from sim.router.signals import PodColumns
from sim.router.views import (
    Dispatched,
    Ended,
    Fact,
    FirstToken,
    PodAdded,
    PodNotReady,
    PodReady,
    Policy,
    Tick,
)
from sim.scenario.pool import RouterSide


class Availability:
    """Pods that are up and not in quarantine; if there is none, those that are up.

    Who that is stands in the column ``ready``; ``changed`` is called with
    the pods for which it is not as before.
    """

    def __init__(
        self, columns: PodColumns, kernel: Kernel, changed: Callable[[list[int]], None]
    ) -> None:
        self._columns = columns
        self._ready = ready = columns.ready
        self._kernel = kernel
        self._changed = changed
        self._up = list(ready)
        self._quarantined_until_s = [-inf] * len(ready)

    def set_up(self, pod: int, up: bool) -> None:
        """A pod has died, or serves again."""
        self._up[pod] = up
        self._refresh()

    def quarantine(self, pod: int, duration_s: float) -> None:
        """Avoid a pod from now on; it is tried again when the time is over."""
        until_s = instant(self._kernel.now_s + duration_s)
        self._quarantined_until_s[pod] = until_s
        self._refresh()
        self._kernel.at_instant(until_s, Order.HOLD_EXPIRY, self._refresh)

    def quarantined(self, pod: int) -> bool:
        """Whether it is avoided for what it did, even if there is no other."""
        return self._quarantined_until_s[pod] > instant(self._kernel.now_s)

    def forget(self) -> None:
        """Nobody has done anything."""
        self._quarantined_until_s = [-inf] * len(self._up)
        self._refresh()

    def _refresh(self) -> None:
        sound = [up and not self.quarantined(pod) for pod, up in enumerate(self._up)]
        before = list(self._ready)
        self._columns.put(self._ready, slice(None), sound if any(sound) else self._up)
        self._changed([pod for pod, was in enumerate(before) if self._ready[pod] != was])


class Upstream:
    """The pods of one backend behind one policy, with exact counts.

    The load of a pod is the number of requests that this proxy has dispatched
    to it and whose response has not ended. ``pool`` is the pool whose member
    the backend is, if it is one, and ``side`` what the router does differently
    then; whether its pod serves is the pool's to say. ``make_policy`` is called
    once for each life of the proxy. ``choose`` is what the policy decides; one of
    another package is ``guarded``: what it answers is checked, and it cannot write.
    """

    def __init__(
        self,
        name: str,
        pods: list[PodPort],
        make_policy: Callable[[], Policy],
        kernel: Kernel,
        pool: PoolPort | None = None,
        side: RouterSide | None = None,
        guarded: bool = False,
    ) -> None:
        self.name = name
        self.pods = pods
        self.pool = pool
        self.side = side or RouterSide()
        self.columns = PodColumns([pod.name for pod in pods], guarded)
        self.serves = True  # whether there is anybody to place a request on
        self.fault_http_status: int | None = None  # what its pods answer instead of serving
        self._availability = Availability(self.columns, kernel, self._readiness_changed)
        self._make_policy = make_policy
        self._guarded = guarded
        self._put = self.columns.put
        self._kernel = kernel
        self._take_policy()

    def start(self) -> None:
        """Tell the policy of its pods and start its ticks; called once, at time 0."""
        self._introduce()
        interval_s = self.policy.tick_interval_s
        if interval_s is not None:
            self._kernel.spawn(self._ticks(interval_s))

    def restart(self) -> None:
        """The proxy has forgotten everything but which pods there are."""
        self.columns.forget()
        self._availability.forget()
        self._take_policy()
        self._introduce()

    def _take_policy(self) -> None:
        self.policy = self._make_policy()
        reasons = known_reasons(self.policy)
        choose = self.policy.choose
        self.choose = guarded_choice(self.policy, reasons) if self._guarded else choose
        observes = self.policy.observes
        self._wants_dispatched = Dispatched in observes
        self._wants_first_token = FirstToken in observes
        self._wants_ended = Ended in observes

    def _introduce(self) -> None:
        now_s = self._kernel.now_s
        names, ready = self.columns.names, self.columns.ready
        self._tell(PodAdded(pod, name, now_s) for pod, name in enumerate(names))
        self._tell(PodNotReady(pod, now_s) for pod, serves in enumerate(ready) if not serves)

    # -- who serves -----------------------------------------------------------------------

    @property
    def quarantined(self) -> bool:
        """Whether a pooled backend is avoided: it has no other pods to go to."""
        return self.pool is not None and self._availability.quarantined(0)

    def set_up(self, pod: int, up: bool) -> None:
        """A pod has died, or serves again."""
        self._availability.set_up(pod, up)

    def quarantine(self, pod: int, duration_s: float) -> None:
        """A pod has answered 500 or more, or its connection broke."""
        if duration_s > 0.0 and (self.pool is None or self.side.quarantine):
            self._availability.quarantine(pod, duration_s)

    def _readiness_changed(self, pods: list[int]) -> None:
        ready, now_s = self.columns.ready, self._kernel.now_s
        self.serves = True in ready
        self._tell(PodReady(pod, now_s) for pod in pods if ready[pod])
        self._tell(PodNotReady(pod, now_s) for pod in pods if not ready[pod])

    def _tell(self, facts: Iterable[Fact]) -> None:
        for fact in facts:
            if type(fact) in self.policy.observes:
                self.policy.observe(fact)

    # -- what is under way ----------------------------------------------------------------

    def dispatched(self, attempt: Attempt) -> None:
        """``attempt`` leaves for its pod."""
        in_flight, pod = self.columns.in_flight, attempt.pod_index
        self._put(in_flight, pod, in_flight[pod] + 1)
        if self._wants_dispatched:
            view = attempt.request.view()
            self.policy.observe(Dispatched(view, pod, self._kernel.now_s))

    def send(self, attempt: Attempt) -> None:
        """``attempt`` reaches its pod, whichever way it has taken."""
        fault = self.fault_http_status
        if fault is None:
            self.pods[attempt.pod_index].submit(attempt)
        else:
            attempt.end(Status.REJECTED, self._kernel.now_s, fault, Reason.BACKEND_ERROR)

    def first_token(self, attempt: Attempt) -> None:
        """The first token of ``attempt`` passes through the proxy."""
        if self._wants_first_token:
            view = attempt.request.view()
            self.policy.observe(FirstToken(view, attempt.pod_index, self._kernel.now_s))

    def ended(self, attempt: Attempt) -> None:
        """``attempt`` is over, however it ended."""
        in_flight, pod = self.columns.in_flight, attempt.pod_index
        self._put(in_flight, pod, in_flight[pod] - 1)
        if self._wants_ended:
            fact = Ended(attempt.request.view(), pod, attempt.status, self._kernel.now_s)
            self.policy.observe(fact)

    def _ticks(self, interval_s: float) -> Process:
        ticks = 1
        while True:
            yield self._kernel.sleep_until(ticks * interval_s, Order.POLL)
            self.policy.observe(Tick(self._kernel.now_s))
            ticks += 1
