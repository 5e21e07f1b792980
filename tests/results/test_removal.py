"""Runs that are removed go whole, and nothing else goes with them."""

import errno
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from sim.results.removal import obstacle, remove
from sim.results.store import read
from sim.results.stored import MANIFEST, found_runs
from sim.results.unfinished import UNFINISHED, unfinished_name
from tests.results.test_stored import keep


def left(root: Path) -> list[str]:
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_dir())


def test_a_removed_run_takes_its_empty_folders_along_and_no_others(tmp_path: Path) -> None:
    """Folders without runs would pile up, or the folder of all results would vanish."""
    root = tmp_path / "runs"
    first, second = keep(root, 1, "a"), keep(root, 2, "a")
    other = keep(root, 1, "b")
    remove(first)
    assert second.exists()
    remove(second)
    assert left(root) == ["by-hand-01234567", "by-hand-01234567/b", "by-hand-01234567/b/seed-1"]
    remove(other)
    assert left(tmp_path) == ["runs"]


def test_what_lies_beside_the_runs_stays(tmp_path: Path) -> None:
    """A report beside the runs would go with them."""
    path = keep(tmp_path)
    report = path.parents[1] / "report.html"
    report.write_text("mine")
    remove(path)
    assert report.read_text() == "mine"
    assert not path.parent.exists()


def test_a_moved_run_goes_alone(tmp_path: Path) -> None:
    """Folders that podsim has not made would be removed because they are empty now."""
    path = keep(tmp_path / "runs")
    mine = tmp_path / "mine" / "archive" / "seed-1"
    mine.parent.mkdir(parents=True)
    path.rename(mine)
    remove(mine)
    assert left(tmp_path / "mine") == ["archive"]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda run: (run / "notes.txt").write_text(""), "holds notes.txt, which podsim has not"),
        (lambda run: (run / "figures").mkdir(), "holds figures, which podsim has not written"),
        (lambda run: (run / "my.parquet").write_text(""), "holds my.parquet, which"),
        (
            lambda run: [(run / name).write_text("") for name in "abcde"],
            "holds a, b, c and 2 more, which podsim has not written; move that away first",
        ),
        (
            lambda run: ((run / "pods.parquet").unlink(), (run / "pods.parquet").symlink_to("/")),
            "holds pods.parquet, which",
        ),
    ],
)
def test_a_folder_with_anything_else_in_it_is_no_run(
    tmp_path: Path, spoil: Callable[[Path], object], said: str
) -> None:
    """Somebody's notes would be deleted with the run that they are about."""
    run = keep(tmp_path)
    assert obstacle(run, torn=False) is None
    spoil(run)
    assert (obstacle(run, torn=False) or "").startswith(said)


def test_a_link_to_a_run_is_not_removed(tmp_path: Path) -> None:
    """The link would go and the user believe that the space is free, or the other way round."""
    run = keep(tmp_path / "runs")
    (tmp_path / "link").symlink_to(run)
    assert (
        obstacle(tmp_path / "link", torn=False) == "is a link; remove the folder that it leads to"
    )


def test_another_programs_manifest_is_no_torn_run(tmp_path: Path) -> None:
    """A web page has a manifest.json, too."""
    page = tmp_path / "page"
    page.mkdir()
    (page / MANIFEST).write_text('{"name": "page"}')
    assert obstacle(page, torn=True) == "holds a manifest.json that may be another program's"
    torn = keep(tmp_path)
    for file in torn.iterdir():
        file.write_text("")
    assert obstacle(torn, torn=True) is None
    for file in torn.glob("*.parquet"):
        file.unlink()
    assert obstacle(torn, torn=True) is None
    assert "No such file" in (obstacle(tmp_path / "gone", torn=True) or "")


def test_an_interrupted_removal_leaves_the_whole_run_or_none_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C would leave a run without half its tables."""
    run = keep(tmp_path, 1)

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", dies)
        with pytest.raises(KeyboardInterrupt):
            remove(run)
    assert found_runs(tmp_path).runs == found_runs(tmp_path).unreadable == ()


def test_a_run_that_cannot_be_removed_stays_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that must not be changed would be left with half a run, or rests of an attempt."""
    run = keep(tmp_path)

    def refuses(self: Path, target: Path) -> Path:
        raise PermissionError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "rename", refuses)
        with pytest.raises(PermissionError):
            remove(run)
    assert read(run).seed == 1
    assert left(tmp_path / "by-hand-01234567") == ["base", "base/seed-1"]


def test_rests_of_dead_writers_go_and_those_of_live_ones_stay(tmp_path: Path) -> None:
    """Removing a run would pull the floor from under a podsim at work, or never free the disk."""
    run = keep(tmp_path)
    child = subprocess.Popen(["true"])
    child.wait()
    dead = run.parents[1] / f"{UNFINISHED}{child.pid}-0"
    live = run.parents[1] / unfinished_name()
    for rest in (dead, live):
        (rest / "half").mkdir(parents=True)
    remove(run)
    assert left(tmp_path / "by-hand-01234567") == [live.name, f"{live.name}/half"]
