"""Which runs a folder holds, whatever else lies there and whoever is writing."""

import errno
import json
import os
import random
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet

from sim.core.errors import UserError
from sim.results import arrow
from sim.results.store import Origin, read, write
from sim.results.stored import (
    MANIFEST,
    SCHEMA_VERSION,
    SUMMARY,
    Found,
    found_runs,
    stored_runs,
)
from sim.results.unfinished import unfinished_name
from tests.results.builders import Book, facts

HASH = "0123456789abcdef" * 4


def keep(root: Path, seed: int = 1, variant: str = "", **origin) -> Path:
    book = Book()
    book.answered(1.0, 0.5)
    made = book.freeze(facts(seed=seed, variant=variant))
    return write(made, root, Origin(HASH, {"name": "by-hand"}, **origin))


def seeds(place: Path) -> list[int]:
    return [run.seed for run in stored_runs(place)]


def test_runs_come_by_variant_as_in_the_file_and_by_seed(tmp_path: Path) -> None:
    """Tables would have their columns in an order that nobody chose: seed 10 before seed 9."""
    for variant, seed in (("a", 10), ("b", 1), ("a", 9)):
        keep(tmp_path, seed, variant, variants=("b", "a"))
    found = [(run.variant, run.seed) for run in stored_runs(tmp_path)]
    assert found == [("b", 1), ("a", 9), ("a", 10)]


def test_a_place_without_runs_holds_none(tmp_path: Path) -> None:
    """A listing before the first run would be an error."""
    (tmp_path / "file").write_text("")
    assert found_runs(tmp_path) == found_runs(tmp_path / "no") == Found((), ())
    assert found_runs(tmp_path / "file") == Found((), ())


TORN = {
    "empty": b"",
    "truncated": b'{"schema_version": 3, "facts": {"sce',
    "a-list": b"[1, 2]",
    "a-number": b"3",
    "binary": bytes(range(256)),
    "deep": b"[" * 100_000,
    "long-number": b"1" * 10_000,
    "nothing-of-ours": b'{"name": "my web page", "icons": []}',
}


@pytest.mark.parametrize("content", TORN.values(), ids=TORN)
def test_one_torn_manifest_hides_no_other_run(tmp_path: Path, content: bytes) -> None:
    """A disk that filled up last night would make all results unreadable, or end in a traceback."""
    keep(tmp_path, 1)
    broken = keep(tmp_path, 2)
    keep(tmp_path, 3)
    (broken / MANIFEST).write_bytes(content)
    found = found_runs(tmp_path)
    assert [run.seed for run in found.runs] == [1, 3]
    assert [torn.path for torn in found.unreadable] == [broken]
    for reading in (lambda: stored_runs(tmp_path), lambda: read(broken)):
        with pytest.raises(UserError) as refusal:
            reading()
        assert str(refusal.value).startswith(f"cannot read a result from {broken}: manifest.json")
        assert "\n" not in str(refusal.value)


def test_a_refusal_of_many_is_one_line(tmp_path: Path) -> None:
    """A folder of a thousand torn runs would fill the screen, or hide how many there are."""
    for seed in (1, 2, 3):
        (keep(tmp_path, seed) / MANIFEST).write_text("")
    with pytest.raises(UserError, match=r"seed-1: .* is torn.*; neither can 2 more below .*") as no:
        stored_runs(tmp_path)
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("content", [None, b"", b"[]", b"\xff"])
def test_a_run_without_its_figures_is_listed_and_refused_when_they_are_needed(
    tmp_path: Path, content: bytes | None
) -> None:
    """A missing summary would be a traceback, or the run could not be found to be removed."""
    path = keep(tmp_path)
    (path / SUMMARY).unlink()
    if content is not None:
        (path / SUMMARY).write_bytes(content)
    (run,) = stored_runs(tmp_path)
    for reading in (run.summary, run.outline, run.read):
        with pytest.raises(UserError, match=f"cannot read a result from {path}: "):
            reading()


def test_what_is_being_written_is_no_run_yet(tmp_path: Path) -> None:
    """Half a run would be listed, or refused as torn."""
    path = keep(tmp_path)
    half = path.with_name(unfinished_name())
    half.mkdir()
    (half / MANIFEST).write_text("{")
    assert seeds(tmp_path) == [1]


def test_links_are_followed_and_no_run_counts_twice(tmp_path: Path) -> None:
    """Links in a circle would never end; a link to a run would make it two, and means too sure."""
    elsewhere, root = tmp_path / "elsewhere", tmp_path / "runs"
    keep(root, 1)
    keep(elsewhere, 2)
    (root / "circle").symlink_to(root)
    (root / "self").symlink_to("self")
    (root / "gone").symlink_to("nowhere")
    (root / "a-link").symlink_to(root / "by-hand-01234567")
    (root / "other-disk").symlink_to(elsewhere)
    found = found_runs(root)
    assert [(run.seed, run.path.relative_to(root).parts[0]) for run in found.runs] == [
        *((1, "by-hand-01234567"), (2, "other-disk")),
    ]
    assert found.unreadable == ()


def test_a_manifest_that_is_a_link_to_itself_or_a_folder_is_told(tmp_path: Path) -> None:
    """Whatever else bears the name of a manifest would end in a traceback."""
    for number, make in enumerate((lambda x: x.symlink_to(x.name), Path.mkdir), start=1):
        (tmp_path / f"{number}").mkdir()
        make(tmp_path / f"{number}" / MANIFEST)
    torn = found_runs(tmp_path).unreadable
    assert [each.path.name for each in torn] == ["1", "2"]
    assert "symbolic links" in torn[0].reason
    assert torn[1].reason == "Is a directory"


def test_a_folder_that_may_not_be_looked_into_hides_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody else's folder among ours would make all results unreadable."""
    keep(tmp_path, 1)
    (tmp_path / "theirs").mkdir()
    scandir = os.scandir

    def refuses(path: Path):
        if path == tmp_path / "theirs":
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refuses)
    found = found_runs(tmp_path)
    assert [run.seed for run in found.runs] == [1]
    assert [str(torn) for torn in found.unreadable] == [
        f"cannot read a result from {tmp_path / 'theirs'}: Permission denied"
    ]


def test_a_moved_folder_is_the_run_that_its_manifest_says(tmp_path: Path) -> None:
    """Results that were copied from another machine or renamed would be another scenario's."""
    path = keep(tmp_path / "runs", seed=7, variant="ring")
    path.rename(tmp_path / "seed-1")
    (run,) = stored_runs(tmp_path)
    assert (run.path.name, run.scenario, run.variant, run.seed) == ("seed-1", "by-hand", "ring", 7)
    assert run.read().facts.seed == 7


def test_a_stray_manifest_above_the_runs_hides_none(tmp_path: Path) -> None:
    """A file of that name in the root would hide everything below it."""
    keep(tmp_path, 1)
    (tmp_path / MANIFEST).write_text("{}")
    found = found_runs(tmp_path)
    assert [run.seed for run in found.runs] == [1]
    assert [torn.path for torn in found.unreadable] == [tmp_path]


def test_hidden_folders_are_none_of_ours(tmp_path: Path) -> None:
    """A list in a project folder would walk through .git, or take backups for results."""
    keep(tmp_path / ".backup", 1)
    assert seeds(tmp_path) == []
    assert seeds(tmp_path / ".backup") == [1]


def test_when_a_run_started_is_told_else_when_it_was_stored(tmp_path: Path) -> None:
    """A run from a notebook would always count as older than any of the command line."""
    told = keep(tmp_path, 1, provenance={"started": "2031-01-02T03:04:05+00:00"})
    plain = keep(tmp_path, 2)
    os.utime(plain / MANIFEST, (86_400.0, 86_400.0))
    first, second = stored_runs(tmp_path)
    assert (first.path, first.started) == (told, "2031-01-02T03:04:05+00:00")
    assert second.started == "1970-01-02T00:00:00+00:00"
    (plain / MANIFEST).unlink()
    assert second.started == ""


def test_sizes_are_those_of_the_files(tmp_path: Path) -> None:
    """A user would remove the wrong runs to make room."""
    (run,) = stored_runs(keep(tmp_path))
    assert run.size_bytes() == sum(file.stat().st_size for file in run.path.iterdir()) > 1000
    assert replace(run, path=tmp_path / "gone").size_bytes() == 0


def test_torn_tables_are_refused_in_words(tmp_path: Path) -> None:
    """Some flipped byte of a parquet file would end in a traceback, or pass for a result."""
    path = keep(tmp_path)
    table = path / "requests.parquet"
    whole, expected = table.read_bytes(), read(path).digest
    draw = random.Random(1)
    refused = 0
    for _ in range(150):
        torn = bytearray(whole)
        at = draw.randrange(len(torn))
        torn[at] ^= 1 << draw.randrange(8)
        table.write_bytes(torn if draw.random() < 0.8 else torn[:at])
        try:
            assert read(path).digest == expected  # a byte of the file that says nothing
        except UserError as refusal:
            assert str(path) in str(refusal)
            refused += 1
    assert refused > 75


def test_a_table_of_another_schema_is_refused_though_its_values_are_right(tmp_path: Path) -> None:
    """A column that may suddenly hold nulls would break whoever computes with it."""
    path = keep(tmp_path)
    table = arrow.read(path / "requests.parquet")
    other = pa.schema([field.with_nullable(True) for field in table.schema])
    parquet.write_table(table.cast(other), path / "requests.parquet")
    with pytest.raises(UserError, match="the tables are not those of the digest"):
        read(path)


def test_an_outline_is_the_result_without_its_rows(tmp_path: Path) -> None:
    """A table from the disk would show other figures than the run did, or read all rows for it."""
    keep(tmp_path)
    (run,) = stored_runs(tmp_path)
    whole, outline = run.read(), run.outline()
    assert (outline.facts, outline.warnings, outline.manifest) == (
        *(whole.facts, whole.warnings, whole.manifest),
    )
    assert outline.tables.requests.num_rows == 0
    assert outline.tables.pools.schema == whole.tables.pools.schema


def test_a_newer_form_is_refused_in_words(tmp_path: Path) -> None:
    """Figures that mean something else by now would be read as if they were ours."""
    run = keep(tmp_path)
    manifest = json.loads((run / MANIFEST).read_text())
    (run / MANIFEST).write_text(json.dumps({**manifest, "schema_version": SCHEMA_VERSION + 1}))
    with pytest.raises(UserError) as refusal:
        read(run)
    assert str(refusal.value) == (
        f"cannot read a result from {run}: stored in form {SCHEMA_VERSION + 1} by a newer podsim, "
        f"this one reads forms up to {SCHEMA_VERSION}; update podsim or run the scenario again"
    )
    with pytest.raises(UserError, match="by a newer podsim"):
        stored_runs(run)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"schema_version": 2}, "form 2, which this podsim no longer reads"),
        ({"schema_version": "2"}, "says no schema_version"),
        ({"schema_version": None}, "says no schema_version"),
        ({"digest": None}, "'digest' of the manifest must be text; got None"),
        ({"seed": True}, "'seed' of the manifest must be a whole number; got True"),
        ({"facts": []}, "'facts' of the manifest must be a mapping"),
        ({"facts": {}}, "'facts.scenario' of the manifest must be text"),
        ({"provenance": "me"}, "'provenance' of the manifest must be a mapping; got 'me'"),
        ({"variant": ...}, "the manifest lacks 'variant'"),
    ],
)
def test_a_manifest_of_another_kind_is_refused_in_words(
    tmp_path: Path, change: dict, said: str
) -> None:
    """A torn or foreign manifest would end in a traceback, or in a run without a name."""
    run = keep(tmp_path)
    manifest = json.loads((run / MANIFEST).read_text()) | change
    written = {name: value for name, value in manifest.items() if value is not ...}
    (run / MANIFEST).write_text(json.dumps(written))
    (torn,) = found_runs(tmp_path).unreadable
    assert torn.path == run
    assert said in torn.reason
    with pytest.raises(UserError, match="cannot read a result") as refusal:
        read(run)
    assert said in str(refusal.value)


def test_facts_that_are_missing_are_refused_in_words(tmp_path: Path) -> None:
    """What a table is made of would fail with the name of a key, or a traceback."""
    run = keep(tmp_path)
    manifest = json.loads((run / MANIFEST).read_text())
    del manifest["facts"]["events"]
    (run / MANIFEST).write_text(json.dumps(manifest))
    (stored,) = stored_runs(run)
    for reading in (stored.read, stored.outline):
        with pytest.raises(UserError, match=r"cannot read a result .*'events'"):
            reading()
