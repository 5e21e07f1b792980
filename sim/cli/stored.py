"""Stored runs as the command line names them: a folder, or a name below results/runs."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from sim.core.errors import UserError

if TYPE_CHECKING:
    from click import Context, Parameter

    from sim.results.stored import Found, StoredRun

DEFAULT_STORE: Final = Path("results", "runs")
HASH: Final = r"-[0-9a-f]{8}$"


def runs_begun(context: "Context", option: "Parameter", begun: str) -> list[str]:
    """For the completion of a shell: stored runs, their variants and seeds, one level at a time."""
    above, slash, _name = begun.rpartition("/")
    if not slash:
        names = [folder.name for folder in sorted(DEFAULT_STORE.glob("*/"))]
        found = [each for name in names for each in (re.sub(HASH, "", name), name)]
    else:
        scenario, _, below = above.partition("/")
        whole = DEFAULT_STORE / scenario
        folder = whole if whole.is_dir() else _newest(scenario_folders(scenario))
        inner = sorted(folder.joinpath(below).glob("*/")) if folder else []
        found = [f"{above}/{each.name}" for each in inner]
    return [each for each in dict.fromkeys(found) if each.startswith(begun) and "/." not in each]


def named_runs(name: str, root: Path = DEFAULT_STORE) -> "tuple[StoredRun, ...]":
    """The runs that ``name`` means: those in or below a folder of that name, as it stands or below
    ``root``, or those of the newest scenario of that name below ``root``.

    ``name`` may go on with a variant and a seed: ``quickstart/bounded-ring/seed-1``.
    Raises ``UserError`` when there are none, or one of them cannot be read.
    """
    from sim.results.stored import all_readable

    place, found = named_place(name, root)
    return all_readable(place, found)


def named_place(name: str, root: Path = DEFAULT_STORE) -> "tuple[Path, Found]":
    """The folder that ``name`` means, and what lies there, with what cannot be read.

    Raises ``UserError`` when there is nothing.
    """
    from sim.results.stored import found_runs

    torn: tuple[Path, Found] | None = None
    empty: Path | None = None
    for place in _meant(name, root):
        if not _is_folder(place):
            continue
        found = found_runs(place)
        if found.runs:
            return place, found
        if found.unreadable:
            torn = torn or (place, found)
        empty = empty or place
    if torn is not None:
        return torn
    if empty is not None:
        raise UserError(f"{empty}: no stored run in this folder")
    raise UserError(_unknown(name, root))


def _is_folder(place: Path) -> bool:
    try:
        return place.is_dir()
    except OSError:  # a name that is too long, a folder that may not be looked into
        return False


def scenario_folders(scenario: str, root: Path = DEFAULT_STORE) -> list[Path]:
    """The folders below ``root`` that hold runs of scenarios of that name, by their names.

    A name that begins like another one is none of its folders.
    """
    from sim.results.stored import HASH_DIGITS

    named = re.compile(rf"{re.escape(scenario)}-[0-9a-f]{{{HASH_DIGITS}}}")
    folders = sorted(root.iterdir()) if root.is_dir() else []
    return [folder for folder in folders if named.fullmatch(folder.name) and folder.is_dir()]


def _meant(name: str, root: Path) -> Iterator[Path]:
    """The folders that ``name`` may mean, the likeliest first."""
    if not name.strip():
        return
    yield Path(name)
    parts = PurePath(name).parts
    if PurePath(name).is_absolute() or ".." in parts or not parts:
        return  # would lead out of the store
    yield root / name
    newest = _newest(scenario_folders(parts[0], root))
    if newest is not None:
        yield newest.joinpath(*parts[1:])


def _newest(folders: list[Path]) -> Path | None:
    """The folder whose runs were started last."""
    from sim.results.stored import found_runs

    if len(folders) < 2:
        return next(iter(folders), None)
    last = {
        folder: max((run.started for run in found_runs(folder).runs), default="")
        for folder in folders
    }
    return max(folders, key=lambda folder: (last[folder], folder.name))


def _unknown(name: str, root: Path) -> str:
    from sim.core.suggest import nearest, suggestion

    folders = (
        sorted(folder for folder in root.iterdir() if folder.is_dir()) if root.is_dir() else []
    )
    known = [folder.name for folder in folders if not folder.name.startswith(".")]
    scenarios = list(dict.fromkeys(re.sub(HASH, "", each) for each in known))
    where = f"{name!r} is neither a folder nor a stored run below {root}"
    if not known:
        return f"{where}, which holds none; podsim run FILE stores runs there"
    scenario, _, below = name.partition("/")
    newest = _newest(scenario_folders(scenario, root)) or root / scenario
    if below.strip("/") and newest.is_dir():
        beside = sorted(
            str(path.relative_to(newest))
            for path in (*newest.glob("*"), *newest.glob("*/*"))
            if path.is_dir() and not path.name.startswith(".")
        )
        return f"{newest} holds no {below!r}{suggestion(below, beside)}"
    among = scenarios if nearest(name, scenarios) else known
    return f"{where}{suggestion(name, among)} (podsim runs list shows all)"
