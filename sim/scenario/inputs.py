"""What the content of a workload's files is checked against, before anything is run."""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from sim.core.errors import ScenarioError

Reading = TypeVar("Reading")


@dataclass(frozen=True)
class Inputs:
    """Given to ``check`` of a workload's spec, if it has one.

    ``check`` raises ``ScenarioError`` with every fault. A fault without a
    source is one of the spec itself, its path counted from there
    (``rows.3.model``); the loader finds its place. ``directory`` is where
    relative file names start. ``models`` are the names that backends serve,
    empty when they serve any.
    """

    directory: Path
    models: tuple[str, ...] = ()
    _readings: dict[Hashable, Any] = field(default_factory=dict)

    def serving(self, models: tuple[str, ...]) -> "Inputs":
        """The same files, for backends that serve ``models``."""
        return Inputs(self.directory, models, self._readings)

    def once(self, read: Callable[..., Reading], name: str, *how: Hashable) -> Reading:
        """What ``read(path, *how)`` makes of the file, or raises; nobody reads it again."""
        key = (read, name, how)
        if key not in self._readings:
            try:
                self._readings[key] = read(self.directory / name, *how)
            except ScenarioError as error:
                self._readings[key] = error
        found = self._readings[key]
        if isinstance(found, ScenarioError):
            raise found
        reading: Reading = found
        return reading
