"""What a scenario would run, with all that podsim derives or takes by default."""

from collections.abc import Iterator
from dataclasses import asdict
from textwrap import wrap
from typing import Any

from sim.scenario.engine import Engine
from sim.scenario.footprint import Footprint, footprint, gib, taken_in_words
from sim.scenario.load import ScenarioSet
from sim.scenario.pool import Pool
from sim.scenario.presets import sourced_step_time, weight_dtype
from sim.scenario.routing import Router, Rule
from sim.scenario.schema import Scenario
from sim.scenario.swaptimes import swap_times

STEP_TIME = ("stepTime", "stepTimeFrom")
WIDTH = 96
NO_BREAK = "\N{NO-BREAK SPACE}"


def describe(scenarios: ScenarioSet) -> dict[str, Any]:
    """Everything as JSON has it."""
    return {
        "scenario": scenarios.name,
        "scenario_hash": scenarios.scenario_hash,
        "seeds": list(scenarios.seeds),
        "variants": [
            _variant(variant) | {"other_settings": _unlike(scenarios.variants[0], variant)}
            for variant in scenarios.variants
        ],
        "warnings": list(scenarios.warnings),
    }


def as_text(found: dict[str, Any]) -> str:
    """The same for a reader; of later variants what is not as in the first one."""
    seeds = ", ".join(map(str, found["seeds"]))
    runs = len(found["variants"]) * len(found["seeds"])
    lines = [
        f"{found['scenario']}: no faults",
        f"seeds {seeds}; {runs} run{'s' if runs > 1 else ''} in all",
    ]
    first: list[list[str]] = []
    for variant in found["variants"]:
        blocks = list(_blocks(variant))
        differing = [block for block in blocks if block not in first]
        if variant["other_settings"]:
            differing.append([f"  other settings of {', '.join(variant['other_settings'])}"])
        name = f"variant {variant['variant']}" if variant["variant"] else "no variants"
        if first:
            other = found["variants"][0]["variant"]
            name += f": as {other}" + (", but" if differing else "")
        lines.append(name)
        lines += [line for block in differing for line in block]
        first = first or blocks
    lines += [f"warning: {warning}" for warning in found["warnings"]]
    return "\n".join(lines)


def _unlike(first: Scenario, scenario: Scenario) -> list[str]:
    """What differs from the first variant and is not shown."""
    others = [block for block in ("window", "slo", "events") if _differ(first, scenario, block)]
    specs = scenario.workloads
    return others + [
        f"workload {name}" for name, spec in specs.items() if spec != first.workloads.get(name)
    ]


def _differ(first: Scenario, scenario: Scenario, block: str) -> bool:
    return bool(getattr(first, block) != getattr(scenario, block))


def _variant(scenario: Scenario) -> dict[str, Any]:
    backends = {}
    for name, backend in scenario.backends.items():
        engine = scenario.engines[backend.engine]
        backends[name] = {
            "policy": backend.policy.kind,
            "replicas": backend.replicas,
            "kv_tokens_per_pod": engine.kv_tokens(),
            "kv_derived": engine.kv_derived,
            "maximum_concurrency": _concurrency(engine),
            "memory": _memory(engine),
            "engine": _engine(engine),
        }
    return {
        "variant": scenario.variant,
        "backends": backends,
        "pools": {name: _pool(scenario, spec) for name, spec in scenario.pools.items()},
        "rules": {rule.name: _rule(rule) for rule in scenario.router.rules},
        "default_route": scenario.router.default_route,
        "proxy": _proxy(scenario.router),
        "workloads": {name: spec.kind for name, spec in scenario.workloads.items()},
        "events": len(scenario.events),
    }


def _pool(scenario: Scenario, spec: Pool) -> dict[str, Any]:
    """Its settings in effect, and how long each member takes."""
    fields = type(spec).model_fields
    missing = {key for key in fields if getattr(spec, key) is None and fields[key].default is None}
    settings = spec.model_dump(mode="json", by_alias=True, exclude={"members", *missing})
    members = {}
    for name, member in spec.members.items():
        times = swap_times(member, scenario.engines[scenario.backends[name].engine])
        parts = {} if times.parts is None else {"load_parts_s": asdict(times.parts)}
        first = {"first_unload_s": times.first_unload_s} if times.pinning_s else {}
        members[name] = {"load_s": times.load_s, "unload_s": times.unload_s, **first, **parts}
    return {"members": members, "settings": settings}


def _proxy(router: Router) -> dict[str, Any]:
    """Its settings in effect, budgets among them."""
    settings = router.proxy.model_dump(by_alias=True, exclude={"replicas"})
    budgets = [each.model_dump(by_alias=True, exclude_none=True) for each in router.policy.budgets]
    return {
        **settings,
        **router.metrics.model_dump(by_alias=True),
        **({"budgets": budgets} if budgets else {}),
    }


def _rule(rule: Rule) -> dict[str, Any]:
    return rule.model_dump(by_alias=True, exclude={"name"}, exclude_defaults=True)


def _blocks(variant: dict[str, Any]) -> Iterator[list[str]]:
    """The lines of each backend, pool, rule and workload."""
    for name, backend in variant["backends"].items():
        origin = "derived" if backend["kv_derived"] else "given"
        said = (
            f"  backend {name}: {backend['replicas']} x {backend['policy']}, "
            f"{backend['kv_tokens_per_pod']:,} KV tokens per pod ({origin})"
        )
        room = backend["maximum_concurrency"]
        concurrency = [] if room is None else [_concurrency_line(room)]
        taken = backend["memory"]
        memory = [] if taken is None else [_memory_line(Footprint(**taken))]
        yield [said, *memory, *concurrency, *_engine_lines(backend["engine"])]
    for name, pool in variant["pools"].items():
        members = [f"    {member}: {_loading(times)}" for member, times in pool["members"].items()]
        settings = {key: value for key, value in pool["settings"].items() if key != "kind"}
        yield [f"  pool {name}: {pool['settings']['kind']}", *members, *_wrapped(_pairs(settings))]
    for name, rule in variant["rules"].items():
        yield [line.removeprefix("  ") for line in _wrapped(f"rule {name}: {_pairs(rule)}")]
    yield [line.removeprefix("  ") for line in _wrapped(f"proxy: {_pairs(variant['proxy'])}")]
    if variant["default_route"] is not None:
        yield [f"  default route: {variant['default_route']}"]
    for name, kind in variant["workloads"].items():
        yield [f"  workload {name}: {kind}"]
    if variant["events"]:
        yield [f"  events: {variant['events']}"]


def _loading(times: dict[str, Any]) -> str:
    """How long a member takes, and what that consists of."""
    parts = times.get("load_parts_s", {})
    named = [
        f"{part.removesuffix('_s').replace('_', '-')} {seconds:.1f}"
        for part, seconds in parts.items()
        if seconds
    ]
    consists = f" ({', '.join(named)})" if named else ""
    first = times.get("first_unload_s")
    once = "" if first is None else f", the first time of a process in {first:.3g} s"
    return f"loads in {times['load_s']:.4g} s{consists}, unloads in {times['unload_s']:.3g} s{once}"


def _memory(engine: Engine) -> dict[str, float | None] | None:
    found = footprint(engine)
    return None if found is None else asdict(found)


def _memory_line(found: Footprint) -> str:
    usable = found.usable_bytes
    there = "" if usable is None else f", of {gib(usable)}"
    return f"    memory per pod: {taken_in_words(found)}{there}"


def _concurrency(engine: Engine) -> dict[str, float] | None:
    room = engine.concurrency()
    if room is None:
        return None
    return asdict(room) | {"sequences": room.sequences, "ratio": room.ratio}


def _concurrency_line(room: dict[str, float]) -> str:
    sequences = f"{room['sequences']:,} sequence{'' if room['sequences'] == 1 else 's'}"
    return (
        f"    maximum concurrency {sequences} of {room['sequence_tokens']:,} tokens: each takes "
        f"{room['blocks_per_sequence']:,} of {room['kv_blocks_per_pod']:,} KV blocks, "
        f"ratio {room['ratio']:.2f}"
    )


def _engine(engine: Engine) -> dict[str, Any]:
    """All settings in effect, those that the file leaves to podsim among them."""
    step_time = sourced_step_time(engine)
    settings = engine.model_dump(by_alias=True, exclude={"step_time"}, exclude_none=True)
    if (stored := weight_dtype(engine)) is not None:
        settings["weightDtype"] = stored
    coefficients = step_time.coefficients.model_dump(exclude_defaults=True)
    return settings | {"stepTime": coefficients, "stepTimeFrom": step_time.origin}


def _engine_lines(engine: dict[str, Any]) -> list[str]:
    settings = {key: value for key, value in engine.items() if key not in STEP_TIME}
    found = (_pairs(settings), f"stepTime ({engine['stepTimeFrom']}): {_pairs(engine['stepTime'])}")
    return [line for text in found for line in _wrapped(text)]


def _wrapped(text: str) -> list[str]:
    lines = wrap(text, WIDTH, break_long_words=False, break_on_hyphens=False)
    return [f"    {line.replace(NO_BREAK, ' ')}" for line in lines]


def _pairs(values: dict[str, Any]) -> str:
    return ", ".join(f"{key}{NO_BREAK}{_shown(value)}" for key, value in values.items())


def _shown(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {_shown(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_shown, value)) + "]"
    if isinstance(value, float):
        return f"{value:,.0f}" if value >= 1e4 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) else str(value)
