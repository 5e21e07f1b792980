"""Drives one scenario under one seed through its window."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from math import inf
from pathlib import Path

from sim.cluster.faults import FaultInjector, restarts_s
from sim.cluster.wiring import BuildContext, deployment, direct, gpus, proxy, upstreams
from sim.core import registry as registries
from sim.core.blame import faults_named
from sim.core.errors import Misuse
from sim.core.kernel import Kernel, Order, Process
from sim.core.ports import PodObserver, PodTotals, ProxyPort, Workload, WorkloadContext
from sim.core.recorder import Recorder, RunFacts
from sim.core.request import Request
from sim.core.rng import Streams
from sim.router.ingress import CheckedIngress, Ingress
from sim.router.signals import Poller
from sim.router.views import HasGauges
from sim.scenario.reachability import backends_of, direct_backend, models_served
from sim.scenario.schema import Scenario

WATCH_S = 3600.0


class Cluster:
    """Everything of one run. Build it, ``run`` it once, then read ``recorder`` and ``facts``."""

    def __init__(
        self,
        scenario: Scenario,
        seed: int,
        directory: Path,
        observer: PodObserver | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.kernel = Kernel()
        self.recorder = recorder or Recorder()
        self.streams = Streams(seed)
        self._scenario = scenario
        self._families = registries.load()
        with self._faults_named():
            build = BuildContext(scenario, self._families, self.kernel, self.recorder, self.streams)
            self._deployment = deployment(build)
            self.pods = [pod for pods in self._deployment.pods.values() for pod in pods]
            if observer is not None:
                for pod in self.pods:
                    pod.watch(observer)
            self._gpus = gpus(build, self._deployment)
            self._ingress = Ingress(self.kernel, self.recorder)
            self.upstreams = upstreams(build, self._deployment)
            self.proxy = proxy(build, self.upstreams, self._ingress)
            self._direct = direct(build, self.upstreams, self._ingress)
            self._faults = FaultInjector(self._deployment, self.upstreams, self.proxy, self.kernel)
            interval_s = scenario.router.metrics.poll_interval
            each = list(self.upstreams.values())
            self._poller = Poller(each, interval_s, self.kernel, self.recorder)
            self._workloads = self._make_workloads(directory)
            self._unfinished = set(self._workloads)
            ticking = sum(upstream.policy.tick_interval_s is not None for upstream in each)
            sampling = sum(pool.samples_for_ever for pool in scenario.pools.values())
            self._periodic = 1 + ticking + sampling  # polls, ticks, looks whether pools are idle
            self._opened: tuple[PodTotals, ...] = ()
            self._closed: tuple[PodTotals, ...] = ()
            self._gauges: dict[str, dict[str, float]] = {}

    def run(self, on_tick: Callable[[float], None] | None = None) -> RunFacts:
        """Run from time 0 to the end of the window, or until everything measured is over.

        Raises ``InvariantError`` when nothing is left to happen although the
        workload has not finished, and ``PackageError`` for what a package of
        somebody else's does wrong.
        """
        with self._faults_named():
            return self._run(on_tick)

    def _faults_named(self) -> AbstractContextManager[None]:
        def when() -> str:
            return f"seed {self.streams.seed}, {self.kernel.now_s:g} s"

        return faults_named(lambda: self._families.foreign, when)

    def _run(self, on_tick: Callable[[float], None] | None) -> RunFacts:
        window = self._scenario.window
        kernel = self.kernel
        measure_s = inf if window.measure is None else window.measure
        window_end_s = window.warmup + measure_s
        drain = window.measure is None if window.drain is None else window.drain
        self._start()
        if drain:
            kernel.spawn(self._watch())
        kernel.run_until(window_end_s, on_tick)
        self._closed = self._totals()
        self._gauges = self._read_gauges()
        if drain and window.measure is not None:
            self._drain(on_tick)
        for pod in self.pods:
            pod.report()
        self.proxy.report()
        self.recorder.remarks = self._faults.unmet(window_end_s)
        return self._facts(window.warmup, window_end_s)

    # -- building -------------------------------------------------------------------------

    def _make_workloads(self, directory: Path) -> dict[str, Workload]:
        workloads: dict[str, Workload] = {}
        models = models_served(self._scenario)
        for name, spec in self._scenario.workloads.items():
            family = self._families.workloads[spec.kind]
            target: ProxyPort = self._direct.get(direct_backend(spec) or "", self.proxy)
            context = WorkloadContext(
                name,
                self.kernel,
                self.streams,
                CheckedIngress(target) if family.foreign else target,
                directory,
                partial(self._workload_finished, name),
                self.recorder.retries.append,
                models,
            )
            workloads[name] = family.implementation(spec, context)
        return workloads

    def _start(self) -> None:
        """Everything stands at time 0: pods, pools, what watches them, faults, clients."""
        for replicas in self._deployment.standing:
            replicas.start()
        for pool in self._deployment.pools.values():
            pool.start()
        self.kernel.spawn(self._poller.run())
        self.proxy.start()
        self._faults.schedule(self._scenario.events)
        self.kernel.at(self._scenario.window.warmup, Order.WINDOW, self._open_window)
        for workload in self._workloads.values():
            workload.start()

    # -- while it runs --------------------------------------------------------------------

    def _open_window(self) -> None:
        self._opened = self._totals()

    def _totals(self) -> tuple[PodTotals, ...]:
        return tuple(pod.totals(self.kernel.now_s) for pod in self.pods)

    def _read_gauges(self) -> dict[str, dict[str, float]]:
        """Return the gauges of the policies that have some, by backend."""
        read = {
            name: {gauge: float(value) for gauge, value in policy.gauges.items()}
            for name, upstream in self.upstreams.items()
            if isinstance(policy := upstream.policy, HasGauges)
        }
        return {name: gauges for name, gauges in read.items() if gauges}

    def _workload_finished(self, name: str) -> None:
        self._unfinished.discard(name)
        if not self._unfinished and self._scenario.window.measure is None:
            self.kernel.stop()

    def _watch(self) -> Process:
        """Look once an hour of simulated time whether anything is left but what never ends."""
        hours = 1
        while True:
            yield self.kernel.sleep_until(hours * WATCH_S, Order.OBSERVATION)
            if self.kernel.pending <= self._periodic:
                unanswered = sum(request.end_s is None for request in self.recorder.requests)
                said = f"has not called finished, and {unanswered} requests are not answered"
                waits = min(self._unfinished, default=None)
                culprit = None if waits is None or unanswered else self._workloads[waits]
                raise Misuse(f"nothing is left to happen: workload {waits} {said}", culprit)
            hours += 1

    def _drain(self, on_tick: Callable[[float], None] | None) -> None:
        """Go on until what arrived before the end of the window is over."""
        awaited = {request for request in self.recorder.requests if request.end_s is None}
        if not awaited:
            return

        def ended(request: Request) -> None:
            awaited.discard(request)
            if not awaited:
                self.kernel.stop()

        self._ingress.on_end = ended
        self.kernel.run_until(inf, on_tick)

    def _facts(self, window_start_s: float, window_end_s: float) -> RunFacts:
        scenario = self._scenario
        slo = scenario.slo
        return RunFacts(
            scenario=scenario.name,
            variant=scenario.variant,
            seed=self.streams.seed,
            window_start_s=window_start_s,
            window_end_s=window_end_s,
            end_s=self.kernel.now_s,
            pods=tuple(pod.name for pod in self.pods),
            gpus=self._gpus,
            agents=sum(spec.agents_total for spec in scenario.workloads.values()),
            has_home=any(upstream.policy.has_home for upstream in self.upstreams.values()),
            opened=self._opened or tuple(PodTotals() for _ in self.pods),
            closed=self._closed,
            events=self.kernel.events,
            slo_ttft_s=slo.ttft if slo else None,
            slo_tpot_s=slo.tpot if slo else None,
            slo_e2e_s=slo.e2e if slo else None,
            workload_counts={name: work.counts() for name, work in self._workloads.items()},
            rules={
                rule.name: backends_of(rule, scenario.backends) for rule in scenario.router.rules
            },
            pools={
                name: {member: self._deployment.pods[member][0].name for member in pool.members}
                for name, pool in scenario.pools.items()
            },
            exclusive_pools=tuple(name for name, pool in scenario.pools.items() if pool.exclusive),
            lives_s=self._deployment.lives_s(self.kernel.now_s),
            restarts_s=restarts_s(scenario.events),
            gauges=self._gauges,
        )
