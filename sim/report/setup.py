"""What was run, in a few lines: the fleet, the traffic, the window, and what variants change."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sim.core.errors import ScenarioError
from sim.core.recorder import RunFacts
from sim.execution.repetition import recipe
from sim.report.resolved import differences
from sim.report.selection import Study
from sim.results.stored import StoredRun
from sim.results.wording import listed, window_in_words
from sim.scenario.hashing import without_defaults
from sim.scenario.walk import in_words

CLOSED, TIMED, SCRIPTED = "closed loop", "open loop", "scripted"
DIFFERS: Final = "not the same in all variants, see below"
TRAFFIC: Final = {
    "agents": (
        CLOSED,
        "each agent sends its next turn when the answer to the one before has ended and its pause "
        "is over, so slower answers mean fewer requests",
    ),
    "sessions": (
        CLOSED,
        "recorded sessions, but not at the recorded times: each turn is sent when the answer to "
        "the one before has ended here and the recorded pause is over",
    ),
    "requests": (TIMED, "requests arrive at times drawn beforehand, whatever the cluster does"),
    "recording": (
        TIMED,
        "recorded timestamps are replayed: each request is sent at its recorded time, however long "
        "the answers take here",
    ),
    "script": (
        SCRIPTED,
        "a row with an arrival is sent at that time, a row with a think time that long after the "
        "end of the row before it",
    ),
}
"""What times the requests of each kind of workload: the clients themselves, or a clock."""


@dataclass(frozen=True)
class Line:
    """A fact about the set-up: what it is about, and what it is."""

    about: str
    said: str


@dataclass(frozen=True)
class Settings:
    """Settings of a variant that are not the same in all, each path with its value."""

    variant: str
    values: tuple[Line, ...]


def lines(study: Study) -> tuple[Line, ...]:
    """The set-up; what is not the same for all variants is left to ``changed``."""
    facts = {result.variant: result.facts for result in study.results}
    told = [
        {line.about: line for line in _scenario(scenario, facts[variant])}
        for variant, scenario in study.scenarios.items()
    ]
    common = (
        line if all(other.get(about) == line for other in told) else Line(about, DIFFERS)
        for about, line in {
            about: line for lines in reversed(told) for about, line in lines.items()
        }.items()
    )
    return (
        *(Line("Window", text) for text in _windows(study)),
        Line("Runs", _runs(study)),
        *common,
    )


def _scenario(scenario: Mapping[str, Any], facts: RunFacts) -> Iterator[Line]:
    """The set-up of one variant."""
    yield from _backends(scenario)
    pods, gpus = len(facts.pods), facts.gpus
    yield Line("Fleet", f"{_counted(pods, 'pod')} on {_counted(gpus, 'GPU')}")
    yield from _pools(scenario)
    yield from _traffic(scenario)
    yield from _objectives(scenario)


def changed(study: Study) -> tuple[Settings, ...]:
    """The settings in which variants differ; of later ones those that the first has otherwise.

    What is at its default in a block is left out: the resolved scenario has it.
    """
    found = differences(study.scenarios)
    first = study.variants[0]
    short = {run.variant: _without_defaults(run) for run in study.stored} if found else {}
    told = (
        (
            variant,
            [
                Line(path, _written(_at(short[variant], path, values[variant])))
                for path, values in found.items()
                if variant == first or values[variant] != values[first]
            ],
        )
        for variant in study.variants
    )
    return tuple(Settings(study.called(name), tuple(lines)) for name, lines in told if lines)


def _without_defaults(run: StoredRun) -> Mapping[str, Any]:
    """The scenario of a run as a file would say it; nothing where it can no longer be read."""
    try:
        return dict(without_defaults(recipe(run.manifest).scenario))
    except ScenarioError:
        return {}


def _at(document: Any, path: str, otherwise: Any) -> Any:
    """What stands at a dotted path."""
    for key in path.split("."):
        if not isinstance(document, Mapping) or key not in document:
            return otherwise
        document = document[key]
    return document


def _windows(study: Study) -> Iterator[str]:
    """Which requests are measured, once if that is the same for all variants."""
    windows = {result.variant: window_in_words(result.facts) for result in study.results}
    if len(set(windows.values())) == 1:
        yield f"requests that arrived {windows[study.variants[0]]}"
        return
    for variant, window in windows.items():
        yield f"{study.called(variant)}: requests that arrived {window}"


def _runs(study: Study) -> str:
    seeds = study.seeds
    if len(set(seeds.values())) == 1:
        many = f"{len(seeds)} variants, each under " if len(seeds) > 1 else ""
        return f"{many}{listed(seeds[study.variants[0]])}"
    return "; ".join(f"{study.called(name)} under {listed(own)}" for name, own in seeds.items())


def _backends(scenario: Mapping[str, Any]) -> Iterator[Line]:
    for name, backend in scenario["backends"].items():
        engine = scenario["engines"][backend["engine"]]
        replicas = backend["replicas"]
        pods = f"{replicas} replica{'' if replicas == 1 else 's'} of {backend['engine']}"
        yield Line(f"Backend {name}", f"{pods} ({_engine(engine)})")
        yield Line(f"Placement on {name}", backend["policy"]["kind"])


def _engine(engine: Mapping[str, Any]) -> str:
    """Its kind, model and GPUs, as far as they are named."""
    cards = engine.get("tensorParallel") or 1
    gpu = _called(engine.get("gpu"))
    parts = (
        engine["kind"],
        _called(engine.get("model")),
        gpu and (f"{cards} × {gpu}" if cards > 1 else gpu),
    )
    return ", ".join(str(part) for part in parts if part)


def _called(hardware: Any) -> Any:
    """The name of a GPU or a model, also of one whose data the scenario has."""
    return hardware["name"] if isinstance(hardware, Mapping) else hardware


def _pools(scenario: Mapping[str, Any]) -> Iterator[Line]:
    for name, pool in scenario["pools"].items():
        yield Line(f"Pool {name}", f"{', '.join(pool['members'])} take turns ({pool['kind']})")


def _traffic(scenario: Mapping[str, Any]) -> Iterator[Line]:
    for name, workload in scenario["workloads"].items():
        kind = workload["kind"]
        agents = workload.get("agents")
        who = f"{agents:,} agents, " if kind in ("agents", "sessions") and agents else ""
        how, meaning = TRAFFIC.get(kind, (f"kind {kind}", "as the package that brings it says"))
        yield Line(f"Workload {name}", f"{who}{how}: {meaning}")


def _objectives(scenario: Mapping[str, Any]) -> Iterator[Line]:
    slo = scenario.get("slo")
    if slo:
        said = [f"{key.upper()} at most {slo[key]:g} s" for key in slo if slo[key] is not None]
        yield Line("Service objectives", ", ".join(said))


def _counted(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"


def _written(value: Any) -> str:
    """A setting as a reader would write it, its kind first."""
    if isinstance(value, Mapping):
        kind = [str(value["kind"])] if "kind" in value else []
        rest = [f"{key} {in_words(each)}" for key, each in value.items() if key != "kind"]
        return ", ".join(kind + rest) or "none"
    return in_words(value)
