"""What may be simulated and is hardly meant: pools that never swap, requests nobody serves.

Or what is written and changes nothing: a number that the end of the run cuts
off, a priority that no engine looks at. And numbers that are hardly meant: a time
in ms, prompts that are too long wherever they go.
"""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Any, Final

from sim.core.document import Finding, Path, at
from sim.core.fields import DURATION, SIZE
from sim.core.suggest import nearest as nearest_name
from sim.hardware.loading import swap_times
from sim.scenario.events import BackendErrors, LoadFailureEvent
from sim.scenario.inputs import Inputs
from sim.scenario.reachability import (
    direct_backend,
    engines_of,
    first_backend,
    fits,
    headers_of,
    matches,
    reachable,
)
from sim.scenario.routing import TEAM_HEADER, Router
from sim.scenario.schema import Scenario
from sim.scenario.walk import duration_in_words, values

HOUR_S: Final = 3600.0
DAY_S: Final = 24 * HOUR_S
SMALL_BYTES: Final = 1e6
USUAL_S: Final[Mapping[str, float]] = {
    "arrival": 366 * DAY_S,
    "rows": 366 * DAY_S,
    "events": 7 * DAY_S,
    "measure": 7 * DAY_S,
    "warmup": 2 * DAY_S,
    "idleTimeout": 7 * DAY_S,
    "tpot": 1.0,
    "ttft": 100.0,
    "e2e": HOUR_S,
    "perRequest": 10.0,
    "perPromptToken": 0.01,
    "pollInterval": 60.0,
    "think": HOUR_S,
    "cap": HOUR_S,
    "thinkCap": HOUR_S,
    "ramp": HOUR_S,
    "load": HOUR_S,
    "unload": 600.0,
    "init": HOUR_S,
    "compile": HOUR_S,
    "graphs": HOUR_S,
    "warmUp": HOUR_S,
    "quarantineDuration": HOUR_S,
    "backoff": HOUR_S,
    "allReduce": 1.0,
}
"""By key the longest time that people mean by a bare number; of what is not named here 4 hours.

Judgements, not measurements: what they decide is a warning, and a unit silences it."""

OTHERWISE_S: Final = 4 * HOUR_S

_WILDCARDS = "*?["
_PACE = ("max", "honour_retry_after", "backoff")


def lints(
    scenario: Scenario, root: Any, inputs: Inputs, served: tuple[str, ...]
) -> Iterator[Finding]:
    """Yield warnings about ``scenario``, which has no faults, as ``root`` says it.

    ``inputs`` are the files that its workloads read, ``served`` the models that
    requests may ask for.
    """
    found = (
        *_pools(scenario),
        *_unrouted(scenario),
        *_keyless(scenario, inputs),
        *_unsent_headers(scenario),
        *_unlooked_at(scenario),
        *_never_answered(scenario),
        *_too_late(scenario),
        *_events(scenario),
        *_units(scenario, root),
        *_prompts(scenario, inputs.serving(served)),
    )
    return (Finding(path, message) for path, message in found)


def _pools(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Pools that cannot do what they are for."""
    for name, pool in scenario.pools.items():
        engines = engines_of(scenario, pool)
        times = {each: swap_times(pool.members[each], engines[each]) for each in engines}
        for each in pool.warnings(times):
            yield ("pools", name, *each.path.split(".")), each.message


def _unrouted(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Requests that no rule takes where there is no default route."""
    if scenario.router.default_route is not None:
        return
    for name, workload in scenario.workloads.items():
        if direct_backend(workload) is not None:
            continue
        headers = headers_of(workload)
        for model in dict.fromkeys(getattr(workload, "asks_for", tuple)()):
            if first_backend(scenario, model, headers) is None:
                path = ("workloads", name, *_key(workload, model))
                yield path, _no_route(scenario, model)


def _too_late(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """What workloads are to send after the end of the window."""
    end_s = _window_end_s(scenario)
    over = f"the window is over at {end_s:g} s"
    for name, workload in scenario.workloads.items():
        ramp_s = getattr(workload, "ramp", 0.0)
        if ramp_s > end_s:
            said = f"agents begin until {ramp_s:g} s, but {over}"
            yield ("workloads", name, "ramp"), said
        count, arrivals = getattr(workload, "count", None), getattr(workload, "arrivals", None)
        if isinstance(count, int) and arrivals is not None and count / arrivals.rate > end_s:
            last_s = count / arrivals.rate
            said = f"the last of {count:,} requests comes at about {last_s:,.0f} s, but {over}"
            yield ("workloads", name, "count"), said
        rows = getattr(workload, "rows", None) or ()
        late = sum(row.arrival is not None and row.arrival >= end_s for row in rows)
        if late:
            said = f"{late} of {len(rows)} come later than is measured: {over}"
            yield ("workloads", name, "rows"), said


def _events(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Events that have no effect, or not as long as they say."""
    end_s = inf if scenario.window.drain else _window_end_s(scenario)
    leads = set(reachable(scenario))
    for index, event in enumerate(scenario.events):
        path: Path = ("events", index)
        duration_s = getattr(event, "duration", None)
        backend = getattr(event, "backend", None)
        if backend is not None and backend not in leads:
            yield (*path, "backend"), f"nothing leads to {backend!r}: the event has no effect"
        elif (limit_s := _fails_before(scenario, event)) is not None:
            yield (*path, "after"), f"its limit ends each load of {backend} after {limit_s:g} s"
        elif event.at >= end_s:
            yield (*path, "at"), f"comes after the end of the window at {end_s:g} s"
        elif duration_s is not None and event.at + duration_s > end_s:
            said = f"lasts to the end of the window at {end_s:g} s, not until"
            yield (*path, "for"), f"{said} {event.at + duration_s:g} s"


def _fails_before(scenario: Scenario, event: Any) -> float | None:
    """When a load that is to fail has failed already, at the limit of its pool or member."""
    if not isinstance(event, LoadFailureEvent) or event.after is None:
        return None
    for pool in scenario.pools.values():
        if event.backend in pool.members:
            limits = (
                pool.members[event.backend].load_limit,
                getattr(pool, "health_check_timeout", None),
            )
            limit_s = min((each for each in limits if each is not None), default=inf)
            return limit_s if limit_s < event.after else None
    return None


def _window_end_s(scenario: Scenario) -> float:
    """Infinite for a run to the end of its workloads."""
    window = scenario.window
    return inf if window.measure is None else window.warmup + window.measure


def _key(workload: Any, model: str) -> Path:
    """Where a workload says that it asks for ``model``; rows are not told apart."""
    if model in getattr(workload, "fallback_models", ()):
        return ("fallbackModels",)
    return ("model",) if model and model == getattr(workload, "model", None) else ()


def _no_route(scenario: Scenario, model: str) -> str:
    requests = f"requests for {model!r}" if model else "requests that name no model"
    said = f"no rule takes {requests}: they get 503 no_route"
    if _is_known(scenario.router, model):
        return f"{said}; rules that would take the model want other headers or capabilities"
    known = _models_named(scenario)
    if not model:
        return f"{said}; give model, such as {known[0]}" if known else said
    near = nearest_name(model, known)
    if near is not None:
        return f"{said}; did you mean {near!r}?"
    return f"{said}; rules are for {', '.join(known)}" if known else said


def _keyless(scenario: Scenario, inputs: Inputs) -> Iterator[tuple[Path, str]]:
    """Requests without a session key where a policy looks for one, to choose among pods."""
    for name, workload in scenario.workloads.items():
        keyless = getattr(workload, "keyless", None)
        if direct_backend(workload) is not None or keyless is None or not keyless(inputs):
            continue
        sent = headers_of(workload)
        for backend in _first_backends(scenario, workload):
            policy = scenario.backends[backend].policy
            wanted = getattr(policy, "headers", None)
            unsent = wanted is not None and sent.keys().isdisjoint(wanted)
            if unsent and _pods(scenario, backend) > 1:
                yield (
                    ("workloads", name),
                    f"has no session key: {policy.kind} of backend {backend} sends each of its "
                    "requests to the least-loaded pod",
                )


def _first_backends(scenario: Scenario, workload: Any) -> list[str]:
    """Where the requests of a workload go first, for each model that they ask for.

    None when rules look at models that only a file names.
    """
    asked = workload.asks_for()
    if not asked and not any(rule.match.models for rule in scenario.router.rules):
        asked = (workload.model or "",)
    found = [first_backend(scenario, model, headers_of(workload)) for model in asked]
    return [backend for backend in dict.fromkeys(found) if backend is not None]


def _pods(scenario: Scenario, backend: str) -> int:
    spec = scenario.backends[backend]
    return spec.replicas * int(getattr(scenario.engines[spec.engine], "data_parallel", 1))


def _unsent_headers(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Rules and budgets for headers that no workload sends."""
    sent = [headers_of(each) for each in scenario.workloads.values() if not direct_backend(each)]
    router = scenario.router
    idle = [
        rule.name
        for rule in router.rules
        for of_headers in [rule.match.model_copy(update={"models": ()})]
        if not any(matches(of_headers, "", headers) for headers in [{}, *sent])
    ]
    if idle:
        names = f"{len(idle)} rules take" if len(idle) > 1 else "one rule takes"
        message = f"{names} nothing, for no workload sends the headers wanted: {', '.join(idle)}"
        yield ("router", "rules"), message
    for index, budget in enumerate(router.policy.budgets):
        header = (budget.header_key or TEAM_HEADER).lower()
        if budget.scope == "team" and not any(header in headers for headers in sent):
            message = f"budget {budget.name} caps nobody: no workload sends the header {header}"
            yield ("router", "policy", "budgets", index), message


def _unlooked_at(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Settings that nothing looks at: priorities under fcfs, contexts or IfIdle without a pool."""
    pools = scenario.pools.values()
    reached = reachable(scenario)
    engines = [scenario.engines[scenario.backends[name].engine] for name in reached]
    if not any(pool.contexts(engines_of(scenario, pool)) for pool in pools):
        yield from _in_vain(scenario, "num_ctx", "numCtx", "there is no pool of kind ollama")
    others = ("router", "proxy", "maxInstanceFailoverRerouteAttempts")
    one_each = all(scenario.backends[name].replicas == 1 for name in reached)
    if scenario.router.proxy.max_instance_failover_reroute_attempts and one_each:
        yield others, "changes nothing: no backend has another pod"
    if all(getattr(engine, "scheduling_policy", None) != "priority" for engine in engines):
        why = "no engine has schedulingPolicy: priority"
        yield from _in_vain(scenario, "priority", "priority", why)
    pooled = {member for pool in pools for member in pool.members}
    for index, rule in enumerate(scenario.router.rules):
        if rule.pool_activation == "IfIdle" and not pooled & set(rule.backends):
            message = "changes nothing: none of the rule's backends is a member of a pool"
            yield ("router", "rules", index, "poolActivation"), message


def _in_vain(scenario: Scenario, name: str, key: str, why: str) -> Iterator[tuple[Path, str]]:
    """Workloads that say ``name``, themselves or in a row, where nothing looks at it."""
    for workload, spec in scenario.workloads.items():
        if any(getattr(each, name, None) for each in (spec, *(getattr(spec, "rows", None) or ()))):
            yield ("workloads", workload, key), f"changes nothing: {why}"


def _never_answered(scenario: Scenario) -> Iterator[tuple[Path, str]]:
    """Retries after HTTP statuses that nobody answers: the router says 502 where backends fail."""
    events = {each.http_status for each in scenario.events if isinstance(each, BackendErrors)}
    answers = {400, 429, 502, 503} | {status for status in events if status < 500}
    for name, workload in scenario.workloads.items():
        retry = getattr(workload, "retry", None)
        if retry is None or direct_backend(workload) is not None or set(retry.on) & answers:
            continue
        if retry.on and set(type(retry).model_fields) & retry.model_fields_set <= {"on", *_PACE}:
            statuses = ", ".join(map(str, retry.on))
            message = f"no try is repeated: the router never answers {statuses}; 502 or 503 it does"
            yield ("workloads", name, "retry", "on"), message


def _is_known(router: Router, model: str) -> bool:
    """Whether a rule would take the model, were it for nothing else."""
    globs = [rule.match.models for rule in router.rules]
    return any(not each or any(fits(model, glob) for glob in each) for each in globs)


def _models_named(scenario: Scenario) -> list[str]:
    """The models that a request may ask for, those behind wildcards aside."""
    globs = [glob for rule in scenario.router.rules for glob in rule.match.models]
    named = [glob for glob in globs if not set(glob) & set(_WILDCARDS)]
    if scenario.router.default_route_strategy == "BackendNameMatch":
        named += scenario.backends
    return list(dict.fromkeys(named))


def _units(scenario: Scenario, root: Any) -> Iterator[tuple[Path, str]]:
    """Bare numbers that would be usual in another unit; whoever writes a unit means it."""
    for path, value, scale, _ in values(scenario):
        if not value or (scale not in (DURATION, SIZE) and path[-1] != "rate"):
            continue
        while at(root, *path) is None and path:  # a distribution that is written as a number
            path = path[:-1]
        number = at(root, *path)
        if not isinstance(number, int | float) or isinstance(value, bool | str):
            continue
        if scale is DURATION and value > _usual_s(path):
            said = duration_in_words(value)
            yield path, f"is {said}, for a bare number is seconds; did you mean {number}ms?"
        if scale is SIZE and value < SMALL_BYTES and path[-1] != "kvPerToken":
            unit = "MiB" if value >= 256 else "GiB"
            said = f"is {value:,.0f} bytes, for a bare number is bytes"
            yield path, f"{said}; did you mean {number}{unit}?"
        if path[-1] == "rate" and value > 1000.0:
            yield path, f"is {value:,g} requests per second; rates are not per minute"


def _usual_s(path: Path) -> float:
    named = (USUAL_S[key] for key in reversed(path) if isinstance(key, str) and key in USUAL_S)
    return next(named, OTHERWISE_S)


def _prompts(scenario: Scenario, inputs: Inputs) -> Iterator[tuple[Path, str]]:
    """Prompts that the backends they go to refuse, however idle these are."""
    for name, workload in scenario.workloads.items():
        if not hasattr(workload, "beyond"):  # of another package
            continue
        for model, backend, tokens, limit in _limits(scenario, workload):
            for key, what in workload.beyond(tokens, model, inputs):
                message = (
                    f"{what}: {backend} serves prompts of at most {tokens:,} tokens "
                    f"({limit}), and refuses longer ones with 400"
                )
                yield ("workloads", name, *key.split(".")), message


def _limits(scenario: Scenario, workload: Any) -> Iterator[tuple[str, str, int, str]]:
    """For each model that is asked for its first backend, the longest prompt there, and why.

    What rows of a file ask for by themselves is not known here.
    """
    asked: tuple[str, ...] = getattr(workload, "asks_for", tuple)() or (
        getattr(workload, "model", None) or "",
    )
    for model in dict.fromkeys(asked):
        way = direct_backend(workload)
        name = way or first_backend(scenario, model, headers_of(workload))
        engine = None if name is None else scenario.engines[scenario.backends[name].engine]
        most = getattr(engine, "most_tokens", None)
        if name is not None and most is not None:
            yield model, name, *most()
