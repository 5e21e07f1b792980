"""Runs that other versions of podsim have stored."""

import json
import shutil
from pathlib import Path

import pytest

from sim.core.errors import UserError
from sim.results.digest import digest
from sim.results.forms import SCHEMA_VERSION, STEPS, current
from sim.results.places import MANIFEST
from sim.results.store import read
from sim.results.stored import found_runs, stored_runs

FORM_2 = Path(__file__).parent / "data" / "form-2"
"""Made by the podsim before form 3, with ``podsim run small.yaml``; see the file beside them."""


def of_form_2(root: Path) -> Path:
    """One of them, to change."""
    copy = root / "seed-3"
    shutil.copytree(FORM_2 / "small-bd13ce48" / "round-robin" / "seed-3", copy)
    return copy


def test_a_run_of_form_2_reads_in_the_newest_form() -> None:
    """Results of last month would be lost, or every reader would have to know how old each is."""
    runs = stored_runs(FORM_2)
    assert [(run.scenario, run.variant, run.seed) for run in runs] == [
        *(("small", "least-loaded", 3), ("small", "round-robin", 3)),
    ]
    for run in runs:
        assert (run.variant_hash, run.manifest["variants"], dict(run.provenance)) == ("", [], {})
        assert run.manifest["schema_version"] == SCHEMA_VERSION
        result = run.read()
        assert result.summary == run.summary() == run.outline().summary
        assert result.summary["requests_completed"] == result.tables.requests.num_rows == 4
        assert digest(result.tables) == result.digest == run.digest
        assert result.manifest == run.manifest
        assert result.facts.window_end_s == float("inf")


def test_an_outline_is_the_result_without_its_rows() -> None:
    """A table from the disk would show other figures than the run did, or read all rows for it."""
    run = stored_runs(FORM_2)[0]
    whole, outline = run.read(), run.outline()
    assert (outline.facts, outline.warnings, outline.manifest) == (
        *(whole.facts, whole.warnings, whole.manifest),
    )
    assert outline.tables.requests.num_rows == 0
    assert outline.tables.pools.schema == whole.tables.pools.schema


def test_there_is_a_step_from_every_form_that_is_read_to_the_next() -> None:
    """A form would be accepted, and then no way would lead to the newest."""
    assert sorted(STEPS) == list(range(min(STEPS), SCHEMA_VERSION))


def test_a_newer_form_is_refused_in_words(tmp_path: Path) -> None:
    """Figures that mean something else by now would be read as if they were ours."""
    run = of_form_2(tmp_path)
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
        ({"schema_version": 1}, "form 1, which this podsim no longer reads"),
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
    run = of_form_2(tmp_path)
    manifest = json.loads((run / MANIFEST).read_text()) | change
    written = {name: value for name, value in manifest.items() if value is not ...}
    (run / MANIFEST).write_text(json.dumps(written))
    (torn,) = found_runs(tmp_path).unreadable
    assert torn.path == run
    assert said in torn.reason
    with pytest.raises(UserError, match="cannot read a result") as refusal:
        read(run)
    assert said in str(refusal.value)


def test_a_step_changes_no_manifest_in_place() -> None:
    """A manifest that somebody holds would change under their hands."""
    stored = json.loads((FORM_2 / "small-bd13ce48/round-robin/seed-3" / MANIFEST).read_text())
    before = json.dumps(stored)
    assert current(stored)["schema_version"] == SCHEMA_VERSION
    assert json.dumps(stored) == before


def test_facts_that_are_missing_are_refused_in_words(tmp_path: Path) -> None:
    """What a table is made of would fail with the name of a key, or a traceback."""
    run = of_form_2(tmp_path)
    manifest = json.loads((run / MANIFEST).read_text())
    del manifest["facts"]["events"]
    (run / MANIFEST).write_text(json.dumps(manifest))
    (stored,) = stored_runs(run)
    for reading in (stored.read, stored.outline):
        with pytest.raises(UserError, match=r"cannot read a result .*'events'"):
            reading()
