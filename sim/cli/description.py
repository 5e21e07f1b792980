"""What a scenario would run, with all that podsim derives or takes by default."""

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from textwrap import wrap
from typing import Any, Final

from pydantic import BaseModel

from sim.core.text import plural
from sim.hardware.engine import Engine
from sim.hardware.gpu import gib
from sim.hardware.loading import swap_times
from sim.hardware.memory import footprint, taken_in_words
from sim.hardware.step_times import sourced_step_time, weight_dtype
from sim.scenario.load import ScenarioSet
from sim.scenario.pool import Pool
from sim.scenario.routing import Router
from sim.scenario.schema import Backend, Scenario
from sim.scenario.walk import Value, in_words, settings

WIDTH: Final = 96
NO_BREAK: Final = "\N{NO-BREAK SPACE}"
LABEL: Final = 10
"""Width of the column that says where values are from: given, default or derived."""
ORIGINS: Final = ("given", "default", "derived")


@dataclass(frozen=True)
class Block:
    """A part of a scenario in words: by origin, keys as in files with their values.

    ``kind`` is what decides which keys there are; ``notes`` are whole lines.
    """

    title: str
    kind: str = ""
    facts: dict[str, dict[str, str]] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)

    def unlike(self, other: "Block | None") -> "Block | None":
        """What of this is not so in ``other``; None if nothing is."""
        if other is None or other.kind != self.kind:
            return self
        others = {key: text for found in other.facts.values() for key, text in found.items()}
        facts = {
            origin: {key: text for key, text in found.items() if text != others.get(key)}
            for origin, found in self.facts.items()
        }
        own = {key for found in self.facts.values() for key in found}
        gone = [key for key in others if key not in own]
        if gone:
            facts["without"] = dict.fromkeys(gone, "")
        notes = {key: line for key, line in self.notes.items() if line != other.notes.get(key)}
        if not any(facts.values()) and not notes:
            return None
        return Block(self.title, self.kind, facts, notes)

    def lines(self) -> list[str]:
        """The title and, below it, a wrapped list of values for each origin."""
        lines = [f"  {self.title}{f': {self.kind}' if self.kind else ''}"]
        for origin, found in self.facts.items():
            pairs = [f"{key} {text}".strip().replace(" ", NO_BREAK) for key, text in found.items()]
            lines += _wrapped(origin, ", ".join(pairs)) if pairs else []
        return lines + [line for key, text in self.notes.items() for line in _wrapped(key, text)]


def describe(scenarios: ScenarioSet) -> dict[str, Any]:
    """Everything as JSON has it."""
    return {
        "scenario": scenarios.name,
        "scenario_hash": scenarios.scenario_hash,
        "seeds": list(scenarios.seeds),
        "variants": [_variant(variant) for variant in scenarios.variants],
        "warnings": list(scenarios.warnings),
    }


def as_text(scenarios: ScenarioSet) -> str:
    """The same for a reader; of later variants what is not as in the first one."""
    seeds = ", ".join(map(str, scenarios.seeds))
    runs = len(scenarios.variants) * len(scenarios.seeds)
    lines = [
        f"{scenarios.name}: no faults",
        f"seeds {seeds}; {runs} {plural('run', runs)} in all",
    ]
    first: dict[str, Block] = {}
    for variant in scenarios.variants:
        blocks = {block.title: block for block in _blocks(variant)}
        found = [block.unlike(first.get(title)) for title, block in blocks.items()]
        differing = [block for block in found if block is not None]
        gone = [title for title in first if title not in blocks]
        name = f"variant {variant.variant}" if variant.variant else "no variants"
        if first:
            other = scenarios.variants[0].variant
            name += f": as {other}" + (", but" if differing or gone else "")
        lines += [name, *(line for block in differing for line in block.lines())]
        lines += [f"  no {title}" for title in gone]
        first = first or blocks
    lines += [f"warning: {warning}" for warning in scenarios.warnings]
    return "\n".join(lines)


def _blocks(scenario: Scenario) -> Iterator[Block]:
    """The parts of a scenario, from what is measured to who sends requests."""
    yield _block("window", scenario.window)
    if scenario.slo is not None:
        yield _block("slo", scenario.slo)
    for name, engine in scenario.engines.items():
        yield _engine_block(name, engine)
    for name, backend in scenario.backends.items():
        yield _backend_block(name, backend, scenario.engines[backend.engine])
        yield _block(f"policy of {name}", backend.policy, backend.policy.kind)
    for name, pool in scenario.pools.items():
        yield _pool_block(name, pool, scenario)
    router = scenario.router
    for rule in router.rules:
        yield _block(f"rule {rule.name}", rule, leave=("name",))
    yield _block("router", router, leave=("rules", "proxy", "policy", "metrics"))
    yield _block("proxy", router.proxy, leave=("replicas",), more=settings(router.metrics))
    for budget in router.policy.budgets:
        yield _block(f"budget {budget.name}", budget, leave=("name",))
    for name, spec in scenario.workloads.items():
        yield _block(f"workload {name}", spec, spec.kind)
    for index, event in enumerate(scenario.events):
        yield _block(f"event {index}", event, event.kind)


def _block(
    title: str,
    spec: BaseModel,
    kind: str = "",
    leave: tuple[str, ...] = (),
    more: Iterable[Value] = (),
) -> Block:
    """All settings of ``spec`` but its kind and what is to ``leave`` out; ``more`` after them."""
    facts: dict[str, dict[str, str]] = {origin: {} for origin in ORIGINS}
    for each in (*settings(spec), *more):
        if each.path[0] in ("kind", *leave):
            continue
        key = ".".join(map(str, each.path))
        facts["given" if each.given else "default"][key] = in_words(each.value, each.scale)
    return Block(title, kind, facts)


def _engine_block(name: str, engine: Engine) -> Block:
    """Its settings, and what follows from them for a pod."""
    block = _block(f"engine {name}", engine, engine.kind, leave=("stepTime",))
    derived = block.facts["derived"]
    stored, limit = weight_dtype(engine), getattr(engine, "model_tokens", None)
    if engine.weight_dtype is None and stored is not None:
        derived["weightDtype"] = stored
    if limit is not None and "maxModelLen" not in block.facts["given"]:
        derived["maxModelLen"] = in_words(limit)
    if engine.kv_derived:
        derived["KV cache"] = f"{engine.kv_tokens():,} tokens per pod"
    step_time = sourced_step_time(engine)
    cost = step_time.coefficients.model_dump(exclude_defaults=True)
    pairs = ", ".join(f"{key} {in_words(value)}" for key, value in cost.items())
    block.notes["stepTime"] = f"{pairs} (ms, {step_time.origin})"
    if (taken := footprint(engine)) is not None:
        limit_bytes = taken.usable_bytes
        of = "" if limit_bytes is None else f", of {gib(limit_bytes)}"
        block.notes["memory"] = f"{taken_in_words(taken)}{of} per pod"
    if (room := _concurrency(engine)) is not None:
        block.notes["room"] = _concurrency_line(room)
    return block


def _backend_block(name: str, backend: Backend, engine: Engine) -> Block:
    block = _block(f"backend {name}", backend, leave=("policy", "balancing"))
    origin = "derived" if engine.kv_derived else "given"
    block.notes["pods"] = (
        f"{backend.replicas} x {backend.engine}, {engine.kv_tokens():,} KV tokens per pod "
        f"({origin})"
    )
    return block


def _pool_block(name: str, pool: Pool, scenario: Scenario) -> Block:
    block = _block(f"pool {name}", pool, pool.kind)
    for member, times in _pool(scenario, pool)["members"].items():
        block.notes[member] = _loading(times)
    return block


def _wrapped(label: str, text: str) -> list[str]:
    """``text`` over as many lines as it takes, with its label before the first."""
    indent = f"    {label:<{LABEL}}" if len(label) < LABEL else f"    {label}: "
    hanging = " " * (4 + LABEL)
    lines = wrap(
        text,
        WIDTH,
        initial_indent=indent,
        subsequent_indent=hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [line.replace(NO_BREAK, " ") for line in lines]


def _variant(scenario: Scenario) -> dict[str, Any]:
    backends = {}
    for name, backend in scenario.backends.items():
        engine = scenario.engines[backend.engine]
        taken = footprint(engine)
        backends[name] = {
            "policy": _dumped(backend.policy),
            "replicas": backend.replicas,
            "kv_tokens_per_pod": engine.kv_tokens(),
            "kv_derived": engine.kv_derived,
            "maximum_concurrency": _concurrency(engine),
            "memory": taken and asdict(taken),
            "engine": _engine(engine),
        }
    return {
        "variant": scenario.variant,
        "backends": backends,
        "pools": {name: _pool(scenario, spec) for name, spec in scenario.pools.items()},
        "rules": {
            rule.name: rule.model_dump(by_alias=True, exclude={"name"}, exclude_defaults=True)
            for rule in scenario.router.rules
        },
        "default_route": scenario.router.default_route,
        "proxy": _proxy(scenario.router),
        "workloads": {name: _dumped(spec) for name, spec in scenario.workloads.items()},
        "window": _dumped(scenario.window),
        "slo": None if scenario.slo is None else _dumped(scenario.slo),
        "events": [_dumped(event) for event in scenario.events],
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


def _dumped(spec: BaseModel) -> dict[str, Any]:
    return spec.model_dump(mode="json", by_alias=True)


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


def _concurrency(engine: Engine) -> dict[str, float] | None:
    """How many sequences of the longest context fit a pod, and what that follows from."""
    room = engine.concurrency()
    if room is None:
        return None
    return asdict(room) | {"sequences": room.sequences, "ratio": room.ratio}


def _concurrency_line(room: dict[str, float]) -> str:
    sequences = int(room["sequences"])
    return (
        f"maximum concurrency {room['sequences']:,} {plural('sequence', sequences)} of "
        f"{room['sequence_tokens']:,} tokens: each takes {room['blocks_per_sequence']:,} of "
        f"{room['kv_blocks_per_pod']:,} KV blocks, ratio {room['ratio']:.2f}"
    )


def _engine(engine: Engine) -> dict[str, Any]:
    """All settings in effect, those that the file leaves to podsim among them."""
    step_time = sourced_step_time(engine)
    settings = engine.model_dump(by_alias=True, exclude={"step_time"}, exclude_none=True)
    if (stored := weight_dtype(engine)) is not None:
        settings["weightDtype"] = stored
    coefficients = step_time.coefficients.model_dump(exclude_defaults=True)
    return settings | {"stepTime": coefficients, "stepTimeFrom": step_time.origin}
