"""Running what has a baseline, and writing the file."""

from collections.abc import Callable
from pathlib import Path

from sim.baseline.folders import USUAL, Folders
from sim.baseline.kept import Baseline, kept, read_baseline
from sim.core.errors import UserError
from sim.execution.runner import Progress, run_set
from sim.results.unfinished import write_whole
from sim.scenario.load import ScenarioSet


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
