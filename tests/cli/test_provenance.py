"""What a stored run is told of its making."""

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

import sim
from sim.cli.provenance import provenance
from tests.cli.conftest import TINY

ROOT = Path(__file__).parents[2]
ONE = ("--variant", "least-loaded", "--jobs", "1")


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a busy machine git may take longer than a note is worth."""
    monkeypatch.setattr("sim.cli.provenance.PATIENCE_S", 300.0)


def manifest(folder: Path) -> dict:
    (file,) = folder.glob("*/*/seed-*/manifest.json")
    return json.loads(file.read_text())


def git(*arguments: str, where: Path) -> str:
    names = ("-c", "user.name=me", "-c", "user.email=me@example.org")
    told = subprocess.run(
        ["git", "-C", str(where), *names, *arguments], capture_output=True, text=True, check=True
    )
    return told.stdout.strip()


def test_the_command_is_what_was_typed_and_repeats_the_run(podsim, tmp_path):
    """The words of whatever program called podsim would stand there, or lack their quotes."""
    setting = "workloads.traffic.arrivals={kind: constant, rate: 3}"
    arguments = ("run", "tiny.yaml", *ONE, "--seed", "3", "--set", setting, "--out", "with space")
    assert podsim(*arguments).exit_code == 0
    first = manifest(tmp_path / "with space")
    told = first["provenance"]
    assert told["command"] == (
        f"podsim run tiny.yaml --variant least-loaded --jobs 1 --seed 3 --set '{setting}' "
        "--out 'with space'"
    )
    assert (told["file"], told["directory"]) == ("tiny.yaml", str(tmp_path))
    again = shlex.split(told["command"])[1:]
    (tmp_path / "with space").rename(tmp_path / "before")
    assert podsim(*again).exit_code == 0
    assert manifest(tmp_path / "with space")["digest"] == first["digest"]


def test_python_dash_m_tells_the_same_command(tmp_path):
    """The path of a module would stand where a user can type nothing like it."""
    (tmp_path / "tiny.yaml").write_text(TINY)
    arguments = ["run", "tiny.yaml", *ONE, "--seed", "3", "--out", "out"]
    subprocess.run(
        [sys.executable, "-m", "sim.cli", *arguments],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=True,
        capture_output=True,
    )
    assert manifest(tmp_path / "out")["provenance"]["command"] == shlex.join(["podsim", *arguments])


def test_outside_of_a_command_line_there_is_no_command():
    """A notebook's own arguments would pass for a call of podsim."""
    assert "command" not in provenance(Path("tiny.yaml"))


def test_the_commit_is_the_files_and_says_when_it_was_changed(podsim, tmp_path):
    """A changed scenario would pass for the one that was committed."""
    assert "commit" not in provenance(Path("tiny.yaml"))
    git("init", "-q", where=tmp_path)
    git("add", "tiny.yaml", where=tmp_path)
    git("commit", "-qm", "a scenario", where=tmp_path)
    commit = git("rev-parse", "--short=12", "HEAD", where=tmp_path)
    assert provenance(Path("tiny.yaml"))["commit"] == commit
    assert provenance(tmp_path / "tiny.yaml")["commit"] == commit
    with Path("tiny.yaml").open("a") as file:
        file.write("# changed\n")
    assert provenance(Path("tiny.yaml"))["commit"] == f"{commit}-dirty"


def test_a_hooks_repository_is_not_the_files(podsim, tmp_path, monkeypatch: pytest.MonkeyPatch):
    """Called from a commit hook, every run would bear the commit of that repository."""
    monkeypatch.setenv("GIT_DIR", str(ROOT / ".git"))
    assert "commit" not in provenance(tmp_path / "tiny.yaml")


def test_podsims_own_commit_is_told_only_where_it_runs_from_a_checkout(
    tmp_path, monkeypatch: pytest.MonkeyPatch
):
    """An installed podsim would bear the commit of the project that its environment lies in."""
    git("init", "-q", where=tmp_path)
    git("commit", "-qm", "a project", "--allow-empty", where=tmp_path)
    for package, told in ((tmp_path / "sim", True), (tmp_path / "env" / "sim", False)):
        package.mkdir(parents=True)
        with monkeypatch.context() as patched:
            patched.setattr(sim, "__file__", str(package / "__init__.py"))
            assert ("podsim_commit" in provenance(ROOT / "x.yaml")) == told


SLOW = f"#!/bin/sh\necho slow\nexec {shutil.which('sleep')} 600\n"


@pytest.mark.parametrize("program", ["", "#!/bin/sh\nexit 3\n", "no program", SLOW])
def test_no_git_costs_the_commit_only(
    podsim, tmp_path, monkeypatch: pytest.MonkeyPatch, program: str
):
    """Without git nothing would run; on a slow disk every run would wait for a note."""
    if program:
        (tmp_path / "git").write_text(program)
        (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sim.cli.provenance.PATIENCE_S", 0.2)
    began_s = time.monotonic()
    told = provenance(Path("tiny.yaml"))
    assert time.monotonic() - began_s < 300
    assert "commit" not in told
    assert told["started"].endswith("+00:00")


def test_runs_from_python_have_none_and_are_read_all_the_same(podsim, tmp_path):
    """A run of a notebook could not be listed or shown."""
    sim.run("tiny.yaml", seeds=[3], variants="least-loaded", store="results/runs")
    assert "provenance" not in manifest(tmp_path / "results" / "runs")
    for arguments in (("list",), ("list", "--json"), ("show", "tiny"), ("show", "tiny", "--json")):
        result = podsim("runs", *arguments)
        assert (result.exit_code, result.stderr) == (0, "")
    assert "command" not in podsim("runs", "show", "tiny").stdout
