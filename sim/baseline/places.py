"""Which scenarios have baselines, and which baselines have scenarios."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sim.core.errors import Fault, ScenarioError, UserError
from sim.core.suggest import suggestion
from sim.scenario.load import ScenarioSet, load

SUFFIX: Final = ".json"


@dataclass(frozen=True)
class Place:
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

    known: tuple[Place, ...]
    stale: tuple[Path, ...]

    def chosen(self, names: Sequence[str]) -> tuple[Place, ...]:
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
    known = tuple(Place(each, baselines / f"{each.name}{SUFFIX}") for each in loaded)
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
