"""Results on disk: a folder per run, written once and as a whole (``sim.results.stored``).

It holds a parquet file for each table (``requests.parquet``, ``placements.parquet`` and so on),
``summary.json`` and ``manifest.json``. The same run made again takes the place of the older one.
"""

import errno
import json
import platform
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from math import inf, isinf
from pathlib import Path
from typing import Any, Final

import numpy as np

from sim.core.errors import UserError
from sim.core.interrupts import interrupts_deferred
from sim.core.ports import PodTotals
from sim.core.recorder import RunFacts
from sim.results import arrow
from sim.results.digest import digest
from sim.results.result import RunResult
from sim.results.sent import Sent
from sim.results.stored import (
    MANIFEST,
    SCHEMA_VERSION,
    SUMMARY,
    read_json,
    read_manifest,
    run_path,
    scenario_name,
)
from sim.results.tables import DECLARED, Tables, schema
from sim.results.unfinished import unfinished_name

UNREADABLE: Final = (
    *(OSError, LookupError, TypeError, ValueError, AttributeError),
    *(NotImplementedError, RecursionError),
)
"""What a file that is not what it should be may raise when it is read."""


@dataclass(frozen=True)
class Origin:
    """What a result does not say of itself: which scenario it is of, and who made it.

    ``scenario`` is the resolved variant as JSON has it, ``variant_hash`` the
    hash of it alone and ``variants`` the names of all variants of the file, in its
    order. ``settings`` were put over the file; ``warnings`` are those of it. ``provenance`` is
    whatever the caller knows and a pure function cannot: time of day, command, commit.
    """

    scenario_hash: str
    scenario: Mapping[str, Any]
    variant_hash: str = ""
    variants: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    provenance: Mapping[str, Any] | None = None


def folder(root: Path, facts: RunFacts, scenario_hash: str) -> Path:
    """Where the result of a run belongs."""
    return root / run_path(facts.scenario, scenario_hash, facts.variant, facts.seed)


def scenario_folder(root: Path, scenario: str, scenario_hash: str) -> Path:
    """The folder that holds the folders of all variants."""
    return root / scenario_name(scenario, scenario_hash)


@contextmanager
def made(directory: Path, what: str = "results") -> Iterator[None]:
    """Make a folder for ``what``; when the work in it fails, what it made and left empty goes.

    Raises ``UserError`` when it cannot be made.
    """
    new: list[Path] = []
    try:
        with _refused(f"cannot store the {what} in {directory}", OSError):
            new += [path for path in (directory, *directory.parents) if not path.exists()]
            directory.mkdir(parents=True, exist_ok=True)
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.rmdir()
        raise


def write(result: RunResult, root: Path, origin: Origin) -> Path:
    """Store a result and return its folder; a result that is there already is replaced.

    Raises ``UserError`` when the disk is full or the folder cannot be written;
    nothing is left behind then and an older result stays.
    """
    target = folder(root, result.facts, origin.scenario_hash)
    with made(target.parent), scratch(target.parent) as room:
        put(write_folder(result, room, target, origin), target)
    return target


@contextmanager
def scratch(directory: Path) -> Iterator[Path]:
    """A folder in ``directory``, which exists, for what is written there; it is removed at the end.

    Its name begins with a dot, so nothing in it is taken for a run. Raises ``UserError``.
    """
    room = directory / unfinished_name()
    try:
        with _refused(f"cannot store the results in {directory}", OSError):
            room.mkdir()
        yield room
    finally:
        shutil.rmtree(room, ignore_errors=True)


def write_folder(
    result: RunResult, room: Path, target: Path, origin: Origin, sent: Sent | None = None
) -> Path:
    """Write a result that is for ``target`` into a new folder of ``room``; raises ``UserError``.

    Without ``sent`` no trace of it can be exported.
    """
    finished = room / "-".join(target.parts[-2:])
    with _refused(f"cannot store the result in {target}", OSError):
        finished.mkdir()
        _write_files(result, finished, _manifest(result, origin))
        if sent is not None:
            sent.write(finished)
    return finished


def put(finished: Path, target: Path) -> None:
    """Rename a finished folder to ``target``, in the place of what is there.

    Raises ``UserError``; what was there comes back then.
    """
    older = finished.with_name(f"{finished.name}-older")
    with (
        _refused(f"cannot store the result in {target}", OSError),
        made(target.parent),
        interrupts_deferred(),
    ):
        with suppress(FileNotFoundError):
            target.rename(older)
        try:
            finished.rename(target)
        except OSError as error:
            if error.errno in (errno.ENOTEMPTY, errno.EEXIST):
                return  # another process has just stored the same run
            with suppress(FileNotFoundError):
                older.rename(target)
            raise
    shutil.rmtree(older, ignore_errors=True)


def read(path: Path) -> RunResult:
    """The result in a folder that ``write`` returned.

    Raises ``UserError`` when there is none, when another version of podsim
    wrote it in another form, or when its tables are not those of its digest.
    """
    with _refused(f"cannot read a result from {path}", *UNREADABLE):
        manifest = read_manifest(path)
        tables = Tables(**{name: arrow.read(path / f"{name}.parquet") for name in DECLARED})
        genuine = digest(tables) == manifest["digest"] and all(
            arrow.matches(getattr(tables, name), schema(columns))
            for name, columns in DECLARED.items()
        )
        result = RunResult(
            facts=facts_from(manifest["facts"]),
            tables=tables,
            summary=read_json(path / SUMMARY),
            warnings=tuple(manifest["warnings"]),
            digest=manifest["digest"],
            manifest=manifest,
        )
    if not genuine:
        raise UserError(f"{path}: the tables are not those of the digest; run the scenario again")
    return result


def _manifest(result: RunResult, origin: Origin) -> dict[str, Any]:
    """What is needed to repeat the run and to tell whether a repetition is the same."""
    from importlib.metadata import version

    manifest = {
        "schema_version": SCHEMA_VERSION,
        "podsim": version("podsim"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "pyarrow": arrow.VERSION,
        "scenario_hash": origin.scenario_hash,
        "variant_hash": origin.variant_hash,
        "variants": list(origin.variants),
        "variant": result.variant,
        "seed": result.seed,
        "digest": result.digest,
        "warnings": list(result.warnings),
        "facts": _plain_facts(result.facts),
        "scenario": dict(origin.scenario),
        "settings": list(origin.settings),
        "scenario_warnings": list(origin.warnings),
    }
    if origin.provenance is not None:
        manifest["provenance"] = dict(origin.provenance)
    return manifest


def _plain_facts(facts: RunFacts) -> dict[str, Any]:
    """The facts for JSON, which knows no infinity: a run to the end has no window end."""
    plain = asdict(facts)
    if isinf(facts.window_end_s):
        plain["window_end_s"] = None
    return plain


def facts_from(plain: Mapping[str, Any]) -> RunFacts:
    """The facts of a run from its manifest; raises as a mapping and what is in it do."""
    names = {field.name for field in fields(RunFacts)}
    facts = RunFacts(**{name: value for name, value in plain.items() if name in names})
    return replace(
        facts,
        window_end_s=inf if facts.window_end_s is None else facts.window_end_s,
        pods=tuple(facts.pods),
        opened=tuple(PodTotals(**totals) for totals in plain["opened"]),
        closed=tuple(PodTotals(**totals) for totals in plain["closed"]),
        rules={name: tuple(backends) for name, backends in facts.rules.items()},
        exclusive_pools=tuple(facts.exclusive_pools),
        lives_s={
            pod: tuple((start_s, end_s) for start_s, end_s in lives)
            for pod, lives in facts.lives_s.items()
        },
        restarts_s=tuple(facts.restarts_s),
    )


def _write_files(result: RunResult, place: Path, manifest: Mapping[str, Any]) -> None:
    for name in DECLARED:
        arrow.write(getattr(result.tables, name), place / f"{name}.parquet")
    for name, document in ((SUMMARY, result.summary), (MANIFEST, manifest)):
        text = json.dumps(document, indent=2, allow_nan=False)
        (place / name).write_text(text + "\n", encoding="utf-8")


@contextmanager
def _refused(failure: str, *errors: type[Exception]) -> Iterator[None]:
    """Tell the user what the disk, or a file that is not what it should be, has refused."""
    try:
        yield
    except errors as error:
        reason = (isinstance(error, OSError) and error.strerror) or error
        raise UserError(f"{failure}: {reason}") from error
