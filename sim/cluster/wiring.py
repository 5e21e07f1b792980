"""Builds what a scenario describes: pods, pools, and the upstreams to them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from math import inf

from sim.core import registry as registries
from sim.core.errors import Misuse
from sim.core.kernel import Kernel
from sim.core.ports import PodPort, PoolContext, PoolPort, lacking
from sim.core.recorder import Recorder
from sim.core.registry import Family, Registry
from sim.core.rng import Streams
from sim.engine.lifecycle import ReplicaLifecycle
from sim.engine.pod import FrontedPod
from sim.hardware.loading import swap_times
from sim.router.budgets import Budgets
from sim.router.ingress import DirectService, Ingress
from sim.router.proxy import Proxy
from sim.router.routes import Routes
from sim.router.upstream import Upstream
from sim.router.views import Policy, PolicyContext
from sim.scenario.events import PodLost
from sim.scenario.pool import Pool
from sim.scenario.reachability import direct_backend, engines_of, reachable
from sim.scenario.schema import Scenario

PROXY_NAME = "proxy-0"


@dataclass(frozen=True)
class BuildContext:
    """What all parts of a run share."""

    scenario: Scenario
    families: Registry
    kernel: Kernel
    recorder: Recorder
    streams: Streams


@dataclass
class Deployment:
    """What stands there: pods by backend, in the order of the scenario, and pools by name.

    ``replicas`` are those of backends whose pods can be down, ``member_of`` is
    the pool of each pooled backend.
    """

    pods: dict[str, list[PodPort]] = field(default_factory=dict)
    replicas: dict[str, list[ReplicaLifecycle]] = field(default_factory=dict)
    pools: dict[str, PoolPort] = field(default_factory=dict)
    member_of: dict[str, str] = field(default_factory=dict)

    def lives_s(self, now_s: float) -> dict[str, tuple[tuple[float, float], ...]]:
        """When the pod of each pooled backend was ready, up to ``now_s``."""
        replicas = [self.replicas[member][0] for member in self.member_of]
        return {each.processes[0].name: each.lives(now_s) for each in replicas}

    @property
    def standing(self) -> list[ReplicaLifecycle]:
        """Replicas that serve from the start: those that no pool has to load."""
        return [
            replica
            for backend, replicas in self.replicas.items()
            if backend not in self.member_of
            for replica in replicas
        ]


def foreign_families(scenario: Scenario) -> list[Family]:
    """Families of other packages that a run of ``scenario`` calls."""
    families = registries.load()
    for known, specs in (
        (families.engines, scenario.engines.values()),
        (families.policies, [each.policy for each in scenario.backends.values()]),
        (families.pools, scenario.pools.values()),
        (families.workloads, scenario.workloads.values()),
    ):
        for kind in dict.fromkeys(spec.kind for spec in specs):
            known[kind]
    return families.foreign


def deployment(context: BuildContext) -> Deployment:
    """Pods and pools; nothing is ready yet that can be down."""
    built = Deployment()
    scenario = context.scenario
    built.member_of = {
        member: name for name, pool in scenario.pools.items() for member in pool.members
    }
    mortal = {event.backend for event in scenario.events if isinstance(event, PodLost)}
    for name in reachable(scenario):
        builds = [
            partial(_engines, context, name, i) for i in range(scenario.backends[name].replicas)
        ]
        if name in built.member_of or name in mortal:
            replicas = [ReplicaLifecycle(build, context.kernel) for build in builds]
            built.replicas[name] = replicas
            built.pods[name] = [process for each in replicas for process in each.processes]
        else:
            built.pods[name] = [pod for build in builds for pod in build()]
    for name, spec in scenario.pools.items():
        built.pools[name] = _pool(context, name, spec, built)
    return built


def gpus(context: BuildContext, built: Deployment) -> int:
    """GPUs of all pods; members of a pool take turns on those of the largest one."""
    scenario = context.scenario
    taken = {
        name: len(pods) * scenario.engines[scenario.backends[name].engine].tensor_parallel
        for name, pods in built.pods.items()
    }
    shared = sum(max(taken[name] for name in pool.members) for pool in scenario.pools.values())
    return shared + sum(taken[name] for name in taken if name not in built.member_of)


def _engines(context: BuildContext, backend: str, replica: int) -> list[PodPort]:
    """The pods of one replica, behind their front ends."""
    engine = context.scenario.engines[context.scenario.backends[backend].engine]
    implementation = context.families.engines[engine.kind].implementation
    pods: list[PodPort] = implementation.replica(f"{backend}-{replica}", engine, context.kernel)
    if not isinstance(pods, list | tuple) or not pods:
        raise Misuse(f"replica must return a list of pods; got {pods!r}", implementation)
    for pod in pods:
        if missing := lacking(pod, PodPort):
            said = f"a pod of its replica has no {', '.join(missing)}: see sim.core.ports.PodPort"
            raise Misuse(said, implementation)
    if engine.front_end is None:
        return pods
    return [FrontedPod(pod, engine.front_end, context.kernel) for pod in pods]


def _pool(context: BuildContext, name: str, spec: Pool, built: Deployment) -> PoolPort:
    scenario = context.scenario
    engines = engines_of(scenario, spec)
    times = {
        member: swap_times(settings, engines[member]) for member, settings in spec.members.items()
    }
    given = PoolContext(
        kernel=context.kernel,
        streams=context.streams,
        events=context.recorder.pool_events,
        processes={member: built.replicas[member][0].processes[0] for member in spec.members},
        unload_s={member: each.unload_s for member, each in times.items()},
        load_s={member: each.load_s for member, each in times.items()},
        header_timeout_s=scenario.router.proxy.response_header_timeout or inf,
        resident_bytes=spec.resident_bytes(engines),
        contexts=spec.contexts(engines),
        pinning_s={member: each.pinning_s for member, each in times.items()},
    )
    pool: PoolPort = context.families.pools[spec.kind].implementation(name, spec, given)
    return pool


def upstreams(context: BuildContext, built: Deployment) -> dict[str, Upstream]:
    """The backends as the proxy knows them."""
    upstreams = {}
    for name, pods in built.pods.items():
        policy, pool = partial(_policy, context, name, count()), built.member_of.get(name)
        guarded = context.families.policies[context.scenario.backends[name].policy.kind].foreign
        upstream = partial(Upstream, name, pods, policy, context.kernel, guarded=guarded)
        if pool is None:
            upstreams[name] = upstream()
        else:
            upstreams[name] = upstream(built.pools[pool], context.scenario.pools[pool].router_side)
    return upstreams


def _policy(context: BuildContext, backend: str, lives: Iterator[int]) -> Policy:
    """The policy of the next life of the proxy, with draws of its own."""
    life = next(lives)
    spec = context.scenario.backends[backend].policy
    salt = context.scenario.ring_salt
    given = PolicyContext(
        proxy=f"{PROXY_NAME}/{life}" if life else PROXY_NAME,
        backend=backend,
        streams=context.streams,
        ring_salt=str(context.streams.seed) if salt is None else salt,
    )
    policy: Policy = context.families.policies[spec.kind].implementation(spec, given)
    return policy


def proxy(context: BuildContext, upstreams: dict[str, Upstream], ingress: Ingress) -> Proxy:
    """The router in front of all backends."""
    router = context.scenario.router
    budgets = router.policy.budgets
    return Proxy(
        PROXY_NAME,
        Routes(router, context.scenario.backends, upstreams),
        list(upstreams.values()),
        ingress,
        context.kernel,
        context.recorder,
        Budgets(budgets) if budgets else None,
        router.proxy.quarantine_duration,
        router.proxy.abandoned == "runs-on",
    )


def direct(
    context: BuildContext, upstreams: dict[str, Upstream], ingress: Ingress
) -> dict[str, DirectService]:
    """The services of the backends that some workload reaches beside the router."""
    wanted = dict.fromkeys(direct_backend(spec) for spec in context.scenario.workloads.values())
    return {
        name: DirectService(upstreams[name], ingress, context.kernel, context.recorder)
        for name in wanted
        if name is not None
    }
