"""Which runs a report is about: each once, whole, and grouped by what was simulated."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from sim.core.errors import UserError
from sim.report.page import report
from sim.report.study import studies
from sim.results.stored import StoredRun, stored_runs

Stored = tuple[StoredRun, ...]


def test_a_run_that_is_given_twice_counts_once(shop: Stored):
    """Its interval would shrink, as if there had been more seeds."""
    (study,) = studies((*shop, *shop[:4]))
    assert study.stored == shop
    assert [list(seeds) for seeds in study.seeds.values()] == [[1, 2, 3]] * 3


def test_two_results_of_one_run_are_refused(card: Stored):
    """Whichever came first would be reported, without a word about the other."""
    other = StoredRun(Path("elsewhere"), dict(card[0].manifest) | {"digest": "0" * 32})
    with pytest.raises(UserError, match=r"card, seed 1, is there twice .* give one of them"):
        studies((*card, other))


def test_tables_that_are_not_those_of_the_digest_are_refused(card: Stored, tmp_path: Path):
    """A report would vouch for a run that somebody has changed."""
    copy = tmp_path / "seed-1"
    shutil.copytree(card[0].path, copy)
    manifest = json.loads((copy / "manifest.json").read_text("utf-8"))
    (copy / "manifest.json").write_text(json.dumps(manifest | {"digest": "0" * 32}), "utf-8")
    with pytest.raises(UserError, match="not those of the digest"):
        studies(stored_runs(tmp_path))


def test_doubts_about_the_runs_are_notices(shop: Stored):
    """A variant that had an easier workload would look better."""
    assert "not every variant was run under the same seeds" in report(shop[:-1])
    newer = replace(shop[0], manifest=dict(shop[0].manifest) | {"podsim": "9.9"})
    assert "different versions of podsim" in report((newer, *shop[1:]))


def test_runs_stand_in_the_order_of_the_file_and_scenarios_as_they_are_named(
    shop: Stored, card: Stored
):
    """The table would not be the one of the terminal, whose first variant is what others face."""
    (study,) = studies(tuple(reversed(shop)))
    assert study.stored == shop
    assert [study.name for study in studies((*card, *shop))] == ["card", "shop"]
