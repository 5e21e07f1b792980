"""Which requests a rule takes, which backends they can reach, and which models they may name."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any

from sim.hardware.engine import Engine
from sim.scenario.pool import Pool
from sim.scenario.routing import CLASSIFICATION_HEADER, COMPLEXITY_HEADER, Match, Rule
from sim.scenario.schema import Backend, Scenario


def backends_of(rule: Rule, backends: Mapping[str, Backend]) -> tuple[str, ...]:
    """The backends of a rule, in order; none if not one of them can do all that it requires."""
    wanted = set(rule.match.required_capabilities)
    able = any(wanted <= set(backends[name].capabilities) for name in rule.backends)
    return rule.backends if able else ()


def first_backend(scenario: Scenario, model: str, headers: Mapping[str, str]) -> str | None:
    """Where the router sends a request as long as that backend is there; None for nowhere."""
    router = scenario.router
    taken = (
        rule.backends[0]
        for rule in router.rules
        if matches(rule.match, model, headers) and backends_of(rule, scenario.backends)
    )
    by_name = router.default_route_strategy == "BackendNameMatch" and model in scenario.backends
    return next(taken, model if by_name else router.default_route)


def headers_of(workload: Any) -> dict[str, str]:
    """What the requests of a workload send, names in lower case."""
    return {name.lower(): value for name, value in getattr(workload, "headers", {}).items()}


def matches(match: Match, model: str, headers: Mapping[str, str]) -> bool:
    """Whether a request for ``model`` with ``headers``, names in lower case, is meant.

    Capabilities are those of backends and no matter of the request. Capital
    letters of a request's classification or complexity do not count.
    """
    wanted = {name.lower(): value for name, value in match.headers.items()}
    classification = headers.get(CLASSIFICATION_HEADER, "").lower()
    complexity = headers.get(COMPLEXITY_HEADER, "").lower()
    return (
        (not match.models or any(fits(model, glob) for glob in match.models))
        and all(headers.get(name) == value for name, value in wanted.items())
        and (not match.data_classification or classification in match.data_classification)
        and match.task_complexity in (None, complexity)
    )


def fits(model: str, glob: str) -> bool:
    """Whether ``model`` fits ``glob`` as LLMKube reads it (Go's ``path.Match``).

    A wildcard ends at a slash: ``qwen*`` is not ``qwen/qwen3``. The missing
    model fits ``*`` only.
    """
    parts, globs = model.split("/"), glob.replace("[^", "[!").split("/")
    return len(parts) == len(globs) and all(map(fnmatchcase, parts, globs))


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
