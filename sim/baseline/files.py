"""Baselines on disk: which scenario has which, how one is made, and why it changed.

The changelog names the fingerprint of each baseline that was changed, so a change
without a reason is found by reading two files, without any history.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.baseline.baseline import Baseline, kept, read_baseline
from sim.baseline.folders import USUAL, Folders
from sim.core.errors import Fault, ScenarioError, UserError
from sim.core.suggest import suggestion
from sim.execution.runner import Progress, run_set
from sim.results.unfinished import write_whole
from sim.scenario.load import ScenarioSet, load

SUFFIX: Final = ".json"


@dataclass(frozen=True)
class BaselineFile:
    """A scenario of the folder, loaded, and where its baseline belongs."""

    scenarios: ScenarioSet
    baseline: Path

    @property
    def name(self) -> str:
        """What scenario and baseline are called."""
        return self.scenarios.name


@dataclass(frozen=True)
class Places:
    """Scenarios in alphabetical order of their names, and baselines that nobody makes."""

    known: tuple[BaselineFile, ...]
    stale: tuple[Path, ...]

    def chosen(self, names: Sequence[str]) -> tuple[BaselineFile, ...]:
        """Those with these names, or the names of these files, all when none is given.

        Raises ``UserError`` for one that is not there.
        """
        by_name = {place.name: place for place in self.known}
        wanted = [Path(name).stem if name.endswith(".yaml") else name for name in names]
        unknown = [name for name in wanted if name not in by_name]
        if unknown:
            raise UserError(
                f"{unknown[0]}: no scenario of that name{suggestion(unknown[0], by_name)}"
            )
        return tuple(place for name, place in by_name.items() if not wanted or name in wanted)


def places(scenarios: Path, baselines: Path) -> Places:
    """What the two folders hold; a folder of baselines need not exist yet.

    Raises ``ScenarioError`` with the faults of all scenarios, and ``UserError``
    when there is none.
    """
    if not scenarios.is_dir():
        raise UserError(f"{scenarios}: no such folder; --scenarios DIR says where scenarios are")
    files = sorted(scenarios.glob("*.yaml"))
    if not files:
        raise UserError(f"{scenarios}: no scenario in it; a scenario is a file that ends in .yaml")
    loaded = _loaded(files)
    known = tuple(BaselineFile(each, baselines / f"{each.name}{SUFFIX}") for each in loaded)
    made = {place.baseline for place in known}
    stale = [file for file in sorted(baselines.glob(f"*{SUFFIX}")) if file not in made]
    return Places(known, tuple(stale))


def _loaded(files: Sequence[Path]) -> list[ScenarioSet]:
    """Every scenario, or the faults of all of them; a file is called as its scenario is."""
    loaded: list[ScenarioSet] = []
    faults: list[Fault] = []
    for file in files:
        try:
            scenario = load(file)
        except ScenarioError as error:
            faults.extend(error.faults)
            continue
        loaded.append(scenario)
        if scenario.name != file.stem:
            message = f"must be that of the file, {file.stem}; got {scenario.name}"
            faults.append(Fault(str(file), 0, 0, "name", message))
    if faults:
        raise ScenarioError(faults)
    return loaded


def measured(
    scenarios: ScenarioSet,
    *,
    jobs: int = 1,
    progress: Callable[[Progress], None] | None = None,
) -> Baseline:
    """What today's code makes of every variant and seed, run in ``jobs`` processes.

    Raises ``InvariantError`` and ``WorkerError`` as ``sim.execution.runner.run_set``.
    """
    runs = run_set(scenarios, jobs=jobs, progress=progress, keep_tables=False)
    return kept(scenarios, runs.runs)


def stored(file: Path, folders: Folders = USUAL) -> Baseline | None:
    """The baseline in a file of these folders, None when there is no such file.

    Raises ``UserError`` when it cannot be read.
    """
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{file}: cannot read a baseline from it: {reason}") from error
    baseline = read_baseline(text, str(file), folders)
    if baseline.scenario != file.stem:
        raise UserError(
            f"{file}: this is the baseline of {baseline.scenario}; a baseline is called as its "
            "scenario is"
        )
    return baseline


def stored_if_readable(file: Path) -> Baseline | None:
    """As ``stored``; None also for what cannot be read, which is about to be replaced."""
    try:
        return stored(file)
    except UserError:
        return None


def store(baseline: Baseline, file: Path) -> None:
    """Write a baseline, or leave what was there; raises ``UserError`` when the disk refuses it."""
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        write_whole(file, baseline.text().encode())
    except OSError as error:
        raise UserError(f"{file}: cannot write the baseline: {error.strerror or error}") from error


_LINE: Final = re.compile(r"^\s*(?:[-*]\s+)?`?baseline: (\S+) ([0-9a-f]{8})`?:?[ \t]+(\S.*)$", re.M)
REASON: Final = "<why it changed>"


def demand(baselines: Iterable[Baseline], changelog: Path) -> None:
    """Raises ``UserError`` with every line that the changelog lacks, or when it cannot be read."""
    baselines = list(baselines)
    if not changelog.exists() and baselines:
        raise UserError(
            f"{changelog}: no such file; it says why baselines changed. --changelog FILE names "
            "another, --no-changelog asks for none"
        )
    lines = missing(baselines, changelog)
    if lines:
        raise UserError(
            "\n".join(
                [
                    f"{changelog} does not say why these baselines are what they are; add, with "
                    "your reason:",
                    *lines,
                ]
            )
        )


def missing(baselines: Iterable[Baseline], changelog: Path) -> list[str]:
    """The lines that a changelog lacks, their reasons left to be filled in.

    A file that does not exist lacks all of them. Raises ``UserError`` when it
    cannot be read.
    """
    told = _reasons(changelog)
    return [
        f"- baseline: {each.scenario} {each.fingerprint} {REASON}"
        for each in baselines
        if told.get((each.scenario, each.fingerprint), REASON) == REASON
    ]


def _reasons(changelog: Path) -> dict[tuple[str, str], str]:
    """What the changelog says, by scenario and fingerprint."""
    try:
        text = changelog.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UserError(f"{changelog}: cannot read the changelog: {reason}") from error
    return {(scenario, digits): why.strip() for scenario, digits, why in _LINE.findall(text)}
