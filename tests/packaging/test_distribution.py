"""The lock, the licence files and the wheel: what a user gets who is not us."""

import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
LOCK = (ROOT / ".ci/constraints.txt").read_text("utf-8")


def pins() -> dict[str, str]:
    """The versions in the lock by canonical name."""
    lines = [line for line in LOCK.splitlines() if not line.startswith("#")]
    return {canonicalize_name(name): version for name, version in (x.split("==") for x in lines)}


def test_the_lock_pins_every_dependency_within_its_range():
    """`make run` would install whatever is newest that day, or nothing that fits."""
    wanted = [Requirement(x) for x in PROJECT["dependencies"]]
    wanted += [Requirement(x) for x in PROJECT["optional-dependencies"]["dev"]]
    wanted += [Requirement("setuptools>=77")]
    locked = pins()
    wrong = [
        str(x)
        for x in wanted
        if not x.specifier.contains(locked.get(canonicalize_name(x.name), "0"))
    ]
    assert wrong == []


def test_the_lock_names_no_place():
    """The lock would work on one machine only: an index, a path, a checkout."""
    assert re.findall(r".*(?:://|@|/|\\).*", LOCK.split("\n", 1)[1]) == []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """The wheel, built from a copy so that nothing is left behind in the checkout."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "README.md", "LICENSE", "NOTICE", "podsim.py"):
        shutil.copy(ROOT / name, copy)
    shutil.copytree(ROOT / "sim", copy / "sim", ignore=shutil.ignore_patterns("__pycache__"))
    build = "from setuptools.build_meta import build_wheel; build_wheel('dist')"
    subprocess.run([sys.executable, "-c", build], cwd=copy, check=True, capture_output=True)
    (built,) = (copy / "dist").glob("*.whl")
    return zipfile.ZipFile(built)


def test_the_wheel_is_called_as_readers_are_told(wheel):
    """Nothing said how to install podsim outside its clone; a name that is wrong would not help."""
    name = Path(str(wheel.filename)).name
    for file in ("docs/how-to/ci.md", ".github/workflows/podsim-baseline.yml"):
        text = (ROOT / file).read_text("utf-8")
        assert re.findall(r"\./wheels/(\S+\.whl)", text) == [name], file
    told = " ".join((ROOT / "docs/how-to/ci.md").read_text("utf-8").split())
    assert "by a copy of the workflow `.github/workflows/podsim-baseline.yml`" in told


def test_the_wheel_holds_every_module_and_the_data_that_the_command_needs(wheel):
    """An installed podsim would lack a package or a catalogue that a checkout has."""
    tracked = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "sim").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    packed = {name for name in wheel.namelist() if name.startswith("sim/")}
    assert packed == tracked
    assert {"quickstart.yaml", "b200-agents.yaml", "swap-budget.yaml"} <= {
        name.removeprefix("sim/data/scenarios/") for name in packed
    }
    assert "podsim.py" in wheel.namelist()


def test_the_wheel_carries_licence_and_attribution(wheel):
    """The data's licences ask for the notice to travel along."""
    names = {Path(name).name for name in wheel.namelist() if "dist-info" in name}
    assert {"LICENSE", "NOTICE"} <= names


def test_the_licence_is_the_whole_apache_text():
    """The declared licence would not be the one that lies in the repository."""
    text = (ROOT / "LICENSE").read_text("utf-8")
    assert PROJECT["license"] == "Apache-2.0"
    assert "TERMS AND CONDITIONS FOR USE, REPRODUCTION, AND DISTRIBUTION" in text
    assert "END OF TERMS AND CONDITIONS" in text


def test_the_skeleton_of_a_policy_works_at_once(tmp_path):
    """Somebody with a policy of their own had to find out by reading how a package begins: now it
    is written, and installed, run and tested as its README says.
    """

    def does(*command: str, folder: Path = tmp_path) -> str:
        child = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        assert child.returncode == 0, child.stdout + child.stderr
        return child.stdout

    python = str(tmp_path / "venv/bin/python")
    does(sys.executable, "-m", "venv", "--without-pip", "venv")
    (purelib,) = tmp_path.glob("venv/lib/*/site-packages")
    ours = sysconfig.get_path("purelib")  # podsim, setuptools and pytest are there
    (purelib / "ours.pth").write_text(f"import site; site.addsitedir({ours!r})\n")
    podsim = (python, "-m", "sim.cli")
    does(*podsim, "init", "--policy", "prefix-score")
    does(*podsim, "init")
    folder = tmp_path / "prefix-score"
    readme = (folder / "README.md").read_text("utf-8")
    install, run, test = re.findall(r"^    (.+?)  +#", readme + "#", re.MULTILINE)
    pip = (sys.executable, "-m", "pip", "--python", python)
    does(*pip, *shlex.split(install)[1:], folder=folder)
    does(*podsim, *shlex.split(run)[1:], "--no-store", "--seed", "1", "--jobs", "1")
    assert test.strip() == "pytest"
    assert "12 passed" in does(python, "-m", "pytest", folder=folder)
