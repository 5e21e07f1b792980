"""What was run: the scenario in a few lines, what variants change, a file that does it again."""

from collections.abc import Iterator, Mapping
from io import StringIO
from typing import Any, Final, TypeAlias

from ruamel.yaml import YAML

from sim.core.errors import ScenarioError
from sim.core.recorder import RunFacts
from sim.core.text import counted, seed_list
from sim.execution.repetition import recipe
from sim.report.study import Fact, Study
from sim.results.report_rows import window_in_words
from sim.results.stored import StoredRun
from sim.scenario.hashing import without_defaults
from sim.scenario.walk import in_words

Json: TypeAlias = Any
Path: TypeAlias = tuple[str, ...]

CLOSED, OPEN, SCRIPTED = "closed loop", "open loop", "scripted"
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
    "requests": (OPEN, "requests arrive at times drawn beforehand, whatever the cluster does"),
    "recording": (
        OPEN,
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
UNCHANGED: Final = frozenset({"name", "description", "seeds", "variant"})
"""What no variant changes."""
WIDTH: Final = 96


def setup(study: Study) -> Iterator[Fact]:
    """The window, runs, fleet and traffic; of what variants change only that they do."""
    windows = {run.variant: window_in_words(run.facts) for run in study.results}
    if len(set(windows.values())) == 1:
        yield "Window", f"requests that arrived {windows[study.variants[0]]}"
    else:
        for name, window in windows.items():
            yield "Window", f"{study.called(name)}: requests that arrived {window}"
    yield "Runs", _runs(study)
    facts = {run.variant: run.facts for run in study.results}
    found = [dict(_scenario(each, facts[name])) for name, each in study.scenarios.items()]
    for term in dict.fromkeys(term for facts_of in found for term in facts_of):
        texts = {facts_of.get(term) for facts_of in found}
        yield (
            term,
            str(texts.pop()) if len(texts) == 1 else "not the same in all variants, see below",
        )


def _runs(study: Study) -> str:
    seeds = study.seeds
    if len(set(seeds.values())) == 1:
        many = f"{len(seeds)} variants, each under " if len(seeds) > 1 else ""
        return f"{many}{seed_list(seeds[study.variants[0]])}"
    return "; ".join(f"{study.called(name)} under {seed_list(own)}" for name, own in seeds.items())


def _scenario(scenario: Mapping[str, Any], facts: RunFacts) -> Iterator[Fact]:
    """The setup of one variant."""
    for name, backend in scenario["backends"].items():
        engine = _engine(scenario["engines"][backend["engine"]])
        pods = f"{counted(backend['replicas'], 'replica')} of {backend['engine']}"
        yield f"Backend {name}", f"{pods} ({engine})"
        yield f"Placement on {name}", backend["policy"]["kind"]
    yield "Fleet", f"{counted(len(facts.pods), 'pod')} on {counted(facts.gpus, 'GPU')}"
    for name, pool in scenario["pools"].items():
        yield f"Pool {name}", f"{', '.join(pool['members'])} take turns ({pool['kind']})"
    for name, workload in scenario["workloads"].items():
        kind, agents = workload["kind"], workload.get("agents")
        who = f"{agents:,} agents, " if kind in ("agents", "sessions") and agents else ""
        how, meaning = TRAFFIC.get(kind, (f"kind {kind}", "as the package that brings it says"))
        yield f"Workload {name}", f"{who}{how}: {meaning}"
    slo = {key: value for key, value in (scenario.get("slo") or {}).items() if value is not None}
    if slo:
        limits = [f"{key.upper()} at most {value:g} s" for key, value in slo.items()]
        yield "Service objectives", ", ".join(limits)


def _engine(engine: Mapping[str, Any]) -> str:
    """Its kind, model and GPUs, as far as they are named."""
    model, gpu = (
        each["name"] if isinstance(each, Mapping) else each
        for each in (engine.get("model"), engine.get("gpu"))
    )
    cards = engine.get("tensorParallel") or 1
    parts = (engine["kind"], model, f"{cards} × {gpu}" if gpu and cards > 1 else gpu)
    return ", ".join(str(part) for part in parts if part)


def changes(study: Study) -> Iterator[tuple[str, list[Fact]]]:
    """Each variant with the settings in which variants differ; of later ones those that the first
    has otherwise.

    What is at its default in a block is left out: the resolved scenario has it.
    """
    found = differences(study.scenarios)
    for run in study.material.firsts if found else ():
        short = _without_defaults(run)
        lines = [
            (path, _written(_at(short, path.split("."), values[run.variant])))
            for path, values in found.items()
            if run.variant == study.variants[0] or values[run.variant] != values[study.variants[0]]
        ]
        if lines:
            yield study.called(run.variant), lines


def _without_defaults(run: StoredRun) -> Mapping[str, Any]:
    """The scenario of a run as a file would say it; nothing where it can no longer be read."""
    try:
        return dict(without_defaults(recipe(run.manifest).scenario))
    except ScenarioError:
        return {}


def _written(value: Any) -> str:
    """A setting as a reader would write it, its kind first."""
    if isinstance(value, Mapping):
        kind = [str(value["kind"])] if "kind" in value else []
        rest = [f"{key} {in_words(each)}" for key, each in value.items() if key != "kind"]
        return ", ".join(kind + rest) or "none"
    return in_words(value)


def differences(variants: Mapping[str, Mapping[str, Json]]) -> dict[str, dict[str, Json]]:
    """By dotted path the value that each variant has there, for every path at which they differ.

    A block is shown whole when its ``kind`` or its keys differ, and a list
    always is. Without a second variant there are none.
    """
    first, *others = variants.values()
    paths = dict.fromkeys(path for other in others for path in _differing(first, other))
    outermost = [
        path for path in paths if not any(path[:size] in paths for size in range(len(path)))
    ]
    return {
        ".".join(path): {name: _at(scenario, path, None) for name, scenario in variants.items()}
        for path in outermost
    }


def _differing(one: Json, other: Json, path: Path = ()) -> Iterator[Path]:
    if _alike(one, other):
        for key in one:
            if path or key not in UNCHANGED:
                yield from _differing(one[key], other[key], (*path, key))
    elif one != other:
        yield path


def _alike(one: Json, other: Json) -> bool:
    """Whether both are blocks that can be told apart key by key."""
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return False
    dotted = any("." in key or not key for key in one)
    return one.keys() == other.keys() and one.get("kind") == other.get("kind") and not dotted


def _at(document: Json, path: Path | list[str], otherwise: Json) -> Json:
    """What stands at a path."""
    for key in path:
        if not isinstance(document, Mapping) or key not in document:
            return otherwise
        document = document[key]
    return document


def resolved_yaml(
    variants: Mapping[str, Mapping[str, Json]], seeds: tuple[int, ...], remark: str
) -> str:
    """A scenario file that simulates the same: every setting, then what the variants change.

    Nulls stay, since a setting's default may be something else. ``remark`` is
    the comment at its head.
    """
    first = next(iter(variants.values()))
    document = {key: value for key, value in first.items() if key != "variant"}
    document["seeds"] = list(seeds)
    if any(variants):
        found = differences(variants)
        document["variants"] = {
            name: {path: values[name] for path, values in found.items()} for name in variants
        }
    writer = YAML(typ="safe", pure=True)
    writer.width, writer.allow_unicode = WIDTH, True
    writer.default_flow_style = None  # what has no mapping below it stands on one line
    writer.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    writer.representer.ignore_aliases = lambda *_: True
    stream = StringIO()
    writer.dump(document, stream)
    return "".join(f"# {line}\n" for line in remark.splitlines()) + stream.getvalue()
