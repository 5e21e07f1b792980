"""How to have a stored run again: a run is a pure function of its scenario and its seed."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.scenario.load import load_dict
from sim.scenario.schema import Scenario


@dataclass(frozen=True)
class Recipe:
    """The scenario of a run, its seed, where the file names of the scenario start, which files
    it reads and which podsim made the run.
    """

    scenario: Scenario
    seed: int
    directory: Path = Path()
    files: tuple[str, ...] = ()
    podsim: str = "unknown"


def recipe(manifest: Mapping[str, Any]) -> Recipe:
    """How the run of a manifest was made.

    Raises ``ScenarioError`` when its scenario can no longer be read: a file that
    it names is gone, another version of podsim wrote it.
    """
    document = dict(manifest["scenario"])
    variant = document.pop("variant", "")
    noted = manifest.get("provenance", {})
    directory = Path(noted.get("directory", ""), Path(noted.get("file", "")).parent)
    loaded = load_dict(document, directory=directory)
    return Recipe(
        scenario=loaded.variants[0].model_copy(update={"variant": variant}),
        seed=int(manifest["seed"]),
        directory=directory,
        files=tuple(loaded.file_hashes),
        podsim=str(manifest.get("podsim", "unknown")),
    )
