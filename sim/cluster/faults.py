"""What a scenario's ``events`` do to the cluster, at their time."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import partial
from math import inf

from sim.cluster.wiring import Deployment
from sim.core.kernel import Kernel, Order
from sim.router.proxy import Proxy
from sim.router.upstream import Upstream
from sim.scenario.events import (
    MAX_LOADS,
    BackendErrors,
    Event,
    LoadFailureEvent,
    PodLost,
    ProbeFailure,
    ProxyRestart,
)


class FaultInjector:
    """Schedules the events of a scenario; those of one instant happen in the order of the file.

    What happens to a backend that nothing leads to has no consequences. Of two
    spells of errors that overlap the one that began last is answered with; a pod
    that was lost twice serves again, and a probe answers, when both spells are over.
    """

    def __init__(
        self, built: Deployment, upstreams: dict[str, Upstream], proxy: Proxy, kernel: Kernel
    ) -> None:
        self._built = built
        self._upstreams = upstreams
        self._proxy = proxy
        self._kernel = kernel
        self._errors: defaultdict[str, list[BackendErrors]] = defaultdict(list)  # under way
        self._waiting: list[Event] = []  # for their time
        self._to_fail: list[tuple[LoadFailureEvent, int]] = []  # and the loads begun before
        self._losses: Counter[tuple[str, int]] = Counter()  # that are not over

    def schedule(self, events: Iterable[Event]) -> None:
        """Called once, at time 0."""
        for event in events:
            if isinstance(event, ProxyRestart) or event.backend in self._upstreams:
                self._waiting.append(event)
                self._kernel.at_instant(event.at, Order.FAULT, partial(self._happen, event))

    def unmet(self, until_s: float) -> list[str]:
        """What was to happen before ``until_s`` and has not, now that the run is over."""
        end_s = self._kernel.now_s
        found = [
            f"{event.kind} at {event.at:g} s did not happen: the run ended at {end_s:g} s"
            for event in self._waiting
            if event.at < until_s
        ]
        for event, before in self._to_fail:
            begun = self._loads(event) - before
            if event.loads is not None and begun < event.loads:
                found.append(
                    f"load-failure of {event.backend} at {event.at:g} s: {begun} of the "
                    f"{event.loads} loads that were to fail began"
                )
        return found

    def _loads(self, event: LoadFailureEvent) -> int:
        """Loads of its member that have begun."""
        return self._built.replicas[event.backend][0].life(self._kernel.now_s).loads

    def _happen(self, event: Event) -> None:
        self._waiting.remove(event)
        if isinstance(event, PodLost):
            self._lose(event)
        elif isinstance(event, BackendErrors):
            self._errors[event.backend].append(event)
            self._answer(event.backend)
            if event.duration is not None:
                self._after(event.duration, partial(self._recover, event))
        elif isinstance(event, ProxyRestart):
            self._proxy.restart()
        elif isinstance(event, LoadFailureEvent):
            pool = self._upstreams[event.backend].pool
            assert pool is not None
            after_s = inf if event.after is None else event.after
            pool.fail_loads(event.backend, after_s, event.loads or MAX_LOADS)
            self._to_fail.append((event, self._loads(event)))
        elif isinstance(event, ProbeFailure):
            self._silence(event)

    def _silence(self, event: ProbeFailure) -> None:
        until_s = self._kernel.now_s + (inf if event.duration is None else event.duration)
        for process in self._built.replicas[event.backend][0].processes:
            process.silent_until_s[event.probe] = max(process.silent_until_s[event.probe], until_s)

    def _recover(self, event: BackendErrors) -> None:
        self._errors[event.backend].remove(event)
        self._answer(event.backend)

    def _answer(self, backend: str) -> None:
        errors = self._errors[backend]
        self._upstreams[backend].fault_http_status = errors[-1].http_status if errors else None

    def _lose(self, event: PodLost) -> None:
        upstream, replica = (
            self._upstreams[event.backend],
            self._built.replicas[event.backend][event.replica],
        )
        replica.stop()
        if upstream.pool is not None:
            upstream.pool.lost(event.backend)
            return
        self._losses[event.backend, event.replica] += 1
        self._set_up(event, up=False)
        if event.duration is not None:
            self._after(event.duration, partial(self._come_back, event))

    def _come_back(self, event: PodLost) -> None:
        replica = self._built.replicas[event.backend][event.replica]
        self._losses[event.backend, event.replica] -= 1
        if not self._losses[event.backend, event.replica]:
            replica.start()
            self._set_up(event, up=True)

    def _set_up(self, event: PodLost, up: bool) -> None:
        upstream, replica = (
            self._upstreams[event.backend],
            self._built.replicas[event.backend][event.replica],
        )
        for process in replica.processes:
            upstream.set_up(upstream.pods.index(process), up)
        if event.restarts_proxy:
            self._proxy.restart()

    def _after(self, duration_s: float, callback: partial[None]) -> None:
        self._kernel.at_instant(self._kernel.now_s + duration_s, Order.FAULT, callback)


def restarts_s(events: Sequence[Event]) -> tuple[float, ...]:
    """When the proxy restarts, in order."""
    times_s = [event.at for event in events if isinstance(event, ProxyRestart)]
    for event in events:
        if isinstance(event, PodLost) and event.restarts_proxy:
            times_s.append(event.at)
            if event.duration is not None:
                times_s.append(event.at + event.duration)
    return tuple(sorted(times_s))
