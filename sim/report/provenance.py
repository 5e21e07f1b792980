"""Where the figures come from, and how anybody gets them again."""

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from shlex import quote
from typing import Any, Final

from sim.report.resolved import resolved_yaml
from sim.report.selection import Study
from sim.report.setup import Line

UNNOTED: Final = "not noted"
NOTED: Final = (
    ("Command", "command"),
    ("Scenario file", "file"),
    ("Commit of its folder", "commit"),
    ("System", "system"),
)
VERSIONS: Final = ("podsim", "python", "numpy", "pyarrow")


@dataclass(frozen=True)
class Made:
    """One run: what stands for all of its values, and when it was started."""

    variant: str
    seed: int
    digest: str
    started: str


@dataclass(frozen=True)
class Recipe:
    """What it takes to repeat the runs: a version, a file, the files it needs, a command."""

    podsim: str
    file: str
    text: str
    link: str
    needs: tuple[str, ...]
    command: str


def origins(study: Study) -> tuple[Line, ...]:
    """Versions, command, commit: each value once, all of them where runs differ."""
    manifests = [run.manifest for run in study.stored]
    versions = [", ".join(f"{name} {each[name]}" for name in VERSIONS) for each in manifests]
    told = [
        (about, [str(run.provenance.get(key, UNNOTED)) for run in study.stored])
        for about, key in NOTED
    ]
    return (
        *(Line(about, "; ".join(dict.fromkeys(values))) for about, values in told),
        Line("Versions", "; ".join(dict.fromkeys(versions))),
        Line("Scenario hash", study.scenario_hash),
    )


def runs_made(study: Study) -> tuple[Made, ...]:
    """Every run in order."""
    return tuple(
        Made(
            study.called(run.variant),
            run.seed,
            run.digest,
            str(run.provenance.get("started", UNNOTED)),
        )
        for run in study.stored
    )


def doubts(study: Study) -> Iterator[str]:
    """What weakens a comparison or a repetition, and no single run can know."""
    seeds = list(study.seeds.values())
    if len(set(seeds)) > 1:
        yield (
            "not every variant was run under the same seeds, so differences between variants are "
            "partly those of their workloads"
        )
    if len({run.manifest["podsim"] for run in study.stored}) > 1:
        yield "the runs were made by different versions of podsim"
    commits = dict.fromkeys(str(run.provenance.get("commit", "")) for run in study.stored)
    changed = [commit for commit in commits if commit.endswith("-dirty")]
    if changed:
        yield (
            f"commit {changed[0].removesuffix('-dirty')} had been changed in its folder when the "
            "runs were made; the resolved scenario below holds every setting all the same"
        )


def file_warnings(study: Study) -> tuple[str, ...]:
    """What was doubtful about the scenario file when it was read."""
    noted = (run.manifest.get("scenario_warnings", ()) for run in study.stored)
    return tuple(dict.fromkeys(str(warning) for warnings in noted for warning in warnings))


def recipe(study: Study) -> Recipe:
    """The scenario as it was run, as a file in a link, and the command that runs it."""
    seeds = tuple(dict.fromkeys(seed for own in study.seeds.values() for seed in own))
    remark = (
        "The resolved scenario of a podsim report: every setting as it was in effect.\n"
        f"Times are seconds, sizes bytes. Scenario hash {study.scenario_hash}"
    )
    text = resolved_yaml(study.scenarios, seeds, remark)
    file = f"{study.name}-resolved.yaml"
    return Recipe(
        podsim="; ".join(dict.fromkeys(str(run.manifest["podsim"]) for run in study.stored)),
        file=file,
        text=text,
        link=f"data:application/yaml;base64,{b64encode(text.encode()).decode()}",
        needs=tuple(dict.fromkeys(_files(study.scenarios))),
        command=f"podsim run {quote(file)} --json",
    )


def _files(scenarios: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Files that the workloads read, as the scenario names them."""
    for scenario in scenarios.values():
        for workload in scenario["workloads"].values():
            if workload.get("file"):
                yield str(workload["file"])
