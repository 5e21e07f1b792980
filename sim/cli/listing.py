"""Which stored runs there are, one line for all runs of a scenario, and who made them how."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.cli.kept import scenario_place
from sim.core.text import GAP, aligned, ranges, size
from sim.results.stored import scenario_name

if TYPE_CHECKING:
    from sim.results.stored import StoredRun

MOST_VARIANTS_SHOWN: Final = 3


@dataclass(frozen=True)
class RunGroup:
    """The stored runs of a scenario that lie together.

    ``name`` is what a RUN argument may be, ``started`` when the last of them was.
    """

    name: str
    scenario: str
    scenario_hash: str
    variants: tuple[str, ...]
    settings: tuple[str, ...]
    seeds: tuple[int, ...]
    runs: int
    started: str
    podsim: str
    podsim_commit: str
    commit: str
    size_bytes: int


def run_groups(runs: "Iterable[StoredRun]", root: Path) -> list[RunGroup]:
    """Runs by the folder of their scenario, the one that was started last at the end."""
    together: dict[tuple[Path, str, str], list[StoredRun]] = {}
    for run in runs:
        key = (scenario_place(run), run.scenario, run.scenario_hash)
        together.setdefault(key, []).append(run)
    found = [_group(place, each, root) for (place, _, _), each in together.items()]
    return sorted(found, key=lambda group: (group.started, group.name))


def _group(place: Path, runs: "Sequence[StoredRun]", root: Path) -> RunGroup:
    newest = max(runs, key=lambda run: run.started)
    return RunGroup(
        name=str(place.relative_to(root) if place.is_relative_to(root) else place),
        scenario=newest.scenario,
        scenario_hash=newest.scenario_hash,
        variants=tuple(dict.fromkeys(run.variant for run in runs)),
        settings=tuple(dict.fromkeys(setting for run in runs for setting in run.settings)),
        seeds=tuple(sorted({run.seed for run in runs})),
        runs=len(runs),
        started=newest.started,
        podsim=str(newest.manifest.get("podsim", "")),
        podsim_commit=str(newest.provenance.get("podsim_commit", "")),
        commit=str(newest.provenance.get("commit", "")),
        size_bytes=sum(run.size_bytes() for run in runs),
    )


def as_text(found: Sequence[RunGroup]) -> str:
    """A table of them: what to call each, and what it is."""
    moved = any(
        Path(each.name).name != scenario_name(each.scenario, each.scenario_hash) for each in found
    )
    names = ("RUN", *(("SCENARIO",) if moved else ()))
    head = (*names, "VARIANTS", "SEEDS", "STARTED (UTC)", "SIZE", "PODSIM")
    lines = aligned([head, *(_line(each, moved) for each in found)])
    for at in reversed(range(len(found))):  # below the line that they belong to
        if found[at].settings:
            lines.insert(at + 2, f"{GAP}set over the file: {', '.join(found[at].settings)}")
    return "\n".join(lines)


def _line(group: RunGroup, moved: bool) -> tuple[str, ...]:
    whole = scenario_name(group.scenario, group.scenario_hash)
    variants = [variant for variant in group.variants if variant]
    few = len(variants) <= MOST_VARIANTS_SHOWN
    return (
        group.name,
        *((whole,) if moved else ()),
        (", ".join(variants) if few else f"{len(variants)} variants") or "-",
        ranges(group.seeds),
        group.started[:19].replace("T", " ") or "-",
        size(group.size_bytes),
        " ".join(filter(None, (group.podsim, group.podsim_commit))) or "-",
    )


def as_json(found: Iterable[RunGroup]) -> list[dict[str, Any]]:
    """The same for programs."""
    return [asdict(each) for each in found]


def provenance_lines(runs: "Sequence[StoredRun]") -> list[str]:
    """How these runs were made, once for all that were made alike."""
    alike: dict[tuple[tuple[str, str], ...], list[StoredRun]] = {}
    for run in runs:
        alike.setdefault(tuple(_made(run)), []).append(run)
    lines: list[str] = []
    for facts, made in alike.items():
        whose = f" {len(made)} of the {len(runs)} runs" if len(alike) > 1 else ""
        lines += ["", f"How made{whose}:"]
        lines += aligned([(f"  {what}", text) for what, text in facts])
    return lines


def _made(run: "StoredRun") -> Iterator[tuple[str, str]]:
    noted: Mapping[str, Any] = run.provenance
    for what, key in (
        ("command", "command"),
        ("in", "directory"),
        ("started", "started"),
        ("scenario's commit", "commit"),
        ("podsim's commit", "podsim_commit"),
        ("on", "system"),
    ):
        if noted.get(key):
            yield what, str(noted[key])
    versions = [
        f"{program} {run.manifest[program]}"
        for program in ("podsim", "python", "numpy", "pyarrow")
        if program in run.manifest
    ]
    yield "with", ", ".join(versions)
    yield "scenario hash", run.scenario_hash
