"""Which backends requests can reach, and which models they may ask for there."""

from typing import Any

from sim.hardware.engine import Engine
from sim.scenario.pool import Pool
from sim.scenario.schema import Scenario


def reachable(scenario: Scenario) -> list[str]:
    """The backends that rules, pools or direct traffic name, in the order of the scenario."""
    router = scenario.router
    used = {name for rule in router.rules for name in rule.backends}
    used.update(member for pool in filter(None, scenario.pools.values()) for member in pool.members)
    used.update(direct_backend(spec) or "" for spec in scenario.workloads.values())
    used.add(router.default_route or "")
    by_name = router.default_route_strategy == "BackendNameMatch"
    return [name for name in scenario.backends if by_name or name in used]


def engines_of(scenario: Scenario, pool: Pool) -> dict[str, Engine]:
    """The engine of each member, as far as there is one."""
    backends = scenario.backends
    named = {name: backends[name].engine for name in pool.members if name in backends}
    engines = scenario.engines
    return {name: engines[engine] for name, engine in named.items() if engine in engines}


def direct_backend(workload: Any) -> str | None:
    """The backend that a workload reaches beside the router; None when it goes through it."""
    backend: str | None = getattr(workload, "direct", None)
    return backend


def models_served(scenario: Scenario) -> tuple[str, ...]:
    """The models that requests may ask for; empty when any name will do.

    A router that looks at the name of the model rewrites it for the backend, so
    then it may be any.
    """
    router = scenario.router
    looked_at = any(rule.match.models for rule in router.rules)
    if looked_at or router.default_route_strategy == "BackendNameMatch":
        return ()
    # A backend with faults stands in without an engine: then any name will do as well.
    engines = [scenario.engines.get(scenario.backends[name].engine) for name in reachable(scenario)]
    models = [engine and engine.model_name for engine in engines]
    return () if None in models else tuple(dict.fromkeys(str(model) for model in models))
