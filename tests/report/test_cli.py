"""`podsim report`: which runs, which file, and what is told of mistakes."""

from pathlib import Path

import pytest
from click.testing import Result

from sim.results.stored import StoredRun
from tests import command

Stored = tuple[StoredRun, ...]


def podsim(*arguments: object) -> Result:
    """Call the verb."""
    return command.podsim("report", *arguments)


def test_it_writes_one_file_and_says_how_large_it_is(card: Stored, card_page: str, tmp_path: Path):
    """The page would not be what the library gives, or lie somewhere else."""
    page = tmp_path / "page.html"
    told = podsim(card[0].path, "-o", page)
    assert told.exit_code == 0
    assert page.read_text("utf-8") == card_page
    assert told.stdout == ""
    assert told.stderr == f"{page}: {page.stat().st_size / 1e6:.2f} MB\n"
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_runs_are_found_by_name_and_the_title_is_set(
    card: Stored, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A user would have to type paths, or to edit the page."""
    store = tmp_path / "results"
    store.mkdir()
    (store / "runs").symlink_to(card[0].path.parents[2])
    monkeypatch.chdir(tmp_path)
    assert podsim("card", "--title", "For the board").exit_code == 0
    assert "<h1>For the board</h1>" in (tmp_path / "report.html").read_text("utf-8")


def test_mistakes_are_answered_in_a_line(card: Stored, tmp_path: Path):
    """A user would see a traceback, or find half a page."""
    unknown = podsim("nobody-ran-this", "-o", tmp_path / "page.html")
    nowhere = podsim(card[0].path, "-o", tmp_path / "no" / "page.html")
    nothing = podsim("-o", tmp_path / "page.html")
    assert {unknown.exit_code, nowhere.exit_code, nothing.exit_code} == {2}
    assert "'nobody-ran-this' is neither a folder nor a stored run" in unknown.stderr
    assert f"there is no folder {tmp_path / 'no'}" in nowhere.stderr
    assert "Traceback" not in unknown.stderr + nowhere.stderr + nothing.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_page_that_was_there_stays_when_the_new_one_fails(card: Stored, tmp_path: Path):
    """Yesterday's report would be gone, and today's not there."""
    page = tmp_path / "page.html"
    page.write_text("yesterday", "utf-8")
    assert podsim(card[0].path, "nobody-ran-this", "-o", page).exit_code == 2
    assert page.read_text("utf-8") == "yesterday"
