"""Stored runs by their places: which there are, and what each is, without reading its tables."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sim.errors import UserError
from sim.results import arrow
from sim.results.result import RunFacts, RunResult
from sim.results.store import MANIFEST, PREVIOUS, SUMMARY, check_version, facts_of, read
from sim.results.tables import DECLARED, schema
from sim.results.unfinished import UNFINISHED


@dataclass(frozen=True)
class StoredRun:
    """A run on disk: its folder and its manifest."""

    path: Path
    manifest: Mapping[str, Any]

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return str(self.manifest["facts"]["scenario"])

    @property
    def scenario_hash(self) -> str:
        """Hash of the scenario with all variants that were loaded with this one."""
        return str(self.manifest["scenario_hash"])

    @property
    def variant_hash(self) -> str:
        """Hash of this variant alone; empty in runs of form 2."""
        return str(self.manifest.get("variant_hash", ""))

    @property
    def variant(self) -> str:
        """Name of the variant; empty for a scenario without variants."""
        return str(self.manifest["variant"])

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.manifest["seed"])

    @property
    def digest(self) -> str:
        """What stands for all values of its tables."""
        return str(self.manifest["digest"])

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What the caller noted: command, time of day, commit; empty when nothing was."""
        noted: Mapping[str, Any] = self.manifest.get("provenance", {})
        return noted

    def summary(self) -> dict[str, Any]:
        """Its figures; raises ``UserError`` when they cannot be read."""
        try:
            found: dict[str, Any] = json.loads((self.path / SUMMARY).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read a result from {self.path}: {error}") from error
        return found

    @property
    def facts(self) -> RunFacts:
        """What its tables do not say; raises ``UserError`` when some of it is missing."""
        try:
            return facts_of(self.manifest["facts"])
        except (KeyError, TypeError) as error:
            raise UserError(f"cannot read a result from {self.path}: {error}") from error

    def table(self, name: str) -> arrow.Table:
        """One of its tables, for who does not need them all; it is not checked against the digest.

        Raises ``UserError`` when it cannot be read or is not what this podsim writes.
        """
        try:
            found = arrow.read(self.path / f"{name}.parquet")
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read a result from {self.path}: {error}") from error
        if not arrow.matches(found, schema(DECLARED[name])):
            raise UserError(f"{self.path}: {name} has other columns; run the scenario again")
        return found

    def read(self) -> RunResult:
        """The whole result; raises ``UserError`` as ``sim.results.store.read``."""
        return read(self.path)


def stored_runs(place: Path) -> tuple[StoredRun, ...]:
    """Every run in or below a folder: by scenario, hash, variant in file order, seed.

    Raises ``UserError`` for a manifest that cannot be read. A place that does
    not exist holds no runs.
    """
    found = [_opened(path.parent) for path in sorted(place.rglob(MANIFEST)) if _whole(path, place)]
    return tuple(sorted(found, key=_in_order))


def _whole(manifest: Path, place: Path) -> bool:
    """Whether it does not lie in a folder that a writer has left half-written or is replacing."""
    between = manifest.relative_to(place).parts
    return not any(part.startswith((UNFINISHED, PREVIOUS)) for part in between)


def _opened(path: Path) -> StoredRun:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        check_version(path, manifest["schema_version"])
        run = StoredRun(path, manifest)
        _in_order(run)  # asks for all that is needed
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(f"cannot read a result from {path}: {error}") from error
    return run


def _in_order(run: StoredRun) -> tuple[str, str, int, str, int]:
    variants = list(run.manifest.get("variants", ()))
    at = variants.index(run.variant) if run.variant in variants else len(variants)
    return run.scenario, run.scenario_hash, at, run.variant, run.seed
