import errno
import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from sim.core.errors import UserError
from sim.results import arrow
from sim.results.digest import digest
from sim.results.store import Origin, folder, read, write
from sim.results.tables import DECLARED
from sim.results.unfinished import UNFINISHED, write_whole
from tests.results.builders import Book, facts, mixed_run

HASH = "0123456789abcdef" * 4
SCENARIO = {"name": "by-hand", "engines": {}}
RESULT = mixed_run()


def keep(root: Path) -> Path:
    return write(RESULT, root, Origin(HASH, SCENARIO))


def everything_under(root: Path) -> set[str]:
    return {str(path.relative_to(root)) for path in root.rglob("*") if path.is_file()}


def test_a_run_has_its_folder_and_its_files(tmp_path: Path) -> None:
    """Programs that know the layout would not find the run, or find rests of its writing."""
    path = keep(tmp_path)
    assert path == tmp_path / "by-hand-01234567" / "base" / "seed-1"
    assert everything_under(tmp_path) == {
        f"by-hand-01234567/base/seed-1/{name}"
        for name in (
            *(f"{table}.parquet" for table in DECLARED),
            *("summary.json", "manifest.json"),
        )
    }
    named = folder(tmp_path, facts(variant="ring-0.10.7", seed=7), HASH)
    assert named == tmp_path / "by-hand-01234567" / "ring-0.10.7" / "seed-7"


def test_a_stored_run_reads_back_as_it_was(tmp_path: Path) -> None:
    """A comparison over stored runs would compare something else than what was simulated."""
    again = read(keep(tmp_path))
    assert again.facts == RESULT.facts
    assert again.summary == RESULT.summary
    assert again.warnings == RESULT.warnings
    assert again.digest == RESULT.digest
    assert again.tables.requests.equals(RESULT.tables.requests)
    assert again.tables.placements.to_pylist() == RESULT.tables.placements.to_pylist()
    assert digest(again.tables) == RESULT.digest


def test_a_run_to_the_end_reads_back_without_a_window_end(tmp_path: Path) -> None:
    """Infinity would stand in the manifest, which is then no JSON, or come back as null."""
    endless = Book().freeze(facts(window_end_s=float("inf")))
    path = write(endless, tmp_path, Origin(HASH, SCENARIO))
    assert "Infinity" not in (path / "manifest.json").read_text()
    assert read(path).facts == endless.facts


def test_manifest_says_what_a_repetition_needs(tmp_path: Path) -> None:
    """A stored run could not be repeated, or could not be told from another version's."""
    manifest = json.loads((keep(tmp_path) / "manifest.json").read_text())
    assert manifest["scenario"] == SCENARIO
    assert manifest["scenario_hash"] == HASH
    assert manifest["seed"] == 1
    assert manifest["digest"] == RESULT.digest
    assert manifest["schema_version"] == 3
    assert {"podsim", "python", "numpy", "pyarrow", "warnings", "facts"} <= set(manifest)
    assert "provenance" not in manifest
    path = write(RESULT, tmp_path, Origin(HASH, SCENARIO, provenance={"machine": "build-7"}))
    assert json.loads((path / "manifest.json").read_text())["provenance"] == {"machine": "build-7"}


def test_other_programs_can_read_the_tables(tmp_path: Path) -> None:
    """Only podsim could read its own results."""
    table = pq.ParquetFile(keep(tmp_path) / "requests.parquet").read()
    assert table.column("pod").to_pylist() == RESULT.tables.requests.column("pod").to_pylist()


def test_writing_again_replaces_the_run(tmp_path: Path) -> None:
    """Files of two runs would lie in one folder."""
    path = keep(tmp_path)
    (path / "notes.txt").write_text("of the older run")
    assert keep(tmp_path) == path
    assert len(everything_under(tmp_path)) == len(DECLARED) + 2


def failing(error: BaseException) -> Any:
    def write_table(table: Any, path: Path) -> None:
        if path.name == "pods.parquet":
            raise error
        path.write_bytes(b"half a table")

    return write_table


@pytest.mark.parametrize(
    ("error", "seen_as", "words"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), UserError, "No space left on device"),
        (KeyboardInterrupt("Ctrl-C"), KeyboardInterrupt, "Ctrl-C"),
    ],
)
def test_an_interrupted_write_leaves_the_older_run_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    seen_as: type[BaseException],
    words: str,
) -> None:
    """A full disk or Ctrl-C would leave half a run, or destroy the one before it."""
    path = keep(tmp_path)
    before = everything_under(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(arrow, "write", failing(error))
        with pytest.raises(seen_as, match=words):
            keep(tmp_path)
    assert everything_under(tmp_path) == before
    assert read(path).digest == RESULT.digest


def test_an_interrupted_first_write_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half a run would look like a whole one to a program that lists folders."""
    monkeypatch.setattr(arrow, "write", failing(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.raises(UserError, match=r"cannot store the result in .*seed-1: No space left"):
        keep(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_writers_of_the_same_run_do_not_get_into_each_others_way(tmp_path: Path) -> None:
    """Two calls for one scenario at once: one would fail, or both results would be lost."""
    with ThreadPoolExecutor(4) as pool:
        paths = set(pool.map(lambda _: keep(tmp_path), range(40)))
    (path,) = paths
    assert read(path).digest == RESULT.digest
    assert len(everything_under(tmp_path)) == len(DECLARED) + 2


def test_a_failed_rename_brings_the_older_run_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between moving the old run away and the new one in, an error would lose both."""
    path = keep(tmp_path)
    rename = Path.rename

    def refuses(self: Path, target: Path) -> Path:
        if self.parent.name.startswith(UNFINISHED) and not self.name.endswith("-older"):
            raise PermissionError(errno.EACCES, "Permission denied")
        return rename(self, target)

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuses)
        with pytest.raises(UserError, match="Permission denied"):
            keep(tmp_path)
    assert read(path).digest == RESULT.digest
    assert len(everything_under(tmp_path)) == len(DECLARED) + 2


def test_a_place_that_cannot_be_written_is_the_users_mistake(tmp_path: Path) -> None:
    """A wrong --out would end in a traceback."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(UserError, match="cannot store the result"):
        keep(blocked)


def test_what_is_not_a_result_is_refused_in_words(tmp_path: Path) -> None:
    """A wrong path, a torn file or another form would end in a traceback."""
    with pytest.raises(UserError, match=r"cannot read a result .*No such file"):
        read(tmp_path / "nowhere")
    path = keep(tmp_path)
    manifest = json.loads((path / "manifest.json").read_text())
    (path / "manifest.json").write_text(json.dumps({**manifest, "schema_version": 0}))
    with pytest.raises(UserError, match="stored in form 0, which this podsim no longer reads"):
        read(path)
    (path / "manifest.json").write_text("{")
    with pytest.raises(UserError, match="cannot read a result"):
        read(path)
    (path / "manifest.json").write_text(json.dumps(manifest))
    (path / "pods.parquet").write_bytes(b"PAR1 torn")
    with pytest.raises(UserError, match="cannot read a result"):
        read(path)


def test_tables_that_are_not_those_of_the_digest_are_refused(tmp_path: Path) -> None:
    """Files copied from two runs would be compared as one."""
    path = keep(tmp_path)
    arrow.write(RESULT.tables.requests.slice(0, 3), path / "requests.parquet")
    with pytest.raises(UserError, match="not those of the digest"):
        read(path)
    arrow.write(RESULT.tables.pods, path / "requests.parquet")
    with pytest.raises(UserError, match="not those of the digest"):
        read(path)


def test_a_device_or_a_pipe_is_not_replaced_by_a_file(tmp_path):
    """``podsim sweep -o /dev/null``, by root: the device was gone, a file lay in its place."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="it is not a file"):
        write_whole(pipe, b"content")
    assert pipe.is_fifo()
    assert list(tmp_path.iterdir()) == [pipe]
