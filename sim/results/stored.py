"""Stored runs on disk: where they lie, which there are, and what each is without its tables.

``<root>/<scenario>-<hash8>/<variant>/seed-<n>/`` is the folder of a run. It is renamed into its
place when it is whole, so it is never found half written.
"""

import errno
import json
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sim.core.errors import UserError

if TYPE_CHECKING:
    from sim.core.recorder import RunFacts
    from sim.results import arrow
    from sim.results.result import RunResult

NO_VARIANT: Final = "base"
HASH_DIGITS: Final = 8
MANIFEST: Final = "manifest.json"
SUMMARY: Final = "summary.json"
SCHEMA_VERSION: Final = 3
"""Of manifests and tables; to be raised when what they hold changes."""

_NEEDED: Final[Mapping[str, type]] = {
    **dict.fromkeys(("scenario_hash", "variant_hash", "variant", "digest"), str),
    **dict.fromkeys(("variants", "warnings"), list),
    **dict.fromkeys(("facts", "scenario"), dict),
    "seed": int,
}
_OPTIONAL: Final = {"settings": list, "scenario_warnings": list, "provenance": dict}
_WORDS: Final = {str: "text", list: "a list", int: "a whole number", dict: "a mapping"}


def scenario_name(scenario: str, scenario_hash: str) -> str:
    """Name of the folder that holds the folders of all variants of a scenario."""
    return f"{scenario}-{scenario_hash[:HASH_DIGITS]}"


def run_path(scenario: str, scenario_hash: str, variant: str, seed: int) -> Path:
    """Where below the root the folder of a run belongs."""
    return Path(scenario_name(scenario, scenario_hash), variant or NO_VARIANT, f"seed-{seed}")


def read_json(file: Path) -> dict[str, Any]:
    """Return what a JSON file holds; raises ``OSError``, or ``ValueError`` for no mapping."""
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file.name} is torn: {error}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{file.name} is none of podsim's: it holds no mapping")
    return found


def read_manifest(path: Path) -> dict[str, Any]:
    """Return what a run's folder says of the run.

    Raises ``OSError``, or ``ValueError`` for what this podsim has not written.
    """
    return checked(read_json(path / MANIFEST))


def checked(manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a manifest; raises ``ValueError`` unless it is what this podsim writes."""
    form = manifest.get("schema_version")
    if not isinstance(form, int):
        raise ValueError(f"{MANIFEST} is none of podsim's: it says no schema_version")
    if form > SCHEMA_VERSION:
        raise ValueError(
            f"stored in form {form} by a newer podsim, this one reads forms up to "
            f"{SCHEMA_VERSION}; update podsim or run the scenario again"
        )
    if form < SCHEMA_VERSION:
        raise ValueError(
            f"stored in form {form}, which this podsim no longer reads; run the scenario again"
        )
    for name, kind in _NEEDED.items():
        if name not in manifest:
            raise ValueError(f"the manifest lacks {name!r}")
        _check_kind(name, manifest[name], kind)
    for name, kind in _OPTIONAL.items():
        _check_kind(name, manifest.get(name, kind()), kind)
    _check_kind("facts.scenario", manifest["facts"].get("scenario"), str)
    return manifest


def _check_kind(name: str, value: object, kind: type) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise ValueError(f"{name!r} of the manifest must be {_WORDS[kind]}; got {value!r:.40}")


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
        """Hash of this variant alone."""
        return str(self.manifest["variant_hash"])

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
        """Hash of all values of its tables."""
        return str(self.manifest["digest"])

    @property
    def settings(self) -> tuple[str, ...]:
        """What was set over the scenario's file, as ``path=value``."""
        return tuple(map(str, self.manifest.get("settings", ())))

    @property
    def provenance(self) -> Mapping[str, Any]:
        """What the caller noted: command, time of day, commit; empty when nothing was."""
        noted: Mapping[str, Any] = self.manifest.get("provenance", {})
        return noted

    @property
    def started(self) -> str:
        """When the command that made it started, else when it was stored: UTC as ISO 8601 has it.

        Empty when its manifest has been taken away meanwhile.
        """
        if "started" in self.provenance:
            return str(self.provenance["started"])
        try:
            stored_s = (self.path / MANIFEST).stat().st_mtime
        except OSError:
            return ""
        return datetime.fromtimestamp(stored_s, UTC).isoformat(timespec="seconds")

    def size_bytes(self) -> int:
        """What its files take on disk, by their lengths; 0 when it is gone."""
        with suppress(OSError), os.scandir(self.path) as entries:
            return sum(entry.stat(follow_symlinks=False).st_size for entry in entries)
        return 0

    def summary(self) -> dict[str, Any]:
        """Its figures; raises ``UserError`` when they cannot be read."""
        try:
            return read_json(self.path / SUMMARY)
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read a result from {self.path}: {_reason(error)}") from error

    @property
    def facts(self) -> "RunFacts":
        """What its tables do not say; raises ``UserError`` when some of it is missing."""
        from sim.results.store import UNREADABLE, facts_from

        try:
            return facts_from(self.manifest["facts"])
        except UNREADABLE as error:
            raise UserError(f"cannot read a result from {self.path}: {error!r}") from error

    def table(self, name: str) -> "arrow.Table":
        """One of its tables, for who does not need them all; it is not checked against the digest.

        Raises ``UserError`` when it cannot be read or is not what this podsim writes.
        """
        from sim.results import arrow
        from sim.results.tables import DECLARED, schema

        try:
            found = arrow.read(self.path / f"{name}.parquet")
        except (OSError, ValueError) as error:
            raise UserError(f"cannot read a result from {self.path}: {_reason(error)}") from error
        if not arrow.matches(found, schema(DECLARED[name])):
            raise UserError(f"{self.path}: {name} has other columns; run the scenario again")
        return found

    def outline(self) -> "RunResult":
        """The result with its tables empty, quickly; raises ``UserError`` as ``summary``."""
        from sim.results.result import RunResult
        from sim.results.tables import without_rows

        summary, warnings = self.summary(), tuple(self.manifest["warnings"])
        manifest = dict(self.manifest)
        return RunResult(self.facts, without_rows(), summary, warnings, self.digest, manifest)

    def read(self) -> "RunResult":
        """The whole result; raises ``UserError`` as ``sim.results.store.read``."""
        from sim.results.store import read

        return read(self.path)


@dataclass(frozen=True)
class Unreadable:
    """A folder with something that looks like a run and cannot be read, and why."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"cannot read a result from {self.path}: {self.reason}"


@dataclass(frozen=True)
class Found:
    """What lies in or below a folder: runs by scenario, hash, variant in file order and seed."""

    runs: tuple[StoredRun, ...]
    unreadable: tuple[Unreadable, ...]


def stored_runs(place: Path) -> tuple[StoredRun, ...]:
    """Every run in or below a folder: by scenario, hash, variant in file order, seed.

    Raises ``UserError`` when one of them cannot be read. A place that does
    not exist holds no runs.
    """
    return all_readable(place, found_runs(place))


def all_readable(place: Path, found: Found) -> tuple[StoredRun, ...]:
    """The runs found below ``place``; raises ``UserError`` when one of them cannot be read."""
    if found.unreadable:
        more = len(found.unreadable) - 1
        others = f"; neither can {more} more below {place}" if more else ""
        raise UserError(f"{found.unreadable[0]}{others}")
    return found.runs


def found_runs(place: Path) -> Found:
    """The runs in or below a folder, and apart from them what cannot be read there.

    Folders whose names begin with a dot are left out; links are followed, no
    folder is visited twice.
    """
    runs: list[StoredRun] = []
    unreadable: list[Unreadable] = []
    for found in _candidates(place):
        if isinstance(found, Unreadable):
            unreadable.append(found)
            continue
        try:
            runs.append(StoredRun(found, read_manifest(found)))
        except (OSError, ValueError) as error:
            if _exists(found):  # else another process has just removed it
                unreadable.append(Unreadable(found, _reason(error)))
    unreadable.sort(key=lambda each: each.path)
    return Found(tuple(sorted(runs, key=_in_order)), tuple(unreadable))


def _candidates(place: Path) -> Iterator[Path | Unreadable]:
    """Every folder that holds a manifest; those behind links come last."""
    seen: set[tuple[int, int]] = set()
    folders, links = deque([place]), deque[Path]()
    while folders or links:
        folder = folders.popleft() if folders else links.popleft()
        try:
            if not _is_new(folder, seen):
                continue
            with os.scandir(folder) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link that leads nowhere either
                yield Unreadable(folder, _reason(error))
            continue
        for entry in entries:
            if entry.name == MANIFEST:
                yield folder
            elif not entry.name.startswith("."):
                if entry.is_symlink():
                    links.append(Path(entry.path))
                elif entry.is_dir():
                    folders.append(Path(entry.path))


def _is_new(folder: Path, seen: set[tuple[int, int]]) -> bool:
    """Note that a folder is visited; return whether it had not been."""
    status = folder.stat()
    identity = (status.st_dev, status.st_ino)
    if identity in seen:
        return False
    seen.add(identity)
    return True


def _exists(path: Path) -> bool:
    """Return whether it is there, also where we may not look."""
    try:
        return path.exists()
    except OSError:
        return True


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _in_order(run: StoredRun) -> tuple[str, str, int, str, int, Path]:
    variants = run.manifest["variants"]
    at = variants.index(run.variant) if run.variant in variants else len(variants)
    return run.scenario, run.scenario_hash, at, run.variant, run.seed, run.path
