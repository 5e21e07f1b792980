"""Stored runs as the command line names them: a folder, or a name below results/runs."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.errors import UserError

if TYPE_CHECKING:
    from sim.results.stored import StoredRun

DEFAULT_STORE: Final = Path("results", "runs")


def named_runs(name: str, root: Path = DEFAULT_STORE) -> "tuple[StoredRun, ...]":
    """The runs that ``name`` means: those in or below a folder of that name, as it stands or below
    ``root``, or those of the newest scenario of that name below ``root``.

    ``name`` may go on with a variant and a seed: ``quickstart/bounded-ring/seed-1``.
    Raises ``UserError`` when there are none.
    """
    from sim.results.stored import stored_runs

    for place in (Path(name), root / name):
        if place.is_dir():
            runs = stored_runs(place)
            if not runs:
                raise UserError(f"{place}: no stored run in this folder")
            return runs
    scenario, _, below = name.partition("/")
    newest = _newest(scenario, root)
    if newest is None or not (newest / below).is_dir():
        raise UserError(_unknown(name, root))
    return stored_runs(newest / below)


def _newest(scenario: str, root: Path) -> Path | None:
    """The folder of the scenario, of several the one whose runs were started last."""
    from sim.results.stored import stored_runs

    started: dict[Path, str] = {}
    for folder in sorted(root.glob(f"{scenario}-*")):
        for run in stored_runs(folder):
            if run.scenario == scenario:
                started[folder] = max(
                    started.get(folder, ""), str(run.provenance.get("started", ""))
                )
    return max(started, key=lambda folder: started[folder], default=None)


def _unknown(name: str, root: Path) -> str:
    from sim.scenario.suggest import suggestion

    known = sorted(folder.name for folder in root.iterdir()) if root.is_dir() else []
    where = f"neither a folder nor a stored run below {root}"
    if not known:
        return f"{name}: {where}, which holds none; podsim run FILE stores runs there"
    return f"{name}: {where}{suggestion(name, known)}; podsim runs list shows all"
