"""Stored runs by their places: which there are, and what each is, without reading its tables."""

import errno
import os
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sim.core.errors import UserError
from sim.results.forms import read_json, read_manifest
from sim.results.places import MANIFEST, PREVIOUS, SUMMARY, previous, recover, undisturbed

if TYPE_CHECKING:
    from sim.core.recorder import RunFacts
    from sim.results import arrow
    from sim.results.result import RunResult


@dataclass(frozen=True)
class StoredRun:
    """A run on disk: its folder and its manifest, in the newest form whatever was stored."""

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
        """What stands for all values of its tables."""
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
            recover(self.path)
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
            recover(self.path)
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
    folder is visited twice. What a writer that died has left between its
    places is put right on the way.
    """
    runs: list[StoredRun] = []
    unreadable: list[Unreadable] = []
    for found in _candidates(place):
        if isinstance(found, Unreadable):
            unreadable.append(found)
            continue
        try:
            runs.append(_opened(found))
        except (OSError, ValueError) as error:
            if _is_there(found):  # else somebody has just removed it
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
            with undisturbed(folder):
                if not _is_new(folder, seen):
                    continue
                with os.scandir(folder) as listed:
                    entries = sorted(listed, key=lambda entry: entry.name)
                # Told now, since a moment later one of them may be between two renames.
                runs = {entry.name for entry in entries if _holds_run(entry)}
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            if error.errno != errno.ELOOP:  # a link that leads nowhere either
                yield Unreadable(folder, _reason(error))
            continue
        names = {entry.name for entry in entries}
        if MANIFEST in names:
            yield folder
        for entry in entries:
            path = folder / entry.name
            if entry.name.startswith(PREVIOUS):
                target = path.with_name(entry.name.removeprefix(PREVIOUS))
                if target.name not in names:
                    yield _found_again(target)
            elif entry.name.startswith("."):
                continue
            elif entry.is_symlink():
                links.append(path)
            elif entry.name in runs:
                if _is_new(path, seen):
                    yield path
            elif entry.is_dir():
                folders.append(path)


def _holds_run(entry: "os.DirEntry[str]") -> bool:
    """Whether it is a folder with a manifest, no link and nobody's rest."""
    if entry.name.startswith(".") or not entry.is_dir(follow_symlinks=False):
        return False
    return os.path.exists(os.path.join(entry.path, MANIFEST))  # noqa: PTH110, PTH118


def _is_new(folder: Path, seen: set[tuple[int, int]]) -> bool:
    """Note that a folder has been visited; whether it had not. One that has just gone is new."""
    try:
        identity = folder.stat()
    except FileNotFoundError:
        return True
    if (identity.st_dev, identity.st_ino) in seen:
        return False
    seen.add((identity.st_dev, identity.st_ino))
    return True


def _found_again(target: Path) -> Path:
    """Where the run lies whose writer is, or has died, between its two renames."""
    with suppress(OSError):  # a disk that only lets us read: it is read where it lies
        recover(target)
    older = previous(target)
    return older if _is_there(older) and not _is_there(target) else target


def _is_there(path: Path) -> bool:
    """Also when we may not look."""
    try:
        return path.exists()
    except OSError:
        return True


def _opened(path: Path) -> StoredRun:
    """Raises ``OSError`` or ``ValueError``."""
    try:
        manifest = read_manifest(path)
    except FileNotFoundError:  # it may be between two renames
        recover(path)
        manifest = read_manifest(path)
    return StoredRun(path, manifest)


def _reason(error: Exception) -> str:
    return (isinstance(error, OSError) and error.strerror) or str(error)


def _in_order(run: StoredRun) -> tuple[str, str, int, str, int, Path]:
    variants = run.manifest["variants"]
    at = variants.index(run.variant) if run.variant in variants else len(variants)
    return run.scenario, run.scenario_hash, at, run.variant, run.seed, run.path
