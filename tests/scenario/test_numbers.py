"""C73: every number of a scenario has a legal range, and what lies outside is refused by name."""

from collections.abc import Callable, Iterator
from typing import Annotated, Any, get_args

import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError

from sim.core import registry as registries
from sim.core.fields import Quantity
from sim.engine.spec import Vllm
from sim.hardware.engine import FrontEnd, Prefilling, StepTime
from sim.hardware.loading import Member
from sim.scenario.load import ScenarioSet
from sim.scenario.routing import Metrics, ProxySettings
from sim.scenario.schema import Backend, Slo, Window
from sim.workload.clients import Backoff, ClientSpec, RetryPolicy
from tests.scenario.conftest import GOOD

Lines = Callable[..., list[str]]
Loaded = Callable[..., ScenarioSet]

NEVER_LEGAL = (".nan", ".inf", "-.inf", "-1", "1.0e+309", "1000000000000000000", "'5'", "true")

# 0 is legal where nothing is a sensible amount of something, and nowhere else.
ZERO_IS_LEGAL = {
    "engines.small.gpuMemoryUtilization": False,
    "engines.small.weights": True,
    "engines.small.workspace": True,
    "engines.small.stateBlocks": True,
    "engines.small.longPrefillTokenThreshold": True,
    "engines.small.watermark": True,
    "engines.small.frontEnd.perRequest": True,
    "engines.small.frontEnd.perPromptToken": True,
    "engines.small.stepTime.a": True,
    "engines.small.stepTime.b": True,
    "engines.small.stepTime.c": True,
    "engines.small.stepTime.d": True,
    "engines.small.stepTime.f": True,
    "engines.small.stepTime.g": True,
    "engines.small.stepTime.prefilling.a": True,
    "engines.small.stepTime.prefilling.c": True,
    "engines.small.stepTime.prefilling.f": True,
    "window.warmup": True,
    "router.proxy.quarantineDuration": True,
    "router.proxy.maxInstanceFailoverRerouteAttempts": True,
    "backends.pods.policy:bounded-ring.floor": True,
    "backends.pods.policy:session-table.cooldown": True,
    "workloads.load.retry.backoff.jitter": True,
}


def quantities(annotation: Any, metadata: tuple[Any, ...] = ()) -> Iterator[Quantity]:
    """The ranges of the numbers that an annotation admits, optional or in lists."""
    yield from (each for each in metadata if isinstance(each, Quantity))
    if hasattr(annotation, "__metadata__"):
        yield from quantities(annotation.__origin__, annotation.__metadata__)
    else:
        for argument in get_args(annotation):
            yield from quantities(argument)


def numeric_fields(model: type[BaseModel]) -> dict[str, Quantity]:
    """The fields of a model that are a number, by the key in files."""
    found = {}
    for name, field in model.model_fields.items():
        ranges = list(quantities(field.annotation, tuple(field.metadata)))
        if len(ranges) == 1 and "tuple" not in str(field.annotation):
            found[field.alias or name] = ranges[0]
    return found


def paths() -> Iterator[tuple[str, Quantity]]:
    """Every number of the scenario itself and of the policies, with a path to set it."""
    blocks: list[tuple[str, type[BaseModel]]] = [
        ("engines.small.", Vllm),
        ("engines.small.frontEnd.", FrontEnd),
        ("engines.small.stepTime.", StepTime),
        ("engines.small.stepTime.prefilling.", Prefilling),
        ("backends.pods.", Backend),
        ("router.metrics.", Metrics),
        ("router.proxy.", ProxySettings),
        ("window.", Window),
        ("slo.", Slo),
        ("workloads.load.", ClientSpec),
        ("workloads.load.retry.", RetryPolicy),
        ("workloads.load.retry.backoff.", Backoff),
    ]
    for kind, family in registries.load().policies.items():
        blocks.append((f"backends.pods.policy:{kind}.", family.spec))
    for prefix, model in blocks:
        for key, quantity in numeric_fields(model).items():
            if quantity.low >= 0:  # priorities go both ways
                yield prefix + key, quantity


def setting(path: str, value: str) -> str:
    """``--set`` for a path; a policy is given as a whole, since its kind decides its keys."""
    block, colon, rest = path.partition(":")
    kind, _, key = rest.partition(".")
    return f"{block}={{kind: {kind}, {key}: {value}}}" if colon else f"{path}={value}"


PATHS = dict(paths())


def test_the_numbers_are_found() -> None:
    """The tests below would pass for want of anything to test."""
    assert len(PATHS) > 30
    assert ZERO_IS_LEGAL.keys() <= PATHS.keys()
    assert {
        "engines.small.kvBlocks",
        "backends.pods.replicas",
        "window.measure",
        "router.metrics.pollInterval",
        "slo.ttft",
        "backends.pods.policy:session-table.idleTimeout",
    } <= PATHS.keys()


@pytest.mark.parametrize("path", PATHS)
def test_what_is_no_legal_number_is_refused_with_the_range(faults: Lines, path: str) -> None:
    """C73: NaN would pass both ``x < low`` and ``x > high``, and 1e18 make a run endless."""
    quantity = PATHS[path]
    values = [*NEVER_LEGAL, *(["2.5"] if quantity.whole else []), "[]", "x"]
    name = path.replace(":" + path.partition(":")[2].partition(".")[0], "")
    for value in values:
        lines = faults(GOOD, [setting(path, value)])
        assert len(lines) == 1, lines
        assert f" {name}: must be {quantity.legal}; got " in lines[0]


@pytest.mark.parametrize("path", PATHS)
def test_zero_is_legal_only_where_nothing_makes_sense(
    faults: Lines, loaded: Loaded, path: str
) -> None:
    """C73: zero pods or a zero budget would give an empty report, a zero overhead be refused."""
    text = GOOD.replace("stepTime: {a: 10}", "stepTime: {a: 10, b: 1, c: 1}")
    if ZERO_IS_LEGAL.get(path, False):
        loaded(text, [setting(path, "0")])
    else:
        (line,) = faults(text, [setting(path, "0")])
        assert "; got 0" in line


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("router.metrics.pollInterval", "1us"),
        ("router.metrics.pollInterval", "9.9ms"),
        ("engines.small.stepTime.b", "9.9e-7"),
        ("engines.small.stepTime.b", "1.1e6"),
    ],
)
def test_numbers_beyond_the_limits_of_sense_are_refused(
    faults: Lines, loaded: Loaded, path: str, value: str
) -> None:
    """C73: a million polls a second of each pod, or microseconds written for milliseconds."""
    (line,) = faults(GOOD, [f"{path}={value}"])
    assert f" {path}: must be " in line
    loaded(GOOD, ["router.metrics.pollInterval=10ms", "engines.small.stepTime.b=1e-6"])
    loaded(GOOD, ["router.metrics.pollInterval=1h", "engines.small.stepTime.b=1e6"])


@pytest.mark.parametrize(
    "path",
    [
        "engines.small.kvBlocks",
        "engines.small.blockSize",
        "engines.small.maxNumSeqs",
        "engines.small.maxNumBatchedTokens",
        "engines.small.maxNumQueuedReqs",
        "engines.small.maxNumQueuedTokens",
        "backends.pods.replicas",
    ],
)
def test_zero_of_what_serves_is_refused_with_the_reason(faults: Lines, path: str) -> None:
    """C73: the user would not learn why 0 pods make no sense."""
    (line,) = faults(GOOD, [f"{path}=0"])
    assert line.endswith("; got 0 (no request could ever be served)")


DIVISORS = {"rate", "cv"}


def reachable(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A model and all models inside its fields."""
    seen: list[type[BaseModel]] = [model]
    for each in seen:
        todo: list[Any] = [field.annotation for field in each.model_fields.values()]
        while todo:
            annotation = todo.pop()
            todo.extend(get_args(annotation))
            is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
            if is_model and annotation not in seen:
                seen.append(annotation)
    yield from seen


SPECS: dict[str, type[BaseModel]] = {
    **{kind: family.spec for kind, family in registries.load().workloads.items()},
    **{kind: family.spec for kind, family in registries.load().pools.items()},
    "member of a pool": Member,
}


@pytest.mark.parametrize("spec", SPECS.values(), ids=SPECS)
def test_the_numbers_of_workloads_and_pools_have_ranges_too(spec: type[BaseModel]) -> None:
    """C73: a workload of NaN requests per second, or of 1e18 sessions, would be started."""
    tested = 0
    for model in reachable(spec):
        for key, quantity in numeric_fields(model).items():
            adapter = TypeAdapter(Annotated[float, quantity])
            for value in (float("nan"), float("inf"), -float("inf"), 1e309, 10**18, "5", True):
                with pytest.raises(ValidationError):
                    adapter.validate_python(value)
                tested += 1
            assert quantity.low > -1e6 and quantity.high < 1e16, key
            if key in DIVISORS:
                with pytest.raises(ValidationError):
                    adapter.validate_python(1e-300)
        bare = [
            name
            for name, field in model.model_fields.items()
            if field.annotation in (int, float, int | None, float | None)
            and not list(quantities(field.annotation, tuple(field.metadata)))
        ]
        assert bare == [], f"{model.__name__}: numbers without a range"
    assert tested > 0


# Of the times of a load nothing is legal, but not of what fails: retries would take no time.
# What is polled or waited for again and again must take time; what ends something need not.
ZERO_IS_LEGAL_IN_POOLS = {
    "FairMember.priority",
    "FairPool.minResidency",
    "FairPool.minServed",
    "LlamaSwapMember.priority",
    "LlamaSwapMember.ttl",
    "LlamaSwapPool.globalTTL",
    "LlamaSwapPool.unloadTimeout",
    "LoadFailure.probability",
    "Member.load",
    "Member.unload",
    "OllamaMember.keepAlive",
    "OllamaPool.keepAlive",
    "OllamaPool.maxQueue",
    "OllamaPool.vramRecovery",
    "Swap.compile",
    "Swap.graphs",
    "Swap.init",
    "Swap.warmUp",
}
ZERO_IS_NONSENSE_IN_POOLS = {
    "LlamaSwapMember.concurrencyLimit",
    "LlamaSwapPool.healthCheckTimeout",
    "LoadFailure.after",
    "Member.loadLimit",
    "OllamaMember.memory",
    "OllamaMember.numCtx",
    "OllamaPool.loadTimeout",
    "OllamaPool.maxLoadedModels",
    "OllamaPool.memory",
    "OllamaPool.numParallel",
    "Swap.disk",
    "Swap.host",
    "Swap.hostToDevice",
    "Swap.loader",
    "Swap.pinning",
}


def test_zero_in_a_pool_is_legal_only_where_it_makes_sense() -> None:
    """C73: bytes over a bandwidth of 0 end in a traceback, or a load last for ever."""
    kinds = registries.load().pools
    shared = {*kinds["model-pool"].spec.model_fields}
    found = {
        f"{model.__name__}.{field.alias or name}": quantity
        for spec in (Member, *(kinds[kind].spec for kind in ("fair", "llama-swap", "ollama")))
        for model in reachable(spec)
        if model.__name__.startswith(("Fair", "LlamaSwap", "Ollama", "Member", "Swap", "Load"))
        for name, field in model.model_fields.items()
        if name not in shared and (name not in Member.model_fields or model is Member)
        for key, quantity in numeric_fields(model).items()
        if key == (field.alias or name)
    }
    assert found.keys() == ZERO_IS_LEGAL_IN_POOLS | ZERO_IS_NONSENSE_IN_POOLS
    for path, quantity in found.items():
        adapter = TypeAdapter(Annotated[float, quantity])
        if path in ZERO_IS_LEGAL_IN_POOLS:
            assert adapter.validate_python(0) == 0
        else:
            with pytest.raises(ValidationError):
                adapter.validate_python(0)
